import Changes
import TestServers
import Testing

/// Commands at a PostgreSQL source that change rows although the stream has no record of them, up to the target.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct UnreportedRowsApplyTests {
  private static let heirs = """
    CREATE TABLE par(id int PRIMARY KEY, v varchar(10)); CREATE TABLE chi(w int, PRIMARY KEY (id)) INHERITS (par)
    """

  @Test(arguments: [
    "ALTER TABLE par ALTER v TYPE varchar(10) USING upper(v)",
    "INSERT INTO chi VALUES (5, 'e', 5); ALTER TABLE par ALTER v TYPE varchar(10) USING upper(v)",
    "BEGIN; ALTER TABLE par ALTER v TYPE varchar(10) USING upper(v); UPDATE chi SET w = 9; COMMIT",
    "ALTER TABLE par ALTER v TYPE varchar(20) USING upper(v)",
  ]) func `rows of an inheriting table that its parent's change rewrote are equal at the target`(
    _ change: String
  ) throws {
    let mesh = try Mesh("pp", schema: Self.heirs, isCaptured: false)
    (mesh.isOneWay, mesh.ddl) = (true, .follow)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    a.goesBothWays = false
    try a.startCapture()
    try a.execute("INSERT INTO par VALUES (1, 'p'); INSERT INTO chi VALUES (2, 'c', 1)")
    try a.capturePending()
    try mesh.apply(0, to: 1)
    try #require(b.rows("SELECT id, v, w FROM chi") == ["2|c|1"])
    try a.execute(change)
    try a.execute("INSERT INTO chi VALUES (8, 'h', 8)")
    try a.capturePending()
    try mesh.apply(0, to: 1)
    for query in ["SELECT id, v FROM ONLY par ORDER BY id", "SELECT id, v, w FROM chi ORDER BY id"] {
      let rows = try a.rows(query)
      try #expect(b.rows(query) == rows)
      #expect(rows.contains { $0.contains("|P") || $0.contains("|C|") })
    }
    try mesh.close()
  }
}
