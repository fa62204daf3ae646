import Changes
import Mapping

/// A section of the conf with its valid options.
struct ReadSection {
  struct Entry {
    var value: OptionValue
    var place: ConfPlace
    var shown: String
  }

  let source: ConfSection
  private(set) var values: [String: Entry] = [:]
  /// The options that are present but invalid, with their places in the conf.
  private(set) var wrong: [String: ConfPlace] = [:]

  /// Reads the options of a section. The reader gets a problem for each unknown, invalid or missing option.
  init(_ source: ConfSection, _ reader: inout OptionReader) {
    self.source = source
    let section = source.section
    var isThere: Set<String> = []
    for entry in source.entries {
      guard let option = section.options.first(where: { $0.key == entry.key }) else {
        let known = section.options.filter(\.isSupported).map(\.key)
        let near = entry.key.lowercased().nearest(in: known).map { "did you mean '\($0)'? " } ?? ""
        reader.add(
          .confUnknown, entry.keyPlace, "'\(entry.key)' is not an option of \(section.title)",
          "\(near)there are \(known.joined(separator: ", "))")
        continue
      }
      isThere.insert(option.key)
      guard option.isSupported else {
        reader.add(
          .confUnsupported, entry.keyPlace, "'\(option.key)' in \(section.title) is not part of this version",
          "remove it")
        continue
      }
      if let value = reader.read(entry.node, of: option) {
        values[option.key] = Entry(value: value, place: entry.node.place, shown: value.shown(entry.node))
      } else {
        wrong[option.key] = entry.node.place
      }
    }
    for option in section.options where option.isRequired && !isThere.contains(option.key) {
      reader.add(
        .confMissing, source.place, "\(source.title) has no '\(option.key)'",
        "add \(option.key) = \(option.example): \(option.help)")
    }
  }

  func place(_ key: String) -> ConfPlace { values[key]?.place ?? source.place }

  // MARK: Values, by the types that the option table gives them

  func text(_ key: String) -> String? { if case .text(let text)? = values[key]?.value { text } else { nil } }
  func flag(_ key: String) -> Bool? { if case .flag(let flag)? = values[key]?.value { flag } else { nil } }
  func count(_ key: String) -> Int? { if case .count(let count)? = values[key]?.value { count } else { nil } }
  func list(_ key: String) -> [String]? { if case .list(let list)? = values[key]?.value { list } else { nil } }
  func files(_ key: String) -> Configuration.PeerFiles? {
    if case .files(let files)? = values[key]?.value { files } else { nil }
  }
  func grants(_ key: String) -> (push: [String], pull: [String])? {
    if case .grants(let push, let pull)? = values[key]?.value { (push, pull) } else { nil }
  }
  func bytes(_ key: String) -> Int64? { if case .bytes(let bytes)? = values[key]?.value { bytes } else { nil } }
  func history(_ key: String) -> Configuration.History? {
    if case .history(let history)? = values[key]?.value { history } else { nil }
  }
  func duration(_ key: String) -> Duration? {
    if case .duration(let duration)? = values[key]?.value { duration } else { nil }
  }
  func rules(_ key: String) -> [ColumnRule] { if case .rules(let rules)? = values[key]?.value { rules } else { [] } }
  func columns(_ key: String) -> [TableRule.Column]? {
    if case .columns(let columns)? = values[key]?.value { columns } else { nil }
  }
}

extension OptionValue {
  // A duration or size is returned as the file has it.
  fileprivate func shown(_ node: TomlNode) -> String {
    switch self {
    case .text(let text): Self.quoted(text)
    case .flag(let flag): flag ? "true" : "false"
    case .count(let count): String(count)
    case .history:
      switch node.value {
      case .array(let elements):
        "["
          + elements.compactMap { if case .string(let text) = $0.value { Self.quoted(text) } else { nil } }
          .joined(separator: ", ") + "]"
      case .string(let text): Self.quoted(text)
      default: ""
      }
    case .duration, .bytes: if case .string(let text) = node.value { Self.quoted(text) } else { "" }
    case .list(let texts): "[" + texts.map(Self.quoted).joined(separator: ", ") + "]"
    case .files(let files):
      "{ certificate = \(Self.quoted(files.certificate)), key = \(Self.quoted(files.key)), peers = \(Self.quoted(files.peers)) }"
    case .grants(let push, let pull):
      "{ "
        + [("push", push), ("pull", pull)].filter { !$0.1.isEmpty }.map { key, list in
          "\(key) = [" + list.map(Self.quoted).joined(separator: ", ") + "]"
        }.joined(separator: ", ") + " }"
    case .rules(let rules):
      "{ "
        + rules.map { "\(Self.key($0.column)) = \(Self.quoted($0.rule.text))" }.joined(separator: ", ") + " }"
    case .columns(let columns):
      "{ "
        + columns.map { column in
          let value = Self.quoted(column.expression)
          let type = column.type.map { ", type = \(Self.quoted($0))" } ?? ""
          let share = column.isShare ? "" : ", share = false"
          let whole = type.isEmpty && share.isEmpty ? value : "{ expr = \(value)\(type)\(share) }"
          return "\(Self.key(column.name)) = \(whole)"
        }.joined(separator: ", ") + " }"
    }
  }

  private static func key(_ name: String) -> String { OptionReader.isName(name.lowercased()) ? name : quoted(name) }

  static func quoted(_ text: String) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": out += "\\\(scalar)"
      case "\n": out += "\\n"
      case "\t": out += "\\t"
      case _ where scalar.value < 0x20 || scalar.value == 0x7f: out += "\\u" + UInt64(scalar.value).hex(4)
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }
}
