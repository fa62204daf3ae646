import Changes
import SQLiteKit

/// The user tables of a database, read by plain SELECTs: every row as text that shows storage classes, bytes and the
/// sign of zero. Two databases are equal if their contents are.
struct Contents: Equatable {
  /// Sorted rows by table.
  var rows: [String: [String]] = [:]
  /// Columns by table, in order, and the statements of tables and indexes.
  var shapes: [String: [String]] = [:]

  init(_ path: String) throws {
    let database = try Database(path: path, mode: .readWrite)
    try database.execute("BEGIN")
    let names = try database.query(
      """
      SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
      AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'cairn\\_%' ESCAPE '\\'
      """)
    for name in names.map({ $0[0].string }) {
      let columns = try database.query(
        "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)", [.text(name)])
      let list = columns.map { $0[0].string.quotedName }.joined(separator: ",")
      rows[name] = try database.query("SELECT \(list) FROM \(name.quotedName)")
        .map { $0.map(Self.show).joined(separator: " | ") }.sorted()
      let texts = try database.query(
        "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('table', 'index') AND sql NOT NULL",
        [.text(name)])
      shapes[name] = columns.map { $0.map(Self.show).joined(separator: " ") } + texts.map { $0[0].string }.sorted()
    }
    try database.execute("COMMIT")
  }

  static func show(_ value: Value) -> String {
    switch value {
    case .null: "NULL"
    case .integer(let n): "int \(n)"
    case .real(let r): "real \(r) \(String(r.bitPattern, radix: 16))"
    case .text(let b): "text '\(String(decoding: b.prefix(60), as: UTF8.self))' \(b.hex)"
    case .blob(let b): "blob \(b.hex)"
    case .exact(let b): "exact \(b.hex)"
    }
  }

  /// The first differences, for a person; empty when both are equal.
  func differences(from other: Contents) -> [String] {
    var found: [String] = []
    for table in Set(rows.keys).union(other.rows.keys).sorted() {
      guard let mine = rows[table], let theirs = other.rows[table] else {
        found.append("table \(table) is only at one side")
        continue
      }
      if shapes[table] != other.shapes[table] {
        found.append("table \(table): shape \(shapes[table] ?? []) is not \(other.shapes[table] ?? [])")
      }
      let difference = mine.difference(from: theirs)
      found += difference.insertions.prefix(5).map { "table \(table) lacks \(Self.element($0))" }
      found += difference.removals.prefix(5).map { "table \(table) should not have \(Self.element($0))" }
    }
    return found
  }

  private static func element(_ change: CollectionDifference<String>.Change) -> String {
    switch change {
    case .insert(_, let row, _), .remove(_, let row, _): String(row.prefix(300))
    }
  }
}

/// The schema of the moment, all of it, in order.
func schemaText(_ path: String) throws -> [String] {
  let database = try Database(path: path, mode: .readWrite)
  return try database.query("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")
    .map { $0.map(Contents.show).joined(separator: " | ") }
}
