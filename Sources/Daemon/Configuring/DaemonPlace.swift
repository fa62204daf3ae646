/// The options of a conf by which a daemon is found: its node, state folder and socket. They are read even from files
/// that are not valid TOML.
package struct DaemonPlace: Equatable, Sendable {
  /// The option `name` of `[node]`; nil if it is not set.
  package var node: String?
  /// The option `state` of `[node]`; nil if it is not set.
  package var state: String?
  /// The option `socket` of `[control]`; nil if it is not set.
  package var socket: String?

  init(_ files: [ConfFile], environment: @escaping (String) -> String?) {
    var collector = SectionCollector()
    for file in files {
      let roots = Self.readable(file.text).compactMap { try? TomlDocument($0, file: file.path).root }
      for root in roots { collector.add(root) }
    }
    var reader = OptionReader(environment: environment)
    let sections = collector.sections.map { ReadSection($0, &reader) }
    func text(_ section: String, _ key: String) -> String? {
      sections.first { $0.source.section.key == section }?.text(key)
    }
    (node, state, socket) = (text("node", "name"), text("node", "state"), text("control", "socket"))
  }

  /// Returns the whole text if it is valid TOML. Otherwise returns one text for each line: the header of its section,
  /// then the line. So one invalid line does not hide the others.
  private static func readable(_ text: String) -> [String] {
    if (try? TomlDocument(text, file: "")) != nil { return [text] }
    var header = ""
    return text.split(separator: "\n").compactMap { line in
      guard line.drop(while: { $0 == " " || $0 == "\t" }).hasPrefix("[") else { return header + "\n" + line }
      header = String(line)
      return nil
    }
  }
}
