import Applying
import Conflicts
import PostgresKit
import Synchronization
import SystemKit
import TestServers
import Testing

/// A few rows that both ends write all the time.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct HotRowTests {
  private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER)"
  private static let all = "SELECT id, name, stock FROM item ORDER BY id"
  private static let rows = 3

  @Test("what was written to the same rows at both ends is settled in few commits") func afterPartition() throws {
    let mesh = try Mesh("pp", schema: Self.schema)
    try mesh.nodes[0].execute("INSERT INTO item SELECT n, 'tea', 0 FROM generate_series(1, \(Self.rows)) AS n")
    try mesh.settle()
    let count = 40
    for number in 0..<count { for node in mesh.nodes { try node.execute(Self.write(number, node.name)) } }
    for node in mesh.nodes { try node.capturePending() }
    #expect(try mesh.apply(0, to: 1) == count)
    #expect(try mesh.apply(1, to: 0) == count)
    try mesh.settle()
    #expect(try mesh.nodes[1].rows(Self.all) == mesh.nodes[0].rows(Self.all))
    for node in mesh.nodes {
      let commits = try node.rows("SELECT count(DISTINCT xmin::text) FROM cairn.conflict WHERE number > 1")
      #expect(Int(commits[0]) ?? 0 < count / 2, "at \(node.name)")
    }
    try mesh.close()
  }

  @Test("what is added to the same rows meanwhile is neither lost nor added twice") func whileApplying() throws {
    let mesh = try Mesh("pp", schema: Self.schema) { _, _, _ in ConflictRules(columns: [2: .delta]) }
    for node in mesh.nodes { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item SELECT n, 'tea', 0 FROM generate_series(1, \(Self.rows)) AS n")
    try mesh.settle()
    let count = 60
    let writing = Atomic<Int>(mesh.nodes.count)
    let writers = try mesh.nodes.map(\.url).map { url in
      try WorkerThread<String?> {
        defer { writing.subtract(1, ordering: .relaxed) }
        do {
          guard case .postgres(let uri) = url else { return nil }
          try Self.add(count, uri)
          return nil
        } catch { return "\(error)" }
      }
    }
    while writing.load(ordering: .relaxed) > 0 {
      try mesh.apply(0, to: 1)
      try mesh.apply(1, to: 0)
    }
    for writer in writers { #expect((writer.join() ?? nil) == nil) }
    for _ in 0..<2 { try mesh.settle() }
    let expected = (1...Self.rows).map { "\($0)|tea|\(2 * count / Self.rows)" }
    for node in mesh.nodes { #expect(try node.rows(Self.all) == expected, "at \(node.name)") }
    try mesh.close()
  }

  private static func write(_ number: Int, _ node: String) -> String {
    "UPDATE item SET name = '\(node) \(number)', stock = \(number) WHERE id = \(number % rows + 1)"
  }

  /// Adds one, so many times; an apply that holds a row is waited for.
  private static func add(_ count: Int, _ uri: String) throws {
    let program = try PostgresConnection(uri)
    try program.execute("SET search_path = public")
    for number in 0..<count {
      try program.executeScript("UPDATE item SET stock = stock + 1 WHERE id = \(number % rows + 1)")
      Clock.sleep(milliseconds: 1)
    }
  }
}
