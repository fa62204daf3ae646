import Changes
import SystemKit

/// The systemd unit `cairnd.service` of this machine with its drop-in files.
///
/// Source: systemd.unit(5), "Unit File Load Path" and drop-ins; systemd.syntax(7).
struct ServiceUnit {
  /// The folders of units, in increasing precedence.
  private static let folders = [
    "/lib/systemd/system", "/usr/lib/systemd/system", "/usr/local/lib/systemd/system", "/run/systemd/system",
    "/etc/systemd/system",
  ]

  private let lines: [String]

  /// Reads the unit; nil if none is installed.
  /// - Parameter root: A path that is put before each folder.
  init?(root: String = "") {
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
  func value(of setting: String) -> String? {
    let values = lines.compactMap { line -> String? in
      guard let (name, value) = line.cut(at: "="), Self.trimmed(name) == setting else { return nil }
      return Self.trimmed(value)
    }
    return values.last.flatMap { $0.isEmpty ? nil : $0 }
  }

  private static func trimmed(_ text: String) -> String {
    let words = text.utf8.split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: "\r") }
    return words.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
  }
}
