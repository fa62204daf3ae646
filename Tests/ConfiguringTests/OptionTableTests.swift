import Configuring
import Foundation
import Testing

@Suite struct OptionTableTests {
  private static let project = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private static let headers = [
    "database": "[database.b]\nurl = \"sqlite:///srv/b.db\"\n",
    "trail": "[trail.shop]\n",
    "capture": "[capture.b]\ndatabase = \"erp\"\n",
    "apply": "[peer.other]\nmay = { push = [\"*\"] }\n[apply.b]\ntrail = \"other.b\"\ndatabase = \"erp\"\n",
    "snapshot": "[peer.hq]\nmay = { pull = [\"hq.*\"] }\n[snapshot.b]\ndatabase = \"shop\"\n",
    "pump": "[pump.b]\n", "peer": "[peer.b]\nmay = { push = [\"b.*\"] }\n",
  ]

  private func file(_ path: String) throws -> String {
    try String(contentsOf: Self.project.appending(path: path), encoding: .utf8)
  }

  @Test func `docs/reference/configuration.md is what the table says`() throws {
    #expect(
      try file("docs/reference/configuration.md") == ConfDocument.markdown,
      "run 'cairn config --markdown > docs/reference/configuration.md'")
  }

  @Test func `conf/cairn.toml is what the table says, loads, and names every option`() throws {
    let text = try file("conf/cairn.toml")
    #expect(text == ConfDocument.reference, "run 'cairn config --toml > conf/cairn.toml'")
    #expect(Conf.load(text).problems.isEmpty)
    for section in OptionTable.sections {
      #expect(text.contains(section.key))
      for option in section.options where option.isSupported { #expect(text.contains("\(option.key) = ")) }
    }
  }

  @Test func `all defaults and examples of the reference are right together`() throws {
    let loaded = Conf.load(ConfDocument.wholeReference)
    #expect(loaded.problems.isEmpty, "\(loaded.problems)")
  }

  @Test func `the defaults of the table are those of the value`() throws {
    let plain = try Conf.load(Conf.good + "[receive]\nlisten = \"[::]:7420\"\n").get()
    var text = Conf.good.replacing("[database.shop]", with: "state = \"/var/lib/cairn\"\n[database.shop]")
    let named = ["capture": "database = \"shop\"", "apply": "database = \"erp\""]
    for section in OptionTable.sections where section.key != "node" {
      let lines = section.options.compactMap { option in option.defaultText.map { "\(option.key) = \($0)\n" } }.joined()
      guard !lines.isEmpty else { continue }
      if let anchor = named[section.key] {
        text = text.replacing(anchor + "\n", with: anchor + "\n" + lines)
      } else if case .single = section.form {
        text += "[\(section.key)]\n" + (section.key == "receive" ? "listen = \"[::]:7420\"\n" : "") + lines
      }
    }
    let loaded = Conf.load(text)
    #expect(loaded.problems.isEmpty, "\(loaded.problems)")
    #expect(loaded.configuration == plain)
    #expect(loaded.settings.count { $0.origin != .byDefault } > 15)
  }

  @Test func `every example is one that the option takes`() {
    for section in OptionTable.sections {
      for option in section.options where option.isSupported && !option.isRequired {
        let header =
          switch section.form {
          case .single:
            "[\(section.key)]\n"
              + (section.key == "node" ? "name = \"hq\"\n" : section.key == "receive" ? "listen = \"[::]:7420\"\n" : "")
          case .named: Self.headers[section.key] ?? ""
          case .list: "[[apply.erp.table]]\nfrom = \"a\"\n"
          }
        let other = section.key == "pump" && !["to", "from"].contains(option.key) ? "to = \"https://b\"\n" : ""
        let trail = section.key == "pump" ? "trail = \"\(option.key == "from" ? "other.b" : "hq.shop")\"\n" : ""
        let listener =
          section.key == "metrics" && option.key != "listen" ? "listen = \"127.0.0.1:7421\"\n" : ""
        let list = section.key == "apply" && option.key != "tables" ? "tables = [\"*\"]\n" : ""
        let text = header + listener + trail + other + list + "\(option.key) = \(option.example)\n"
        let loaded = Conf.load(section.key == "node" ? text : Conf.good + text)
        #expect(loaded.problems.isEmpty, "\(section.title) \(option.key): \(loaded.problems)")
      }
    }
  }
}
