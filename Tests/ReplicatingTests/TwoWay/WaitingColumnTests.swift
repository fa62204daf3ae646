import Applying
import Changes
import TestServers
import Testing

/// Columns that are added while a row waits for a unique value.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct WaitingColumnTests {
  private static let all = "SELECT id, name, coalesce(note, '-') FROM item ORDER BY id"

  /// Two nodes at which row 1 waits for the name `x`, which row 2 has.
  private static func mesh(_ engines: String) throws -> Mesh {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
    mesh.ddl = .follow
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (9, 'z')")
    for _ in 0..<2 { try mesh.settle() }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'x')")
    try mesh.nodes[0].capturePending()
    try mesh.nodes[1].execute("INSERT INTO item VALUES (2, 'x')")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { #expect(try waiting(node) == ["1"], "\(node.name)") }
    return mesh
  }

  private static func waiting(_ node: Mesh.Node) throws -> [String] {
    try node.rows("SELECT key FROM \(node.isPostgres ? "cairn.candidate" : "cairn_candidate")").map {
      $0.filter(\.isNumber)
    }.sorted()
  }

  enum Direction: CaseIterable, Sendable { case plain, copied, copiedLater }

  @Test(
    "a waiting row has the default of a column that comes meanwhile",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]),
    Direction.allCases)
  func oneDefault(engines: String, way: Direction) throws {
    let mesh = try Self.mesh(engines)
    try mesh.nodes[0].execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'a'")
    // A new unique key beside the column makes capture copy the whole table.
    if way == .copied { try mesh.nodes[0].execute("CREATE UNIQUE INDEX item_name ON item(id, name)") }
    for _ in 0..<2 { try mesh.settle() }
    if way == .copiedLater {
      try mesh.nodes[0].askForCopies()
      for _ in 0..<2 { try mesh.settle() }
    }
    try mesh.nodes[0].execute("DELETE FROM item WHERE id = 2")
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows(Self.all) == ["1|x|a", "9|z|a"], "\(node.name), \(way)") }
    try mesh.close()
  }

  @Test(
    "a waiting row has one default of a column that both ends add",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]),
    Direction.allCases)
  func bothDefaults(engines: String, way: Direction) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'a'")
    try b.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'b'")
    if way == .copied { try a.execute("CREATE UNIQUE INDEX item_name ON item(id, name)") }
    try AddedColumnTests.settleByHints(mesh)
    if way == .copiedLater {
      try a.askForCopies()
      try AddedColumnTests.settleByHints(mesh)
    }
    try a.execute("DELETE FROM item WHERE id = 2")
    try AddedColumnTests.settleByHints(mesh)
    for node in mesh.nodes { try #expect(node.rows(Self.all) == ["1|x|a", "9|z|a"], "\(node.name), \(way)") }
    try mesh.close()
  }

  @Test(
    "a waiting row has the default of the other end for a column that its end adds without one",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]), [false, true])
  func noDefault(engines: String, isFirst: Bool) throws {
    let mesh = try Self.mesh(engines)
    let (with, without) = (mesh.nodes[isFirst ? 0 : 1], mesh.nodes[isFirst ? 1 : 0])
    try with.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'a'")
    try without.execute("ALTER TABLE item ADD COLUMN note TEXT")
    try AddedColumnTests.settleByHints(mesh)
    try mesh.nodes[0].execute("DELETE FROM item WHERE id = 2")
    try AddedColumnTests.settleByHints(mesh)
    for node in mesh.nodes { try #expect(node.rows(Self.all) == ["1|x|a", "9|z|a"], "\(node.name)") }
    try mesh.close()
  }
}
