/// The order, by one key column, in which a refresh reads rows: the same in SQLite and PostgreSQL, whatever the
/// column's collation.
///
///     ChunkOrder(.init(name: "name", declaredType: "TEXT"))
package enum ChunkOrder: Equatable, Sendable {
  /// The order in which PostgreSQL sorts the column's type.
  case native
  /// The order of a text's bytes (`COLLATE "C"`).
  case text
  case printed

  /// Chooses the order for a column. Integers, floats, booleans, UUIDs and bytea get the native order; all other types
  /// are ordered by bytes.
  package init(_ column: TableSchema.Column) {
    let type = column.baseType.isEmpty ? column.declaredType : column.baseType
    let word = type.prefix { $0 != "(" && $0 != "[" }
    switch word {
    case _ where type.hasSuffix("]"): self = .printed
    case "smallint", "integer", "bigint", "oid", "boolean", "uuid", "bytea", "real", "double precision": self = .native
    case "text", "character varying": self = .text
    default: self = .printed
    }
  }

  /// Returns the PostgreSQL expression that sorts and compares in this order. `name` is the column, or a parameter of
  /// its type.
  package func postgresTerm(_ name: String) -> String {
    switch self {
    case .native: name
    case .text: "\(name) COLLATE \"C\""
    case .printed: "concat(\(name)) COLLATE \"C\""
    }
  }
}
