import Changes

/// An array as PostgreSQL writes it: `{1,NULL,"a,b"}`, `[0:1]={7,8}`.
///
/// Source: https://www.postgresql.org/docs/current/arrays.html (Array Input and Output Syntax)
enum ArrayText {
  /// Returns the elements that are not NULL, without quotes. The text must be an array.
  static func elements(_ bytes: UnsafeRawBufferPointer) -> [[UInt8]] {
    var elements: [[UInt8]] = []
    guard var at = bytes.firstIndex(of: UInt8(ascii: "{")) else { return [] }
    var text: [UInt8] = []
    var (isQuoted, wasQuoted) = (false, false)
    func end() {
      if !wasQuoted { while text.last == 0x20 { text.removeLast() } }
      let isNull = !wasQuoted && (text.isEmpty || text.map { $0 | 0x20 } == Array("null".utf8))
      if !isNull { elements.append(text) }
      text.removeAll()
      wasQuoted = false
    }
    while at < bytes.count {
      switch bytes[at] {
      case UInt8(ascii: "\\") where at + 1 < bytes.count:
        at += 1
        text.append(bytes[at])
        wasQuoted = true
      case UInt8(ascii: "\""):
        isQuoted.toggle()
        wasQuoted = true
      case let byte where isQuoted: text.append(byte)
      case UInt8(ascii: "{"): break
      case UInt8(ascii: "}"), UInt8(ascii: ","): end()
      case 0x20 where text.isEmpty: break
      case let byte: text.append(byte)
      }
      at += 1
    }
    return elements
  }
}
