import Foundation
import Testing

/// Names of tables and columns in sets and dictionaries are ``NameKey``: as `String`, two names of the databases count as
/// one where they only look alike.
@Suite struct NameSetLintTests {
  /// Folders whose code holds names of tables and columns.
  static let folders = [
    "Applying/", "Capturing/", "Changes/", "Comparing/", "Conflicts/", "Mapping/", "Reshaping/", "Statements/",
    "PostgresKit/", "SQLiteKit/", "Versions/", "CairnCapture/", "Operating/",
  ]
  /// What else texts stand for there, by the files.
  static let allowed: [String: [String]] = [
    "names of trails and nodes, of ASCII letters, digits, '-', '_' and '.'": [
      "Applying/ApplyOptions.swift", "Applying/Conflicts/Candidate.swift", "Applying/Postgres/PostgresCandidates.swift",
      "Applying/SQLite/SQLiteCandidates.swift", "Applying/TwoWay/ReturnsFromWaiting.swift",
      "Applying/TwoWay/TwoWay.swift", "Applying/TwoWay/TwoWayDesk.swift", "Capturing/Postgres/PostgresCapture.swift",
      "Changes/Knowledge.swift", "Conflicts/CondensedVersions.swift", "Conflicts/RowVersion.swift",
      "Conflicts/RowVersions.swift", "Operating/LeftSlot.swift", "Operating/Replication.swift",
      "Operating/WayBack.swift", "Operating/WorkerRuns.swift", "Versions/VersionPlace.swift",
      "Versions/VersionReader.swift", "Versions/VersionWindow.swift", "Versions/WindowIndex+References.swift",
      "Versions/WindowIndex.swift",
    ],
    "words of SQL and names of built-in functions, which are Cairn's own literals": [
      "Applying/Postgres/PendingForeignKey.swift", "Applying/Postgres/PostgresShape+Reshape.swift",
      "Applying/Postgres/ServerReach.swift", "Mapping/NamePolicy.swift", "Mapping/Parsed/DDLParser+Patterns.swift",
      "Mapping/Parsed/DDLParser+Postgres.swift", "Mapping/Parsed/DDLParser+SQLite.swift",
      "Mapping/Parsed/DDLParser.swift", "Mapping/Parsed/KnownFunctions.swift", "Mapping/Parsed/PostgresDDL.swift",
      "Mapping/Parsed/TableSchema+Parsed.swift", "Mapping/PostgresDraft.swift", "Mapping/PostgresScript.swift",
      "Mapping/PostgresType.swift", "Mapping/TableMapping.swift", "Mapping/TargetReach.swift",
      "Reshaping/Expression.swift", "SQLiteKit/Database+Definition.swift", "SQLiteKit/ForbiddenCode.swift",
      "SQLiteKit/StoredTable.swift", "Statements/Functions.swift", "Statements/Names.swift",
      "Statements/StatementParser+Expression.swift", "Statements/StatementParser.swift",
    ],
    "keywords of connection strings": [
      "Changes/URLPassword.swift", "PostgresKit/PostgresConnection+Trust.swift", "PostgresKit/PostgresConnection.swift",
    ],
    "texts for people": [
      "Applying/Postgres/PostgresReplay+Careful.swift", "Applying/Statements/StatementCounts.swift",
      "Changes/CairnError.swift",
    ],
    "names of files": ["Capturing/SQLite/SourceWatch.swift"],
    "random tokens": ["Capturing/Postgres/LocalWatch.swift"],
    "names that look alike, which are refused": ["Changes/SQLNames.swift"],
    "the API, which programs write": ["CairnCapture/Synchronizer.swift"],
  ]

  @Test func `no set or dictionary takes two names for one`() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources")
    let files = try #require(FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
    var left = Set(Self.allowed.values.joined())
    for case let file as URL in files where file.pathExtension == "swift" {
      let name = file.pathComponents.suffix(from: root.pathComponents.count).joined(separator: "/")
      guard Self.folders.contains(where: name.hasPrefix) else { continue }
      let lines = try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n").enumerated().filter {
        $1.contains("Set<String>") || $1.contains("[String: ")
      }
      guard !lines.isEmpty, left.remove(name) == nil else { continue }
      for (number, line) in lines { Issue.record("\(name):\(number + 1) keeps names as String: use NameKey: \(line)") }
    }
    #expect(left.isEmpty, "these have none, and need not be allowed: \(left.sorted())")
  }
}
