import Changes
import Mapping

/// The storage class of an expression's values. NULL is always possible.
enum Storage: Equatable, Sendable {
  case integer, real, text, blob
  /// An integer or a real, depending on the value.
  case number
}

/// A column that expressions may name at one place of a statement.
struct NamedColumn: Equatable, Sendable {
  @ByBytes var name: String
  var storage: Storage?
  var isBinary = true
  /// The number of expressions by which an engine may replace the column, if the column is from a subquery. 0 for a
  /// column of a table.
  var weight = 0
  @ByBytes var sql: String = ""
  var value: PostgresValue?
}

/// A table, or a query used as a table, whose columns expressions may name.
struct NamedSource: Equatable, Sendable {
  @ByBytes var name: String
  var columns: [NamedColumn]
  /// The keys, by column indexes, in which no two rows are equal and no value is NULL.
  var keys: [[Int]] = []
  @ByBytes var table: String? = nil
}

/// The names that are visible at one place of a statement.
struct Names {
  /// The tables of each enclosing query, with the innermost query last. A subquery in a FROM clause counts as a table.
  var levels: [[NamedSource]] = []
  /// The tables that WITH defines, by lower-case name.
  var common: [NameKey: NamedSource] = [:]
  /// Whether an ambiguous column name means the column of the query's first table.
  ///
  /// If false, such a name is refused. True in ON CONFLICT DO UPDATE, where the table comes before `excluded`.
  var prefersFirst = false

  private static let rowids: Set<NameKey> = ["rowid", "_rowid_", "oid"]

  /// Returns the index of the query level, the index of the table on that level, and the index of the column in that
  /// table. Throws if no or several columns have the name.
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

extension NamedSource {
  init(_ known: StatementTable, as alias: String?) {
    let columns = known.schema.columns.enumerated().map { index, column in
      let storage: Storage? =
        switch column.affinity {
        case "INTEGER": .integer
        case "TEXT": .text
        case "REAL": .real
        case "NUMERIC": .number
        default: nil
        }
      return NamedColumn(
        name: column.name.asciiLowercased, storage: storage, isBinary: column.isBinary,
        value: known.postgres.map { PostgresValue(column, $0.columns[index]) })
    }
    let name = known.schema.name.asciiLowercased
    self.init(name: alias?.asciiLowercased ?? name, columns: columns, keys: known.wholeKeys, table: name)
  }
}
