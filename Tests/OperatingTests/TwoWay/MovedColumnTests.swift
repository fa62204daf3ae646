import Capturing
import Changes
import Mapping
import SQLiteKit
import SystemKit
import TestServers
import Testing

/// Columns that one node renames or drops while rows of the other are on their way.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct MovedColumnTests {
  private static func mesh(_ engines: String) throws -> Mesh {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER)")
    mesh.ddl = .follow
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 5), (4, 'rice', 2), (5, 'oil', 3)")
    for _ in 0..<2 { try mesh.settle() }
    return mesh
  }

  /// Alters the table as an application does it beside a capture, and waits until capture has seen the change.
  private static func alter(_ node: Mesh.Node, _ change: String) throws {
    if case .sqlite(let path) = node.url, change.hasPrefix("DROP") {
      let journal = Journal(try Database(path: path))
      _ = try journal.unhook("item")
      try node.execute("ALTER TABLE item \(change)")
      _ = try journal.rehook("item", patterns: TablePatterns())
    } else {
      try node.execute("ALTER TABLE item \(change)")
    }
    try node.execute("UPDATE item SET stock = stock WHERE id = 4")
    try node.capturePending()
  }

  @Test(
    "rows that were written under the old name of a column, or with one that is gone, come through",
    arguments: ["ss", "sp", "ps", "pp", "sps"], ["RENAME COLUMN name TO title", "DROP COLUMN name"])
  func moved(engines: String, change: String) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try b.execute("INSERT INTO item VALUES (3, 'new', 1)")
    try b.execute("UPDATE item SET name = 'late', stock = 7 WHERE id = 1")
    try b.execute("UPDATE item SET name = 'lost' WHERE id = 2")
    try b.execute("DELETE FROM item WHERE id = 5")
    try b.capturePending()
    try Self.alter(a, change)
    // Of row 2 this is the later write.
    try a.execute("UPDATE item SET stock = 6 WHERE id = 2")
    try a.capturePending()
    // As after a start: what was known only in memory is read again.
    if engines.hasPrefix("s") { for node in mesh.nodes { mesh.renew(node) } }
    for _ in 0..<3 { try mesh.settle() }
    let isDropped = change.hasPrefix("DROP")
    let rows =
      isDropped ? ["1|7", "2|6", "3|1", "4|2"] : ["1|late|7", "2|milk|6", "3|new|1", "4|rice|2"]
    for node in mesh.nodes {
      let found = try node.rows("SELECT id, \(isDropped ? "" : "title,") stock FROM item ORDER BY id")
      #expect(found == rows, "\(node.name)")
    }
    // Both write on under the new names.
    try b.execute("UPDATE item SET \(isDropped ? "" : "title = 'b',") stock = 8 WHERE id = 4")
    try a.execute("UPDATE item SET \(isDropped ? "" : "title = 'a',") stock = 9 WHERE id = 3")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      try #expect(node.rows("SELECT stock FROM item ORDER BY id") == ["7", "6", "9", "8"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("a key column that is renamed while both ends write the row", arguments: ["ss", "sp", "ps", "pp", "sps"])
  func movedKey(engines: String) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("ALTER TABLE item RENAME COLUMN id TO nr")
    try a.execute("UPDATE item SET stock = 7 WHERE nr IN (1, 2)")
    try a.capturePending()
    try b.execute("UPDATE item SET stock = 50 WHERE id = 2")
    try b.execute("DELETE FROM item WHERE id = 5")
    try b.execute("INSERT INTO item VALUES (3, 'new', 1)")
    try b.capturePending()
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows("SELECT nr, name, stock FROM item ORDER BY nr")
      #expect(rows == ["1|tea|7", "2|milk|50", "3|new|1", "4|rice|2"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "columns of a composite key that are renamed while both ends write the row",
    arguments: ["ss", "sp", "ps", "pp", "sps"], [["shop"], ["shop", "nr"]])
  func movedCompositeKey(engines: String, renamed: [String]) throws {
    let mesh = try Mesh(
      engines,
      schema: "CREATE TABLE item(shop INTEGER NOT NULL, nr INTEGER NOT NULL, stock INTEGER, PRIMARY KEY (nr, shop))")
    mesh.ddl = .follow
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 1, 10), (1, 2, 5), (2, 1, 2), (2, 2, 3)")
    for _ in 0..<2 { try mesh.settle() }
    for column in renamed { try a.execute("ALTER TABLE item RENAME COLUMN \(column) TO the_\(column)") }
    let nr = renamed.count == 2 ? "the_nr" : "nr"
    try a.execute("UPDATE item SET stock = 7 WHERE the_shop = 1")
    try a.capturePending()
    try b.execute("UPDATE item SET stock = 50 WHERE shop = 1 AND nr = 2")
    try b.execute("DELETE FROM item WHERE shop = 2 AND nr = 1")
    try b.execute("UPDATE item SET nr = 9 WHERE shop = 2 AND nr = 2")
    try b.execute("INSERT INTO item VALUES (3, 1, 1)")
    try b.capturePending()
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows("SELECT the_shop, \(nr), stock FROM item ORDER BY 1, 2")
      #expect(rows == ["1|1|7", "1|2|50", "2|9|3", "3|1|1"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("a table waits for a renamed column until capture has seen the change", arguments: ["ss", "ps"])
  func uncaptured(engines: String) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try b.execute("UPDATE item SET name = 'late' WHERE id = 1")
    try b.capturePending()
    if !a.isPostgres {
      try a.stopCapture()
      try a.execute("ALTER TABLE item RENAME COLUMN name TO title")
      let error = #expect(throws: CairnError.self) { try mesh.apply(1, to: 0) }
      #expect(error?.code == .schemaStopped)
      try a.startCapture()
    } else {
      try a.execute("ALTER TABLE item RENAME COLUMN name TO title")
    }
    try a.execute("UPDATE item SET stock = stock WHERE id = 4")
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows("SELECT title FROM item WHERE id = 1") == ["late"], "\(node.name)") }
    try mesh.close()
  }

  @Test("a column that is added while capture starts arrives with its values")
  func addedAtStart() throws {
    let mesh = try Self.mesh("ss")
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    guard case .sqlite(let path) = a.url else { return }
    for round in 0..<30 {
      try a.stopCapture()
      let delay = Int.random(in: 0...60)
      let program = try WorkerThread<String?> {
        Clock.sleep(milliseconds: delay)
        do {
          let program = try Database(path: path)
          try program.execute("PRAGMA busy_timeout = 0")
          // Again at once, so that it comes right after the transaction that it waits for.
          while true {
            do {
              try program.execute("ALTER TABLE item ADD COLUMN c\(round) TEXT")
              return nil
            } catch let error as SQLiteError where error.isBusy {}
          }
        } catch { return "\(error)" }
      }
      try a.startCapture()
      #expect(program.join() == .some(nil))
      try a.execute("UPDATE item SET c\(round) = 'x' WHERE id = 1")
      for _ in 0..<2 { try mesh.settle() }
      let found = try b.rows("SELECT count(*) FROM pragma_table_info('item') WHERE name = 'c\(round)'")
      try #require(found == ["1"], "round \(round), after \(delay) ms")
      try #require(b.rows("SELECT c\(round) FROM item WHERE id = 1") == ["x"], "round \(round)")
    }
    try mesh.close()
  }

  @Test("two columns that swap their names keep their values", arguments: ["ss", "pp"])
  func swapped(engines: String) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("ALTER TABLE item ADD COLUMN note TEXT")
    // Capture that has this row has seen the column.
    try a.execute("UPDATE item SET stock = stock WHERE id = 2")
    for _ in 0..<2 { try mesh.settle() }
    try b.execute("UPDATE item SET name = 'n', note = 'o' WHERE id = 1")
    try b.capturePending()
    try a.execute(
      """
      BEGIN; ALTER TABLE item RENAME COLUMN name TO x; ALTER TABLE item RENAME COLUMN note TO name;
      ALTER TABLE item RENAME COLUMN x TO note; COMMIT
      """)
    try a.execute("UPDATE item SET stock = stock WHERE id = 4")
    try a.capturePending()
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      try #expect(node.rows("SELECT name, note FROM item WHERE id = 1") == ["o|n"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("random writes while one node renames columns converge", arguments: MeshConvergenceTests.fewSeeds)
  func random(seed: UInt64) throws {
    var random = Seeded(seed)
    let mesh = try Self.mesh(["ss", "sp", "ps", "pp"][Int(seed % 4)])
    var column = "name"
    for step in 0..<40 {
      let node = Int.random(in: 0...1, using: &random)
      let id = Int.random(in: 1...4, using: &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0:
        let new = "c\(step)"
        try mesh.nodes[0].execute("ALTER TABLE item RENAME COLUMN \(column) TO \(new)")
        column = new
        // What an application writes before capture has seen the change comes as a copy: see docs/conflicts.md.
        try mesh.nodes[0].capturePending()
      case 1, 2:
        try mesh.nodes[node].execute(
          "INSERT INTO item VALUES (\(id), 'i\(step)', \(step)) ON CONFLICT DO NOTHING")
        try mesh.nodes[node].capturePending()
      case 3:
        try mesh.nodes[node].execute("DELETE FROM item WHERE id = \(id)")
        try mesh.nodes[node].capturePending()
      case 4, 5, 6:
        try mesh.nodes[node].execute("UPDATE item SET stock = \(step) WHERE id = \(id)")
        try mesh.nodes[node].capturePending()
      default:
        try mesh.apply(1 - node, to: node)
        try mesh.nodes[node].capturePending()
      }
    }
    for _ in 0..<3 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows("SELECT * FROM item ORDER BY id") }
    #expect(rows[1] == rows[0], "seed \(seed)")
    try mesh.close()
  }
}
