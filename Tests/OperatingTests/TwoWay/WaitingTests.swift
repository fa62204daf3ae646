import Applying
import Changes
import Conflicts
import Foundation
import TestServers
import Testing

/// A table that waits for a change of its shape, while all write to it.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct TwoWayWaitingTests {
  static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER)"

  private static func mesh(_ engines: String, rules: ConflictRules = ConflictRules()) throws -> Mesh {
    let mesh = try Mesh(engines, schema: schema) { _, _, _ in rules }
    mesh.ddl = .follow
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 5)")
    try mesh.settle()
    return mesh
  }

  /// Brings a trail as far as it comes; true when the table waits.
  @discardableResult private static func bring(_ from: Int, to: Int, _ mesh: Mesh) throws -> Bool {
    do {
      try mesh.apply(from, to: to)
      return false
    } catch let error as CairnError where error.code == .schemaStopped { return true }
  }

  private static func write(_ node: Int, _ sql: String, _ mesh: Mesh) throws {
    try mesh.nodes[node].execute(sql)
    try mesh.nodes[node].capturePending()
  }

  private static func exchange(_ mesh: Mesh) throws {
    try mesh.apply(0, to: 1)
    try mesh.apply(1, to: 0)
  }

  private static let all = "SELECT id, name, stock, size, price FROM item ORDER BY id"

  @Test(
    "two nodes add a column each, and a third catches up with both", arguments: ["sps", "psp"], [false, true])
  func twoColumns(engines: String, isRestarted: Bool) throws {
    let mesh = try Self.mesh(engines)
    try Self.write(0, "ALTER TABLE item ADD COLUMN size INTEGER", mesh)
    try Self.write(1, "ALTER TABLE item ADD COLUMN price INTEGER", mesh)
    try Self.exchange(mesh)
    try Self.write(0, "UPDATE item SET name = 'a1', price = 1 WHERE id = 1", mesh)
    try Self.write(1, "UPDATE item SET name = 'b1', size = 1 WHERE id = 2", mesh)
    try Self.exchange(mesh)
    try Self.write(0, "UPDATE item SET name = 'a2', price = 2 WHERE id = 2", mesh)
    try Self.exchange(mesh)
    try Self.write(1, "UPDATE item SET name = 'b2', size = 2 WHERE id = 1", mesh)
    #expect(try Self.bring(1, to: 2, mesh))
    if isRestarted { mesh.renew(mesh.nodes[2]) }
    #expect(try !Self.bring(0, to: 2, mesh))
    if isRestarted { mesh.renew(mesh.nodes[2]) }
    #expect(try !Self.bring(1, to: 2, mesh))
    try mesh.settle()
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["1|b2|10|2|1", "2|a2|5|1|2"], "\(node.name)") }
    try mesh.close()
  }
}
