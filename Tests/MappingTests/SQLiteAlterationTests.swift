import Changes
import Mapping
import SQLiteKit
import Testing

@Suite struct SQLiteAlterationTests {
  private func table(_ text: String, _ columns: [String], name: String = "t", key: Int? = 0) -> TableSchema {
    TableSchema(
      epoch: 1, engine: .sqlite, name: name,
      columns: columns.enumerated().map { index, column in
        let parts = column.split(separator: " ", maxSplits: 1).map(String.init)
        return .init(name: parts[0], declaredType: parts.count > 1 ? parts[1] : "", keyOrdinal: index == key ? 1 : 0)
      }, createText: text)
  }

  private let before = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b)"

  private func alteration(_ text: String, _ columns: [String], origins: [Int?]? = nil, isOwn: Bool = true)
    -> SQLiteAlteration
  {
    SQLiteAlteration(
      TableDifference(table(before, ["id INTEGER", "a TEXT", "b"]), table(text, columns), origins: origins),
      isOwn: isOwn, keepsText: isOwn)
  }

  @Test func `a column is added by its definition, letter by letter`() {
    let made = alteration(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b, [c]  DECIMAL(5, 2) DEFAULT ',(' CHECK ([c] > 0))",
      ["id INTEGER", "a TEXT", "b", "c DECIMAL(5, 2)"])
    #expect(made.statements == ["ALTER TABLE \"t\" ADD COLUMN [c]  DECIMAL(5, 2) DEFAULT ',(' CHECK ([c] > 0)"])
  }

  @Test func `columns that swap their names go through a third`() {
    let made = alteration(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT, a)", ["id INTEGER", "b TEXT", "a"], origins: [0, 1, 2])
    #expect(
      made.statements == [
        "ALTER TABLE \"t\" RENAME COLUMN \"a\" TO cairn_moving_0",
        "ALTER TABLE \"t\" RENAME COLUMN \"b\" TO cairn_moving_1",
        "ALTER TABLE \"t\" RENAME COLUMN cairn_moving_0 TO b", "ALTER TABLE \"t\" RENAME COLUMN cairn_moving_1 TO a",
      ])
  }

  @Test func `a column may take the name of one that goes`() {
    let made = alteration("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", ["id INTEGER", "a"], origins: [0, 2])
    #expect(
      made.statements == [
        "ALTER TABLE \"t\" DROP COLUMN \"a\"", "ALTER TABLE \"t\" RENAME COLUMN \"b\" TO a",
      ])
  }

  @Test func `a change beyond ALTER TABLE is a rebuild that keeps the target's own parts`() {
    var there = table("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b, own INT DEFAULT 3)", ["id", "a", "b", "own"])
    there.objects = [.init(name: "mine", text: "CREATE INDEX mine ON t(own)")]
    let after = table("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b)", ["id INTEGER", "a INTEGER", "b"])
    let made = SQLiteAlteration(
      TableDifference(table(before, ["id INTEGER", "a TEXT", "b"]), after), there: there,
      triggers: [.init(name: "tr", text: "CREATE TRIGGER tr …")], keepsText: true)
    #expect(made.alters == nil)
    #expect(
      made.statements == [
        "DROP TRIGGER \"tr\"", "DROP INDEX \"mine\"", "PRAGMA legacy_alter_table = ON",
        "ALTER TABLE \"t\" RENAME TO cairn_aside", "PRAGMA legacy_alter_table = OFF",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b, own INT DEFAULT 3)",
        "INSERT INTO \"t\"(\"id\",\"a\",\"b\",\"own\") SELECT \"id\",\"a\",\"b\",\"own\" FROM cairn_aside",
        "DROP TABLE cairn_aside", "CREATE INDEX mine ON t(own)", "CREATE TRIGGER tr …",
      ])
  }

  @Test func `a value is not copied into a new column of an old name`() {
    let made = alteration(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, b, a INT)", ["id INTEGER", "b", "a INT"], origins: [0, 2, nil])
    #expect(made.kept.map { $0.new } == ["id", "b"])
    #expect(made.statements == ["ALTER TABLE \"t\" DROP COLUMN \"a\"", "ALTER TABLE \"t\" ADD COLUMN a INT"])
  }

  @Test func `a table that Cairn did not create is altered no further than rows need it`() {
    let text = "CREATE TABLE t(id INTEGER PRIMARY KEY, a VARCHAR(9) NOT NULL DEFAULT 'x', b, c)"
    var after = table(text, ["id INTEGER", "a VARCHAR(9)", "b", "c"])
    after.columns[1].isNotNull = true
    let made = SQLiteAlteration(
      TableDifference(table(before, ["id INTEGER", "a TEXT", "b"]), after), isOwn: false)
    #expect(made.statements == ["ALTER TABLE \"t\" ADD COLUMN c"])
  }

  @Test func `a name that differs in case only goes through another`() {
    #expect(
      SQLiteAlteration.rename("t", to: "T") == [
        "ALTER TABLE \"t\" RENAME TO cairn_aside", "ALTER TABLE cairn_aside RENAME TO \"T\"",
      ])
    #expect(SQLiteAlteration.rename("t", to: "u") == ["ALTER TABLE \"t\" RENAME TO \"u\""])
    #expect(SQLiteAlteration.rename("t", to: "t") == [])
  }

  @Test func `indexes go and come; those of the target stay`() {
    var old = table(before, ["id INTEGER", "a TEXT", "b"])
    old.objects = [.init(name: "i", text: "CREATE INDEX i ON t(a)"), .init(name: "k", text: "CREATE INDEX k ON t(b)")]
    var new = old
    new.objects = [.init(name: "i", text: "CREATE INDEX i ON t(a)"), .init(name: "n", text: "CREATE INDEX n ON t(b)")]
    var there = old
    there.objects.append(.init(name: "mine", text: "CREATE INDEX mine ON t(a, b)"))
    let made = SQLiteAlteration(TableDifference(old, new), there: there, keepsText: true)
    #expect(made.statements == ["DROP INDEX IF EXISTS \"k\"", "CREATE INDEX n ON t(b)"])
  }

  /// A user's index comes back from the other end of a pair in that engine's words.
  @Test func `an index that says the same in other words stays`() {
    func alteration(was: [TableSchema.Object], now: String, theirs: String, type: String = "") -> SQLiteAlteration {
      let shape = table(before, ["id INTEGER", "a TEXT", "b"])
      var (before, after, there) = (shape, shape, shape)
      before.objects = was
      after.objects = [.init(name: "i", text: now)]
      there.objects = [.init(name: "i", text: theirs)]
      if !type.isEmpty {
        after.columns[2].declaredType = type
        after.createText = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b \(type))"
      }
      return SQLiteAlteration(TableDifference(before, after), there: there)
    }
    let (own, quoted) = ("CREATE INDEX i ON t (b, a DESC)", #"CREATE INDEX "i" ON "t" ("b", "a" DESC)"#)
    #expect(alteration(was: [], now: quoted, theirs: own).indexes.isEmpty)
    let old = TableSchema.Object(name: "i", text: quoted)
    #expect(alteration(was: [old], now: quoted, theirs: own).indexes.isEmpty)
    let rebuild = alteration(was: [old], now: quoted, theirs: own, type: "INTEGER").rebuild
    #expect(rebuild.last == own, "\(rebuild)")
    // The schema change does not name the index, which the user has made again with other columns.
    let partial = "CREATE INDEX i ON t (b) WHERE a > 3"
    #expect(alteration(was: [old], now: quoted, theirs: partial).indexes.isEmpty)
    // An index that the source has altered follows.
    let other = #"CREATE UNIQUE INDEX "i" ON "t" ("b", "a" DESC)"#
    let drop = #"DROP INDEX IF EXISTS "i""#
    #expect(alteration(was: [], now: other, theirs: own).indexes == [drop, other])
    #expect(alteration(was: [old], now: other, theirs: own).indexes == [drop, other])
  }

  @Test func `a statement whose words are not known is not printed for the shell`() {
    let long = "CREATE TABLE t(a DEFAULT \(String(repeating: "x", count: 1 << 20).quotedText))"
    for text in [long, "CREATE TABLE t(a)\0", "CREATE TABLE t(a DEFAULT 'x)", "SELECT {"] {
      #expect(SQLiteAlteration.forShell(text) == nil, "\(text.prefix(40))")
    }
  }

  @Test func `a literal for the shell has no control character that the shell drops, and the same value`() throws {
    let odd = (UInt8(1)...31).map { "it's\(Character(UnicodeScalar($0)))\r\n.shell é\u{301}" }
    for text in odd + ["plain", "two\nlines"] {
      let statement = try #require(
        SQLiteAlteration.forShell(
          "ALTER TABLE t ADD COLUMN c TEXT DEFAULT \(text.quotedText) CHECK (c <> \("\r\n".quotedText))"))
      let dropped = statement.utf8.filter { $0 < 0x20 && $0 != 0x0a && $0 != 0x09 }
      #expect(dropped.isEmpty, "\(statement.debugDescription)")
      let database = try Database(path: ":memory:", mode: .create)
      try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
      try database.execute("INSERT INTO t VALUES (1)")
      try database.execute(statement)
      #expect(try database.first("SELECT c FROM t") == .text(Array(text.utf8)))
    }
  }
}
