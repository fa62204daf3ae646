/// By what the chunks of a refresh are ordered in one key column: an order that both engines and all collations share.
package enum ChunkOrder: Equatable, Sendable {
  /// The type's own.
  case native
  /// Of the bytes of a text (`COLLATE "C"`).
  case text
  /// Of the bytes of what the type's output function prints.
  case printed

  /// For a column of a PostgreSQL schema. Numbers, booleans, UUIDs and bytea sort alike in SQLite, which keeps other
  /// types as text.
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

  /// The term to sort and compare by, in PostgreSQL. `name` is the column, or a parameter of its type.
  package func postgresTerm(_ name: String) -> String {
    switch self {
    case .native: name
    case .text: "\(name) COLLATE \"C\""
    case .printed: "concat(\(name)) COLLATE \"C\""
    }
  }
}
