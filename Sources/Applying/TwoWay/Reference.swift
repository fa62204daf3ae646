import Changes

/// A foreign key of another table of the target.
struct Reference: Equatable, Sendable {
  /// The schema of the table that refers; empty in SQLite.
  var namespace = ""
  /// The table that refers, and its columns.
  @ByBytes var child: String
  @ByBytes var columns: [String]
  /// The table that is referred to, and the columns there.
  @ByBytes var parent: String
  @ByBytes var references: [String]
  /// PostgreSQL: whether a column has another type than the one that it references, which is none of the server's own.
  var convertsByCode = false
}
