import Applying
import Changes
import Mapping
import Transforming

/// The effect of a changed rule on the rows that a table already has at the target.
enum RuleChange: Equatable {
  case copied
  /// The present rows stay as they are. Only changes that apply writes from now on follow the new rule.
  case noted
  /// All rows are refreshed into another table of the target. The earlier target table stays, and gets no more rows.
  ///
  /// - Parameter from: The target table that the earlier rule named; nil if that rule did not rename the table.
  case moved(from: NameKey?)
  /// The change is refused: a table cannot turn from a mirror of the source table into a history of its changes, or
  /// back.
  case refused

  /// Compares two rules of a table; nil if both have the same effect.
  init?(from old: TableRule?, to new: TableRule?) {
    let (was, now) = (old ?? TableRule(from: ""), new ?? TableRule(from: ""))
    var same = now
    same.from = was.from
    if same == was { return nil }
    if now.to?.sqliteKey != was.to?.sqliteKey {
      self = .moved(from: was.to?.nameKey)
    } else if now.mode != was.mode {
      self = .refused
    } else if now.mode == .history {
      self = .noted
    } else {
      // The present rows equal the rows of the source. From now on, rows that are deleted there stay.
      same.delete = was.delete
      self = same == was && was.delete == .apply && now.delete == .keep ? .noted : .copied
    }
  }

  var isCopied: Bool {
    switch self {
    case .copied, .moved: true
    case .noted, .refused: false
    }
  }

  func notice(_ table: String) -> String {
    let changed = "the rule of table \(table) changed:"
    return switch self {
    case .copied: "\(changed) copying the table again"
    case .noted: "\(changed) present rows stay as they are, and the new rule applies to later changes"
    case .moved(let old):
      "\(changed) copying it into its new table; \(old?.text ?? "the one of its own name") stays as it is, and receives no more rows"
    case .refused: changed
    }
  }

  // MARK: Whole confs

  /// Returns the tables whose rules differ between `old` and `new`, by their names at the source.
  ///
  /// - Throws: `rule-refused` if a change is refused.
  static func all(
    of tables: [String], from old: [TableRule], to new: [TableRule], at place: String, apply: String
  ) throws -> [(table: String, change: RuleChange)] {
    try tables.compactMap { table in
      let schema = TableSchema(named: table)
      guard let change = RuleChange(from: old.rule(for: schema), to: new.rule(for: schema)) else { return nil }
      guard change == .refused else { return (table, change) }
      let isHistory = new.rule(for: schema)?.mode == .history
      throw CairnError(
        .ruleRefused,
        "the rule of table \(table) makes \(isHistory ? "a history" : "a mirror") of it, and its table at \(place) is \(isHistory ? "a mirror" : "a history")",
        hint: "give another `to` in [[apply.\(apply).table]] for \(table), or put `mode` back",
        context: ["table": table])
    }
  }

  /// Returns the source names of target tables, by the rules in force when their rows were written.
  static func sources(of names: [String], _ rules: [TableRule]) -> [String] {
    let named = rules.filter { !TablePatterns.isPattern($0.from) }
    let sources = names.map(plain).flatMap { name -> [String] in
      let exact = named.filter { $0.to.map(plain).hasSameBytes(as: name) }.map { plain($0.from) }
      if !exact.isEmpty { return exact }
      // The policy for names may have made the schema a part of the table's name, or removed it.
      return [name] + named.filter { flat($0.to ?? $0.from).hasSameBytes(as: flat(name)) }.map { plain($0.from) }
    }
    return Set(sources.map(\.nameKey)).sorted().map(\.text)
  }

  /// Returns whether the rules map the source table `table` to the target table `place`.
  static func leads(_ table: String, to place: String, _ rules: [TableRule]) -> Bool {
    let rule = rules.rule(for: TableSchema(named: table))
    return rule?.mode != .history && flat(rule?.to ?? table).hasSameBytes(as: flat(place))
  }

  private static func plain(_ name: String) -> String {
    let name = name.asciiLowercased
    return name.utf8.starts(with: "public.".utf8)
      ? String(decoding: name.utf8.dropFirst("public.".utf8.count), as: UTF8.self) : name
  }

  private static func flat(_ name: String) -> String {
    String(decoding: plain(name).utf8.map { $0 == UInt8(ascii: ".") ? UInt8(ascii: "_") : $0 }, as: UTF8.self)
  }

  /// Returns the tables whose rows do not follow their present rule yet: those of `pending` and those of `changes`.
  ///
  /// - Parameter old: The rules before the change.
  static func merged(
    _ pending: [ChangedRule], _ changes: [(table: String, change: RuleChange)], from old: [TableRule]
  ) -> [ChangedRule] {
    var all = pending
    for (table, change) in changes {
      let rule = old.rule(for: TableSchema(named: table))
      guard let index = all.firstIndex(where: { $0.table == table }) else {
        all.append(ChangedRule(table, before: [rule], isCopied: change.isCopied))
        continue
      }
      if all[index].before.last != .some(rule) { all[index].before.append(rule) }
      all[index].isCopied = all[index].isCopied || change.isCopied
    }
    return all.sorted { $0.table < $1.table }
  }
}
