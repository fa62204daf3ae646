import Changes

/// A request to a source to send rows of one table again, by their keys. If a row no longer exists, its delete is sent.
///
/// A request is written into the source itself, in a transaction of its own, so any process that can write there can
/// make one. Capture answers a request at the request's place in the order of changes, at least once; a second answer
/// does no harm. Rows of a table that is being copied, or is to be copied, are not sent: the copy brings them.
package struct RowRequest: Equatable, Sendable {
  /// The most keys that one transaction with a request contains.
  static let keysMax = 1000

  /// The schema (namespace) of the table in PostgreSQL; empty for SQLite.
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  /// The keys of the requested rows: for each row, the values of its key columns in key order; for PostgreSQL as text.
  package var keys: [[Value]]

  package init(namespace: String = "", table: String, keys: [[Value]]) {
    self.namespace = namespace
    self.table = table
    self.keys = keys
  }

  /// The requested keys in parts of at most ``keysMax``.
  var portions: [ArraySlice<[Value]>] {
    stride(from: 0, to: keys.count, by: Self.keysMax).map { keys[$0..<min($0 + Self.keysMax, keys.count)] }
  }
}
