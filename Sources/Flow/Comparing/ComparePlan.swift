import Changes
import Mapping
import PostgresKit
import SQLiteKit
import Trails
import Transforming

/// The pairs of tables to compare, and the differences that are found without reading rows.
struct ComparePlan {
  private(set) var tables: [ComparedTable] = []
  private(set) var differences: [Difference] = []
  private(set) var notices: [String] = []
  /// The tables that are not compared because another session keeps them locked, each with its database.
  private(set) var locked: [(name: String, place: String)] = []

  private let source: CompareDatabase
  private let target: CompareDatabase

  init(
    _ source: CompareDatabase, _ target: CompareDatabase, _ patterns: TablePatterns, _ names: NamePolicy,
    _ rules: [TableRule] = [], scope: TargetScope = TargetScope(), trail: TrailName? = nil
  ) throws {
    (self.source, self.target) = (source, target)
    let theirs = try target.tables()
    var claimed: Set<NameKey> = []
    let ours = try source.tables(patterns)
    for table in ours {
      if let refusal = table.refusal {
        // A table that is left out at the source is left out at the target too.
        if let names = try? TableMapping(table.schema, to: target.engine, names: names).target {
          claimed.formUnion(theirs.filter { Self.isNamed($0.schema, names) }.map(\.schema.fullName.nameKey))
        }
        if table.isLocked {
          locked.append((table.name, "the source"))
        } else {
          notices.append("table \(table.name) is left out: \(refusal)")
        }
        continue
      }
      let place = TableMapping.targetPlace(of: table.schema, in: target.engine, names: names)
      if rules.rule(for: table.schema) == nil,
        scope.verdict(place.namespace, place.name, in: target.engine) != .allowed
      {
        claimed.formUnion(theirs.filter { Self.isAt($0.schema, place) }.map(\.schema.fullName.nameKey))
        notices.append("table \(table.name) is left out: 'tables' of the apply does not include it")
        continue
      }
      if let rule = rules.rule(for: table.schema) {
        let plan = try? ReshapePlan(rule, table.schema, to: target.engine)
        if let schema = plan?.schema, let names = try? TableMapping(schema, to: target.engine, names: names).target {
          claimed.formUnion(theirs.filter { Self.isNamed($0.schema, names) }.map(\.schema.fullName.nameKey))
        }
        notices.append("table \(table.name) is left out: a rule makes the target's table different")
        continue
      }
      let mapping = try TableMapping(table.schema, to: target.engine, names: names)
      let there = theirs.first { Self.isNamed($0.schema, mapping.target) }
      guard let there else {
        differences.append(Difference(table: table.name, kind: .tableMissing))
        continue
      }
      claimed.insert(there.schema.fullName.nameKey)
      guard !there.isLocked else {
        locked.append((table.name, "the target"))
        continue
      }
      try add(table, there, mapping)
    }
    let created = try target.createdTables(by: trail)
    for table in theirs where !claimed.contains(table.schema.fullName) && table.refusal == nil {
      // A database may hold other tables than the replicated ones.
      guard patterns.includes(table.name), created.map({ $0.contains(table.schema.fullName) }) ?? true else { continue }
      differences.append(Difference(table: table.name, kind: .tableExtra))
    }
    // A comparison of no table must not look like a comparison without differences.
    if !ours.isEmpty, ours.allSatisfy({ rules.rule(for: $0.schema) != nil }) {
      throw CairnError(
        .unsupported,
        "no table can be compared: for each table, a rule makes the target's table different from the source's",
        hint: "compare the tables by queries of your own at both ends", remedy: .badInput)
    }
    guard patterns == TablePatterns() || !ours.isEmpty || !differences.isEmpty else {
      throw CairnError(
        .tableMissing, "no table matches --tables '\(patterns.patterns.joined(separator: ","))'",
        hint: "name tables of the source, such as 'order*,!tmp_*'", remedy: .badInput)
    }
  }

  private static func isAt(_ table: TableSchema, _ place: (namespace: String, name: String)) -> Bool {
    table.namespace.hasSameBytes(as: place.namespace) && table.name.hasSameBytes(as: place.name)
  }

  private static func isNamed(_ table: TableSchema, _ wanted: TableSchema) -> Bool {
    table.engine == .sqlite
      ? table.name.isSameInSQLite(as: wanted.name)
      : table.name.hasSameBytes(as: wanted.name) && table.namespace.hasSameBytes(as: wanted.namespace)
  }

  private mutating func add(_ table: CompareDatabase.Table, _ there: CompareDatabase.Table, _ mapping: TableMapping)
    throws
  {
    var here: [Int] = []
    var others: [Int] = []
    for (index, column) in mapping.target.columns.enumerated() {
      let found = there.schema.columns.firstIndex {
        target.engine == .sqlite ? $0.name.sqliteKey == column.name.sqliteKey : $0.name.hasSameBytes(as: column.name)
      }
      guard let found else {
        differences.append(inColumn(table, table.schema.columns[index].name, .columnMissing))
        continue
      }
      here.append(index)
      others.append(found)
    }
    for (index, column) in there.schema.columns.enumerated() where !others.contains(index) {
      differences.append(inColumn(table, column.name, .columnExtra))
    }
    guard !here.isEmpty else { return }
    var compared = ComparedTable(name: table.name, source: table.end(here), target: there.end(others))
    if KeyOrder(compared, source: source, target: target).isShared { compared.order = .ranges }
    tables.append(compared)
  }

  private func inColumn(_ table: CompareDatabase.Table, _ name: String, _ kind: Difference.Kind) -> Difference {
    var difference = Difference(table: table.name, kind: kind)
    difference.column = name
    return difference
  }
}
