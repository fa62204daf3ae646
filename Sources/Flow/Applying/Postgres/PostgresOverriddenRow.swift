import Changes
import PostgresKit

/// Replaces a row of PostgreSQL by another version, in a session in which triggers fire.
struct PostgresOverriddenRow {
  private let connection: PostgresConnection
  private let turned: OverriddenRow
  private let table: String
  /// The table in statements that leave rows of inheriting tables alone.
  private let rows: String
  private let types: [NameKey: String]

  init(_ connection: PostgresConnection, _ turned: OverriddenRow) throws {
    (self.connection, self.turned) = (connection, turned)
    table = "\(turned.namespace.quotedName).\(turned.table.quotedName)"
    guard try connection.first("SELECT to_regclass($1)", [table]) != nil else {
      throw turned.stale("is gone with its table")
    }
    try turned.checkTable(in: .postgres)
    // The session is one like an application's, in which ordinary triggers fire. The lock keeps them as they are.
    try OwnersCode.holdForSession(table, "\(turned.namespace).\(turned.table)", connection)
    rows = try RowsName(table, connection).text
    // Policies apply as they do to an application; their code has just been looked at.
    try connection.execute("SET LOCAL row_security = on")
    let columns = try connection.query(
      """
      SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
      WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
      """, [table])
    types = Dictionary(columns.map { (NameKey($0[0] ?? ""), $0[1] ?? "") }) { $1 }
  }

  /// Replaces the row in its table by the version `row`, in the caller's transaction. If `row` is nil, deletes the row.
  func put(_ row: ConflictRow?) throws {
    var (values, condition): ([String?], String) = ([], keyCondition(from: 1))
    let key = turned.key.columns.map(\.value.postgresText)
    let isThere = try connection.first("SELECT 1 FROM \(rows) \(condition) FOR UPDATE", key) != nil
    try turned.checkThere(isThere)
    if isThere, !turned.isForced { try turned.checkSame(differing(from: known(turned.settled)).first) }
    let columns = try known(row)
    if row == nil {
      try connection.run("DELETE FROM \(rows) \(condition)", key)
    } else if isThere {
      let changed = try differing(from: columns)
      if changed.isEmpty { return }
      let list = changed.enumerated().map { "\($1.name.quotedName) = $\($0 + 1)::\(types[$1.name] ?? "text")" }
      values = changed.map(\.value.postgresText) + key
      condition = keyCondition(from: changed.count + 1)
      try connection.run("UPDATE \(rows) SET \(list.joined(separator: ", ")) \(condition)", values)
    } else {
      let names = columns.map(\.name.quotedName).joined(separator: ", ")
      let marks = columns.enumerated().map { "$\($0 + 1)::\(types[$1.name] ?? "text")" }.joined(separator: ", ")
      try connection.run(
        "INSERT INTO \(table)(\(names)) OVERRIDING SYSTEM VALUE VALUES (\(marks))", columns.map(\.value.postgresText))
    }
  }

  private func keyCondition(from first: Int) -> String {
    let terms = turned.key.columns.enumerated().map { index, column in
      "\(column.name.quotedName) = $\(first + index)::\(types[column.name] ?? "text")"
    }
    return "WHERE " + terms.joined(separator: " AND ")
  }

  /// Returns the SQL condition that a column and a parameter have the same text form. Some types have no equality
  /// operator.
  private func equals(_ name: String, _ parameter: String) -> String {
    "\(name.quotedName)::text IS NOT DISTINCT FROM (\(parameter)::\(types[name] ?? "text"))::text"
  }

  /// Returns the columns in `columns` whose value differs from the value in the table.
  private func differing(from columns: [ConflictRow.Column]) throws -> [ConflictRow.Column] {
    guard !columns.isEmpty else { return [] }
    let terms = columns.enumerated().map { equals($1.name, "$\($0 + 1)") }.joined(separator: ", ")
    let values = (columns + turned.key.columns).map(\.value.postgresText)
    let found = try connection.query("SELECT \(terms) FROM \(rows) \(keyCondition(from: columns.count + 1))", values)
    guard let row = found.first else { return [] }
    return zip(columns, row).filter { $1 != "t" }.map { $0.0 }
  }

  private func known(_ row: ConflictRow?) throws -> [ConflictRow.Column] {
    try turned.known(row) { types[$0] != nil }
  }
}

extension Value {
  fileprivate var postgresText: String? {
    switch self {
    case .null: nil
    case .integer(let n): String(n)
    case .real(let r): r.isNaN ? "NaN" : r.isInfinite ? (r < 0 ? "-Infinity" : "Infinity") : String(r)
    case .text(let bytes), .exact(let bytes): String(decoding: bytes, as: UTF8.self)
    case .blob(let bytes): "\\x" + bytes.hex
    }
  }
}
