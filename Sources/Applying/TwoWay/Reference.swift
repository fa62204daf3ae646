/// A foreign key of another table of the target.
struct Reference: Equatable, Sendable {
  /// The table that refers, as the target names it, and its columns.
  var child: String
  var columns: [String]
  /// The table that is referred to, and the columns there.
  var parent: String
  var references: [String]
}
