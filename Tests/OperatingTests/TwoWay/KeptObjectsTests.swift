import Applying
import Changes
import Foundation
import Mapping
import TestServers
import Testing

/// Schema changes at either end of a pair, where the tables belong to the user and have every kind of object on them:
/// what a change does not name is there afterwards, at both ends.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct KeptObjectsTests {
  /// A PostgreSQL table of a user.
  static let server = """
    CREATE TYPE mood AS ENUM ('calm', 'busy');
    CREATE TABLE sale(
      id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz DEFAULT now(), email text COLLATE "C",
      pieces integer NOT NULL DEFAULT 1 CHECK (pieces > 0), price numeric(10,2) DEFAULT 1.5,
      total numeric GENERATED ALWAYS AS (price * pieces) STORED, memo varchar(40), mood mood DEFAULT 'calm',
      CONSTRAINT sane CHECK (price IS NULL OR price < 100000), CONSTRAINT bounded EXCLUDE USING btree (id WITH =));
    CREATE INDEX sale_lower_idx ON sale (lower(email)); CREATE INDEX sale_some_idx ON sale (email) WHERE pieces > 3;
    CREATE INDEX sale_at_idx ON sale (at DESC); CREATE STATISTICS sale_stats ON email, pieces FROM sale;
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER mine BEFORE INSERT ON sale FOR EACH ROW EXECUTE FUNCTION noted();
    CREATE VIEW cheap AS SELECT id, price FROM sale; COMMENT ON COLUMN sale.email IS 'who';
    ALTER TABLE sale ALTER COLUMN email SET STATISTICS 500; GRANT SELECT ON sale TO PUBLIC
    """
  /// An SQLite table of a user.
  static let file = """
    CREATE TABLE sale(
      id TEXT PRIMARY KEY NOT NULL DEFAULT (lower(hex(randomblob(16)))), at TEXT DEFAULT CURRENT_TIMESTAMP,
      email TEXT COLLATE NOCASE, pieces INTEGER NOT NULL DEFAULT 1 CHECK (pieces > 0), price TEXT DEFAULT '1.5',
      total AS (price * pieces), memo TEXT, mood TEXT DEFAULT 'calm',
      CONSTRAINT sane CHECK (price IS NULL OR price < 100000));
    CREATE INDEX sale_lower_idx ON sale (lower(email)); CREATE INDEX sale_some_idx ON sale (email) WHERE pieces > 3;
    CREATE INDEX sale_at_idx ON sale (at DESC);
    CREATE TRIGGER mine BEFORE INSERT ON sale BEGIN SELECT 1; END; CREATE VIEW cheap AS SELECT id, price FROM sale
    """
  static let row = "INSERT INTO sale(id, email) VALUES ('6ecd8c99-4036-403d-bf84-cf8400f67836', 'a@b')"

  enum Owner: String, CaseIterable, Sendable {
    case server, file, both
  }

  /// The first node is PostgreSQL, the second SQLite.
  static func mesh(_ owner: Owner) throws -> Mesh {
    let rows = [
      owner == .file ? "" : server + (owner == .both ? "" : "; " + row),
      owner == .server ? "" : file + "; " + row,
    ]
    let mesh = try Mesh("ps", schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)", rows: rows)
    mesh.ddl = .follow
    for _ in 0..<2 { try mesh.settle() }
    return mesh
  }

  /// The objects on the table, by name, with what they say.
  static func objects(_ node: Mesh.Node) throws -> [String: String] {
    let lines =
      node.isPostgres
      ? try node.rows(
        """
        SELECT 'column ' || a.attname, format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' ' || a.attgenerated::text
          || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '-') || ' ' || coalesce(l.collname, '-')
          || ' ' || coalesce(col_description(a.attrelid, a.attnum), '-') || ' ' || a.attstattarget
        FROM pg_attribute a LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
          LEFT JOIN pg_collation l ON l.oid = a.attcollation AND l.collname <> 'default'
        WHERE a.attrelid = 'sale'::regclass AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT 'constraint ' || conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid = 'sale'::regclass
        UNION ALL SELECT 'index ' || indexname, indexdef FROM pg_indexes WHERE tablename = 'sale'
        UNION ALL SELECT 'trigger ' || tgname, pg_get_triggerdef(oid) FROM pg_trigger
        WHERE tgrelid = 'sale'::regclass AND tgname !~ '^cairn'
        UNION ALL SELECT 'view ' || viewname, definition FROM pg_views WHERE schemaname = 'public'
        UNION ALL SELECT 'statistics ' || stxname, pg_get_statisticsobjdef(oid) FROM pg_statistic_ext
        UNION ALL SELECT 'acl', relacl::text FROM pg_class WHERE oid = 'sale'::regclass
        """)
      : try node.rows(
        """
        SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'cairn%' AND type <> 'table'
        UNION ALL SELECT 'table', sql FROM sqlite_master WHERE name = 'sale'
        """)
    return Dictionary(
      lines.map { line in
        let parts = line.split(separator: "|", maxSplits: 1, omittingEmptySubsequences: false)
        return (String(parts[0]), String(parts.last ?? ""))
      }, uniquingKeysWith: { first, _ in first })
  }

  /// Whether a text names one of the columns.
  private static func mentions(_ text: String, _ names: [String]) -> Bool {
    let words = Set(text.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.map(String.init))
    return names.contains(where: words.contains)
  }

  /// The parts of the column list of `sale`, if the object is the table of an SQLite file.
  private static func parts(_ text: String) -> [String] {
    var depth = 0
    var parts = [""]
    for character in text.split(separator: "(", maxSplits: 1).last ?? "" {
      if character == "(" { depth += 1 }
      if character == ")" { depth -= 1 }
      if character == ",", depth == 0 { parts.append("") } else { parts[parts.count - 1].append(character) }
    }
    if let last = parts.last, last.hasSuffix(")") { parts[parts.count - 1] = String(last.dropLast()) }
    return parts.map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
  }

  /// Every object that does not name `names` is as it was.
  static func expectKept(
    _ before: [String: String], _ after: [String: String], besides names: [String], _ why: String
  ) {
    for (name, text) in before where !mentions(name + " " + text, names) || name == "table" || name == "acl" {
      if name == "table" {
        let there = parts(after[name] ?? "")
        for part in parts(text) where !mentions(part, names) {
          #expect(there.contains(part), "\(why): \(part) of the file's table, which is now \(there)")
        }
      } else {
        #expect(after[name] == text, "\(why): \(name)")
      }
    }
  }

  @Test("a column added in the file takes nothing from either table", arguments: Owner.allCases)
  func added(owner: Owner) throws {
    let mesh = try Self.mesh(owner)
    let before = try mesh.nodes.map(Self.objects)
    try mesh.nodes[1].execute("ALTER TABLE sale ADD COLUMN note TEXT")
    for _ in 0..<2 { try mesh.settle() }
    for (node, was) in zip(mesh.nodes, before) {
      let now = try Self.objects(node)
      Self.expectKept(was, now, besides: ["note"], "\(node.name) of \(owner)")
      #expect((now["column note"] ?? now["table"] ?? "").contains(node.isPostgres ? "text" : "note TEXT"))
    }
    #expect(try mesh.nodes[0].rows("SELECT count(*) FROM sale") == ["1"])
    try mesh.close()
  }

  /// Many under `CAIRN_SOAK`; `CAIRN_SEED` runs one.
  static var seeds: [UInt64] {
    if let seed = ProcessInfo.processInfo.environment["CAIRN_SEED"].flatMap({ UInt64($0) }) { return [seed] }
    return isSoak ? Array(0..<200) : [1, 2, 3]
  }

  @Test("random changes at either end leave everything that they do not name", arguments: seeds)
  func random(seed: UInt64) throws {
    var random = Seeded(seed)
    let owner = Owner.allCases[Int(seed % 3)]
    let mesh = try Self.mesh(owner)
    var added = ["memo"]
    for step in 0..<(isSoak ? 12 : 8) {
      let end = Int.random(in: 0...1, using: &random)
      let node = mesh.nodes[end]
      var names: [String] = []
      let sql: String
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<3:
        let types = ["TEXT", "INTEGER", "varchar(20)", "numeric(8,2)", "TEXT DEFAULT 'it''s'", "INTEGER DEFAULT 7"]
        added.append("c\(step)")
        names = ["c\(step)"]
        sql = "ALTER TABLE sale ADD COLUMN c\(step) \(types.randomElement(using: &random) ?? "TEXT")"
      case 3..<5:
        guard let column = added.randomElement(using: &random) else { continue }
        added.removeAll { $0 == column }
        names = [column]
        sql = "ALTER TABLE sale DROP COLUMN \(column)"
      case 5..<7:
        guard let column = added.randomElement(using: &random) else { continue }
        added.removeAll { $0 == column }
        added.append("r\(step)")
        names = [column, "r\(step)"]
        sql = "ALTER TABLE sale RENAME COLUMN \(column) TO r\(step)"
      case 7:
        names = ["i\(step)"]
        sql = "CREATE INDEX i\(step) ON sale (email, pieces)"
      case 8:
        names = ["i\(step)"]
        sql = "CREATE INDEX i\(step) ON sale (upper(email)) WHERE pieces > \(step)"
      default:
        names = ["k\(step)"]
        sql =
          node.isPostgres
          ? "ALTER TABLE sale ADD CONSTRAINT k\(step) CHECK (pieces < 1000000 + \(step))"
          : "CREATE TRIGGER k\(step) AFTER DELETE ON sale BEGIN SELECT \(step); END"
      }
      let before = try mesh.nodes.map(Self.objects)
      // A column of an index, or of the CHECK of a table, cannot be dropped in SQLite.
      do { try node.execute(sql) } catch { continue }
      let there = try Self.objects(node)
      for _ in 0..<2 { try mesh.settle() }
      let after = try mesh.nodes.map(Self.objects)
      #expect(after[end] == there, "\(owner), seed \(seed), step \(step): \(sql) at \(node.name), and there")
      Self.expectKept(
        before[1 - end], after[1 - end], besides: names, "\(owner), seed \(seed), step \(step): \(sql) at \(node.name)")
    }
    let rows = try mesh.nodes.map { try $0.rows("SELECT count(*) FROM sale") }
    #expect(rows == [["1"], ["1"]])
    try mesh.close()
  }
}
