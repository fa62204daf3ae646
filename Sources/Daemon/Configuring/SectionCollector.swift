import Changes

/// A section, merged from all files, with options that are not parsed yet.
struct ConfSection {
  let section: OptionTable.Section
  /// The name of the section. For `[[apply.NAME.table]]`, it is NAME.
  let name: String
  /// The place of the section's first header.
  let place: ConfPlace
  var entries: [TomlEntry] = []

  var title: String {
    switch section.form {
    case .single: "[\(section.key)]"
    case .named: name.contains(".") ? "[\(section.key).\"\(name)\"]" : "[\(section.key).\(name)]"
    case .list(let parent): "[[\(parent).\(name).\(section.key)]]"
    }
  }
}

/// Merges sections of the same name from all files. An option that several of the merged sections set is a problem.
struct SectionCollector {
  private(set) var sections: [ConfSection] = []
  private(set) var problems: [ConfProblem] = []

  mutating func add(_ root: TomlNode) {
    guard case .table(let entries) = root.value else { return }
    for entry in entries {
      guard let section = OptionTable.section(entry.key) else {
        unknown(entry)
        continue
      }
      guard case .table(let inner) = entry.node.value else {
        add(
          .confValue, entry.keyPlace,
          "'\(entry.key)' is \(entry.node.value.description), but \(section.title) is a section",
          "write \(section.title) on a line of its own, and its options below")
        continue
      }
      if case .single = section.form {
        merge(section, "", entry.node.place, inner)
      } else {
        named(section, inner)
      }
    }
  }

  private mutating func named(_ section: OptionTable.Section, _ entries: [TomlEntry]) {
    for entry in entries {
      guard case .table(let inner) = entry.node.value else {
        let isOption = section.options.contains { $0.key == entry.key }
        add(
          .confUnknown, entry.keyPlace,
          isOption
            ? "'\(entry.key)' is in [\(section.key)], which has no name"
            : "'\(entry.key)' is \(entry.node.value.description), but \(section.title) is a section",
          "write [\(section.key).\(section.example)], with a name of your own, above its options")
        continue
      }
      if section.key == OptionTable.trail.key, let (part, name) = Self.unquoted(inner, after: entry.key) {
        add(
          .confValue, part.keyPlace, "[trail.\(name)] is a section inside of [trail.\(entry.key)]",
          "write the name of a received trail in quotes: [trail.\"\(name)\"]")
        continue
      }
      // Certificates are often for the name of a host.
      let isHost =
        section.key == OptionTable.peer.key && entry.key == entry.key.lowercased() && PeerURL.isHost(entry.key)
      let isTrail = section.key == OptionTable.trail.key && TrailName(entry.key)?.isConfName == true
      guard isHost || isTrail || OptionReader.isName(entry.key) else {
        add(
          .confValue, entry.keyPlace, "'\(entry.key)' cannot be the name of a \(section.key)",
          "a name is made of a-z, 0-9, _ and -, 63 at most: [\(section.key).\(Self.mended(entry.key))]")
        continue
      }
      merge(section, entry.key, entry.node.place, rules(in: inner, section, entry))
    }
  }

  /// Returns the trail that the header `[trail.NODE.NAME]` means; nil if the header has no third part.
  private static func unquoted(_ entries: [TomlEntry], after node: String) -> (part: TomlEntry, name: String)? {
    for entry in entries {
      if case .table = entry.node.value { return (entry, "\(node).\(entry.key)") }
    }
    return nil
  }

  private static func mended(_ name: String) -> String {
    let letters = name.lowercased().map { OptionReader.isName(String($0)) ? $0 : "-" }
    return letters.isEmpty ? "name" : String(letters.prefix(63))
  }

  // Moves rules, such as `[[apply.NAME.table]]`, out of the entries of an apply's section.
  private mutating func rules(in entries: [TomlEntry], _ parent: OptionTable.Section, _ named: TomlEntry) -> [TomlEntry]
  {
    guard parent.key == OptionTable.apply.key else { return entries }
    return entries.filter { entry in
      guard entry.key == OptionTable.table.key else { return true }
      guard case .array(let elements) = entry.node.value else {
        add(
          .confValue, entry.keyPlace,
          "[apply.\(named.key).table] is \(entry.node.value.description), not a list of rules",
          "write [[apply.\(named.key).table]], once for each table")
        return false
      }
      for element in elements {
        guard case .table(let inner) = element.value else {
          add(
            .confValue, element.place, "a rule is \(element.value.description), not a table",
            "write [[apply.\(named.key).table]], and the options below")
          continue
        }
        sections.append(ConfSection(section: OptionTable.table, name: named.key, place: element.place, entries: inner))
      }
      return false
    }
  }

  private mutating func merge(
    _ section: OptionTable.Section, _ name: String, _ place: ConfPlace, _ entries: [TomlEntry]
  ) {
    guard let index = sections.firstIndex(where: { $0.section.key == section.key && $0.name == name }) else {
      sections.append(ConfSection(section: section, name: name, place: place, entries: entries))
      return
    }
    for entry in entries {
      if let first = sections[index].entries.first(where: { $0.key == entry.key }) {
        add(
          .confTwice, entry.keyPlace,
          "'\(entry.key)' of \(sections[index].title) is there already, at \(first.keyPlace)",
          "take one of the two out")
      } else {
        sections[index].entries.append(entry)
      }
    }
  }

  private mutating func unknown(_ entry: TomlEntry) {
    let keys = OptionTable.sections.filter { OptionTable.section($0.key) != nil }
    // An option above all headers is a common slip.
    let owner = keys.first { $0.options.contains { $0.key == entry.key } }
    let isTable = if case .table = entry.node.value { true } else { false }
    let near = isTable ? entry.key.nearest(in: keys.map(\.key)).flatMap { OptionTable.section($0) } : nil
    let hint = near.map { "did you mean \($0.title)?" } ?? "there are \(keys.map(\.title).joined(separator: ", "))"
    add(
      .confUnknown, entry.keyPlace,
      isTable ? "there is no section [\(entry.key)]" : "'\(entry.key)' is above all sections",
      owner.flatMap { isTable ? nil : "write \($0.title) above it" } ?? hint)
  }

  private mutating func add(_ code: ErrorCode, _ place: ConfPlace, _ message: String, _ hint: String) {
    problems.append(ConfProblem(code, at: place, message, hint: hint))
  }
}
