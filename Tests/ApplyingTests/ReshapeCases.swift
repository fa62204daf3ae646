import Changes
import Mapping
import TestServers
import Transforming

/// A row of the source, as the cases see it.
struct SourceItem: Equatable, Sendable {
  var id: Int
  var grp: Int?
  /// Hundredths.
  var total: Int?
  var note: String?
  var flag: Bool
}

/// A value that the target is to have, whatever engine it is.
enum Cell: Equatable, Sendable {
  case null
  case number(Double)
  case text(String)
  case flag(Bool)

  init(_ number: Int?) { self = number.map { .number(Double($0)) } ?? .null }
  init(_ text: String?) { self = text.map { .text($0) } ?? .null }

  /// Whether this is what the target printed.
  func matches(_ shown: String?) -> Bool {
    switch self {
    case .null: shown == nil
    case .number(let number): shown.flatMap(Double.init) == number
    case .text(let text): shown == text
    case .flag(let flag): shown == String(flag) || shown == (flag ? "1" : "0")
    }
  }
}

/// A rule, and in Swift's words what it says.
struct ReshapeCase: Sendable {
  let name: String
  var rule: TableRule
  let takes: @Sendable (SourceItem) -> Bool
  let makes: @Sendable (SourceItem) -> [Cell]

  init(
    _ name: String, where filter: String? = nil, _ columns: [TableRule.Column]? = nil,
    delete: TableRule.Delete = .apply, takes: @escaping @Sendable (SourceItem) -> Bool = { _ in true },
    makes: (@Sendable (SourceItem) -> [Cell])? = nil
  ) {
    self.name = name
    var rule = TableRule(from: "")
    (rule.filter, rule.columns, rule.delete) = (filter, columns, delete)
    self.rule = rule
    self.takes = takes
    self.makes = makes ?? Self.all
  }

  @Sendable private static func total(_ item: SourceItem) -> Cell {
    item.total.map { .number(Double($0) / 100) } ?? .null
  }

  @Sendable static func all(_ item: SourceItem) -> [Cell] {
    [Cell(item.id), Cell(item.grp), total(item), Cell(item.note), .flag(item.flag)]
  }

  private static let id = TableRule.Column("id", "id")

  private static func computed(_ text: String, type: String? = nil, _ value: @escaping @Sendable (SourceItem) -> Cell)
    -> ReshapeCase
  {
    ReshapeCase("\(text) as a column", [id, .init("x", text, type: type)]) { _ in
      true
    } makes: {
      [Cell($0.id), value($0)]
    }
  }

  private static func filtered(_ text: String, _ takes: @escaping @Sendable (SourceItem) -> Bool) -> ReshapeCase {
    ReshapeCase("where \(text)", where: text, takes: takes)
  }

  static let cases: [ReshapeCase] = [
    // Names and columns.
    ReshapeCase("another name"),
    ReshapeCase("fewer columns", [id, .init("total", "total")], makes: { [Cell($0.id), total($0)] }),
    ReshapeCase("another order", [.init("note", "note"), id], makes: { [Cell($0.note), Cell($0.id)] }),
    ReshapeCase(
      "other names", [.init("number", "id"), .init("text", "note")], makes: { [Cell($0.id), Cell($0.note)] }),
    ReshapeCase(
      "all columns, one under another name", [.init("remark", "note"), .init("*", "*")],
      makes: { [Cell($0.note), Cell($0.id), Cell($0.grp), total($0), .flag($0.flag)] }),
    ReshapeCase(
      "one column twice", [id, .init("a", "grp"), .init("b", "grp")],
      makes: { [Cell($0.id), Cell($0.grp), Cell($0.grp)] }),
    computed("grp * 2") { Cell($0.grp.map { $0 * 2 }) },
    computed("upper(note)") { Cell($0.note?.uppercased()) },
    computed("note || '-' || id") { item in Cell(item.note.map { "\($0)-\(item.id)" }) },
    computed("CASE WHEN flag THEN 'yes' ELSE 'no' END", type: "TEXT") { .text($0.flag ? "yes" : "no") },
    computed("coalesce(note, 'none')", type: "TEXT") { .text($0.note ?? "none") },
    computed("length(note)") { Cell($0.note?.count) },
    computed("total > 50") { Cell($0.total.map { $0 > 5000 ? 1 : 0 }) },
    computed("CAST(round(total * 100) AS INTEGER)", type: "BIGINT") { Cell($0.total) },
    computed("substr(note, 2) || ''") { Cell($0.note.map { String($0.dropFirst()) }) },
    computed("note IS NULL") { Cell($0.note == nil ? 1 : 0) },
    ReshapeCase(
      "a constant that is no share", [id, .init("x", "'pos'", isShare: false)], makes: { [Cell($0.id), .text("pos")] }),
    ReshapeCase(
      "a share by text", [.init("store", "'042'"), .init("*", "*")], makes: { [.text("042")] + all($0) }),
    ReshapeCase(
      "a share by number", [id, .init("store", "7"), .init("note", "note")],
      makes: { [Cell($0.id), Cell(7), Cell($0.note)] }),
    // Filters.
    filtered("grp = 1") { $0.grp == 1 },
    filtered("total > 50") { $0.total ?? 0 > 5000 },
    filtered("total = 12.30") { $0.total == 1230 },
    filtered("total BETWEEN 10 AND 60") { ($0.total.map { (1000...6000).contains($0) }) ?? false },
    filtered("note IS NOT NULL") { $0.note != nil },
    filtered("note LIKE 'a%'") { $0.note?.lowercased().hasPrefix("a") ?? false },
    filtered("note = 'ABC' COLLATE NOCASE") { $0.note?.lowercased() == "abc" },
    filtered("lower(note) = 'abc' OR grp = 2") { $0.note?.lowercased() == "abc" || $0.grp == 2 },
    filtered("flag") { $0.flag },
    filtered("NOT flag AND grp IN (1, 2)") { !$0.flag && [1, 2].contains($0.grp) },
    filtered("grp IS NULL") { $0.grp == nil },
    filtered("id % 2 = 0") { $0.id % 2 == 0 },
    filtered("0") { _ in false },
    filtered("'1'") { _ in true },
    ReshapeCase(
      "a filter over columns that are left out", where: "grp = 1 AND flag", [id, .init("note", "note")],
      takes: { $0.grp == 1 && $0.flag }, makes: { [Cell($0.id), Cell($0.note)] }),
    ReshapeCase(
      "filter, names and expressions", where: "total < 60", [.init("nr", "id"), .init("double", "total * 2")],
      takes: { $0.total.map { $0 < 6000 } ?? false },
      makes: { [Cell($0.id), $0.total.map { .number(Double($0) / 100 * 2) } ?? .null] }),
    ReshapeCase(
      "filter and share", where: "grp > 1", [.init("store", "'a'"), .init("*", "*")], takes: { $0.grp ?? 0 > 1 },
      makes: { [.text("a")] + all($0) }),
    // Deletes.
    ReshapeCase("rows that are kept", delete: .keep),
    ReshapeCase("rows that are kept, filtered", where: "grp = 1", delete: .keep, takes: { $0.grp == 1 }),
    ReshapeCase(
      "rows that are kept, in other columns", [.init("x", "upper(note)"), id], delete: .keep,
      makes: { [Cell($0.note?.uppercased()), Cell($0.id)] }),
    ReshapeCase("rows that are marked", delete: .mark(column: "deleted_at")),
    ReshapeCase("rows that are marked, filtered", where: "flag", delete: .mark(column: "gone"), takes: { $0.flag }),
    ReshapeCase(
      "rows that are marked, with a share", [id, .init("store", "9"), .init("note", "note")],
      delete: .mark(column: "deleted_at"), makes: { [Cell($0.id), Cell(9), Cell($0.note)] }),
  ]
}

/// The rows that the target of a case must hold.
struct ReshapeModel {
  let rule: ReshapeCase
  private(set) var source: [Int: SourceItem] = [:]
  /// By the source's key; whether the row is marked.
  private(set) var target: [Int: (cells: [Cell], isMarked: Bool)] = [:]

  init(_ rule: ReshapeCase) { self.rule = rule }

  private mutating func put(_ item: SourceItem) { target[item.id] = (rule.makes(item), false) }

  private mutating func remove(_ id: Int) {
    switch rule.rule.delete {
    case .apply: target[id] = nil
    case .keep: break
    case .mark: target[id]?.isMarked = true
    }
  }

  mutating func insert(_ item: SourceItem) {
    source[item.id] = item
    if rule.takes(item) { put(item) }
  }

  mutating func delete(_ item: SourceItem) {
    source[item.id] = nil
    if rule.takes(item) { remove(item.id) }
  }

  mutating func update(_ old: SourceItem, _ new: SourceItem) {
    source[old.id] = nil
    source[new.id] = new
    switch (rule.takes(old), rule.takes(new)) {
    case (true, true):
      target[old.id] = nil
      put(new)
    case (true, false): remove(old.id)
    case (false, true): put(new)
    case (false, false): break
    }
  }

  mutating func truncate() {
    source.removeAll()
    for id in target.keys { remove(id) }
  }

  /// The source is something else, and all of it is copied.
  mutating func copy(_ items: [SourceItem]) {
    source = Dictionary(uniqueKeysWithValues: items.map { ($0.id, $0) })
    let inside = items.filter(rule.takes)
    let ids = Set(inside.map(\.id))
    for id in target.keys where !ids.contains(id) { remove(id) }
    for item in inside { put(item) }
  }

  var rows: [[Cell]] { target.sorted { $0.key < $1.key }.map(\.value.cells) }
  var marks: [Bool] { target.sorted { $0.key < $1.key }.map(\.value.isMarked) }
}
