import Foundation
import Testing

/// The house rules that `docs/explanation/architecture.md` states: which module may import which, and how large files
/// and types may be.
@Suite struct TidyTests {
  private struct SourceFile {
    /// The folder of `Sources` that has the module.
    let floor: String
    let module: String
    /// The path below the floor's folder.
    let path: String
    let lines: [String]
    var imports: [String] {
      // An expression is parsed each time it is used, so most lines are passed over before.
      lines.filter { $0.hasPrefix("import ") }.compactMap { line in
        line.firstMatch(of: #/^import (?:(?:struct|class|enum|func) )?(\w+)/#).map { String($0.1) }
      }
    }
  }

  /// Modules of the toolchain, which every module may import.
  private static let toolchain: Set<String> = ["Glibc", "Synchronization", "Dispatch"]

  private static var root: URL {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
  }

  /// The Swift files of all modules, except the C shims.
  private static func files() throws -> [SourceFile] {
    let sources = root.appending(path: "Sources")
    let files = try #require(FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
    return try files.compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }.map { file in
      let parts = file.pathComponents.suffix(from: sources.pathComponents.count)
      return SourceFile(
        floor: parts.first ?? "", module: parts.dropFirst().first ?? "",
        path: parts.dropFirst().joined(separator: "/"),
        lines: try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n"))
    }
  }

  private static func text(_ path: String) throws -> String {
    try String(contentsOf: root.appending(path: path), encoding: .utf8)
  }

  private static let page = "docs/explanation/architecture.md"

  /// The modules that each module may import, by the table of the architecture page.
  ///
  /// The last cell of a row lists modules. "all above" means those of all earlier rows, and "but" leaves some out.
  private static func mayImport() throws -> [(module: String, imports: Set<String>)] {
    var rows: [(module: String, imports: Set<String>)] = []
    for line in try text(page).components(separatedBy: "\n") {
      guard let row = line.firstMatch(of: #/^\| `(\w[\w-]*)` \|.*\| ([^|]*) \|$/#) else { continue }
      let cell = String(row.2)
      let names = cell.matches(of: #/`(\w+)`/#).map { String($0.1) }
      guard cell.contains("all above") else {
        if !names.isEmpty || cell == "–" { rows.append((String(row.1), Set(names))) }
        continue
      }
      let above = Set(rows.map(\.module))
      rows.append((String(row.1), cell.contains("but") ? above.subtracting(names) : above.union(names)))
    }
    return rows
  }

  @Test func `modules import only what the architecture page lists`() throws {
    let rows = try Self.mayImport()
    let allowed = Dictionary(rows.map { ($0.module, $0.imports) }) { first, _ in first }
    #expect(rows.count > 25)
    for file in try Self.files() {
      let imports = try #require(allowed[file.module], "no row of \(Self.page) is about \(file.module)")
      for name in file.imports where !imports.contains(name) && !Self.toolchain.contains(name) {
        Issue.record("\(file.path) imports \(name), which \(Self.page) does not list for \(file.module)")
      }
    }
  }

  @Test func `modules import only modules of their floor and below`() throws {
    let rows = try Self.text(Self.page).matches(of: #/\| `(\w+)/` \| (\d) \|/#)
    let levels = Dictionary(uniqueKeysWithValues: rows.map { (String($0.1), Int($0.2) ?? 0) })
    let files = try Self.files()
    #expect(Set(files.map(\.floor)).sorted() == levels.keys.filter { $0 != "C" }.sorted())
    let floors = Dictionary(files.map { ($0.module, $0.floor) }) { first, _ in first }
    for file in files {
      for name in file.imports {
        guard let floor = floors[name], let level = levels[floor], let own = levels[file.floor] else { continue }
        #expect(level <= own, "\(file.path) of floor \(file.floor) imports \(name), which is above it in \(floor)")
      }
    }
  }

  @Test func `Package.swift declares exactly what is imported`() throws {
    let package = try Self.text("Package.swift")
    var declared: [String: Set<String>] = [:]
    for match in package.matches(
      of: #/(?:module\(|executableTarget\()\s*(?:name: )?"([\w-]+)",\s*(?:dependencies: )?\[([^\]]*)\]/#)
    {
      declared[String(match.1)] = Set(match.2.matches(of: #/"(\w+)"/#).map { String($0.1) })
    }
    var imported: [String: Set<String>] = [:]
    for file in try Self.files() { imported[file.module, default: []].formUnion(file.imports) }
    #expect(imported.count > 25)
    for (module, names) in imported {
      let there = try #require(declared[module], "Package.swift has no module \(module)")
      #expect(
        names.subtracting(Self.toolchain).sorted() == there.sorted(),
        "imports of \(module) and its dependencies in Package.swift")
    }
  }

  @Test func `the library that programs embed reads no configuration and has no network`() throws {
    var imports: [String: Set<String>] = [:]
    for file in try Self.files() { imports[file.module, default: []].formUnion(file.imports) }
    var found: Set<String> = []
    var open: Set<String> = ["CairnC"]
    while let module = open.popFirst() {
      guard found.insert(module).inserted else { continue }
      open.formUnion(imports[module] ?? [])
    }
    #expect(found.isSuperset(of: ["CairnCapture", "Applying", "CSQLite"]))
    #expect(found.isDisjoint(with: ["CToml", "Configuring", "NetKit", "CHTTP", "CCurl", "CTLS", "CSystemd"]))
  }

  /// Files of more than 400 lines, with their size. A file leaves the list when it is split, and none may come in.
  static let large: [String: Int] = [
    "Applying/Postgres/OwnersCode.swift": 471,
    "Applying/SQLite/SQLiteApplyTable.swift": 442,
    "Applying/TwoWay/RowNames.swift": 479,
    "Applying/TwoWay/TwoWaySession.swift": 671,
    "Capturing/Postgres/TableTracker.swift": 496,
    "Capturing/SQLite/Journal.swift": 542,
    "Capturing/SQLite/LookWriter.swift": 486,
    "Capturing/SQLite/TriggerSource.swift": 474,
    "Changes/Record.swift": 448,
    "Explaining/ErrorCode+Explanation.swift": 632,
    "Mapping/Parsed/PostgresDDL.swift": 586,
    "Replicating/Replication.swift": 456,
  ]

  @Test func `files are short enough to be read at one sitting`() throws {
    for file in try Self.files() where file.lines.count > Self.large[file.path] ?? 401 {
      Issue.record("\(file.path) has \(file.lines.count - 1) lines: split it by what its parts are for")
    }
    let sizes = Dictionary(uniqueKeysWithValues: try Self.files().map { ($0.path, $0.lines.count) })
    for (path, _) in Self.large where sizes[path] ?? 0 <= 401 {
      Issue.record("\(path) is in the list of large files and is none")
    }
  }

  /// A limit also counts the time in which a test waits for a free thread, and thousands of tests share two of them.
  @Test func `a time limit leaves room for tests that run first`() throws {
    let tests = Self.root.appending(path: "Tests")
    let files = try #require(FileManager.default.enumerator(at: tests, includingPropertiesForKeys: nil))
    for case let file as URL in files where file.pathExtension == "swift" {
      let text = try String(contentsOf: file, encoding: .utf8)
      for limit in text.matches(of: #/timeLimit\(\.minutes\((\d+)\)/#) where Int(limit.1) ?? 0 < 20 {
        Issue.record("\(file.lastPathComponent) has a limit of \(limit.1) minutes: 20 is the least")
      }
    }
  }

  /// Types that are spread over more than five `+Topic` files, with their number.
  static let spread = ["ConfCheck": 6]

  @Test func `no type is spread over many files`() throws {
    let topics = try Self.files().compactMap { file -> String? in
      let name = file.path.split(separator: "/").last ?? ""
      return name.contains("+") ? name.split(separator: "+").first.map(String.init) : nil
    }
    // The explanations of error codes are a text by chapters.
    for (type, files) in Dictionary(grouping: topics, by: \.self) where type != "ErrorCode" {
      #expect(files.count <= Self.spread[type] ?? 5, "\(type) is spread over \(files.count) files of topics")
    }
  }

  /// The most that a type may have, over all of its files.
  static let mostStored = 25
  static let mostMethods = 40

  /// Types with more stored properties, with their number. A number may only go down.
  static let wide = [
    "Applying.TwoWaySession": 34,
    "Applying.ApplyOptions": 31,
  ]

  /// Types with more methods and initializers, with their number. A number may only go down.
  static let busy = [
    "PostgresKit.PostgresConnection": 84,
    "Applying.TwoWaySession": 75, "Mapping.DDLParser": 68, "Capturing.Journal": 59, "SQLiteKit.Database": 51,
    "Versions.WindowIndex": 48, "Checking.ConfCheck": 46, "Capturing.PostgresSource": 44,
    "Configuring.OptionReader": 43,
    "Applying.PostgresApply": 42, "Statements.StatementParser": 41,
  ]

  /// Counts the stored properties and the methods of each type, by module and name.
  ///
  /// A member of a type in a formatted file is indented by two spaces. A property whose line opens a brace counts as
  /// computed.
  private static func members(_ files: [SourceFile]) -> (stored: [String: Int], methods: [String: Int]) {
    var (stored, methods): ([String: Int], [String: Int]) = ([:], [:])
    for file in files {
      var type: String?
      for line in file.lines {
        if line.hasPrefix("}") {
          type = nil
        } else if !line.hasPrefix(" "),
          let match = line.firstMatch(of: #/^(?:@\w+ |\w+ )*?(?:class|struct|enum|actor|extension) (\w+)/#)
        {
          type = "\(file.module).\(match.1)"
        } else if let type, line.hasPrefix("  "), !line.hasPrefix("   "), line.dropFirst(2).first != "/" {
          let head = line.prefix { $0 != "=" && $0 != ":" && $0 != "<" }
          let words = head.replacing("(set)", with: "").split(separator: " ")
          let kind = words.first { word in
            ["let", "var", "case", "func"].contains(word) || word.hasPrefix("init")
          }
          switch kind {
          case "let", "var": if !line.contains("{"), !words.contains("static") { stored[type, default: 0] += 1 }
          case "case", nil: break
          default: methods[type, default: 0] += 1
          }
        }
      }
    }
    return (stored, methods)
  }

  @Test func `no type has too many properties or methods`() throws {
    let (stored, methods) = Self.members(try Self.files())
    #expect(stored.count > 400 && methods.count > 400)
    for (type, count) in stored where count > max(Self.mostStored, Self.wide[type] ?? 0) {
      Issue.record("\(type) has \(count) stored properties: give some of them to a type of their own")
    }
    for (type, count) in methods where count > max(Self.mostMethods, Self.busy[type] ?? 0) {
      Issue.record("\(type) has \(count) methods: give some of them to a type of their own")
    }
    for type in Self.wide.keys where stored[type] ?? 0 <= Self.mostStored {
      Issue.record("\(type) is in the list of types with many properties and is none")
    }
    for type in Self.busy.keys where methods[type] ?? 0 <= Self.mostMethods {
      Issue.record("\(type) is in the list of types with many methods and is none")
    }
  }

  /// Files of apply outside of the engines' folders that import an engine. A file leaves the list when it needs none.
  static let engineFiles: Set<String> = [
    "Applying/ApplyOptions.swift",
    "Applying/TwoWay/CaptureStream.swift",
    "Applying/TwoWay/ConflictExpression.swift",
    "Applying/TwoWay/KeyCheck+Apply.swift",
    "Applying/TwoWay/KeyCheck.swift",
    "Applying/TwoWay/QuietServer.swift",
    "Applying/TwoWay/TwoWay.swift",
  ]

  @Test func `apply knows engines only in the folders of the engines`() throws {
    let found = try Self.files().filter { file in
      file.module == "Applying" && !file.path.contains("/SQLite/") && !file.path.contains("/Postgres/")
        && file.imports.contains { ["SQLiteKit", "PostgresKit"].contains($0) }
    }
    #expect(Set(found.map(\.path)).sorted() == Self.engineFiles.sorted())
  }
}
