import Changes
import Mapping

/// Decides whether a table can be read in ranges of its key. Both databases must sort the key in the same way and have
/// an index for it.
struct KeyOrder {
  let isShared: Bool

  init(_ table: ComparedTable, source: CompareDatabase, target: CompareDatabase) {
    isShared =
      !table.key.isEmpty && Self.hasIndex(table)
      && table.key.allSatisfy { Self.isAlike(table, $0, source, target) }
      && (table.key.count == 1 || !source.sortsBackwards(table.source) && !target.sortsBackwards(table.target))
  }

  private static func hasIndex(_ table: ComparedTable) -> Bool {
    let wanted = table.key.map { table.target.columns[$0] }
    let schema = table.target.schema
    let isKey = schema.key == wanted && !schema.flags.contains(.wholeRow)
    // The collation of the index is known only for the key.
    return isKey || (schema.engine == .postgres && schema.uniques.contains(wanted))
  }

  private static func isAlike(
    _ table: ComparedTable, _ place: Int, _ source: CompareDatabase, _ target: CompareDatabase
  ) -> Bool {
    let (one, other) = (table.source.column(place), table.target.column(place))
    let type = table.columns[place].type
    // In another encoding, text sorts by other bytes.
    let isUTF8 = source.isUTF8 && target.isUTF8
    switch (source.engine, target.engine) {
    case (.sqlite, .sqlite):
      return isUTF8 && one.affinity == other.affinity && isBuiltIn(one.collation)
        && one.collation.asciiUppercased == other.collation.asciiUppercased
    case (.postgres, .postgres):
      guard one.declaredType == other.declaredType, one.baseType == other.baseType, !type.isDomain else { return false }
      switch type.kind {
      case .bool, .int2, .int4, .int8, .oid, .numeric, .float4, .float8, .bytea, .uuid, .date, .time, .timestamp,
        .timestamptz:
        return true
      case .text, .varchar: return isUTF8 && sortsByBytes(table.source, place) && sortsByBytes(table.target, place)
      default: return false
      }
    case (.postgres, .sqlite):
      guard isBinary(other), !type.isDomain else { return false }
      switch type.kind {
      case .bool, .int2, .int4, .int8, .oid: return ["INTEGER", "NUMERIC"].contains(other.affinity)
      case .uuid: return other.affinity == "TEXT"
      case .bytea: return other.affinity == "BLOB"
      case .text, .varchar: return isUTF8 && other.affinity == "TEXT" && sortsByBytes(table.source, place)
      default: return false
      }
    case (.sqlite, .postgres):
      guard isBinary(one) else { return false }
      switch type.kind {
      case .int2, .int4, .int8, .oid, .numeric: return one.affinity == "INTEGER" || one.affinity == "NUMERIC"
      case .bytea: return one.affinity == "BLOB"
      case .text, .varchar: return isUTF8 && one.affinity == "TEXT" && sortsByBytes(table.target, place)
      default: return false
      }
    }
  }

  private static func sortsByBytes(_ end: TableEnd, _ place: Int) -> Bool {
    let collation = end.column(place).collation
    if collation.isEmpty { return end.sortsByBytes }
    return ["C", "POSIX", "ucs_basic"].contains {
      collation == "pg_catalog.\"\($0)\"" || collation == "pg_catalog.\($0)"
    }
  }

  private static func isBinary(_ column: TableSchema.Column) -> Bool {
    ["", "BINARY"].contains(column.collation.asciiUppercased)
  }

  private static func isBuiltIn(_ collation: String) -> Bool {
    ["", "BINARY", "NOCASE", "RTRIM"].contains(collation.asciiUppercased)
  }
}
