import Foundation
import Testing

/// Names of tables and columns in sets and dictionaries are ``NameKey``, and in types that can be compared ``ByBytes``.
/// As `String`, two names that differ in the databases count as one if they only look alike.
@Suite struct NameSetLintTests {
  /// Folders whose code holds names of tables and columns.
  static let folders = [
    "Applying/", "Capturing/", "Changes/", "Comparing/", "Conflicts/", "Mapping/",
    "Checking/", "Transforming/", "Statements/",
    "PostgresKit/", "SQLiteKit/", "Versions/", "CairnCapture/", "Deploying/", "NetKit/", "Endpoints/", "Replicating/",
    "TrailText/", "Trust/",
    "Pumping/PumpMessages", "Daemon/", "ControlAPI/", "Trails/", "cairn/",
  ]
  /// Texts that are no names, by file: parts of the lines that may have them.
  static let allowed: [String: [String: [String]]] = [
    "names of trails and nodes, of ASCII letters, digits, '-', '_' and '.'": [
      "Applying/ApplyOptions.swift": ["var ownOrigins"],
      "Applying/Bookkeeping/DisplacedRowStore.swift": ["func byteCounts"],
      "Applying/TwoWay/ReturnsFromWaiting.swift": [
        "var numbers", "var ofForgotten", "func note", "func mayWait", "func lacks",
      ],
      "Applying/TwoWay/TwoWay.swift": [
        "let folders", "let admitted", "let applied", "var appliedNumbers", "func knowsHeld",
        "func mayWait", "func isAhead",
      ],
      "Applying/TwoWay/TwoWaySession.swift": ["var seen", "var reached", "var admitted"],
      "Capturing/Postgres/PostgresCapture.swift": ["var applies"],
      "Changes/VersionVector.swift": ["var origins"],
      "Conflicts/CondensedVersions.swift": ["var known", "var numbers"],
      "Conflicts/RowVersion.swift": ["var seen", "seen:"],
      "Conflicts/RowVersions.swift": ["var later", "var bounds", "var first"],
      "Deploying/LeftSlot.swift": ["func all"],
      "Replicating/Replication.swift": ["let targetTrails", "var applies"],
      "Endpoints/WayBack.swift": ["func capturedTrails", "func appliedTrails"],
      "Replicating/WorkerRuns.swift": ["var applies"],
      "Trust/JoinHandler.swift": ["let renewals"],
      "Daemon/Daemon.swift": ["var standings"],
      "Daemon/IntakeGate.swift": ["var peers", "let bodies", "var crowds", "func crowds"],
      "Daemon/LeftSlots.swift": ["var told"],
      "Daemon/OppositeCopy.swift": ["var captures", "var applies"],
      "Daemon/TransferStatus.swift": ["var clocks", "var rates", "pumpPeers:", "infos:"],
      "Daemon/PumpWorker.swift": ["var problems", "var told", "func note"],
      "Daemon/RefreshCoordinator.swift": ["let told", "var verdicts"],
      "Daemon/RetentionPlan.swift": ["var purgeBelow", "var parts", "var holders"],
      "Daemon/ServiceContext.swift": [
        "let trails", "let ends", "let sources", "let appliedEnds", "var trailInfos", "func note",
      ],
      "Daemon/SourceAnswers.swift": ["let sources"],
      "Daemon/Supervisor+Retention.swift": ["func applies", "func isBack"],
      "Daemon/Supervisor.swift": ["func applied", "var ends"],
      "Daemon/TwoWayRegistry.swift": ["let known", "let links"],
      "Daemon/TwoWayPlan.swift": ["var rules"],
      "Daemon/PeerContacts.swift": ["func problems", "var found", "var problems"],
      "Daemon/PeerNotes.swift": ["func note"],
      "Daemon/WorkerPlan.swift": ["var trails"],
      "Versions/VersionPlace.swift": ["var seen", "seen:"],
      "Versions/VersionReader.swift": ["var trails", "let seen", "seen:", "var seen"],
      "Versions/UnstableVersions.swift": [
        "func seen", "func concurrent", "func fingerprint", "func mayBeReferred", "func isReferred", "func references",
      ],
      "Versions/WindowIndex+References.swift": [
        "func mayBeReferred", "func isReferred", "func references", "_ seen: [String",
      ],
      "Versions/WindowIndex.swift": [
        "var places", "func known", "func fingerprint", "func concurrent", "func seen", "var seen",
      ],
    ],
    "fields and options of HTTP, which the code looks up by ASCII": [
      "NetKit/CurlHandle.swift": ["var names"],
      "NetKit/HTTPClient.swift": ["let headers", "headers:"],
      "NetKit/HTTPMessage.swift": ["let query", "path: String, query:"],
      "NetKit/HTTPTarget.swift": ["let query", "var query"],
      "NetKit/Transfer.swift": ["var headers"],
    ],
    "addresses of machines": [
      "NetKit/HTTPConnections.swift": ["var perAddress"]
    ],
    "digests": [
      "NetKit/HTTPConnections.swift": ["var known"],
      "Trust/JoinHandler.swift": ["let shown"],
      "Trust/RevokedPeers.swift": ["var fingerprints"],
    ],
    "keywords of connection strings": [
      "Changes/URLPassword.swift": ["let known"],
      "PostgresKit/PostgresConnection+Trust.swift": ["func applied"],
      "PostgresKit/PostgresConnection.swift": ["func options", "func values", "var options"],
    ],
    "texts for people": [
      "Applying/Groups/TrailCursor.swift": ["func rowContext"],
      "Applying/Postgres/PostgresRowErrors.swift": ["func context"],
      "Applying/SQLite/SQLiteRowErrors.swift": ["func context"],
      "Applying/Statements/StatementCounts.swift": ["var reasons"],
      "Changes/CairnError.swift": ["var context", "context:"],
    ],
    "names of files": [
      "Deploying/ServiceUnit.swift": ["var drops"]
    ],
    "random tokens": [
      "Capturing/Postgres/LocalWatch.swift": ["let waiting"]
    ],
    "names that look alike, which are refused": [
      "Changes/SQLNames.swift": ["var seen"]
    ],
    "the API, which programs write": [
      "CairnCapture/Synchronizer.swift": ["var columnConflicts"]
    ],
    "options of command lines": [
      "cairn/Arguments.swift": ["var values", "var switches"]
    ],
    "names of sections and servers of the conf": [
      "Checking/ConfCheck.swift": ["var sources", "var newSlots", "var newOrigins"]
    ],
    "places of databases": [
      "cairn/StatusCommand.swift": ["var places"]
    ],
  ]

  @Test func `no set or dictionary takes two names for one`() throws {
    var allowance = Allowance(Self.allowed)
    for (name, lines) in try Self.files() {
      for (number, line) in lines.enumerated() where Self.may(line, "Set<", "[String") {
        guard line.contains(#/Set<\[*String|\[\[*String\??\]*: /#), !allowance.has(name, line) else { continue }
        Issue.record("\(name):\(number + 1) keeps names as String: use NameKey: \(line)")
      }
    }
    #expect(allowance.unused.isEmpty, "no line has these, and they need not be allowed")
  }

  /// Sets of other names, or of names that are meant to count as one: parts of the lines.
  static let gathered: [String: [String: [String]]] = [
    "columns of Cairn's own tables": [
      "Applying/SQLite/SQLiteApplyState.swift": ["let there ="]
    ],
    "names that look alike, which are refused": [
      "SQLiteKit/SQLiteTable.swift": ["let names ="]
    ],
    "names of nodes": [
      "Daemon/RefreshCoordinator.swift": ["Set(names)"],
      "cairn/PeerCommand.swift": ["let names ="],
    ],
    "names of captures and trails": [
      "Daemon/LeftSlots.swift": ["captures: Set"],
      "Checking/ConfCheck+Paths.swift": ["let known =", "let captures ="],
    ],
  ]

  @Test func `no set is made of names as they are`() throws {
    var allowance = Allowance(Self.gathered)
    for (name, lines) in try Self.files() {
      for (number, line) in lines.enumerated() where Self.may(line, "Set(", "Set.init", "(grouping:") {
        let names =
          #/(?:(?:^|\W)Set(?:\(|\.init\W)|\(grouping:).*(?:[nN]ames?\W|[nN]ame\(|\W(?:tables|partitions|labels)\))/#
        guard line.contains(names),
          !line.contains(#/nameKey|sqliteKey|NameKey|key\(in:/#),
          !allowance.has(name, line)
        else { continue }
        Issue.record("\(name):\(number + 1) makes a set of names as String: map them to nameKey or sqliteKey: \(line)")
      }
    }
    #expect(allowance.unused.isEmpty, "no line has these, and they need not be allowed")
  }

  /// If `map` makes an array in the comparison itself, the compiler takes the standard library's `==`.
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
  /// Generic code that compares by the rules of Swift, with what it compares.
  static let generic: [String: [String: [String]]] = [
    "bytes": ["Mapping/IndexText.swift": ["<V: Equatable>"]],
    "numbers, and keys of bytes": ["Capturing/SQLite/RecentImages.swift": ["<Key: Hashable>"]],
    "rows, whose names are ByBytes": [
      "Conflicts/UniqueContest.swift": ["<Row: Hashable>", "associatedtype Row: Hashable"]
    ],
    "values, and texts as NameKey": ["Applying/Rows/ParkedRows.swift": ["associatedtype Identity: Hashable"]],
    "the wrapper itself": ["Changes/ByteEquality.swift": ["protocol ByteComparable: Hashable"]],
  ]

  /// In generic code, `==` is that of the standard library, whatever the type is.
  @Test func `no generic code compares texts by the rules of Swift`() throws {
    let generic = #/(?:<|, )\w+: (?:Equatable|Hashable)\b|(?:associatedtype|protocol) \w+: (?:Equatable|Hashable)\b/#
    var allowance = Allowance(Self.generic)
    for (name, lines) in try Self.files() {
      for line in lines where Self.may(line, ": Equatable", ": Hashable") && line.contains(generic) {
        guard !allowance.has(name, line) else { continue }
        Issue.record("\(name): take ByteComparable, and compare by areSame: \(line)")
      }
    }
    #expect(allowance.unused.isEmpty, "no line has these, and they need not be allowed")
  }

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

  /// Types with texts that never look alike and differ.
  static let plain: [String: [String: [String]]] = [
    "names of trails, nodes and hosts, of ASCII letters, digits, '-', '_' and '.'": [
      "Applying/TwoWay/SettledBefore.swift": ["Place"],
      "Changes/VersionVector.swift": ["VersionVector", "AppliedNote"],
      "Changes/Position.swift": ["TrailName"],
      "Changes/Record.swift": ["Dependency", "Version"],
      "Conflicts/VersionStamp.swift": ["VersionStamp"],
      "Conflicts/TopologyPromise.swift": ["Verdict"],
      "Deploying/DatabaseWork.swift": ["DatabaseWork"],
      "NetKit/HTTPBase.swift": ["HTTPBase"],
      "Trust/Invitations.swift": ["Invitation"],
      "Trust/Joining.swift": ["Outcome"],
      "Pumping/PumpMessages.swift": ["TrailReport"],
      "Daemon/IntakeGate.swift": ["IntakeRoom"],
      "Daemon/OppositeCopy.swift": ["Copying"],
      "Daemon/TransferStatus.swift": ["PathKey"],
      "Daemon/PeerRegistry.swift": ["Entry"],
      "Daemon/RefreshRequests.swift": ["Asker"],
      "Daemon/RetentionPlan.swift": ["RetentionPlan", "Trail", "ReaderID", "Reader"],
      "Daemon/TwoWayPlan.swift": ["TwoWayPlan"],
      "Daemon/WorkerPlan.swift": ["WorkerSpec"],
      "ControlAPI/NodeStatus+LeftSlot.swift": ["LeftSlot"],
      "ControlAPI/WorkerName.swift": ["WorkerName"],
      "Versions/VersionPlace.swift": ["StoredVersion"],
    ],
    "digests, and numbers in hexadecimal": [
      "NetKit/PeerCertificate.swift": ["PeerCertificate"],
      "Trust/PeerFolder+Authority.swift": ["Rotation"],
      "Trust/RevokedPeers.swift": ["List"],
    ],
    "what only tests compare": [
      "NetKit/ClientTLS.swift": ["ClientTLS"],
      "NetKit/HTTPTarget.swift": ["HTTPTarget"],
      "Trust/JoinLine.swift": ["JoinLine"],
    ],
    "what the parser of the conf reads, which only tests compare": [
      "Configuring/ConfPlace.swift": ["ConfPlace"],
      "Configuring/ConfProblem.swift": ["ConfProblem"],
      "Configuring/DaemonPlace.swift": ["DaemonPlace"],
      "Configuring/OptionKind.swift": ["OptionKind", "OptionValue"],
      "Configuring/Quantity.swift": ["Misread"],
      "Configuring/Setting.swift": ["Origin"],
      "Configuring/TomlDocument.swift": ["Failure", "TomlEntry", "TomlValue"],
    ],
    "types and times of SQL": ["Statements/Expression.swift": ["Expression"]],
    "texts for people": [
      "Applying/Statements/StatementCounts.swift": ["StatementCounts"],
      "CairnCapture/DatabaseError.swift": ["Kind"],
      "CairnCapture/SynchronizationOutcome.swift": ["SynchronizationOutcome", "Copying"],
      "Changes/JSONReader.swift": ["Fault"],
      "Conflicts/Rule.swift": ["Fault"],
      "Deploying/LeftSlot.swift": ["Standing"],
      "Mapping/ColumnContract.swift": ["Verdict"],
      "Mapping/Misfit.swift": ["Misfit"],
      "Mapping/Parsed/DDLTokens.swift": ["Unparsed"],
      "NetKit/PeerVerdict.swift": ["PeerVerdict"],
      "Trust/RevokedPeers.swift": ["Unknown"],
      "SQLiteKit/FileRefusal.swift": ["FileRefusal"],
      "Daemon/Supervision.swift": ["Failure"],
      "Daemon/WaitNote.swift": ["WaitNote"],
      "Daemon/WorkerPlan.swift": ["Change"],
      "Statements/Unreplayable.swift": ["Unreplayable"],
      "ControlAPI/NodeStatus.swift": ["Problem", "Reason"],
      "cairn/SecurityReview.swift": ["Finding"],
    ],
  ]

  @Test func `no type that can be compared takes two names for one`() throws {
    var allowance = Allowance(Self.plain)
    for (name, lines) in try Self.files("Configuring/") {
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
            || member.contains(#/^(?:\w+(?:\(set\))? )*(?:let|var) \w+ = \[?"/#)
            || member.contains(#/^(?:indirect )?case .*[:(\[]\s*String\b/#)
        }
        guard !texts.isEmpty, !body.contains(where: { $0.contains("static func ==") }) else { continue }
        guard !allowance.has(name, type: match.2) else { continue }
        for text in texts { Issue.record("\(name): \(match.2) is compared: mark it @ByBytes: \(text)") }
      }
    }
    #expect(allowance.unused.isEmpty, "no type has these, and they need not be allowed")
  }

  /// Parts of lines that a lint leaves out, by file.
  private struct Allowance {
    private let parts: [String: [String]]
    private(set) var unused: Set<String>

    init(_ lists: [String: [String: [String]]]) {
      parts = Dictionary(lists.values.joined().map { ($0.key, $0.value) }, uniquingKeysWith: +)
      unused = Set(parts.flatMap { name, parts in parts.map { "\(name): \($0)" } })
    }

    mutating func has(_ name: String, _ line: String) -> Bool {
      let found = (parts[name] ?? []).filter { line.range(of: $0, options: .literal) != nil }
      for part in found { unused.remove("\(name): \(part)") }
      return !found.isEmpty
    }

    mutating func has(_ name: String, type: Substring) -> Bool {
      unused.remove("\(name): \(type)")
      return (parts[name] ?? []).contains(String(type))
    }
  }

  /// Whether a line has one of these texts: patterns take a while, and most lines need none.
  private static func may(_ line: String, _ texts: String...) -> Bool {
    texts.contains { line.range(of: $0, options: .literal) != nil }
  }

  /// The lines of every file of ``folders`` and the given ones, by its module and its place there.
  private static func files(_ more: String...) throws -> [(String, [String])] {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources")
    let files = try #require(FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
    return try files.compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }.compactMap { file in
      let name = file.pathComponents.suffix(from: root.pathComponents.count + 1).joined(separator: "/")
      guard (folders + more).contains(where: name.hasPrefix) else { return nil }
      return (name, try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n"))
    }
  }

  /// Places that take texts apart by `Character`, by the files and parts of their lines.
  static let apart: [String: [String: [String]]] = [
    "positions and names of trails and nodes, of ASCII letters, digits, '-', '_', ':' and '.'": [
      "Changes/VersionVector.swift": ["text.split(separator: \" \""],
      "Changes/Position.swift": ["text.split(separator: \":\"", "text.firstIndex(of: \".\""],
      "Conflicts/VersionStamp.swift": ["origin.prefix { $0 != \".\""],
      "Replicating/CopyRequest.swift": ["text().split(separator: \" \""],
      "ControlAPI/NodeStatus.swift": ["trail.split(separator: \".\""],
      "ControlAPI/WorkerName.swift": ["text.firstIndex(of: \".\""],
      "cairn/PeerInvitation.swift": ["text.split(separator: \",\""],
      "cairn/TrailCommand.swift": ["trail.split(separator: \"/\""],
    ],
    "names of types, and numbers in them": [
      "Changes/ChunkOrder.swift": ["type.prefix { $0 != \"(\""],
      "Mapping/PostgresType+Declaration.swift": [
        "whole.firstIndex(of: \"(\"", "].firstIndex(of: \")\"", "inner.split(separator: \",\"",
      ],
      "Mapping/PostgresType+Fit.swift": [
        "name.split(separator: \" \"", "text.split(separator: \" \"", "text.contains(\":\"",
      ],
      "Mapping/PostgresType.swift": ["name.firstIndex(of: \"(\"", "].split(separator: \",\""],
      "PostgresKit/PostgresTable+Reading.swift": [").split(separator: \" \"", "text(5).split(separator: \" \""],
      "PostgresKit/TableScript.swift": ["options.split(separator: \" \"", "words.drop { $0 != \"INCREMENT\""],
    ],
    "numbers and times": [
      "Capturing/Postgres/LocalWatch.swift": ["text.split(separator: \" \""],
      "Capturing/Postgres/PostgresPosition.swift": ["text.split(separator: \":\"", "].split(separator: \",\""],
      "Mapping/DefaultText.swift": ["value.split(separator: \".\""],
      "Mapping/TimeText.swift": ["text.split(separator: \" \""],
      "Replicating/ContractProof.swift": ["time.contains(\"T\"", "text.contains(\".\""],
      "TrailText/TrailSQL+Literals.swift": ["text.split(separator: \"e\""],
      "PostgresKit/LSN.swift": ["text.split(separator: \"/\""],
      "PostgresKit/ServerMoment.swift": ["text.split(separator: \":\"", "].split(separator: \",\""],
      "Transforming/Expression.swift": ["word.contains(\"E\""],
      "Statements/Tokenizer.swift": ["firstIndex(of: \".\""],
    ],
    "rules, which name nodes and functions": [
      "Conflicts/Rule.swift": [
        "text.prefix { $0 != \":\"", "more.split(separator: \",\"", "nodes.contains(\"\"",
        "more.split(separator: \".\"",
      ],
      "cairn/ConflictText.swift": ["rule.split(separator: \",\""],
    ],
    "addresses of servers, and messages of libpq": [
      "Changes/URLPassword.swift": ["dropFirst().split(separator: \"&\"", "option.prefix { $0 != \"=\""],
      "Deploying/DatabaseURL+Conf.swift": ["url.contains(\"?\""],
      "NetKit/HTTPBase.swift": [
        "rest.firstIndex(of: \"]\"", "rest.firstIndex(of: \":\"", "host.split(separator: \".\"",
      ],
      "Endpoints/DatabaseURL.swift": ["text.contains(\":\""],
      "PostgresKit/PostgresPlace.swift": [
        "place.lastIndex(of: \"/\"", "server.firstIndex(of: \"@\"", "server.lastIndex(of: \":\"",
        "server.contains(\"/\"",
      ],
      "PostgresKit/PostgresConnection+Trust.swift": ["0.split(separator: \",\"", "host.split(separator: \".\""],
      "PostgresKit/PostgresConnection.swift": [
        "field(\"W\").split(separator: \"\\n\"", "String(cString: text).split(separator: \"\\n\"",
      ],
      "cairn/ConflictsCommand.swift": ["named.contains(\":\""],
      "cairn/IdentityCommand.swift": ["word.contains(\":\""],
      "cairn/PeerInvitation.swift": ["host.contains(\":\""],
      "cairn/QuarantineCommand.swift": [".contains(\":\""],
      "cairn/SourceCommands.swift": ["].contains(\":\""],
    ],
    "names of files": [
      "Endpoints/StateFolder.swift": ["file.lastIndex(of: \".\""]
    ],
    "constant text": [
      "Capturing/Postgres/Decisions/IncomingTransaction.swift": ["name.split(separator: \"_\""],
      "Capturing/Postgres/SchemaTriggers.swift": ["setting.split(separator: \"=\""],
      "Capturing/SQLite/CaptureTriggers.swift": ["valueNames.split(separator: \",\""],
    ],
    "scalars": [
      "Changes/TablePatterns.swift": ["plain.contains(\".\"", "0.contains(\".\""]
    ],
    "texts for people": [
      "Daemon/ApplyEntry.swift": ["before.prefix(while: { $0 != \"\\n\""],
      "Daemon/Supervisor.swift": ["0.message.prefix { $0 != \"\\n\""],
      "ControlAPI/NodeStatus.swift": ["message.prefix { $0 != \"\\n\""],
      "cairn/CommandsPage.swift": [
        "rest.firstIndex(of: \"'\"", "inner.firstIndex(of: \"'\"", "text.split(separator: \" \"",
        "word.firstIndex(of: \"-\"", "text.split(separator: \"|\"",
      ],
      "cairn/ExplainCommand.swift": ["text.split(separator: \" \""],
      "cairn/Manual+Conf.swift": ["details.split(separator: \"\\n\""],
      "cairn/ManualPage.swift": [
        "text.split(separator: \"\\n\"", "dropLast().split(separator: \"\\n\"", "words.split(separator: \" \"",
      ],
      "cairn/StatusCommand.swift": ["text.split(separator: \"\\n\""],
    ],
    "paths of requests, and places of folders": [
      "Daemon/ReceiveHandler.swift": ["path.split(separator: \"/\""],
      "ControlAPI/ControlClient.swift": ["runtime.split(separator: \":\""],
    ],
  ]

  @Test func `no names are taken apart by Character`() throws {
    var allowance = Allowance(Self.apart)
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
      for (number, line) in found where !allowance.has(name, line) {
        Issue.record("\(name):\(number + 1) finds a mark by Character: use split(at:), cut(at:) or has(): \(line)")
      }
    }
    #expect(allowance.unused.isEmpty, "no line has these, and they need not be allowed")
  }
}
