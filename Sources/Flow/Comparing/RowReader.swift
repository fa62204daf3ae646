import Changes
import CodecKit
import Mapping

/// Reads rows of one database, and hashes each row in a form that is equal for SQLite and PostgreSQL
/// (``CanonicalColumn``). Only one thread may use a reader.
protocol RowReader: AnyObject {
  var engine: Engine { get }

  /// Calls `body` with each row of a slice.
  ///
  /// - Parameter naming: Whether `body` gets each row alone, and may read its key. If false, one call may have the
  ///   summed hashes of several rows.
  func scan(_ table: ComparedTable, _ slice: Slice, naming: Bool, _ body: (borrowing RowMark) throws -> Void) throws
    -> SliceEnd

  /// Returns the parts of a table that together have all its rows, for calls of ``scan(_:_:naming:_:)``.
  func parts(of table: ComparedTable) throws -> PartSequence

  /// Returns all values of the row that a scan is reading. Valid only while the scan calls its `body`.
  func currentRow(_ table: ComparedTable) -> [Value]

  /// The number of keys that ``rows(_:keys:_:)`` looks up in one statement.
  var keysAtOnce: Int { get }

  /// Calls `body` with each row that has one of these keys.
  ///
  /// - Parameter body: Gets the values as stored. For an SQLite file, also gets the index of the row's key in
  ///   `keys`; otherwise the index may be nil.
  func rows(_ table: ComparedTable, keys: [[Value]], _ body: (_ index: Int?, [Value]) throws -> Void) throws

  /// Counts in `counts` the rows that have NULL in their key, or all rows of a table without a key.
  func count(_ table: ComparedTable, into counts: RowCounts) throws
}

extension RowReader {
  func count(_ table: ComparedTable, into counts: RowCounts) throws {
    _ = try scan(table, table.key.isEmpty ? .all : .nullKeys, naming: true) { mark in
      if mark.key.isEmpty { counts.add(mark.keyHash) { currentRow(table) } }
    }
  }
}

/// A selection of rows of a table.
enum Slice {
  /// The rows after key `after`, up to and including key `through`; nil means no bound. With a limit, rows come in the
  /// order of the key.
  case range(after: [Value]?, through: [Value]?, limit: Int?)
  /// The rows with NULL in their key.
  case nullKeys
  /// At most `limit` rows of an SQLite table, in the order of the rowid. A table without a rowid is read in key order.
  ///
  /// The first value is the rowid or key after which the rows begin; nil for the first row of the table.
  case behind([Value]?, limit: Int)
  /// The rows in the pages of a PostgreSQL table from `from` on, up to but without page `below`; nil means to the end.
  case pages(table: String, from: UInt32, below: UInt32?)
  case all

  /// The key or rowid after which the rows begin; nil if the slice has no such bound.
  var after: [Value]? {
    switch self {
    case .range(let after, _, _), .behind(let after, _): after
    case .nullKeys, .pages, .all: nil
    }
  }
}

struct SliceEnd {
  var rows = 0
  var bytes = 0
  /// The key or rowid of the last row, if the read ended at its limit; nil at the end of the slice.
  var last: [Value]?
  var milliseconds: Int64 = 0
}

/// The parts in which a whole table is read.
enum PartSequence {
  /// Consecutive parts: each one starts after the last row of the previous one.
  case behind
  case slices([Slice])
  /// Each of these PostgreSQL tables, with its number of pages. A part is a group of pages.
  case pages([(table: String, pages: UInt32)])
}

/// The hashes, size and key of a row that is being read.
struct RowMark: ~Copyable {
  /// The hash of the key, or of the whole row if the row has no key or NULL in its key. 0 if no hash was requested.
  let keyHash: UInt64
  let rowHash: UInt64
  let bytes: Int
  /// The encoded key, as its database stores it. Empty if the row has no key or NULL in its key.
  let key: UnsafeRawBufferPointer
}

/// Converts rows into a form that is equal for SQLite and PostgreSQL (``CanonicalColumn``), and hashes them.
struct RowHasher: ~Copyable {
  let table: ComparedTable
  let side: CanonicalColumn.Side
  let seed: UInt64
  private var form = ByteWriter()
  private var keyForm = ByteWriter(capacity: 256)
  private var native = ByteWriter(capacity: 256)
  private var scratch = ByteWriter()

  init(_ table: ComparedTable, _ side: CanonicalColumn.Side, seed: UInt64) {
    self.table = table
    self.side = side
    self.seed = seed
  }

  mutating func begin() {
    form.removeAll()
  }

  @inline(__always)
  mutating func append(_ place: Int, _ value: ColumnView) {
    table.columns[place].append(value, of: side, to: &form, scratch: &scratch)
  }

  var hash: UInt64 { XXHash64.of(form.bytes, seed: seed) }
  var bytes: Int { form.count }

  func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 { XXHash64.of(bytes, seed: seed) }

  /// Returns the hash of a key; nil if it contains NULL.
  ///
  /// - Parameter value: Returns the value of the compared column with this index.
  mutating func keyHash(_ value: (Int) -> ColumnView) -> UInt64? {
    keyForm.removeAll()
    native.removeAll()
    for place in table.key {
      let view = value(place)
      if case .null = view { return nil }
      table.columns[place].append(view, of: side, to: &keyForm, scratch: &scratch)
      native.append(view)
    }
    return XXHash64.of(keyForm.bytes, seed: seed)
  }

  mutating func keyHash(of row: [Value]) -> UInt64? {
    var image = ByteWriter(capacity: 256)
    var starts: [Int: Int] = [:]
    for place in table.key {
      if row[place] == .null { return nil }
      starts[place] = image.count
      image.append(row[place])
    }
    let bytes = image.bytes
    return keyHash { place in
      guard let start = starts[place] else { return .null }
      var reader = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[start...]))
      return (try? reader.readColumn()) ?? .null
    }
  }

  mutating func rowHash(of row: [Value]) -> UInt64 {
    begin()
    for (place, value) in row.enumerated() {
      value.withView { view in table.columns[place].append(view, of: side, to: &form, scratch: &scratch) }
    }
    return hash
  }

  /// The last hashed key, as its database stores it.
  var key: UnsafeRawBufferPointer { native.bytes }
}

extension ByteWriter {
  mutating func append(_ view: ColumnView) {
    switch view {
    case .unchanged: appendUnchanged()
    case .null: appendNull()
    case .integer(let number): appendInteger(number)
    case .real(let number): appendReal(number)
    case .text(let bytes): appendText(bytes)
    case .blob(let bytes): appendBlob(bytes)
    case .exact(let bytes): appendExact(bytes)
    }
  }
}
