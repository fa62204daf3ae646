#if canImport(Glibc)
  import Glibc
#endif

/// A growing buffer of raw bytes into which records are encoded.
///
/// Integers are little endian; `varint` and `zigzag` are as in `docs/trail-format.md`. The buffer keeps its
/// memory when it is emptied, so reuse costs no allocation per row.
///
/// ```swift
/// var writer = ByteWriter(capacity: 64)
/// writer.append(1)
/// writer.count   // 1
/// ```
public struct ByteWriter: ~Copyable {
  @usableFromInline var base: UnsafeMutableRawPointer
  @usableFromInline var capacity: Int
  public private(set) var count: Int {
    @inlinable get { _count }
    set { _count = newValue }
  }
  @usableFromInline var _count = 0

  public init(capacity: Int = 4096) {
    base = .allocate(byteCount: capacity, alignment: 16)
    self.capacity = capacity
  }

  deinit { base.deallocate() }

  @inlinable public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: _count) }

  @inlinable public mutating func removeAll() { _count = 0 }

  /// Drops all bytes of the buffer after the first `count`.
  @inlinable public mutating func truncate(to count: Int) {
    precondition(count <= _count)
    _count = count
  }

  /// Reduces the memory of an empty buffer to at most `bytes` bytes. Does nothing if the buffer is not empty.
  public mutating func shrink(above bytes: Int) {
    guard capacity > bytes, _count == 0 else { return }
    base.deallocate()
    base = .allocate(byteCount: bytes, alignment: 16)
    capacity = bytes
  }

  @usableFromInline mutating func grow(to needed: Int) {
    let wanted = max(needed, capacity * 2)
    let bigger = UnsafeMutableRawPointer.allocate(byteCount: wanted, alignment: 16)
    bigger.copyMemory(from: base, byteCount: _count)
    base.deallocate()
    base = bigger
    capacity = wanted
  }

  /// Makes room for `more` bytes, so that appending them does not allocate again.
  @inlinable public mutating func reserve(_ more: Int) {
    if _count + more > capacity { grow(to: _count + more) }
  }

  @inlinable public mutating func append(_ byte: UInt8) {
    reserve(1)
    base.storeBytes(of: byte, toByteOffset: _count, as: UInt8.self)
    _count += 1
  }

  @inlinable public mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let start = bytes.baseAddress else { return }
    reserve(bytes.count)
    (base + _count).copyMemory(from: start, byteCount: bytes.count)
    _count += bytes.count
  }

  @inlinable public mutating func append(_ bytes: [UInt8]) { bytes.withUnsafeBytes { append($0) } }

  @inlinable public mutating func appendFixed<T: FixedWidthInteger>(_ value: T) {
    reserve(MemoryLayout<T>.size)
    base.storeBytes(of: value.littleEndian, toByteOffset: _count, as: T.self)
    _count += MemoryLayout<T>.size
  }

  @inlinable public mutating func appendVarint(_ value: UInt64) {
    reserve(10)
    var rest = value
    while rest >= 0x80 {
      base.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, toByteOffset: _count, as: UInt8.self)
      _count += 1
      rest >>= 7
    }
    base.storeBytes(of: UInt8(truncatingIfNeeded: rest), toByteOffset: _count, as: UInt8.self)
    _count += 1
  }

  @inlinable public mutating func appendZigzag(_ value: Int64) {
    appendVarint(UInt64(bitPattern: (value << 1) ^ (value >> 63)))
  }

  /// Appends the number of the bytes as a varint, then the bytes.
  @inlinable public mutating func appendCounted(_ bytes: UnsafeRawBufferPointer) {
    appendVarint(UInt64(bytes.count))
    append(bytes)
  }

  @inlinable public mutating func appendCounted(_ bytes: [UInt8]) { bytes.withUnsafeBytes { appendCounted($0) } }

  public mutating func appendString(_ text: String) {
    var text = text
    text.withUTF8 { appendCounted(UnsafeRawBufferPointer($0)) }
  }
}

/// The error thrown if bytes are not a valid encoding of the expected record or value.
///
/// ```swift
/// DecodingError(offset: 12, problem: "no commit").description   // "no commit at byte 12"
/// ```
public struct DecodingError: Error, CustomStringConvertible {
  /// The offset of the invalid byte, counted from the first byte that was being decoded.
  public let offset: Int
  public let problem: String
  public init(offset: Int, problem: String) {
    self.offset = offset
    self.problem = problem
  }
  public var description: String { "\(problem) at byte \(offset)" }
}

/// Reads the values that ``ByteWriter`` wrote. Throws ``DecodingError`` if a value would extend beyond the last byte.
/// The reader must not outlive its bytes.
///
/// ```swift
/// var reader = ByteReader(writer.bytes)
/// let number = try reader.readVarint()
/// ```
public struct ByteReader {
  @usableFromInline let bytes: UnsafeRawBufferPointer
  public private(set) var offset: Int {
    @inlinable get { _offset }
    set { _offset = newValue }
  }
  @usableFromInline var _offset = 0

  @inlinable public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  @inlinable public var isAtEnd: Bool { _offset >= bytes.count }
  @inlinable public var remaining: Int { bytes.count - _offset }

  @usableFromInline func short(_ needed: Int) -> DecodingError {
    DecodingError(offset: _offset, problem: "needed \(needed) bytes, found \(bytes.count - _offset)")
  }

  @inlinable public mutating func readByte() throws -> UInt8 {
    guard _offset < bytes.count else { throw short(1) }
    defer { _offset += 1 }
    return bytes[_offset]
  }

  @inlinable public mutating func readFixed<T: FixedWidthInteger>(_ type: T.Type = T.self) throws -> T {
    let size = MemoryLayout<T>.size
    guard bytes.count - _offset >= size else { throw short(size) }
    defer { _offset += size }
    return T(littleEndian: bytes.loadUnaligned(fromByteOffset: _offset, as: T.self))
  }

  @inlinable public mutating func readVarint() throws -> UInt64 {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while true {
      guard _offset < bytes.count else { throw short(1) }
      let byte = bytes[_offset]
      _offset += 1
      if shift == 63, byte > 1 { throw DecodingError(offset: _offset - 1, problem: "varint is longer than 64 bits") }
      value |= UInt64(byte & 0x7f) << shift
      if byte < 0x80 { return value }
      shift += 7
      if shift > 63 { throw DecodingError(offset: _offset - 1, problem: "varint is longer than 64 bits") }
    }
  }

  @inlinable public mutating func readZigzag() throws -> Int64 {
    let raw = try readVarint()
    return Int64(bitPattern: (raw >> 1) ^ (0 &- (raw & 1)))
  }

  /// Reads the number of items that follow, as a varint. Throws if fewer bytes than items follow.
  @inlinable public mutating func readCount() throws -> Int {
    let at = _offset
    let value = try readVarint()
    guard value <= UInt64(remaining) else {
      throw DecodingError(offset: at, problem: "count \(value) is more than the \(remaining) bytes that follow")
    }
    return Int(value)
  }

  /// Reads the number of items of a list. Throws if it exceeds `most` or the number of remaining bytes. `what` names
  /// the items in the message, such as `columns`.
  mutating func readCount(_ what: String, most: Int) throws -> Int {
    let at = _offset
    let count = try readCount()
    guard count <= most else { throw DecodingError(offset: at, problem: "\(count) \(what) are more than \(most)") }
    return count
  }

  @inlinable public mutating func read(_ count: Int) throws -> UnsafeRawBufferPointer {
    guard count >= 0, bytes.count - _offset >= count else { throw short(count) }
    defer { _offset += count }
    return UnsafeRawBufferPointer(rebasing: bytes[_offset..<_offset + count])
  }

  @inlinable public mutating func readCounted() throws -> UnsafeRawBufferPointer { try read(readCount()) }

  public mutating func readString() throws -> String { String(decoding: try readCounted(), as: UTF8.self) }
}

extension UnsafeRawBufferPointer {
  /// Returns whether both buffers hold the same bytes.
  @inlinable public func isSame(as other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count else { return false }
    guard let base = baseAddress, let start = other.baseAddress else { return true }
    return memcmp(base, start, count) == 0
  }
}

extension UInt64 {
  /// Returns the number in hexadecimal, padded with zeros to `width` digits. Longer numbers are not cut.
  package func hex(_ width: Int) -> String {
    let digits = String(self, radix: 16)
    return String(repeating: "0", count: Swift.max(0, width - digits.count)) + digits
  }
}

extension [UInt8] {
  /// Creates bytes from a text with two hexadecimal digits for each byte; nil for any other text.
  package init?(hex text: String) {
    let digits = text.compactMap(\.hexDigitValue)
    guard digits.count == text.utf8.count, digits.count % 2 == 0 else { return nil }
    self = stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
  }
}

extension Sequence<UInt8> {
  package var hex: String { map { UInt64($0).hex(2) }.joined() }
}
