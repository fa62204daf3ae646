/// The options of a conf that show where its daemon is: node, state folder and socket. Even a file with invalid TOML is
/// read for these options.
package struct DaemonPlace: Equatable, Sendable {
  package var node: String?
  package var state: String?
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

  // Each line is read with the header of its section, so that one invalid line does not hide the others.
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
