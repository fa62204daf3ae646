import Changes

/// An archive in the format of tar, in memory.
///
/// Source: POSIX.1-2017, pax, "ustar Interchange Format".
///
/// ```swift
/// var archive = TarArchive()
/// try archive.add("bundle/versions.txt", "cairn 0.2.0\n", at: 1_764_396_000)
/// archive.bytes.count   // 2560
/// ```
package struct TarArchive: Sendable {
  private static let blockBytes = 512
  private var blocks: [UInt8] = []

  package init() {}

  /// The archive: the files so far, and the two empty blocks that end it.
  package var bytes: [UInt8] { blocks + [UInt8](repeating: 0, count: 2 * Self.blockBytes) }

  /// Adds a file that only its owner may read.
  ///
  /// - Parameter name: The path in the archive, 100 bytes of ASCII at most.
  /// - Parameter time: The time of the file in seconds since 1970 UTC.
  /// - Throws: `unsupported` for a name or a file that is too long for the format.
  package mutating func add(_ name: String, _ text: String, at time: Int64) throws {
    let (path, content) = (Array(name.utf8), Array(text.utf8))
    guard (1...100).contains(path.count), path.allSatisfy({ (0x21..<0x7f).contains($0) }), content.count < 1 << 33
    else {
      throw CairnError(.unsupported, "a file of the archive is too long, or its name is", hint: "please report this")
    }
    var header = [UInt8](repeating: 0, count: Self.blockBytes)
    func put(_ bytes: [UInt8], at offset: Int) { header.replaceSubrange(offset..<(offset + bytes.count), with: bytes) }
    put(path, at: 0)
    put(Self.octal(0o600, digits: 7), at: 100)
    put(Self.octal(0, digits: 7), at: 108)
    put(Self.octal(0, digits: 7), at: 116)
    put(Self.octal(Int64(content.count), digits: 11), at: 124)
    put(Self.octal(min(max(0, time), 0o77_777_777_777), digits: 11), at: 136)
    put([UInt8](repeating: UInt8(ascii: " "), count: 8), at: 148)
    put([UInt8(ascii: "0")], at: 156)
    put(Array("ustar\u{0}00".utf8), at: 257)
    put(Self.octal(header.reduce(0) { $0 + Int64($1) }, digits: 6), at: 148)
    header[154] = 0
    blocks += header + content
    let rest = content.count % Self.blockBytes
    if rest > 0 { blocks += [UInt8](repeating: 0, count: Self.blockBytes - rest) }
  }

  private static func octal(_ number: Int64, digits: Int) -> [UInt8] {
    let text = Array(String(number, radix: 8).utf8)
    return [UInt8](repeating: UInt8(ascii: "0"), count: max(0, digits - text.count)) + text
  }
}
