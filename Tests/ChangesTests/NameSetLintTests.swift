import Foundation
import Testing

/// Names of tables and columns in sets and dictionaries are ``NameKey``, and in types that can be compared ``ByBytes``: as
/// `String`, two names of the databases count as one where they only look alike.
@Suite struct NameSetLintTests {
  /// Folders whose code holds names of tables and columns.
  static let folders = [
    "Applying/", "Capturing/", "Changes/", "Comparing/", "Conflicts/", "Mapping/",
    "Reshaping/", "Statements/",
    "PostgresKit/", "SQLiteKit/", "Versions/", "CairnCapture/", "Deploying/", "Operating/", "Pumping/PumpMessages",
    "Serving/CopyOrder", "Serving/RefreshDesk", "Serving/RequestBook", "Serving/TakenOut", "Serving/TwoWayGate",
  ]
  /// What else texts stand for there, by the files.
  static let allowed: [String: [String]] = [
    "names of trails and nodes, of ASCII letters, digits, '-', '_' and '.'": [
      "Applying/ApplyOptions.swift", "Applying/Conflicts/Candidate.swift", "Applying/Postgres/PostgresCandidates.swift",
      "Applying/SQLite/SQLiteCandidates.swift", "Applying/TwoWay/ReturnsFromWaiting.swift",
      "Applying/TwoWay/TwoWay.swift", "Applying/TwoWay/TwoWayDesk.swift", "Capturing/Postgres/PostgresCapture.swift",
      "Changes/Knowledge.swift", "Conflicts/CondensedVersions.swift", "Conflicts/RowVersion.swift",
      "Conflicts/RowVersions.swift", "Deploying/LeftSlot.swift", "Operating/Replication.swift",
      "Operating/WayBack.swift", "Operating/WorkerRuns.swift", "Serving/RefreshDesk.swift",
      "Versions/VersionPlace.swift", "Versions/VersionReader.swift", "Versions/VersionWindow.swift",
      "Versions/WindowIndex+References.swift", "Versions/WindowIndex.swift",
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
    var left = Set(Self.allowed.values.joined())
    for (name, lines) in try Self.files() {
      let found = lines.enumerated().filter {
        Self.may($1, "Set<", "[String") && $1.contains(#/Set<\[*String|\[\[*String\??\]*: /#)
      }
      guard !found.isEmpty, left.remove(name) == nil else { continue }
      for (number, line) in found { Issue.record("\(name):\(number + 1) keeps names as String: use NameKey: \(line)") }
    }
    #expect(left.isEmpty, "these have none, and need not be allowed: \(left.sorted())")
  }

  /// Sets of other names, or of names that are meant to count as one, by the files.
  static let gathered: [String: [String]] = [
    "columns of Cairn's own tables": [
      "Applying/SQLite/TargetState.swift"
    ],
    "names that look alike, which are refused": ["SQLiteKit/SQLiteTable.swift"],
    "names of nodes": ["Serving/RefreshDesk.swift"],
  ]

  @Test func `no set is made of names as they are`() throws {
    var left = Set(Self.gathered.values.joined())
    for (name, lines) in try Self.files() {
      for (number, line) in lines.enumerated() where Self.may(line, "Set(", "Set.init", "(grouping:") {
        let names =
          #/(?:(?:^|\W)Set(?:\(|\.init\W)|\(grouping:).*(?:[nN]ames?\W|[nN]ame\(|\W(?:tables|partitions|labels)\))/#
        guard line.contains(names),
          !line.contains(#/nameKey|sqliteKey|NameKey|key\(in:/#),
          left.remove(name) == nil
        else { continue }
        Issue.record("\(name):\(number + 1) makes a set of names as String: map them to nameKey or sqliteKey: \(line)")
      }
    }
    #expect(left.isEmpty, "these have none, and need not be allowed: \(left.sorted())")
  }

  /// Where `map` makes an array in the comparison itself, the compiler takes the standard library's `==`.
  @Test func `no names are compared that map gathers there`() throws {
    for (name, lines) in try Self.files() {
      for (number, line) in lines.enumerated() {
        guard Self.may(line, ".map"), Self.may(line, " == ", " != ") else { continue }
        let gathered = #/\.map(?:\(\\(?:\.\w+)*|\(?\s?\{[^}]*)\.(?:name|type|text|source|sql)(?:\)| ?\}\)?) [=!]= /#
        guard line.contains(gathered) else { continue }
        Issue.record("\(name):\(number + 1) compares names as Swift does: use hasSameBytes(as:): \(line)")
      }
    }
  }

  /// Pairs have a comparison by bytes.
  @Test func `no names are compared as tuples of three`() throws {
    for (name, lines) in try Self.files() {
      for (number, line) in lines.enumerated()
      where Self.may(line, ") == (", ") != (")
        && line.contains(#/(?i), .*(?:name|table|schema|namespace)\w*, .*\) [=!]= \(/#)
      {
        Issue.record("\(name):\(number + 1) compares tuples, which takes names that look alike for one: \(line)")
      }
    }
  }

  /// Types with texts of which no two look alike and differ.
  static let plain: [String: [String]] = [
    "names of trails, nodes and hosts, of ASCII letters, digits, '-', '_' and '.'": [
      "Knowledge", "AppliedNote", "TrailName", "Dependency", "Version", "Stamp", "StoredVersion",
      "Place", "Verdict", "Asker", "TrailReport", "DatabaseWork",
    ],
    "types and times of SQL": ["Expression"],
    "texts for people": [
      "Fault", "Misfit", "Unparsed", "Unreplayable", "FileRefusal", "Standing",
      "StatementCounts", "SynchronizationOutcome", "Copying", "Kind",
    ],
  ]

  @Test func `no type that can be compared takes two names for one`() throws {
    var left = Set(Self.plain.values.joined())
    for (name, lines) in try Self.files() {
      for (number, line) in lines.enumerated() where Self.may(line, "Equatable", "Hashable", "Comparable") {
        let type = #/^(\s*)(?:\w+ )*(?:struct|enum) (\w+)\s*:[^{]*\b(?:Equatable|Hashable|Comparable)\b[^{]*\{\s*$/#
        guard let match = line.firstMatch(of: type) else {
          continue
        }
        let body = lines[(number + 1)...].prefix { $0 != match.1 + "}" }
        let texts = body.filter { line in
          let member = line.dropFirst(match.1.count + 2)
          guard line.hasPrefix(match.1 + "  "), member.first != " ", !member.contains("static ") else { return false }
          return member.contains(#/^(?:\w+(?:\(set\))? )*(?:let|var) \w+: [^={]*\bString\b[^{]*$/#)
            || member.contains(#/^(?:indirect )?case .*[:(\[]\s*String\b/#)
        }
        guard !texts.isEmpty, !body.contains(where: { $0.contains("static func ==") }) else { continue }
        guard left.remove(String(match.2)) == nil, !Self.plain.values.joined().contains(String(match.2)) else {
          continue
        }
        for text in texts { Issue.record("\(name): \(match.2) is compared: mark it @ByBytes: \(text)") }
      }
    }
    #expect(left.isEmpty, "these have none, and need not be allowed: \(left.sorted())")
  }

  /// Whether a line has one of these texts: patterns take a while, and most lines need none.
  private static func may(_ line: String, _ texts: String...) -> Bool {
    texts.contains { line.range(of: $0, options: .literal) != nil }
  }

  /// The lines of every file of ``folders``, by its module and its place there.
  private static func files() throws -> [(String, [String])] {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources")
    let files = try #require(FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
    return try files.compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }.compactMap { file in
      let name = file.pathComponents.suffix(from: root.pathComponents.count + 1).joined(separator: "/")
      guard folders.contains(where: name.hasPrefix) else { return nil }
      return (name, try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n"))
    }
  }

  /// Where texts are taken apart by `Character`, by the files: what they are, so that no name is lost by it.
  static let apart: [String: [String]] = [
    "positions and names of trails and nodes, of ASCII letters, digits, '-', '_', ':' and '.'": [
      "Changes/Position.swift", "Changes/Knowledge.swift", "Conflicts/Stamp.swift", "Operating/CopyRequest.swift",
    ],
    "names of types, and numbers in them": [
      "Changes/ChunkOrder.swift", "Mapping/PostgresType+Declaration.swift", "Mapping/PostgresType+Fit.swift",
      "Mapping/PostgresType.swift", "PostgresKit/PostgresTable+Reading.swift", "PostgresKit/TableScript.swift",
    ],
    "numbers and times": [
      "Mapping/DefaultText.swift", "Mapping/TimeText.swift", "Operating/ContractProof.swift",
      "Operating/TrailSQL+Literals.swift", "PostgresKit/LSN.swift", "PostgresKit/ServerMoment.swift",
      "Reshaping/Expression.swift", "Statements/Tokenizer.swift", "Capturing/Postgres/LocalWatch.swift",
      "Capturing/Postgres/PostgresPosition.swift",
    ],
    "rules, which name nodes and functions": ["Conflicts/Rule.swift"],
    "addresses of servers, and messages of libpq": [
      "Changes/URLPassword.swift", "PostgresKit/PostgresConnection+Place.swift",
      "PostgresKit/PostgresConnection+Trust.swift", "PostgresKit/PostgresConnection.swift",
      "Operating/DatabaseURL.swift", "Deploying/DatabaseURL+Conf.swift",
    ],
    "names of files": ["Operating/StateFolder.swift"],
    "constant text": [
      "Capturing/SQLite/CaptureTriggers.swift", "Capturing/Postgres/SchemaTriggers.swift",
      "Capturing/Postgres/Decisions/IncomingTransaction.swift",
    ],
    "scalars": ["Changes/TablePatterns.swift"],
    "words of SQL": ["SQLiteKit/SQLiteTable+Traps.swift"],
  ]

  @Test func `no names are taken apart by Character`() throws {
    var left = Set(Self.apart.values.joined())
    for (name, lines) in try Self.files() {
      let marks = [
        "split(separator: \"", "firstIndex(of: \"", "lastIndex(of: \"", "prefix { $0 != \"", "drop { $0 != \"",
        "(while: { $0 != \"", "Index { $0 == \"",
      ]
      let found = lines.enumerated().filter { _, line in
        // Most lines are left out without a pattern: patterns take a while.
        guard line.range(of: "utf8") == nil, line.range(of: "unicodeScalars") == nil, line.range(of: "// ") == nil
        else {
          return false
        }
        return marks.contains { line.range(of: $0) != nil }
          || (line.range(of: "contains(\"") != nil && line.contains(#/contains\(".[")]/#))
      }
      guard !found.isEmpty, left.remove(name) == nil else { continue }
      for (number, line) in found {
        Issue.record("\(name):\(number + 1) finds a mark by Character: use split(at:), cut(at:) or has(): \(line)")
      }
    }
    #expect(left.isEmpty, "these take nothing apart, and need not be allowed: \(left.sorted())")
  }
}
