import Foundation
import Testing

/// Only one file quotes names and texts for SQL: other code that did it would do it by `Character` sooner or later.
@Suite struct QuotingLintTests {
  /// A pattern that a line of product code must not have, why, and lines that may: each is constant text of our own.
  struct Rule: Sendable, CustomTestStringConvertible {
    let pattern: String
    let reason: String
    var allowed: [String] = []
    var testDescription: String { reason }
  }

  static let rules = [
    Rule(
      pattern: #"executeScript\((?!"|$|Self\.plan|_ constant)|executeScript\(.*\\\("#,
      reason: "runs several statements that are not constant: use execute for each",
      // The functions of event triggers, which are constant.
      allowed: ["Capturing/Postgres/SchemaTriggers.swift"]),
    Rule(
      pattern: #"PQexec\(|PQsendQuery\(|sqlite3_exec\("#, reason: "may run several statements",
      // executeScript, the replication protocol, and constant settings.
      allowed: [
        "PostgresKit/PostgresConnection.swift", "PostgresKit/ReplicationStream.swift", "SQLiteKit/Database.swift",
        "SQLiteKit/Database+Hardening.swift", "SQLiteKit/ForbiddenCode.swift",
      ]),
    Rule(
      pattern: #""''"|"\\"\\"""#, reason: "doubles quotes by hand: use quotedName, quotedText or postgresLiteral",
      // For people, not for SQL; empty texts of constant functions.
      allowed: ["cairn/TrailRecordsText.swift", "Capturing/Postgres/SchemaTriggers.swift"]),
    Rule(
      pattern: #"(split\(separator|replacing\(|joined\(separator):? ?"(''|'|\\"|\\"\\"|\\\\|\\\\\\\\)""#,
      reason: "takes quoted text apart by Character: use String(undoubling:)",
      // A message of the TOML parser; the text of a manual page.
      allowed: ["Configuring/SyntaxProblem.swift", "cairn/ManualPage.swift"]),
    Rule(
      pattern: #"replacing\((\w+) \+ \1,"#, reason: "takes quoted text apart by Character: use String(undoubling:)"),
    Rule(
      pattern: #"\+ "('|\\"|`)"\s*$|"(E?'|\\"|`)" \+"#,
      reason: "puts quotes around a variable: use quotedName, quotedText or postgresLiteral",
      // Tokens as they were in the text, which is taken apart by its bytes; JSON; TOML.
      allowed: ["Mapping/Parsed/DDLTokens.swift", "Changes/JSONObject.swift", "Configuring/ReadSection.swift"]),
    Rule(
      pattern: ##"\$[01] == "(\\"|\\\\|'|`)""##,
      reason: "looks for a quote by Character, which a combining character hides: compare bytes"),
    Rule(
      pattern: #"(DO|AS) \$[a-z_]*\$.*\\\("#, reason: "puts content into dollar quotes, which it may close",
      // The functions of event triggers, which are constant.
      allowed: ["Capturing/Postgres/SchemaTriggers.swift"]),
    Rule(
      pattern: #""-- ([^"]*\\\(|" \+)"#, reason: "makes a comment of SQL by hand: use sqlComment",
      // A number and a moment.
      allowed: ["TrailText/TrailSQL.swift", "cairn/TrailExecuted.swift"]),
    Rule(
      pattern: #"PQescape|sqlite3_v?s?n?m?printf|%Q|%w"#, reason: "quotes with another library's function"),
    Rule(
      pattern:
        #"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|SET|VALUES|WHERE|COPY|ATTACH|PRAGMA|FROM|RAISE|CAST|DEFAULT|COLLATE|EXECUTE|AND|OR|AS|ON|IN)\b.*('|\\")\\\("#,
      reason: "puts quotes around an interpolation in SQL: use quotedName, quotedText or postgresLiteral",
      // Digits of a blob; numbers and patterns that are constant.
      allowed: [
        "Applying/Postgres/OwnersCode.swift", "TrailText/TrailSQL+Literals.swift",
        "Capturing/Postgres/SchemaTriggers.swift", "Mapping/SQLiteAlteration.swift",
      ]),
    Rule(
      pattern: #"'\\\([^()]+\)'::"#,
      reason: "casts a literal that is quoted by hand: use postgresLiteral"),
    Rule(
      pattern: #"\bDatabase\(path: (?!":memory:"|"")"#,
      reason: "opens a file without a check of Cairn's tables in it: use OwnTables.openChecked",
      // These check by themselves, or open a file that is open and checked already. WALFile opens a program's file only
      // for its locks and checkpoints, and reads none of Cairn's tables. PageCopy opens a new file.
      allowed: [
        "Applying/SQLite/SQLiteTarget.swift", "Applying/SQLite/SQLiteApply.swift", "Endpoints/Ends.swift",
        "Capturing/SQLite/TriggerSource.swift", "SQLiteKit/Checkpointer.swift", "SQLiteKit/OwnTables.swift",
        "SQLiteKit/PageCopy.swift", "WALKit/WALFile.swift",
      ]),
  ]

  @Test(arguments: rules) func `no other code quotes`(rule: Rule) throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources")
    let pattern = try NSRegularExpression(pattern: rule.pattern, options: .anchorsMatchLines)
    var fileCount = 0
    let files = try #require(FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
    for case let file as URL in files where file.pathExtension == "swift" {
      fileCount += 1
      let name = file.pathComponents.suffix(from: root.pathComponents.count + 1).joined(separator: "/")
      if name == "Changes/SQLNames.swift" || rule.allowed.contains(name) { continue }
      let text = try String(contentsOf: file, encoding: .utf8)
      // Most files have no such line.
      guard pattern.firstMatch(in: text, range: NSRange(location: 0, length: (text as NSString).length)) != nil else {
        continue
      }
      for (number, line) in text.components(separatedBy: "\n").enumerated() {
        let range = NSRange(location: 0, length: (line as NSString).length)
        if pattern.firstMatch(in: line, range: range) != nil, !line.contains("///") {
          Issue.record("\(name):\(number + 1) \(rule.reason): \(line)")
        }
      }
    }
    #expect(fileCount > 500)
  }
}
