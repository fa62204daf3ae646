import Changes
import SystemKit

/// The parts of a trigger's definition that decide which tables its writes reach, and when it runs.
///
///     TriggerShape(table: "t", text: "CREATE TRIGGER a BEFORE INSERT ON t BEGIN DELETE FROM u; END").written   // u
struct TriggerShape {
  let table: NameKey
  let isBefore: Bool
  /// Whether the trigger may run before a write deletes the rows that it replaces. Such a trigger is a BEFORE trigger,
  /// or the delete of a row fires it.
  let isEarly: Bool
  /// The names that follow INSERT INTO, REPLACE INTO, UPDATE and DELETE FROM in the body.
  let written: Set<NameKey>

  init(table: String, text: String) {
    self.table = table.sqliteKey
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    if let on = tokens.firstIndex(where: { $0.word == "ON" }) {
      let words = tokens[..<on].map(\.word)
      isBefore = !words.contains("AFTER") && !words.contains("INSTEAD")
      isEarly = isBefore || words.contains("DELETE")
    } else {
      (isBefore, isEarly) = (true, true)
    }
    written = Self.written(bytes, tokens)
  }

  private static func written(_ bytes: [UInt8], _ tokens: [SQLText.Token]) -> Set<NameKey> {
    guard let begin = tokens.firstIndex(where: { $0.word == "BEGIN" }) else { return [] }
    var names: Set<NameKey> = []
    for place in tokens.indices[begin...] {
      var next = place + 1
      switch tokens[place].word {
      case "INTO": break
      case "UPDATE": if next < tokens.count, tokens[next].word == "OR" { next += 2 }
      case "DELETE": next += 1
      default: continue
      }
      if next < tokens.count { names.insert(SQLText.name(bytes, tokens[next]).sqliteKey) }
    }
    return names
  }
}

/// The tables to which triggers of the application and foreign keys lead from a table.
///
/// The answer for all tables takes time in proportion to the texts of the triggers and the number of foreign keys,
/// which ``SchemaLimit`` bounds.
///
///     let early = TriggerShape(table: "t", text: "CREATE TRIGGER a BEFORE INSERT ON t BEGIN DELETE FROM t; END")
///     TriggerWrites([early], tables).mayReturn(to: "t".sqliteKey)   // true
struct TriggerWrites {
  private let returning: Set<NameKey>

  init(_ triggers: [TriggerShape], _ tables: [SQLiteTable]) {
    guard !triggers.isEmpty else {
      returning = []
      return
    }
    var graph = WriteGraph()
    for trigger in triggers {
      Pulse.beat()
      let table = graph.number(trigger.table)
      for name in trigger.written { graph.addWrite(table, graph.number(name), isEarly: trigger.isEarly) }
    }
    for table in tables {
      Pulse.beat()
      let child = graph.number(table.name.sqliteKey)
      for key in table.schema.foreignKeys { graph.addChild(graph.number(key.table.sqliteKey), child) }
    }
    returning = graph.returning()
  }

  /// Returns whether a write to a table may lead to another write of the table before it replaces rows.
  func mayReturn(to table: NameKey) -> Bool { returning.contains(table) }
}

/// The tables as numbers, with the tables that their triggers write and the tables that refer to them.
private struct WriteGraph {
  private var numbers: [NameKey: Int] = [:]
  private var keys: [NameKey] = []
  private var written: [[Int]] = []
  private var writtenEarly: [[Int]] = []
  private var children: [[Int]] = []

  mutating func number(_ name: NameKey) -> Int {
    if let known = numbers[name] { return known }
    numbers[name] = keys.count
    keys.append(name)
    written.append([])
    writtenEarly.append([])
    children.append([])
    return keys.count - 1
  }

  mutating func addWrite(_ table: Int, _ other: Int, isEarly: Bool) {
    written[table].append(other)
    if isEarly { writtenEarly[table].append(other) }
  }

  mutating func addChild(_ parent: Int, _ child: Int) { children[parent].append(child) }

  /// Returns the tables that a trigger writes again after an early trigger, or after the delete of rows that refer to
  /// the table.
  ///
  /// A way from a table back to itself stays within one component. After an early trigger, any such way returns. After
  /// a foreign key, only a way with the write of a trigger does.
  func returning() -> Set<NameKey> {
    let component = StrongComponents.numbers(zip(written, children).map { $0 + $1 })
    func isInside(_ a: Int, _ b: Int) -> Bool { component[a] == component[b] }
    // The tables from which foreign keys of the component lead to a trigger that writes within the component.
    var parents: [[Int]] = Array(repeating: [], count: keys.count)
    for (parent, list) in children.enumerated() {
      Pulse.beat()
      for child in list where isInside(parent, child) { parents[child].append(parent) }
    }
    var reaches = written.indices.map { table in written[table].contains { isInside(table, $0) } }
    var next = reaches.indices.filter { reaches[$0] }
    while let table = next.popLast() {
      Pulse.beat()
      for parent in parents[table] where !reaches[parent] {
        reaches[parent] = true
        next.append(parent)
      }
    }
    let found = keys.indices.filter { table in
      writtenEarly[table].contains { isInside(table, $0) }
        || children[table].contains { isInside(table, $0) && reaches[$0] }
    }
    return Set(found.map { keys[$0] })
  }
}

/// The strongly connected components of a graph, by Tarjan's algorithm without recursion.
///
/// Source: Tarjan, Depth-First Search and Linear Graph Algorithms, SIAM J. Comput. 1 (1972).
enum StrongComponents {
  /// Returns the number of each node's component. Two nodes have one number if each can be reached from the other.
  ///
  ///     StrongComponents.numbers([[1], [0], [0]])   // [0, 0, 1]
  ///
  /// - Parameter edges: For each node, the nodes to which its edges lead.
  static func numbers(_ edges: [[Int]]) -> [Int] {
    var component = Array(repeating: -1, count: edges.count)
    var order = component
    var low = component
    var (visited, count) = (0, 0)
    var open: [Int] = []
    var path: [(node: Int, edge: Int)] = []
    func visit(_ node: Int) {
      (order[node], low[node]) = (visited, visited)
      visited += 1
      open.append(node)
      path.append((node, 0))
    }
    for root in edges.indices where order[root] < 0 {
      visit(root)
      while let (node, edge) = path.last {
        if edge < edges[node].count {
          path[path.count - 1].edge += 1
          let other = edges[node][edge]
          if order[other] < 0 {
            visit(other)
          } else if component[other] < 0 {
            low[node] = min(low[node], order[other])
          }
          continue
        }
        Pulse.beat()
        path.removeLast()
        if let above = path.last?.node { low[above] = min(low[above], low[node]) }
        guard low[node] == order[node] else { continue }
        while let member = open.popLast() {
          component[member] = count
          if member == node { break }
        }
        count += 1
      }
    }
    return component
  }
}
