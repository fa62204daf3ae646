import Changes
import Mapping

/// The storage class of an expression's values, if it is certain. NULL is always possible.
enum Storage: Equatable, Sendable {
  case integer, real, text, blob
  /// An integer or a real, depending on the value alone.
  case number
}

/// A column that expressions can name at one place of a statement.
struct NamedColumn: Equatable, Sendable {
  /// The name of the column in lower case.
  @ByBytes var name: String
  var storage: Storage?
  var isBinary = true
  /// The SQL for the column at the target.
  var sql = ""
  var value: PostgresValue?
}

/// A table, or a query used as a table, whose columns can be named.
struct NamedSource: Equatable, Sendable {
  /// The name or alias of the source in lower case.
  @ByBytes var name: String
  var columns: [NamedColumn]
  /// The keys in which no two rows are equal and no value is NULL, as indexes of their columns.
  var keys: [[Int]] = []
  /// The name of the table; nil for a query.
  @ByBytes var table: String? = nil
}

/// The names that are visible at one place of a statement.
struct Names {
  /// The sources of each enclosing query; those of the innermost query are last.
  var levels: [[NamedSource]] = []
  /// The tables that WITH defines, by their names in lower case.
  var common: [NameKey: NamedSource] = [:]
  /// Whether a column name that several tables in the innermost query's FROM have means the column of the first one.
  var prefersFirst = false

  private static let rowids: Set<NameKey> = ["rowid", "_rowid_", "oid"]

  /// Resolves a column's name to its level, its source on that level, and its index.
  func find(_ table: String?, _ name: String) throws(Unreplayable) -> (level: Int, source: Int, column: Int) {
    let (wanted, table) = (name.asciiLowercased, table?.asciiLowercased)
    for level in levels.indices.reversed() {
      var found: (Int, Int, Int)?
      for (index, source) in levels[level].enumerated() where table == nil || source.name.nameKey == table?.nameKey {
        guard let column = source.columns.firstIndex(where: { $0.name.hasSameBytes(as: wanted) }) else { continue }
        if found != nil, prefersFirst { continue }
        if found != nil { throw Unreplayable("column \(name) may be of several tables") }
        found = (level, index, column)
      }
      if let found { return found }
    }
    if Self.rowids.contains(wanted) { throw Unreplayable("it uses the rowid, which may be another at the target") }
    throw Unreplayable("\(name) is no column that is replicated")
  }

  func column(_ table: String?, _ name: String) throws(Unreplayable) -> NamedColumn {
    let found = try find(table, name)
    return levels[found.level][found.source].columns[found.column]
  }
}
