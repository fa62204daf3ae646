import Changes
import Mapping

/// A table that a statement may read or write, at the source and at the target.
///
///     let table = StatementTable(schema)   // the same table at both ends
package struct StatementTable: Sendable {
  /// The table at a PostgreSQL target, with the columns in the source's order.
  package struct PostgresSide: Sendable {
    package var name: String
    /// The name as SQL uses it to exclude the rows of inheriting tables, such as `ONLY t`.
    package var rowsName: String
    package var columns: [(name: String, type: PostgresType)]
    package init(name: String, rowsName: String, columns: [(name: String, type: PostgresType)]) {
      (self.name, self.rowsName, self.columns) = (name, rowsName, columns)
    }
  }

  package let schema: TableSchema
  package let postgres: PostgresSide?
  /// Whether triggers at the target refuse writes of applications to the table (`local_writes = "refuse"`).
  package let isGuarded: Bool
  /// The columns' indexes by their names in lower case.
  private let indexes: [NameKey: Int]

  package init(_ schema: TableSchema, isGuarded: Bool, postgres: PostgresSide? = nil) {
    (self.schema, self.isGuarded, self.postgres) = (schema, isGuarded, postgres)
    indexes = Dictionary(
      schema.columns.enumerated().map { ($1.name.asciiLowercased.nameKey, $0) }, uniquingKeysWith: { first, _ in first }
    )
  }

  /// The column indexes of the table's only unique key. Nil without a key, for a key that may contain NULL, or if
  /// another unique key or index exists.
  var onlyKey: [Int]? {
    let key = Set(schema.key)
    guard !schema.flags.contains(.wholeRow), !schema.flags.contains(.nullableKey),
      schema.uniques.allSatisfy({ Set($0) == key }), !mayHaveUniqueIndex
    else { return nil }
    return schema.key
  }

  /// Whether an index may be unique. Indexes whose texts are long together are not read.
  private var mayHaveUniqueIndex: Bool {
    StatementBounds.areLong(schema.objects.map(\.text))
      || schema.objects.contains { object in
        SQLText.tokens(Array(object.text.utf8)).contains { $0.word == "UNIQUE" }
      }
  }

  /// The column that SQLite fills with a generated number; nil if there is none.
  var drawnColumn: Int? {
    guard schema.key.count == 1, let column = schema.key.first, !schema.flags.contains(.withoutRowid),
      !schema.flags.contains(.wholeRow), schema.columns[column].declaredType.asciiUppercased == "INTEGER"
    else { return nil }
    return column
  }

  func index(of name: String) -> Int? { indexes[name.asciiLowercased.nameKey] }
}

extension TableSchema.Column {
  var isBinary: Bool { ["", "BINARY"].contains(collation.asciiUppercased) }
}

/// The decision whether apply executes a statement at the target, instead of writing the rows that it changed.
package enum Replayable: Sendable {
  case yes(ReplayPlan)
  /// The target cannot execute the statement, for this reason.
  case no(reason: String)
}

/// A statement for the target, which returns all columns of the rows that it writes or deletes, in the source's order.
package struct ReplayPlan: Equatable, Sendable {
  @ByBytes package var sql: String
  /// The RETURNING clause to append to the statement in SQLite.
  @ByBytes package var returning: String = ""
  /// The values to bind to the statement's parameters. For PostgreSQL, all are texts.
  package var parameters: [Value]
  @ByBytes package var table: String
  /// Whether the statement deletes the rows that it returns.
  package var deletes: Bool
}
