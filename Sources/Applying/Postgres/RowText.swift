import Changes
import PostgresKit

/// The values of one row as PostgreSQL reads them: texts that end with a NUL, NULLs, and columns that are not given.
/// Memory is kept from row to row.
struct RowText: ~Copyable {
  private static let null = -1
  private static let unchanged = -2
  private var bytes = ByteWriter(capacity: 4096)
  /// Where each column's text begins, or one of the marks above.
  private var starts: [Int] = []

  var count: Int { starts.count }
  var byteCount: Int { bytes.count }

  mutating func removeAll() {
    bytes.removeAll()
    bytes.shrink(above: 1 << 20)
    starts.removeAll(keepingCapacity: true)
  }

  mutating func appendNull() { starts.append(Self.null) }
  mutating func appendUnchanged() { starts.append(Self.unchanged) }
  mutating func append<E: Error>(_ write: (inout ByteWriter) throws(E) -> Void) throws(E) {
    let start = bytes.count
    do { try write(&bytes) } catch {
      bytes.truncate(to: start)
      throw error
    }
    bytes.append(0)
    starts.append(start)
  }

  func isNull(_ column: Int) -> Bool { starts[column] == Self.null }
  func isUnchanged(_ column: Int) -> Bool { starts[column] == Self.unchanged }

  /// Valid until the row is changed.
  func parameter(_ column: Int) -> PostgresParameter {
    let start = starts[column]
    guard start >= 0, let base = bytes.bytes.baseAddress else { return nil }
    return (base + start).assumingMemoryBound(to: CChar.self)
  }

  /// The text without its NUL; empty for NULL and what is not given.
  func text(_ column: Int) -> UnsafeRawBufferPointer {
    let start = starts[column]
    guard start >= 0 else { return UnsafeRawBufferPointer(start: nil, count: 0) }
    let next = starts[(column + 1)...].first { $0 >= 0 } ?? bytes.count
    return UnsafeRawBufferPointer(rebasing: bytes.bytes[start..<next - 1])
  }

  /// A copy; nil for NULL and what is not given.
  func string(_ column: Int) -> String? {
    isNull(column) || isUnchanged(column) ? nil : String(decoding: text(column), as: UTF8.self)
  }

  func isEqual(_ column: Int, to other: borrowing RowText) -> Bool {
    if starts[column] < 0 || other.starts[column] < 0 { return starts[column] == other.starts[column] }
    return text(column).elementsEqual(other.text(column))
  }

  /// The row as a line of COPY's text format.
  func appendLine(to line: inout ByteWriter) {
    for column in starts.indices {
      if column > 0 { line.append(UInt8(ascii: "\t")) }
      guard starts[column] >= 0 else {
        line.append(UInt8(ascii: "\\"))
        line.append(UInt8(ascii: "N"))
        continue
      }
      Self.escape(text(column), to: &line)
    }
    line.append(UInt8(ascii: "\n"))
  }

  /// Backslash, tab and line ends are escaped; nothing else means anything in COPY's text format.
  private static func escape(_ text: UnsafeRawBufferPointer, to line: inout ByteWriter) {
    var from = 0
    for (index, byte) in text.enumerated() {
      let letter: UInt8
      switch byte {
      case UInt8(ascii: "\\"): letter = byte
      case UInt8(ascii: "\t"): letter = UInt8(ascii: "t")
      case UInt8(ascii: "\n"): letter = UInt8(ascii: "n")
      case UInt8(ascii: "\r"): letter = UInt8(ascii: "r")
      default: continue
      }
      if index > from { line.append(UnsafeRawBufferPointer(rebasing: text[from..<index])) }
      line.append(UInt8(ascii: "\\"))
      line.append(letter)
      from = index + 1
    }
    if from < text.count { line.append(UnsafeRawBufferPointer(rebasing: text[from...])) }
  }

  /// Takes the texts of another row; used to keep some rows until it is known how they are sent.
  mutating func assign(_ other: borrowing RowText) {
    removeAll()
    bytes.append(other.bytes.bytes)
    starts.append(contentsOf: other.starts)
  }

  /// Puts texts in place of all that is there.
  mutating func assign(_ values: [String?]) {
    removeAll()
    for value in values {
      guard let value else {
        appendNull()
        continue
      }
      append { (bytes: inout ByteWriter) in bytes.append(Array(value.utf8)) }
    }
  }
}
