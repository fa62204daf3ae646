/// What a statement made of the rows of tables, whatever the order: how many rows it wrote and removed, and the sum of
/// their hashes (`docs/trail-format.md`, statement end).
///
/// Who executes the statement once more computes the same from the rows that its RETURNING clause gives.
package struct StatementDigest: Equatable, Sendable {
  /// Rows inserted or updated, also those that an update left as they were.
  package private(set) var written: UInt64 = 0
  /// Rows deleted.
  package private(set) var gone: UInt64 = 0
  /// The sum of all hashes, modulo 2^128.
  package private(set) var low: UInt64 = 0
  package private(set) var high: UInt64 = 0

  package init() {}

  init(written: UInt64, gone: UInt64, low: UInt64, high: UInt64) {
    (self.written, self.gone, self.low, self.high) = (written, gone, low, high)
  }

  /// What a row of one table is hashed with.
  package struct Table: Sendable {
    fileprivate let seed: UInt64
    /// `name` as in the schema record that is in force.
    package init(name: String) {
      var name = name
      seed = name.withUTF8 { XXHash64.of(UnsafeRawBufferPointer($0)) }
    }
  }

  /// A row as it is after it was inserted or updated: the values of all columns in the source's form, one behind the other
  /// as images have them.
  package mutating func addWritten(_ image: UnsafeRawBufferPointer, of table: Table) {
    written &+= 1
    add(image, seed: table.seed &+ 1)
  }

  /// A row as it was before it was deleted.
  package mutating func addGone(_ image: UnsafeRawBufferPointer, of table: Table) {
    gone &+= 1
    add(image, seed: table.seed &+ 2)
  }

  private mutating func add(_ image: UnsafeRawBufferPointer, seed: UInt64) {
    let sum = low.addingReportingOverflow(XXHash64.of(image, seed: seed))
    low = sum.partialValue
    high = high &+ XXHash64.of(image, seed: ~seed) &+ (sum.overflow ? 1 : 0)
  }

  /// The 16 bytes of the sum.
  package var hex: String { high.hex(16) + low.hex(16) }
}
