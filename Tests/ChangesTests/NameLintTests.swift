import Foundation
import Testing

/// Names are compared as databases compare them: `lowercased()` would fold letters that no database folds, and make one
/// key of two names.
@Suite struct NameLintTests {
  /// Files that fold words of a person, of a conf or of HTTP, and no name of a table or column.
  static let allowed = [
    // A table that differs by such a letter is left out, or refused: nothing is taken for another one.
    "Changes/TablePatterns.swift", "SQLiteKit/SQLiteTable.swift",
    "Changes/URLPassword.swift", "Conflicts/Rule.swift", "PostgresKit/PostgresConnection.swift",
    "cairn/ExplainCommand.swift",
  ]
  static let allowedFolders = ["Configuring/", "NetKit/", "Trust/"]

  @Test func `no name is folded beyond ASCII`() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources")
    let files = try #require(FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
    var fileCount = 0
    for case let file as URL in files where file.pathExtension == "swift" {
      fileCount += 1
      let name = file.pathComponents.suffix(from: root.pathComponents.count + 1).joined(separator: "/")
      if Self.allowed.contains(name) || Self.allowedFolders.contains(where: name.hasPrefix) { continue }
      let lines = try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n")
      for (number, line) in lines.enumerated() where line.contains(".lowercased()") || line.contains("\\.lowercased") {
        Issue.record("\(name):\(number + 1) folds a name beyond ASCII: use sqliteKey or asciiLowercased: \(line)")
      }
    }
    #expect(fileCount > 500)
  }
}
