import Changes

/// A foreign key that references a table of the target.
struct Reference: Equatable, Sendable {
  @ByBytes var namespace: String = ""
  /// The referencing table.
  @ByBytes var child: String
  @ByBytes var columns: [String]
  /// The referenced table.
  @ByBytes var parent: String
  @ByBytes var references: [String]
  /// PostgreSQL: whether a comparison of the columns runs a cast, because one of their types is user-defined.
  var convertsByCode = false
  /// PostgreSQL: the owner of the referencing table if it is an untrusted role; else empty.
  @ByBytes var untrusted: String = ""
  /// PostgreSQL: whether this session holds a lock on the referencing table that keeps its code.
  var isLocked = false
  var isPartitioned = false
  /// The quoted name of the referencing table.
  var childName: String { "\(namespace.quotedName).\(child.quotedName)" }
}
