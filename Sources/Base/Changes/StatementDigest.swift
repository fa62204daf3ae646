/// A digest of the rows that a statement wrote and deleted: their number, and the sum of their hashes, whatever their
/// order.
///
///     var digest = StatementDigest()
///     digest.addWritten(image, of: .init(name: "item"))
///     digest.written   // 1
package struct StatementDigest: Equatable, Sendable {
  /// The number of rows that the statement inserted or updated, including those whose values stayed the same.
  package private(set) var written: UInt64 = 0
  package private(set) var gone: UInt64 = 0
  package private(set) var low: UInt64 = 0
  package private(set) var high: UInt64 = 0

  package init() {}

  init(written: UInt64, gone: UInt64, low: UInt64, high: UInt64) {
    (self.written, self.gone, self.low, self.high) = (written, gone, low, high)
  }

  /// The seed with which the rows of one table are hashed.
  ///
  ///     let table = StatementDigest.Table(name: "item")
  package struct Table: Sendable {
    fileprivate let seed: UInt64
    /// Computes the seed from the name that the table had before the statement.
    package init(name: String) {
      var name = name
      seed = name.withUTF8 { XXHash64.of(UnsafeRawBufferPointer($0)) }
    }
  }

  /// Adds a row that the statement inserted or updated. `image` has the new values of all its columns.
  package mutating func addWritten(_ image: UnsafeRawBufferPointer, of table: Table) {
    written &+= 1
    add(image, seed: table.seed &+ 1)
  }

  /// Adds a row that the statement deleted. `image` has the row's values before the delete.
  package mutating func addGone(_ image: UnsafeRawBufferPointer, of table: Table) {
    gone &+= 1
    add(image, seed: table.seed &+ 2)
  }

  private mutating func add(_ image: UnsafeRawBufferPointer, seed: UInt64) {
    let sum = low.addingReportingOverflow(XXHash64.of(image, seed: seed))
    low = sum.partialValue
    high = high &+ XXHash64.of(image, seed: ~seed) &+ (sum.overflow ? 1 : 0)
  }

  package var hex: String { high.hex(16) + low.hex(16) }
}
