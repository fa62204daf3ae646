import Changes

/// Rows of one table that a source is asked to send again, by their keys: as they are now, or that they are gone.
///
/// A request goes into the source itself, in a transaction of its own, so any process that can write there may ask; the
/// capture carries it out at its place in the order, once at least. Carrying it out twice does no harm. Rows of a table
/// that is being copied, or waits for that, are not sent: the copy brings them.
package struct RowRequest: Equatable, Sendable {
  /// Keys that are asked for in one transaction.
  static let keysMax = 1000

  /// Schema of the table; empty for SQLite.
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  /// For each row the values of the key columns, in key order, as the source has them; from PostgreSQL as text.
  package var keys: [[Value]]

  package init(namespace: String = "", table: String, keys: [[Value]]) {
    self.namespace = namespace
    self.table = table
    self.keys = keys
  }

  /// The keys in portions of at most ``keysMax``.
  var portions: [ArraySlice<[Value]>] {
    stride(from: 0, to: keys.count, by: Self.keysMax).map { keys[$0..<min($0 + Self.keysMax, keys.count)] }
  }
}
