import Changes
import SystemKit

/// The systemd unit `cairnd.service` of this machine with its drop-in files.
///
/// Source: systemd.unit(5), "Unit File Load Path" and drop-ins; systemd.syntax(7).
///
///     ServiceUnit()?.value(of: "MemoryMax")   // "50%"
package struct ServiceUnit {
  /// The folders of units, in increasing precedence.
  private static let folders = [
    "/lib/systemd/system", "/usr/lib/systemd/system", "/usr/local/lib/systemd/system", "/run/systemd/system",
    "/etc/systemd/system",
  ]

  private let lines: [String]

  /// Reads the unit; nil if none is installed.
  /// - Parameter root: A path that is put before each folder.
  package init?(root: String = "") {
    let folders = Self.folders.map { root + $0 }
    guard let unit = folders.last(where: { Folder.exists("\($0)/cairnd.service") }) else { return nil }
    var drops: [String: String] = [:]
    for folder in folders.flatMap({ ["\($0)/service.d", "\($0)/cairnd.service.d"] }) {
      for name in (try? Folder.names(folder)) ?? [] where name.hasSuffix(".conf") { drops[name] = "\(folder)/\(name)" }
    }
    let files = ["\(unit)/cairnd.service"] + drops.sorted { $0.key < $1.key }.map(\.value)
    lines = files.compactMap { try? File.text($0) }.flatMap { $0.split(at: "\n") }
  }

  /// Returns the last value of a setting in the unit; nil if there is none, or if the last value is empty.
  package func value(of setting: String) -> String? {
    values(of: setting).last.flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Returns the words of a list such as `ReadWritePaths` without quotes. An empty value begins the list again.
  package func list(_ setting: String) -> [String] {
    values(of: setting).reduce(into: []) { list, value in
      if value.isEmpty { list = [] } else { list += Self.words(value) }
    }
  }

  private func values(of setting: String) -> [String] {
    lines.compactMap { line -> String? in
      guard let (name, value) = line.cut(at: "="), Self.trimmed(name) == setting else { return nil }
      return Self.trimmed(value)
    }
  }

  /// Returns a path as a word of a list: in quotes, with `\` before quotes and backslashes, and `%` twice.
  package static func word(_ path: String) -> String {
    if path.isPlainWord { return path }
    let bytes = path.utf8.flatMap { byte -> [UInt8] in
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): [UInt8(ascii: "\\"), byte]
      case UInt8(ascii: "%"): [byte, byte]
      default: [byte]
      }
    }
    return String(decoding: [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")], as: UTF8.self)
  }

  // The reverse of word(_:), for one line.
  private static func words(_ value: String) -> [String] {
    var words: [[UInt8]] = []
    var (word, quote, isEscaped, isPercent): ([UInt8]?, UInt8?, Bool, Bool) = (nil, nil, false, false)
    for byte in value.utf8 {
      if isEscaped {
        word = (word ?? []) + [byte]
        isEscaped = false
      } else if byte == UInt8(ascii: "\\") {
        isEscaped = true
      } else if let open = quote, byte == open {
        quote = nil
      } else if quote == nil, byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
        (quote, word) = (byte, word ?? [])
      } else if quote == nil, byte == UInt8(ascii: " ") {
        if let word { words.append(word) }
        word = nil
      } else if byte == UInt8(ascii: "%"), !isPercent {
        isPercent = true
        continue
      } else {
        word = (word ?? []) + [byte]
      }
      isPercent = false
    }
    if let word { words.append(word) }
    return words.map { String(decoding: $0, as: UTF8.self) }
  }

  private static func trimmed(_ text: String) -> String {
    let words = text.utf8.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: "\r") }
    return words.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
  }
}
