import Changes
import PostgresKit

/// The values of one row as input for PostgreSQL: texts that end with a NUL byte, NULLs, and missing values.
struct RowText: ~Copyable {
  struct Span {
    static let null = Span(start: 0, count: -1)
    static let unchanged = Span(start: 0, count: -2)
    var start: Int
    var count: Int
    var isGiven: Bool { count != -2 }
    var isNull: Bool { count == -1 }
    var hasText: Bool { count >= 0 }
  }

  private var bytes = ByteWriter(capacity: 4096)
  private var spans: [Span] = []
  private(set) var isWhole = true

  var count: Int { spans.count }
  var byteCount: Int { bytes.count }

  mutating func removeAll() {
    bytes.removeAll()
    bytes.shrink(above: 1 << 20)
    spans.removeAll(keepingCapacity: true)
    isWhole = true
  }

  mutating func appendNull() { spans.append(.null) }
  mutating func appendUnchanged() {
    spans.append(.unchanged)
    isWhole = false
  }
  mutating func append<E: Error>(_ write: (inout ByteWriter) throws(E) -> Void) throws(E) {
    let start = bytes.count
    do { try write(&bytes) } catch {
      bytes.truncate(to: start)
      throw error
    }
    spans.append(Span(start: start, count: bytes.count - start))
    bytes.append(0)
  }
  mutating func append(_ text: UnsafeRawBufferPointer) {
    spans.append(Span(start: bytes.count, count: text.count))
    bytes.append(text)
    bytes.append(0)
  }

  func isNull(_ column: Int) -> Bool { spans[column].isNull }
  func isUnchanged(_ column: Int) -> Bool { !spans[column].isGiven }
  func gives(_ column: Int) -> Bool { column < spans.count && spans[column].isGiven }

  /// Returns the column's value as a statement parameter, valid until the row is changed. Nil for NULL and for a
  /// missing value.
  func parameter(_ column: Int) -> PostgresParameter {
    guard column < spans.count else { return nil }
    let span = spans[column]
    guard span.hasText, let base = bytes.bytes.baseAddress else { return nil }
    return (base + span.start).assumingMemoryBound(to: CChar.self)
  }

  func text(_ column: Int) -> UnsafeRawBufferPointer {
    let span = spans[column]
    guard span.hasText else { return UnsafeRawBufferPointer(start: nil, count: 0) }
    return UnsafeRawBufferPointer(rebasing: bytes.bytes[span.start..<span.start + span.count])
  }

  /// Returns a copy of a column's text; nil for NULL and for a missing value.
  func string(_ column: Int) -> String? {
    column < spans.count && spans[column].hasText ? String(decoding: text(column), as: UTF8.self) : nil
  }

  func isEqual(_ column: Int, to other: borrowing RowText) -> Bool {
    let (mine, theirs) = (spans[column], other.spans[column])
    guard mine.count == theirs.count else { return false }
    return mine.count <= 0 || text(column).isSame(as: other.text(column))
  }

  func appendLine(to line: inout ByteWriter) {
    for column in spans.indices {
      if column > 0 { line.append(UInt8(ascii: "\t")) }
      if spans[column].hasText {
        line.appendCopyText(text(column))
      } else {
        line.append(UInt8(ascii: "\\"))
        line.append(UInt8(ascii: "N"))
      }
    }
    line.append(UInt8(ascii: "\n"))
  }

  func copy(to texts: inout ByteWriter, _ places: inout [Span]) {
    let start = texts.count
    texts.append(bytes.bytes)
    for span in spans { places.append(span.hasText ? Span(start: start + span.start, count: span.count) : span) }
  }

  func copy(_ column: Int, to texts: inout ByteWriter) -> Span {
    guard spans[column].hasText else { return spans[column] }
    let start = texts.count
    texts.append(text(column))
    texts.append(0)
    return Span(start: start, count: spans[column].count)
  }

  mutating func assign(_ other: borrowing RowText) {
    removeAll()
    bytes.append(other.bytes.bytes)
    spans.append(contentsOf: other.spans)
    isWhole = other.isWhole
  }

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

extension ByteWriter {
  /// Appends a value in COPY's text format: backslash, tab and line ends are escaped; no other byte has a meaning.
  mutating func appendCopyText(_ text: UnsafeRawBufferPointer) {
    var from = 0
    var index = 0
    while index < text.count {
      let letter: UInt8
      switch text[index] {
      case UInt8(ascii: "\\"): letter = UInt8(ascii: "\\")
      case UInt8(ascii: "\t"): letter = UInt8(ascii: "t")
      case UInt8(ascii: "\n"): letter = UInt8(ascii: "n")
      case UInt8(ascii: "\r"): letter = UInt8(ascii: "r")
      default:
        index += 1
        continue
      }
      if index > from { append(UnsafeRawBufferPointer(rebasing: text[from..<index])) }
      append(UInt8(ascii: "\\"))
      append(letter)
      index += 1
      from = index
    }
    if from < text.count { append(UnsafeRawBufferPointer(rebasing: text[from...])) }
  }
}
