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
  @ByBytes var sql: String = ""
  var value: PostgresValue?
}

/// A table whose columns expressions may name.
struct NamedSource: Equatable, Sendable {
  @ByBytes var name: String
  var columns: [NamedColumn]
}

/// The names that the expressions of a statement may use.
struct Names {
  /// The written table, and `excluded` in ON CONFLICT DO UPDATE. Empty in VALUES.
  var sources: [NamedSource] = []

  private static let rowids: Set<NameKey> = ["rowid", "_rowid_", "oid"]

  /// Returns the index of the table, and the index of the column in that table. A name without a table means the first
  /// table that has the column.
  ///
  /// Throws if no column has the name.
  func find(_ table: String?, _ name: String) throws(Unreplayable) -> (source: Int, column: Int) {
    let (wanted, table) = (name.asciiLowercased, table?.asciiLowercased)
    for (index, source) in sources.enumerated() where table == nil || source.name.nameKey == table?.nameKey {
      if let column = source.columns.firstIndex(where: { $0.name.hasSameBytes(as: wanted) }) { return (index, column) }
    }
    if Self.rowids.contains(wanted.nameKey) {
      throw Unreplayable("it uses the rowid, which may be another at the target")
    }
    throw Unreplayable("\(name) is no column that is replicated")
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
    self.init(name: (alias ?? known.schema.name).asciiLowercased, columns: columns)
  }
}
