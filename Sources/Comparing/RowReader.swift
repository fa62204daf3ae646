import Changes
import CodecKit
import Mapping

/// Reads rows of one end, each as hashes of its canonical form. For one thread.
protocol RowReader: AnyObject {
  var engine: Engine { get }

  /// Calls `body` with each row of a slice. With `naming`, rows come with the hash of their key, and ``RowMark/key`` can
  /// be asked for inside of `body`. Without it one call may be for several rows: with the sum of their hashes.
  func scan(_ table: ComparedTable, _ slice: Slice, naming: Bool, _ body: (borrowing RowMark) throws -> Void) throws
    -> SliceEnd

  /// The parts in which a whole table is read, whatever its order; each is one ``scan(_:_:naming:_:)``.
  func parts(of table: ComparedTable) throws -> PartSequence

  /// The row that ``scan(_:_:naming:_:)`` has called `body` with, inside of that call.
  func currentRow(_ table: ComparedTable) -> [Value]

  /// How many keys ``rows(_:keys:_:)`` looks for at a time, so that it takes a moment.
  var keysAtOnce: Int { get }

  /// Calls `body` with the rows of these keys, in this end's own values, as far as they are there; SQLite says by which
  /// of the keys a row was found.
  func rows(_ table: ComparedTable, keys: [[Value]], _ body: (_ index: Int?, [Value]) throws -> Void) throws

  /// Counts the rows that are told apart by all their values: all of a table without a key, else those with NULL in it.
  func count(_ table: ComparedTable, into counts: RowCounts) throws
}

extension RowReader {
  func count(_ table: ComparedTable, into counts: RowCounts) throws {
    _ = try scan(table, table.key.isEmpty ? .all : .nullKeys, naming: true) { mark in
      if mark.key.isEmpty { counts.add(mark.keyHash) { currentRow(table) } }
    }
  }
}

/// Some rows of a table.
enum Slice {
  /// Behind `after`, up to and with `through`, in this end's own values; nil: open. With a limit the rows come in order.
  case range(after: [Value]?, through: [Value]?, limit: Int?)
  /// Those with NULL in their key.
  case nullKeys
  /// What an engine reads best: rows behind a rowid or key.
  case behind([Value]?, limit: Int)
  /// Of PostgreSQL: pages of a table.
  case pages(table: String, from: UInt32, below: UInt32?)
  case all
}

struct SliceEnd {
  var rows = 0
  var bytes = 0
  /// Key (or rowid) of the last row, where the limit was reached.
  var last: [Value]?
  var milliseconds: Int64 = 0
}

/// How a whole table is read in parts.
enum PartSequence {
  /// Each from where the one before ended.
  case behind
  case slices([Slice])
  /// Runs of pages, so long that each takes a moment only.
  case pages([(table: String, pages: UInt32)])
}

/// One row that is being read.
struct RowMark: ~Copyable {
  /// Of the key; of the whole row where there is no key, or it holds NULL. 0 where it was not asked for.
  let keyHash: UInt64
  let rowHash: UInt64
  let bytes: Int
  /// The key in this end's own values, encoded; of a row without a usable key nothing.
  let key: UnsafeRawBufferPointer
}

/// Brings rows into their canonical form and hashes them.
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

  /// Of bytes that are their own canonical form.
  func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 { XXHash64.of(bytes, seed: seed) }

  /// Hashes a key; nil where it holds NULL. `value` gives the value of a place.
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

  /// Of a row of values of this end; nil where the key holds NULL.
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

  /// Of all values of a row of this end.
  mutating func rowHash(of row: [Value]) -> UInt64 {
    begin()
    for (place, value) in row.enumerated() {
      value.withView { view in table.columns[place].append(view, of: side, to: &form, scratch: &scratch) }
    }
    return hash
  }

  /// The key that was hashed last, in its end's own values.
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
