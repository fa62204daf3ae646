import Changes

/// Hides in a line of the log what may be a value of a row; time, program, worker and code stay.
///
///     MaskedLog.masked("<3>cairnd: apply.pos: [row-missing] row id='b2'")   // …: [row-missing] row id='…'
package enum MaskedLog {
  /// Returns the line with the text after the name of the program masked.
  package static func masked(_ line: String) -> String {
    let bytes = Array(line.utf8)
    guard let end = end(ofHead: bytes) else { return MaskedText.masked(line) }
    let head = String(decoding: bytes[..<end], as: UTF8.self)
    return head + MaskedText.masked(String(decoding: bytes[end...], as: UTF8.self))
  }

  // The end of `TIME HOST cairnd[PID]:` or `<3>cairnd:`. A head has no quotes and no parentheses.
  private static func end(ofHead bytes: [UInt8]) -> Int? {
    let word = Array("cairnd".utf8)
    guard let start = bytes.indices.first(where: { bytes[$0...].starts(with: word) }),
      bytes[..<start].allSatisfy({ !Array("'\"`(".utf8).contains($0) })
    else { return nil }
    var index = start + word.count
    if index < bytes.count, bytes[index] == UInt8(ascii: "[") {
      index += 1
      while index < bytes.count, (0x30...0x39).contains(bytes[index]) { index += 1 }
      guard index < bytes.count, bytes[index] == UInt8(ascii: "]") else { return nil }
      index += 1
    }
    return index < bytes.count && bytes[index] == UInt8(ascii: ":") ? index + 1 : nil
  }
}
