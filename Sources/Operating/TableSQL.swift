import Changes
import SQLiteKit

/// The statements of one table in one dialect. Rows are given with a value for each column; nil: not known, or
/// unchanged.
struct TableSQL {
  let schema: TableSchema
  let dialect: TrailSQL.Dialect
  let name: String
  private let columns: [String]
  private let types: [PostgresType]
  private let key: [Int]
  private let namesCollation: Bool

  init(schema: TableSchema, dialect: TrailSQL.Dialect) {
    self.schema = schema
    self.dialect = dialect
    key = schema.key
    columns = schema.columns.map { dialect == .sqlite ? $0.name.quotedName : $0.name.postgresName }
    types = schema.columns.map { PostgresType($0, of: schema) }
    namesCollation = schema.namesCollation
    switch dialect {
    case .sqlite: name = schema.sqliteName.quotedName
    case .postgres:
      name = (schema.namespace.isEmpty ? "" : schema.namespace.postgresName + ".") + schema.name.postgresName
    }
  }

  func column(_ index: Int) -> String { columns[index] }
  func type(_ index: Int) -> PostgresType { types[index] }

  func literal(_ value: Value, _ index: Int) throws(Unrepresentable) -> String {
    do throws(Unrepresentable) {
      switch dialect {
      case .sqlite: return try SQLLiteral.sqlite(value)
      case .postgres: return try SQLLiteral.postgres(value, types[index])
      }
    } catch { throw Unrepresentable(reason: "column \(schema.columns[index].name): \(error.reason)") }
  }

  // MARK: Rows

  var deleteAll: String { "DELETE FROM \(name);" }

  /// `isTolerant`: takes the place of a row with the same key.
  func insert(_ row: [Value?], isTolerant: Bool) throws(Unrepresentable) -> String {
    var columns: [String] = []
    var values: [String] = []
    for (index, value) in row.enumerated() {
      guard let value else { continue }
      columns.append(column(index))
      values.append(try literal(value, index))
    }
    let replaces = isTolerant && !schema.flags.contains(.wholeRow)
    let clause = replaces && dialect == .sqlite ? " OR REPLACE" : ""
    guard !columns.isEmpty else { return "INSERT\(clause) INTO \(name) DEFAULT VALUES;" }
    let tail = replaces && dialect == .postgres ? upsert(row) : ""
    let (into, given) = (columns.joined(separator: ", "), values.joined(separator: ", "))
    return "INSERT\(clause) INTO \(name) (\(into)) VALUES (\(given))\(tail);"
  }

  private func upsert(_ row: [Value?]) -> String {
    let rest = row.indices.filter { row[$0] != nil && !key.contains($0) }
      .map { "\(column($0)) = EXCLUDED.\(column($0))" }
    let target = key.map(column).joined(separator: ", ")
    return " ON CONFLICT (\(target)) DO "
      + (rest.isEmpty ? "NOTHING" : "UPDATE SET \(rest.joined(separator: ", "))")
  }

  func delete(_ before: [Value?]) throws(Unrepresentable) -> String {
    "DELETE FROM \(name) WHERE \(try identity(before));"
  }

  /// `isTolerant`: the row may be missing, or be in an older form.
  func update(_ before: [Value?], _ after: [Value?], isTolerant: Bool) throws(Unrepresentable) -> [String] {
    let merged = zip(before, after).map { $1 ?? $0 }
    if isTolerant, !schema.flags.contains(.wholeRow), !merged.contains(nil) {
      let row = try insert(merged, isTolerant: true)
      let isMoved = key.contains { before[$0] != merged[$0] }
      return isMoved || isWholeRow(before) ? [try delete(before), row] : [row]
    }
    var assignments: [String] = []
    for (index, value) in after.enumerated() {
      guard let value else { continue }
      assignments.append("\(column(index)) = \(try literal(value, index))")
    }
    guard !assignments.isEmpty else { return [] }
    return ["UPDATE \(name) SET \(assignments.joined(separator: ", ")) WHERE \(try identity(before));"]
  }

  // MARK: Identity

  /// True when a row is told from others by all its values.
  private func isWholeRow(_ row: [Value?]) -> Bool {
    schema.flags.contains(.wholeRow) || key.isEmpty || key.contains { row[$0] == .null }
  }

  private func identity(_ row: [Value?]) throws(Unrepresentable) -> String {
    if let index = key.first(where: { row[$0] == nil }) {
      throw Unrepresentable(reason: "column \(schema.columns[index].name): the row before is not given")
    }
    var terms: [String] = []
    guard isWholeRow(row) else {
      for index in key {
        guard let value = row[index] else { continue }
        terms.append("\(compared(index, value, schema.columns[index].collation)) = \(try literal(value, index))")
      }
      return terms.joined(separator: " AND ")
    }
    for (index, value) in row.enumerated() {
      guard let value else { continue }
      terms.append(try equality(index, value))
    }
    // Of equal rows exactly one is meant.
    let place = dialect == .sqlite ? rowid : "ctid"
    let condition = terms.isEmpty ? "" : " WHERE \(terms.joined(separator: " AND "))"
    return "\(place) = (SELECT \(place) FROM \(name)\(condition) LIMIT 1)"
  }

  /// True for this very value, NULL included.
  private func equality(_ index: Int, _ value: Value) throws(Unrepresentable) -> String {
    if value == .null { return "\(column(index)) IS NULL" }
    let literal = try literal(value, index)
    guard dialect == .sqlite else { return "\(column(index)) = \(literal)" }
    let term = "\(compared(index, value, "BINARY")) IS \(literal)"
    // Where no affinity has made them one, 1 and 1.0 are two values that compare as equal.
    let affinity = ColumnAffinity(schema.columns[index], of: schema)
    switch value {
    case .integer where affinity == .any || affinity == .blob: return "\(term) AND typeof(\(column(index))) = 'integer'"
    case .real where affinity == .any || affinity == .blob: return "\(term) AND typeof(\(column(index))) = 'real'"
    default: return term
    }
  }

  /// The column under a collation, where that may differ from its own.
  private func compared(_ index: Int, _ value: Value, _ collation: String) -> String {
    guard dialect == .sqlite, !collation.isEmpty, case .text = value, namesCollation else { return column(index) }
    return "\(column(index)) COLLATE \(collation.quotedName)"
  }

  private var rowid: String {
    let taken = Set(schema.columns.map { $0.name.lowercased() })
    return ["rowid", "_rowid_", "oid"].first { !taken.contains($0) } ?? "rowid"
  }

  // MARK: Ranges

  /// Whether the dialect orders keys as SQLite did when it cut the table into ranges.
  var canDeleteRanges: Bool {
    guard dialect == .postgres, schema.engine == .sqlite else { return true }
    return key.allSatisfy { index in
      switch types[index] {
      case .text:
        let column = schema.columns[index]
        guard case .text = ColumnAffinity(column, of: schema) else { return false }
        return ["", "BINARY", "NOCASE", "RTRIM"].contains(column.collation.uppercased())
      case .bytea: return false
      default: return true
      }
    }
  }

  /// Deletes what stands in the range of a refresh chunk.
  func delete(_ range: Refresh.Range) throws(Unrepresentable) -> [String] {
    switch range {
    case .unkeyed: return []
    case .nullKeys:
      return ["DELETE FROM \(name) WHERE \(key.map { "\(column($0)) IS NULL" }.joined(separator: " OR "));"]
    case .keys(let after, let through):
      var terms = schema.flags.contains(.nullableKey) ? key.map { "\(column($0)) IS NOT NULL" } : []
      for (sign, bound) in [(">", after), ("<=", through)] {
        guard let bound else { continue }
        var values: [String] = []
        for index in key {
          guard index < bound.count, let value = bound[index] else {
            throw Unrepresentable(reason: "the bound of a refresh chunk has no key")
          }
          values.append(sorted(try literal(value, index), index, isColumn: false))
        }
        let columns = key.map { sorted(column($0), $0, isColumn: true) }
        terms.append(
          columns.count == 1
            ? "\(columns[0]) \(sign) \(values[0])"
            : "(\(columns.joined(separator: ", "))) \(sign) (\(values.joined(separator: ", ")))")
      }
      return ["DELETE FROM \(name)\(terms.isEmpty ? "" : " WHERE " + terms.joined(separator: " AND "));"]
    }
  }

  /// A key column, or a value for it, so that it sorts as in the source.
  private func sorted(_ term: String, _ index: Int, isColumn: Bool) -> String {
    let collation = schema.columns[index].collation
    switch dialect {
    case .sqlite:
      return isColumn && namesCollation && !collation.isEmpty ? "\(term) COLLATE \(collation.quotedName)" : term
    case .postgres:
      guard schema.engine == .sqlite, types[index] == .text else { return term }
      switch collation.uppercased() {
      case "NOCASE": return "lower(\(term) COLLATE \"C\")"
      case "RTRIM": return "rtrim(\(term), ' ') COLLATE \"C\""
      default: return "\(term) COLLATE \"C\""
      }
    }
  }
}

extension TableSchema {
  /// In SQLite, where a namespace becomes part of the name.
  var sqliteName: String { namespace.isEmpty || namespace == "public" ? name : "\(namespace)_\(name)" }

  /// Whether a collation other than SQLite's default can be at work in the table or its indexes.
  var namesCollation: Bool {
    engine != .sqlite
      || ([createText] + objects.map(\.text)).contains { text in
        SQLText.tokens(Array(text.utf8)).contains { $0.word == "COLLATE" }
      }
  }
}

extension String {
  /// As an SQL identifier of PostgreSQL: ASCII letters in lower case, in quotes where they are needed.
  var postgresName: String {
    let folded = String(decoding: utf8.map { (0x41...0x5a).contains($0) ? $0 + 0x20 : $0 }, as: UTF8.self)
    let isPlain =
      folded.utf8.enumerated().allSatisfy { index, byte in
        (0x61...0x7a).contains(byte) || byte == 0x5f || (index > 0 && (0x30...0x39).contains(byte))
      } && !folded.isEmpty && !Self.postgresReserved.contains(folded)
    return isPlain ? folded : folded.quotedName
  }

  /// Words that cannot be the name of a column or table without quotes.
  ///
  /// Source: https://www.postgresql.org/docs/current/sql-keywords-appendix.html
  private static let postgresReserved: Set<String> = Set(
    """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true
    union unique user using variadic verbose when where window with
    between bigint bit boolean char character coalesce dec decimal exists extract float greatest grouping inout int
    integer interval json_array json_arrayagg json_object json_objectagg json_scalar json_serialize least merge_action
    national nchar none normalize nullif numeric out overlay position precision real row setof smallint substring time
    timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse
    xmlpi xmlroot xmlserialize xmltable
    """.split { $0 == " " || $0 == "\n" }.map(String.init))
}
