import Changes
import Mapping

/// What an expression has for a value, where that is sure: NULL besides.
enum Storage: Equatable, Sendable {
  case integer, real, text, blob
  /// Integer or real, and no two of them that are equal.
  case number
}

/// A column that can be named.
struct NamedColumn: Equatable, Sendable {
  /// In lower case.
  @ByBytes var name: String
  var storage: Storage?
  var isBinary = true
  /// At the target.
  var sql = ""
  var value: PostgresValue?
}

/// A table, or a query in the place of one, whose columns can be named.
struct NamedSource: Equatable, Sendable {
  /// In lower case.
  @ByBytes var name: String
  var columns: [NamedColumn]
  /// Keys that are whole, by indexes of columns.
  var keys: [[Int]] = []
  /// Which table it is; nil: a query.
  @ByBytes var table: String? = nil
}

/// The names that mean something at one place of a statement.
struct Names {
  /// The innermost query last.
  var levels: [[NamedSource]] = []
  /// Tables of WITH, by their names in lower case.
  var common: [NameKey: NamedSource] = [:]
  /// Of two columns of the innermost query with one name, that of the first source is meant.
  var prefersFirst = false

  private static let rowids: Set<NameKey> = ["rowid", "_rowid_", "oid"]

  /// What a column's name means: the level, the source on it, the column.
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
