import Changes

/// Hides in a line of the log what may be a value of a row; time, program, worker and code stay.
///
///     MaskedLog.masked("<3>cairnd: apply.pos: [row-missing] row id='b2'")   // …apply.pos: [row-missing] row id=…
package enum MaskedLog {
  /// Returns the line with the message masked. A line that does not begin as one of cairnd or systemd is hidden: it may
  /// be the rest of a value with line breaks.
  package static func masked(_ line: String) -> String {
    let bytes = Array(line.utf8)
    guard let head = endOfHead(bytes) else { return line.isEmpty ? "" : "…" }
    let worker = endOfWorker(bytes, from: head)
    let code = endOfCode(bytes, from: worker)
    func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
    return text(0..<head) + MaskedText.masked(text(head..<worker)) + text(worker..<code)
      + MaskedText.masked(text(code..<bytes.count))
  }

  // The end of `<3>cairnd:`, or of `TIME HOST cairnd[PID]:` with the name of cairnd or systemd.
  private static func endOfHead(_ bytes: [UInt8]) -> Int? {
    var index = 0
    if bytes.first == UInt8(ascii: "<") {
      guard bytes.count > 3, isDigit(bytes[1]), bytes[2] == UInt8(ascii: ">") else { return nil }
      index = 3
    } else if let first = bytes.first, isDigit(first) {
      index = end(of: bytes, from: 0) { isDigit($0) || "T:.+-Z".utf8.contains($0) }
      guard index >= 19, index < bytes.count, bytes[index] == UInt8(ascii: " ") else { return nil }
      let host = end(of: bytes, from: index + 1) { isDigit($0) || isLetter($0) || "._-".utf8.contains($0) }
      guard host > index + 1, host < bytes.count, bytes[host] == UInt8(ascii: " ") else { return nil }
      index = host + 1
    }
    guard let name = ["cairnd", "systemd"].first(where: { bytes[index...].starts(with: $0.utf8) }) else { return nil }
    index += name.utf8.count
    if index < bytes.count, bytes[index] == UInt8(ascii: "[") {
      index = end(of: bytes, from: index + 1, isDigit)
      guard index < bytes.count, bytes[index] == UInt8(ascii: "]") else { return nil }
      index += 1
    }
    return index < bytes.count && bytes[index] == UInt8(ascii: ":") ? index + 1 : nil
  }

  // The end of ` apply.pos:`; `start` if there is no such word.
  private static func endOfWorker(_ bytes: [UInt8], from start: Int) -> Int {
    guard start < bytes.count, bytes[start] == UInt8(ascii: " ") else { return start }
    let end = end(of: bytes, from: start + 1) { isDigit($0) || isLetter($0) || "._-".utf8.contains($0) }
    return end > start + 1 && end < bytes.count && bytes[end] == UInt8(ascii: ":") ? end + 1 : start
  }

  // The end of ` [row-missing]`; `start` if there is no code of Cairn.
  private static func endOfCode(_ bytes: [UInt8], from start: Int) -> Int {
    guard bytes[start...].starts(with: " [".utf8) else { return start }
    let end = end(of: bytes, from: start + 2) { isLetter($0) || $0 == UInt8(ascii: "-") }
    guard end < bytes.count, bytes[end] == UInt8(ascii: "]"),
      ErrorCode(rawValue: String(decoding: bytes[(start + 2)..<end], as: UTF8.self)) != nil
    else { return start }
    return end + 1
  }

  private static func end(of bytes: [UInt8], from start: Int, _ isPart: (UInt8) -> Bool) -> Int {
    bytes[start...].firstIndex { !isPart($0) } ?? bytes.count
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
  private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7a).contains(byte | 0x20) }
}
