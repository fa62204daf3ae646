import Changes
import Conflicts

// Rules for conflicts.
extension OptionReader {
  mutating func rule(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    guard let text = string(node, option), let rule = rule(text, node.place, option.key) else { return nil }
    guard rule.isForRows else {
      refuse(
        node.place, "\(option.key) = \"\(text)\" is a rule for single columns, not for rows",
        "write conflicts = { COLUMN = \"\(text)\" }, and \(option.key) = \"newest\" for the rest of the row")
      return nil
    }
    if case .sql(let expression) = rule,
      !isExpression(expression, node.place, option.key, .ofConflict(isOfRows: true))
    {
      return nil
    }
    return .text(rule.text)
  }

  mutating func rules(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    guard case .table(let entries) = node.value else {
      wrongType(node, option)
      return nil
    }
    guard !entries.isEmpty else {
      refuse(node.place, "\(option.key) is empty", "name a column, or leave it out")
      return nil
    }
    var rules: [ColumnRule] = []
    var seen: [NameKey: ConfPlace] = [:]
    var isWhole = true
    for entry in entries {
      if let first = seen.updateValue(entry.keyPlace, forKey: entry.key.sqliteKey) {
        twice(entry.keyPlace, "column \(entry.key) has a rule already, at \(first)")
        isWhole = false
      } else if let rule = columnRule(entry, option) {
        rules.append(ColumnRule(column: entry.key, rule: rule))
      } else {
        isWhole = false
      }
    }
    return isWhole ? .rules(rules) : nil
  }

  private mutating func columnRule(_ entry: TomlEntry, _ option: OptionTable.Option) -> ConflictRules.Rule? {
    let name = "the rule of column \(entry.key)"
    guard let text = string(entry.node, option, as: name, example: "\(entry.key) = \"newest\""),
      let rule = rule(text, entry.node.place, name)
    else { return nil }
    guard rule.isForColumns else {
      refuse(
        entry.node.place, "\(name) is \"\(text)\", which is a rule for whole rows",
        "write conflict = \"\(text)\" for the table, or another rule for the column, such as \"target\"")
      return nil
    }
    if case .sql(let expression) = rule,
      !isExpression(expression, entry.node.place, name, .ofConflict(isOfRows: false))
    {
      return nil
    }
    return rule
  }

  private mutating func rule(_ text: String, _ place: ConfPlace, _ name: String) -> ConflictRules.Rule? {
    let allowed = "there are \(ConflictRules.Rule.names.joined(separator: ", "))"
    do throws(ConflictRules.Rule.Fault) {
      let rule = try ConflictRules.Rule(text)
      guard case .priority(let nodes) = rule, let wrong = nodes.first(where: { !Self.isOrigin($0) }) else {
        return rule
      }
      refuse(
        place, "\(name) is \"\(text)\": '\(wrong)' is not the name of a node",
        "write the names of nodes, a-z, 0-9, _ and -, or of trails, NODE.NAME")
    } catch {
      switch error {
      case .unknown(let near):
        refuse(place, "\(name) is \"\(text)\", which is not known", "write \"\(near)\"; \(allowed)")
      case .incomplete(let example):
        refuse(
          place, "\(name) is \"\(text)\", which is incomplete", "write it as in \"\(example)\"")
      case .tooMuch(let rule):
        refuse(place, "\(name) is \"\(text)\"; \(rule) takes no value", "write \"\(rule)\"; \(allowed)")
      }
    }
    return nil
  }
}

extension OptionReader {
  static func isOrigin(_ text: String) -> Bool {
    isName(text) || TrailName(text).map { isName($0.origin) && isName($0.name) } ?? false
  }
}

/// The conflict rule of a column.
struct ColumnRule: Equatable, Sendable {
  @ByBytes var column: String
  var rule: ConflictRules.Rule
}
