import Changes
import Conflicts
import Versions

/// An element of a ``SpilledList``, which can be written to a temporary file and read back.
protocol Spillable {
  var byteCount: Int { get }
  init(from reader: inout ByteReader) throws
  func append(to writer: inout ByteWriter)
}

/// A list that is moved to a temporary file when its elements exceed a memory limit.
///
///     var list = SpilledList<SettledPut>(bytesMax: 16 << 20)
///     try list.append(put)
///     try list.forEach { put in … }
struct SpilledList<Element: Spillable> {
  private let bytesMax: Int
  private var elements: [Element] = []
  private var byteCount = 0
  private var file: SpillFile?
  private var writer = SpillWriter()

  init(bytesMax: Int) { self.bytesMax = bytesMax }

  var count: Int { file?.count ?? elements.count }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element) throws {
    if let file { return try writer.write(element.append) { try file.append(hash: 0, $0) } }
    elements.append(element)
    byteCount += element.byteCount
    guard byteCount > bytesMax else { return }
    let file = try SpillFile()
    for element in elements { try writer.write(element.append) { try file.append(hash: 0, $0) } }
    self.file = file
    (elements, byteCount) = ([], 0)
  }

  /// Passes all elements to `body` in their order. `body` must not append to this list.
  func forEach(_ body: (Element) throws -> Void) throws {
    guard let file else { return try elements.forEach(body) }
    for number in 0..<file.count { try body(file.read(number) { try Element(from: &$0) }) }
  }
}

final class SpillWriter {
  private var bytes = ByteWriter(capacity: 4096)

  func write(_ encode: (inout ByteWriter) -> Void, _ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
    bytes.removeAll()
    encode(&bytes)
    try body(bytes.bytes)
    bytes.removeAll()
    bytes.shrink(above: 1 << 20)
  }
}

/// A resolved row that apply writes after it has deleted all rows that the same transaction deletes.
struct SettledPut: Spillable, Equatable {
  /// The index of the row among the rows that the transaction resolves at its end.
  var index: Int
  var key: [Value]
  var put: [Value?]?
  var outcome: [Value?]
  /// The stamp of the last write to the row; nil if all known versions of the row are deletes.
  var stamp: VersionStamp?

  init(index: Int, key: [Value], put: [Value?]?, outcome: [Value?], stamp: VersionStamp?) {
    (self.index, self.key, self.put, self.outcome, self.stamp) = (index, key, put, outcome, stamp)
  }

  var byteCount: Int { 200 + key.byteCount + (put?.byteCount ?? 0) + outcome.byteCount }

  init(from reader: inout ByteReader) throws {
    index = Int(try reader.readVarint())
    key = try reader.readImage().values().compactMap(\.self)
    put = try reader.readByte() == 1 ? reader.readImage().values() : nil
    outcome = try reader.readImage().values()
    guard try reader.readByte() == 1 else { return }
    stamp = VersionStamp(
      clock: try reader.readVarint(), origin: try reader.readString(), number: try reader.readVarint())
  }

  func append(to writer: inout ByteWriter) {
    writer.appendVarint(UInt64(index))
    writer.appendImage(key)
    writer.append(UInt8(put == nil ? 0 : 1))
    if let put { writer.appendImage(put) }
    writer.appendImage(outcome)
    writer.append(UInt8(stamp == nil ? 0 : 1))
    guard let stamp else { return }
    writer.appendVarint(stamp.clock)
    writer.appendString(stamp.origin)
    writer.appendVarint(stamp.number)
  }
}

/// A row that apply has deleted and that other rows may reference, with its values from before the delete.
struct GoneRow: Spillable {
  /// The index of the row among the rows that the transaction resolves at its end.
  var index: Int
  var key: [Value]
  var there: [Value]

  init(index: Int, key: [Value], there: [Value]) { (self.index, self.key, self.there) = (index, key, there) }

  var byteCount: Int { 100 + key.byteCount + there.byteCount }

  init(from reader: inout ByteReader) throws {
    index = Int(try reader.readVarint())
    key = try reader.readImage().values().compactMap(\.self)
    there = try reader.readImage().values().compactMap(\.self)
  }

  func append(to writer: inout ByteWriter) {
    writer.appendVarint(UInt64(index))
    writer.appendImage(key)
    writer.appendImage(there)
  }
}

extension [Value] {
  fileprivate var byteCount: Int { reduce(32) { $0 + $1.memoryBytes } }
}

extension [Value?] {
  fileprivate var byteCount: Int { reduce(32) { $0 + ($1?.memoryBytes ?? 16) } }
}
