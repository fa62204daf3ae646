import Changes

/// A foreign key that references a table of the target.
struct Reference: Equatable, Sendable {
  /// The schema (namespace) of the referencing table; empty in SQLite.
  var namespace = ""
  /// The referencing table. ``columns`` are its referencing columns.
  @ByBytes var child: String
  @ByBytes var columns: [String]
  /// The referenced table. ``references`` are its referenced columns.
  @ByBytes var parent: String
  @ByBytes var references: [String]
  /// PostgreSQL: whether a comparison of the columns runs a cast: their types differ, and one of them is user-defined.
  var convertsByCode = false
}
