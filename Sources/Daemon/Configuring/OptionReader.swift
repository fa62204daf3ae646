import Changes
import Mapping

/// Converts TOML values to values of options, and collects a problem for each invalid one.
struct OptionReader {
  let environment: (String) -> String?
  let expressionFault: LoadedConfiguration.ExpressionFault
  private(set) var problems: [ConfProblem] = []

  init(
    environment: @escaping (String) -> String?,
    expressionFault: @escaping LoadedConfiguration.ExpressionFault = { _, _ in nil }
  ) {
    (self.environment, self.expressionFault) = (environment, expressionFault)
  }

  /// Converts a TOML value to a value of the option. Adds a problem and returns nil if the value is invalid.
  mutating func read(_ node: TomlNode, of option: OptionTable.Option) -> OptionValue? {
    switch option.kind {
    case .flag: flag(node, option)
    case .count(let range): count(node, option, range)
    case .patterns, .misfits, .peers: list(node, option)
    case .trails: trails(node, option)
    case .files: files(node, option)
    case .grants: grants(node, option)
    case .columns: columns(node, option)
    case .rule: rule(node, option)
    case .rules: rules(node, option)
    case .duration(let range): duration(node, option, range)
    case .size: size(node, option)
    case .history: history(node, option)
    default: string(node, option).flatMap { text(of: $0, node.place, option) }.map { .text($0) }
    }
  }

  // MARK: Not text

  private mutating func flag(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    if case .boolean(let value) = node.value { return .flag(value) }
    wrongType(node, option)
    return nil
  }

  private mutating func count(
    _ node: TomlNode, _ option: OptionTable.Option, _ range: ClosedRange<Int>
  ) -> OptionValue? {
    guard case .integer(let value) = node.value else {
      wrongType(node, option)
      return nil
    }
    guard range.contains(Int(value)) else {
      let bound = Int(value) < range.lowerBound ? range.lowerBound : range.upperBound
      refuse(
        node.place, "\(option.key) is \(value); it may be from \(range.lowerBound) to \(range.upperBound)",
        "write \(option.key) = \(bound)")
      return nil
    }
    return .count(Int(value))
  }

  private mutating func list(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    guard case .array(let elements) = node.value else {
      wrongType(node, option)
      return nil
    }
    guard !elements.isEmpty else {
      refuse(node.place, "\(option.key) is empty", Self.write(option))
      return nil
    }
    let texts = elements.map { element in
      string(element, option).flatMap { self.element($0, element.place, option) }
    }
    return texts.contains(nil) ? nil : .list(texts.compactMap { $0 })
  }

  private mutating func element(_ text: String, _ place: ConfPlace, _ option: OptionTable.Option) -> String? {
    if option.kind == .misfits {
      do throws(CairnError) { _ = try MisfitPolicies(parsing: text) } catch {
        refuse(place, error.message, error.hint)
        return nil
      }
    } else if option.kind == .peers, !PeerURL.isHost(text) {
      refuse(place, "\"\(text)\" is not the name of a peer", Self.write(option))
      return nil
    } else if text.drop(while: { $0 == "!" }).isEmpty {
      refuse(place, "\"\(text)\" is not a pattern of tables", Self.write(option))
      return nil
    }
    return text
  }

  private mutating func columns(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    guard case .table(let entries) = node.value else {
      wrongType(node, option)
      return nil
    }
    guard !entries.isEmpty else {
      refuse(node.place, "\(option.key) is empty", "name a column, or leave it out for all columns unchanged")
      return nil
    }
    var columns: [TableRule.Column] = []
    var seen: [NameKey: ConfPlace] = [:]
    var isWhole = true
    for entry in entries {
      if let first = seen.updateValue(entry.keyPlace, forKey: entry.key.sqliteKey) {
        twice(entry.keyPlace, "column \(entry.key) is there already, at \(first)")
        isWhole = false
      }
      guard let column = column(entry, option) else {
        isWhole = false
        continue
      }
      columns.append(column)
    }
    return isWhole ? .columns(columns) : nil
  }

  /// Parses a column rule: `amount = "round(total, 2)"`, or `amount = { expr = "round(total, 2)", type =
  /// "numeric(10,2)" }`.
  private mutating func column(_ entry: TomlEntry, _ option: OptionTable.Option) -> TableRule.Column? {
    guard !entry.key.isEmpty else {
      refuse(entry.keyPlace, "a column without a name", Self.write(option))
      return nil
    }
    guard case .table(let parts) = entry.node.value else {
      guard let text = string(entry.node, option, as: "column \(entry.key)", example: "\(entry.key) = \"\(entry.key)\"")
      else { return nil }
      guard let expression = nonEmpty(text, entry.node.place, "the expression of column \(entry.key)"),
        isExpression(expression, entry.node.place, column: entry.key)
      else { return nil }
      return TableRule.Column(entry.key, expression)
    }
    var found: [String: String] = [:]
    var isShare = true
    for part in parts {
      let name = "\(part.key) of column \(entry.key)"
      switch part.key {
      case "expr", "type":
        guard let text = string(part.node, option, as: name, example: "\(part.key) = \"...\""),
          let value = nonEmpty(text, part.node.place, name),
          part.key == "type" || isExpression(value, part.node.place, column: entry.key)
        else { return nil }
        found[part.key] = value
      case "share":
        guard case .boolean(let value) = part.node.value else {
          refuse(part.node.place, "\(name) is \(part.node.value.description)", "write share = false, or leave it out")
          return nil
        }
        isShare = value
      default:
        let near = part.key.nearest(in: ["expr", "type", "share"]).map { "did you mean \($0)? " } ?? ""
        add(
          .confUnknown, part.keyPlace, "'\(part.key)' is not a part of a column",
          "\(near)a column is an expression or { expr = \"...\", type = \"...\", share = false }")
        return nil
      }
    }
    guard let expression = found["expr"] else {
      add(
        .confMissing, entry.node.place, "column \(entry.key) has no expr",
        "write \(entry.key) = { expr = \"\(entry.key)\"\(found["type"].map { ", type = \"\($0)\"" } ?? "") }")
      return nil
    }
    return TableRule.Column(entry.key, expression, type: found["type"], isShare: isShare)
  }

  // MARK: Amounts

  mutating func duration(
    _ node: TomlNode, _ option: OptionTable.Option, _ range: ClosedRange<Duration>
  ) -> OptionValue? {
    guard let text = string(node, option) else { return nil }
    do throws(Quantity.Misread) {
      let value = try Quantity.duration(text)
      if range.contains(value) { return .duration(value) }
      let bound = value < range.lowerBound ? range.lowerBound : range.upperBound
      refuse(
        node.place,
        "\(option.key) is \(text); it may be from \(OptionKind.text(range.lowerBound)) to \(OptionKind.text(range.upperBound))",
        "write \(option.key) = \"\(OptionKind.text(bound))\"")
    } catch {
      misread(error, text, node.place, option, "duration", Quantity.durationUnits.map(\.name), usual: "s") { mended in
        (try? Quantity.duration(mended)).map(range.contains) ?? false
      }
    }
    return nil
  }

  mutating func size(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    guard let text = string(node, option) else { return nil }
    do throws(Quantity.Misread) {
      let bytes = try Quantity.bytes(text)
      if bytes >= Self.leastBytes { return .bytes(bytes) }
      refuse(
        node.place, "\(option.key) is \(text); one segment of a trail takes 16 MiB, so the least is 64 MiB",
        "write \(option.key) = \"64 MiB\" or more")
    } catch {
      misread(error, text, node.place, option, "size", Quantity.byteUnits.map(\.name), usual: "GiB") { mended in
        (try? Quantity.bytes(mended)).map { $0 >= Self.leastBytes } ?? false
      }
    }
    return nil
  }

  private static let leastBytes: Int64 = 64 << 20

  // Only a suggestion that `isAllowed` accepts is shown.
  private mutating func misread(
    _ error: Quantity.Misread, _ text: String, _ place: ConfPlace, _ option: OptionTable.Option, _ what: String,
    _ units: [String], usual: String, isAllowed: (String) -> Bool
  ) {
    let allowed = "units are \(units.joined(separator: ", "))"
    func mended(_ number: some StringProtocol, _ first: String) -> String {
      let fit = [first, usual].map { "\(number) \($0)" }.first(where: isAllowed)
      return fit.map { "write \(option.key) = \"\($0)\"" } ?? Self.write(option)
    }
    switch error {
    case .noNumber:
      refuse(place, "\(option.key) is \"\(text)\", which is not a \(what)", "\(Self.write(option)); \(allowed)")
    case .noUnit:
      refuse(
        place, "\(option.key) is \"\(text)\", without a unit", "\(mended(text, usual)); \(allowed)")
    case .unknownUnit(let unit):
      let number = text.prefix { $0.isNumber || $0 == "." }
      let near = Quantity.nearest(unit, in: units) ?? usual
      refuse(
        place, "\(option.key) is \"\(text)\"; it has the unknown unit '\(unit)'",
        "\(mended(number, near)); \(allowed)")
    case .tooLarge: refuse(place, "\(option.key) is \"\(text)\", which is too much", Self.write(option))
    }
  }
}

// MARK: - Problems

extension OptionReader {
  mutating func add(_ code: ErrorCode, _ place: ConfPlace, _ message: String, _ hint: String) {
    problems.append(ConfProblem(code, at: place, message, hint: hint))
  }

  mutating func refuse(_ place: ConfPlace, _ message: String, _ hint: String) {
    add(.confValue, place, message, hint)
  }

  mutating func twice(_ place: ConfPlace, _ message: String) {
    add(.confTwice, place, message, "take one of the two out")
  }

  mutating func wrongType(_ node: TomlNode, _ option: OptionTable.Option) {
    refuse(
      node.place, "\(option.key) is \(node.value.description); it takes \(option.kind.description)",
      Self.suggestion(node.value, option.kind).map { "write \(option.key) = \($0)" } ?? Self.write(option))
  }

  static func write(_ option: OptionTable.Option) -> String {
    "write \(option.key) = \(option.defaultText ?? option.example)"
  }

  // The TOML value that the author of the file probably meant, for the hint; nil if unknown.
  private static func suggestion(_ value: TomlValue, _ kind: OptionKind) -> String? {
    switch (kind, value) {
    case (.flag, .string(let text)):
      switch text.lowercased() {
      case "true", "yes", "on", "1": "true"
      case "false", "no", "off", "0": "false"
      default: nil
      }
    case (.flag, .integer(let number)): number == 0 ? "false" : "true"
    case (.count(let range), .string(let text)):
      Int(text.filter { $0 != "_" && $0 != " " }).map { String(min(max($0, range.lowerBound), range.upperBound)) }
    case (.count(let range), .float(let number)):
      number.magnitude < 1e15 ? String(min(max(Int(number), range.lowerBound), range.upperBound)) : nil
    case (.files, .string(let text)):
      "{ certificate = \"\(text)\", key = \"node.key\", peers = \"ca.crt\" }"
    case (.grants, .array(let names)):
      "{ pull = ["
        + names.compactMap { if case .string(let text) = $0.value { "\"\(text)\"" } else { nil } }
        .joined(separator: ", ") + "] }"
    case (.patterns, .string(let text)), (.misfits, .string(let text)): "[\"\(text)\"]"
    case (.duration(let range), .integer(let number)):
      (try? Quantity.duration("\(number) s")).map(range.contains) == true ? "\"\(number) s\"" : nil
    case (.size, .integer(let number)): number >= Self.leastBytes ? "\"\(number) B\"" : nil
    case (.columns, .array(let names)):
      "{ "
        + names.compactMap { name in
          if case .string(let text) = name.value { "\(text) = \"\(text)\"" } else { nil }
        }.joined(separator: ", ") + " }"
    case (.rules, .string(let text)): "{ COLUMN = \"\(text)\" }"
    case (.history, .integer(let number)): number > 0 ? "\"\(number) days\"" : nil
    case (.count, _), (.patterns, _), (.misfits, _), (.columns, _), (.flag, _), (.duration, _), (.size, _),
      (.history, _):
      nil
    case (.name, .integer(let number)), (.account, .integer(let number)): "\"\(number)\""
    default: nil
    }
  }
}
