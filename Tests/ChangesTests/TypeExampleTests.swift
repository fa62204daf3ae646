import Foundation
import Testing

/// A type that other modules create has an example in its comment, so that a reader need not look for a call.
@Suite struct TypeExampleTests {
  struct SourceText {
    var module: String
    var text: String
  }

  struct DeclaredType {
    var module: String
    var name: String
    var isPublic: Bool
    var hasExample: Bool
    var hasInit = false
    /// The names by which other modules call it.
    var calls: [String] {
      let parts = name.split(separator: ".")
      return parts.count == 1 ? [name, "\(module).\(name)"] : [parts.suffix(2).joined(separator: ".")]
    }
  }

  /// Types without an example. The list may only shrink.
  static let without: Set<String> = []

  /// Modules whose public types an application creates, so no module here calls them.
  static let libraries: Set<String> = ["CairnCapture"]

  // MARK: Declarations

  private static func words(_ line: Substring) -> [Substring] {
    line.split { !$0.isLetter && !$0.isNumber && !"_.@".contains($0) }
  }

  private static func hasExample(_ comment: [Substring]) -> Bool {
    comment.contains { $0.contains("```") || $0.hasPrefix("     ") || $0.contains("Example: `") }
  }

  /// The types that a file declares for other modules, and the initializers that it gives to types.
  static func types(_ source: SourceText) -> (types: [DeclaredType], inits: [(type: String, hasExample: Bool)]) {
    var found: [DeclaredType] = []
    var inits: [(type: String, hasExample: Bool)] = []
    var open: [(indent: Int, name: String)] = []
    var comment: [Substring] = []
    for line in source.text.split(separator: "\n", omittingEmptySubsequences: false) {
      let text = line.drop { $0 == " " }
      if text.hasPrefix("///") {
        comment.append(text.dropFirst(3))
        continue
      }
      if text.hasPrefix("@"), !text.contains("package "), !text.contains("public ") { continue }
      defer { comment = [] }
      let indent = line.count - text.count
      guard !text.isEmpty, !text.hasPrefix("//") else { continue }
      while let last = open.last, last.indent >= indent { open.removeLast() }
      let names = words(text)
      let isPublic = names.contains("public")
      let keyword = names.firstIndex { ["struct", "class", "enum", "actor", "protocol", "extension"].contains($0) }
      let modifiers = names.prefix { !["struct", "class", "enum", "actor", "protocol", "extension"].contains($0) }
      let areModifiers = modifiers.allSatisfy {
        $0.hasPrefix("@")
          || ["package", "public", "private", "fileprivate", "final", "indirect", "unchecked"].contains($0)
      }
      if let keyword, areModifiers, keyword + 1 < names.count {
        let name = (open.map(\.name) + [String(names[keyword + 1])]).joined(separator: ".")
        open.append((indent, String(names[keyword + 1])))
        guard names[keyword] != "extension", names[keyword] != "protocol" else { continue }
        guard isPublic || names.contains("package") else { continue }
        found.append(
          DeclaredType(module: source.module, name: name, isPublic: isPublic, hasExample: hasExample(comment)))
      } else if isPublic || names.first == "package", !open.isEmpty,
        let place = text.firstRange(of: "init"), "(<?!".contains(text[place.upperBound...].first ?? " "),
        !text[..<place.lowerBound].contains("func "), !text[..<place.lowerBound].contains(".")
      {
        inits.append((open.map(\.name).joined(separator: "."), hasExample(comment)))
      }
    }
    return (found, inits)
  }

  // MARK: Calls

  /// The names before a parenthesis in code, such as `Position` and `NodeStatus.Problem`.
  static func calls(_ code: [UInt8]) -> Set<String> {
    var names: Set<String> = []
    func isName(_ byte: UInt8) -> Bool {
      (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x5f
        || byte == 0x2e
    }
    for (place, byte) in code.enumerated() where byte == UInt8(ascii: "(") {
      var end = place
      if end > 0, code[end - 1] == UInt8(ascii: ">") {
        while end > 0, code[end - 1] != UInt8(ascii: "<"), place - end < 80 { end -= 1 }
        end = max(0, end - 1)
      }
      var start = end
      while start > 0, isName(code[start - 1]) { start -= 1 }
      guard start < end else { continue }
      names.insert(String(decoding: code[start..<end], as: UTF8.self))
    }
    return names
  }

  /// The types that another module creates and whose comment has no example, as `MODULE.TYPE`, and the number of all
  /// types that another module creates.
  static func lacking(_ sources: [SourceText]) -> (names: [String], count: Int) {
    var types: [String: DeclaredType] = [:]
    var inits: [(type: String, hasExample: Bool)] = []
    for source in sources {
      let found = Self.types(source)
      for type in found.types { types["\(type.module).\(type.name)"] = type }
      inits += found.inits.map { ("\(source.module).\($0.type)", $0.hasExample) }
    }
    for (type, hasExample) in inits {
      types[type]?.hasInit = true
      if hasExample { types[type]?.hasExample = true }
    }
    var callers: [String: Set<String>] = [:]
    for source in sources {
      let lines = source.text.split(separator: "\n")
      let code = lines.filter { !$0.drop { $0 == " " }.hasPrefix("//") }.joined(separator: "\n")
      let imports = lines.filter { $0.hasPrefix("import ") }.map {
        $0.split(separator: " ").last.map(String.init) ?? ""
      }
      for name in calls(Array(code.utf8)) {
        // A nested type is named by its last two parts.
        let parts = name.split(separator: ".").map(String.init)
        let short = parts.suffix(2).joined(separator: ".")
        for key in Set([name, short]) { callers[key, default: []].formUnion(imports) }
      }
    }
    let made = types.values.filter { type in
      type.hasInit
        && (type.isPublic && libraries.contains(type.module)
          || type.calls.contains { callers[$0]?.contains(type.module) == true })
    }
    return (made.filter { !$0.hasExample }.map { "\($0.module).\($0.name)" }.sorted(), made.count)
  }

  // MARK: Tests

  @Test func `a type that another module creates has an example`() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Sources")
    let files = try #require(FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
    let sources = try files.compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }.map { file in
      SourceText(
        module: file.pathComponents.dropFirst(root.pathComponents.count + 1).first ?? "",
        text: try String(contentsOf: file, encoding: .utf8))
    }
    let (names, count) = Self.lacking(sources)
    #expect(count > 150)
    for name in names where !Self.without.contains(name) {
      Issue.record("\(name) is created by another module: show a line of code in its comment")
    }
    #expect(Self.without.isSubset(of: names), "remove from the list: \(Self.without.subtracting(names).sorted())")
  }

  @Test(arguments: [
    ("/// A place.\npackage struct Place {", "Place(1)", 1),
    ("/// A place.\n///\n///     Place(1)\npackage struct Place {", "Place(1)", 0),
    ("/// A place.\n///\n/// ```swift\n/// Place(1)\n/// ```\npublic struct Place {", "Place(1)", 0),
    ("/// A place. Example: `Place(1)`.\npackage final class Place {", "let a = Kit.Place(1)", 0),
    ("/// A place.\npackage struct Place {", "place(1)", 0),
    ("/// A place.\npackage struct Place {", "Other.Place(1)", 0),
    ("/// A place.\npackage struct Place<T> {", "Place<[Int]>(1)", 1), ("/// A place.\nstruct Place {", "Place(1)", 0),
    ("/// A place.\npackage struct Place {", "// Place(1)", 0),
  ])
  func `a type without an example is found`(declaration: String, call: String, count: Int) {
    let found = Self.lacking([
      SourceText(module: "Kit", text: declaration + "\n  package init(_ number: Int) {}\n}\n"),
      SourceText(module: "Use", text: "import Kit\n\n\(call)\n"),
    ])
    #expect(found.names.count == count, "\(found)")
  }

  @Test func `a nested type and an initializer of an extension are found`() {
    let kit = """
      /// A.
      package struct Outer {
        /// B.
        package struct Inner {
          package init(_ n: Int) {}
        }
        let n: Int
      }

      extension Outer {
        package init?(text: String) { nil }
      }
      """
    let use = SourceText(module: "Use", text: "import Kit\n\nOuter.Inner(1)\nOuter(text: \"\")\n")
    #expect(Self.lacking([SourceText(module: "Kit", text: kit), use]).names == ["Kit.Outer", "Kit.Outer.Inner"])
    #expect(Self.lacking([SourceText(module: "Kit", text: kit), .init(module: "Use", text: "Outer(1)")]).names == [])
  }
}
