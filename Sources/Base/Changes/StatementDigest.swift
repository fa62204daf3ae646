/// A digest of the rows that a statement wrote and deleted, independent of their order (`docs/trail-format.md`,
/// statement end). It has the numbers of these rows, and the sum of their hashes.
///
/// An apply that executes the statement again computes the same digest from the rows of its RETURNING clause.
package struct StatementDigest: Equatable, Sendable {
  /// The number of rows that the statement inserted or updated, including rows that an update left unchanged.
  package private(set) var written: UInt64 = 0
  /// The number of rows that the statement deleted.
  package private(set) var gone: UInt64 = 0
  /// The lower half of the sum of all rows' hashes, modulo 2^128.
  package private(set) var low: UInt64 = 0
  package private(set) var high: UInt64 = 0

  package init() {}

  init(written: UInt64, gone: UInt64, low: UInt64, high: UInt64) {
    (self.written, self.gone, self.low, self.high) = (written, gone, low, high)
  }

  /// The seed with which the rows of one table are hashed.
  package struct Table: Sendable {
    fileprivate let seed: UInt64
    /// Creates the seed of a table. `name` is the table's name in its last schema record before the statement.
    package init(name: String) {
      var name = name
      seed = name.withUTF8 { XXHash64.of(UnsafeRawBufferPointer($0)) }
    }
  }

  /// Adds a row as it is after an insert or update. `image` has the values of all columns in the source's form, encoded
  /// as in images.
  package mutating func addWritten(_ image: UnsafeRawBufferPointer, of table: Table) {
    written &+= 1
    add(image, seed: table.seed &+ 1)
  }

  /// Adds a deleted row, with its values before the delete.
  package mutating func addGone(_ image: UnsafeRawBufferPointer, of table: Table) {
    gone &+= 1
    add(image, seed: table.seed &+ 2)
  }

  private mutating func add(_ image: UnsafeRawBufferPointer, seed: UInt64) {
    let sum = low.addingReportingOverflow(XXHash64.of(image, seed: seed))
    low = sum.partialValue
    high = high &+ XXHash64.of(image, seed: ~seed) &+ (sum.overflow ? 1 : 0)
  }

  /// The sum of the rows' hashes, 16 bytes, in hexadecimal.
  package var hex: String { high.hex(16) + low.hex(16) }
}
