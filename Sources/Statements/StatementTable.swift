import Changes
import Mapping

/// A table that a statement may read or write: at the source, and what it is at the target.
package struct StatementTable: Sendable {
  /// Of the target, where that is PostgreSQL: columns in the order of the source's.
  package struct PostgresSide: Sendable {
    package var name: String
    /// Without tables that inherit from it.
    package var rowsName: String
    package var columns: [(name: String, type: PostgresType)]
    package init(name: String, rowsName: String, columns: [(name: String, type: PostgresType)]) {
      (self.name, self.rowsName, self.columns) = (name, rowsName, columns)
    }
  }

  package let schema: TableSchema
  package let postgres: PostgresSide?

  package init(_ schema: TableSchema, postgres: PostgresSide? = nil) {
    (self.schema, self.postgres) = (schema, postgres)
  }

  /// Keys of which no two rows have the same values, and none has NULL: by the indexes of their columns.
  var wholeKeys: [[Int]] {
    let key = schema.flags.contains(.wholeRow) || schema.flags.contains(.nullableKey) ? [] : [schema.key]
    return (key + schema.uniques.filter { $0.allSatisfy { schema.columns[$0].isNotNull } })
      .filter { $0.allSatisfy { schema.columns[$0].isBinary } }
  }

  /// The one unique key that the table has; nil where there are several, or some over expressions or parts of rows.
  var onlyKey: [Int]? {
    let isUnique = schema.objects.contains { object in
      SQLText.tokens(Array(object.text.utf8)).contains { $0.word == "UNIQUE" }
    }
    guard !schema.flags.contains(.wholeRow), !schema.flags.contains(.nullableKey), !isUnique,
      schema.uniques.allSatisfy({ Set($0) == Set(schema.key) })
    else { return nil }
    return schema.key
  }

  /// The column that SQLite fills with a number of its own where a row gives it none.
  var drawnColumn: Int? {
    guard schema.key.count == 1, let column = schema.key.first, !schema.flags.contains(.withoutRowid),
      !schema.flags.contains(.wholeRow), schema.columns[column].declaredType.asciiUppercased == "INTEGER"
    else { return nil }
    return column
  }

  func index(of name: String) -> Int? {
    let name = name.asciiLowercased
    return schema.columns.firstIndex { $0.name.asciiLowercased == name }
  }
}

extension TableSchema.Column {
  /// Texts are compared by their bytes.
  var isBinary: Bool { ["", "BINARY"].contains(collation.asciiUppercased) }
}

/// Whether a statement can be executed once more at a target, in place of the rows that it wrote.
package enum Replayable: Sendable {
  case yes(ReplayPlan)
  /// A short sentence for people.
  case no(reason: String)
}

/// A statement as the target is to execute it. It returns the rows that it writes, or that are gone, with all columns of
/// the table in the source's order.
package struct ReplayPlan: Equatable, Sendable {
  @ByBytes package var sql: String
  /// For SQLite, a clause behind it that returns the rows; elsewhere they are what it is about.
  package var returning = ""
  package var parameters: [Value]
  /// The table that it writes, as the source calls it.
  @ByBytes package var table: String
  /// The rows that it returns are gone.
  package var deletes: Bool
  /// Rows that others replace go without being returned.
  package var replaces: Bool
}
