import Changes

/// Decodes rows in the text format of COPY.
///
/// Source: https://www.postgresql.org/docs/15/sql-copy.html, File Formats
package enum CopyText {
  /// Appends a line of COPY as an image. Each field is a text value or NULL.
  package static func appendImage(
    _ line: UnsafeRawBufferPointer, to writer: inout ByteWriter, scratch: inout ByteWriter, field: inout ByteWriter
  ) {
    scratch.removeAll()
    forEachField(line, field: &field) { text in
      if let text { scratch.appendExact(text) } else { scratch.appendNull() }
    }
    writer.appendCounted(scratch.bytes)
  }

  /// Returns the fields of a line of COPY as text; nil for NULL.
  package static func fields(_ line: UnsafeRawBufferPointer) -> [String?] {
    var field = ByteWriter(capacity: 256)
    var all: [String?] = []
    forEachField(line, field: &field) { text in all.append(text.map { String(decoding: $0, as: UTF8.self) }) }
    return all
  }

  /// Calls `body` with each decoded field of a line; nil for NULL. `field` is a buffer to reuse.
  @inline(__always)
  package static func forEachField(
    _ line: UnsafeRawBufferPointer, field: inout ByteWriter, _ body: (UnsafeRawBufferPointer?) -> Void
  ) {
    let end = line.last == UInt8(ascii: "\n") ? line.count - 1 : line.count
    var start = 0
    while true {
      var stop = start
      var isEscaped = false
      while stop < end, line[stop] != UInt8(ascii: "\t") {
        if line[stop] == UInt8(ascii: "\\") {
          isEscaped = true
          stop += 1
        }
        stop += 1
      }
      let raw = UnsafeRawBufferPointer(rebasing: line[start..<min(stop, end)])
      if !isEscaped {
        body(raw)
      } else if raw.count == 2, raw[1] == UInt8(ascii: "N") {
        body(nil)
      } else {
        unescape(raw, into: &field)
        body(field.bytes)
      }
      guard stop < end else { return }
      start = stop + 1
    }
  }

  // The server never writes numeric escapes.
  private static func unescape(_ raw: UnsafeRawBufferPointer, into field: inout ByteWriter) {
    field.removeAll()
    var index = 0
    while index < raw.count {
      guard raw[index] == UInt8(ascii: "\\"), index + 1 < raw.count else {
        field.append(raw[index])
        index += 1
        continue
      }
      switch raw[index + 1] {
      case UInt8(ascii: "b"): field.append(0x08)
      case UInt8(ascii: "f"): field.append(0x0c)
      case UInt8(ascii: "n"): field.append(0x0a)
      case UInt8(ascii: "r"): field.append(0x0d)
      case UInt8(ascii: "t"): field.append(0x09)
      case UInt8(ascii: "v"): field.append(0x0b)
      case let other: field.append(other)
      }
      index += 2
    }
  }
}
