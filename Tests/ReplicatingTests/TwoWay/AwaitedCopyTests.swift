import Capturing
import Endpoints
import PostgresKit
import TestServers
import Testing
import Trails

/// Rows that are written between the request for a copy and its begin, while the other end copies the same table.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct AwaitedCopyTests {
  private static let schema = """
    CREATE TABLE early(id INTEGER PRIMARY KEY);
    CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, step INTEGER)
    """
  private static let all = "SELECT id, name, step FROM item ORDER BY id"

  /// Has a node's capture asked to copy all tables, and writes before the copy of `item` can begin.
  private static func ask(_ node: Mesh.Node, writing statements: [String]) throws {
    guard let server = node.server else {
      try node.stopCapture()
      try node.askForCopies()
      for sql in statements { try node.execute(sql) }
      try node.startCapture()
      return
    }
    // The tables are copied one after the other.
    try server.executeScript("BEGIN; LOCK TABLE early IN ACCESS EXCLUSIVE MODE")
    guard case .postgres(let uri) = node.url else { return }
    let (other, trail) = (try PostgresConnection(uri), try Trail.info(folder: node.folder).id)
    for table in ["early", "item"] {
      try PostgresSource.askForCopy(of: table, namespace: "public", on: other, trail: trail)
    }
    try node.waitForRequests(2)
    try other.execute("SET search_path = public")
    for sql in statements { try other.executeScript(sql) }
    try server.execute("COMMIT")
  }

  private static func filled(_ engines: String) throws -> Mesh {
    let mesh = try Mesh(engines, schema: schema)
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)")
    for _ in 0..<2 { try mesh.settle() }
    return mesh
  }

  private static let writes = [
    "DELETE FROM item WHERE id = 1", "UPDATE item SET name = 'd' WHERE id = 2", "UPDATE item SET id = 4 WHERE id = 3",
  ]

  @Test(
    "what is deleted before a copy begins goes at an end that copies the row itself",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func deletedInBetween(engines: String) throws {
    let mesh = try Self.filled(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try Self.ask(a, writing: Self.writes)
    try b.askForCopies()
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["2|d|0", "4|c|0"], "\(node.name)") }
    try mesh.close()
  }

  @Test(
    "so it does where both ends take nothing but copies of everything",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func deletedBeforeCopiesOfEverything(engines: String) throws {
    let mesh = try Self.filled(engines)
    for (node, peer) in zip(mesh.nodes, mesh.nodes.reversed()) {
      mesh.askedBehind[node.trail] = try Trail.info(folder: node.folder).lastTransaction
      try TargetDatabase(peer.url).expectRefresh(of: node.trail)
    }
    try Self.ask(mesh.nodes[0], writing: Self.writes)
    try mesh.nodes[1].askForCopies()
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["2|d|0", "4|c|0"], "\(node.name)") }
    try mesh.close()
  }

  @Test(
    "a target that lacks rows takes what comes before the copy that was asked for",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func lenient(engines: String) throws {
    let mesh = try Self.filled(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try b.stopCapture()
    b.twoWay = nil
    try b.execute("DELETE FROM item")
    try Self.ask(a, writing: Self.writes)
    try a.capturePending()
    try mesh.apply(0, to: 1)
    #expect(try b.rows(Self.all) == ["2|d|0", "4|c|0"])
    try mesh.close()
  }
}
