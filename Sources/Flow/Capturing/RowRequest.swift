import Changes

/// A request to a source to send rows of one table again, by their keys. If a row no longer exists, its delete is sent.
/// A request is written into the source. Capture answers it at its place in the order of changes, at least once.
///
///     RowRequest(table: "orders", keys: [[.integer(7)], [.integer(8)]])   // two rows
package struct RowRequest: Equatable, Sendable {
  /// The highest number of keys in one transaction. A request with more keys takes several transactions.
  static let keysMax = 1000

  /// The schema of the table in PostgreSQL; empty for SQLite.
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  /// The key values of each requested row, in key order; for PostgreSQL as text.
  package var keys: [[Value]]

  package init(namespace: String = "", table: String, keys: [[Value]]) {
    self.namespace = namespace
    self.table = table
    self.keys = keys
  }

  var portions: [ArraySlice<[Value]>] {
    stride(from: 0, to: keys.count, by: Self.keysMax).map { keys[$0..<min($0 + Self.keysMax, keys.count)] }
  }
}
