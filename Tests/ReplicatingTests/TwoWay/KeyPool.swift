import Conflicts
import Foundation
import TestServers
import Testing

/// The keys of a random test: small numbers, texts, or pairs of texts. A careless comparison takes some of them for one.
struct KeyPool: Sendable, Equatable, CustomStringConvertible {
  enum Kind: String, CaseIterable, Sendable { case numbers, texts, pairs }

  let kind: Kind
  /// The first one of the list that is used, as most tests have few rows.
  private let first: Int

  private init(_ kind: Kind, first: Int = 0) { (self.kind, self.first) = (kind, first) }

  /// Neighbours look alike.
  init(_ kind: Kind, seed: UInt64) {
    var random = Seeded(~seed)
    _ = random.next()
    self.init(kind, first: kind == .numbers ? 0 : random.below(kind == .texts ? Self.list.count : Self.pairs.count))
  }

  static let numbers = KeyPool(.numbers)
  static let texts = KeyPool(.texts)

  private static let list = ["1", "01", "A", "a", "1.0", "t", "\u{E9}", "e\u{301}", "+1", "0", "-0", "\\x01", "1e0"]
  private static let pairs = [
    ("1", "01"), ("01", "1"), ("1", "1"), ("1", "A"), ("1", "a"), ("A", "1"), ("a", "1"), ("1.0", "t"), ("t", "1.0"),
    ("\u{E9}", "1"), ("e\u{301}", "1"), ("1", "\u{E9}"), ("1", "e\u{301}"), ("", "11"), ("11", ""), ("1", "-0"),
  ]

  var description: String { kind == .numbers ? kind.rawValue : "\(kind.rawValue) from \(self[1])" }

  // MARK: Columns

  /// The type of each key column.
  var type: String { kind == .numbers ? "INTEGER" : "TEXT NOT NULL" }

  /// The key columns.
  var columns: [String] { kind == .pairs ? ["shop", "id"] : ["id"] }

  /// The key columns, parted by commas.
  var names: String { columns.joined(separator: ", ") }

  /// The columns of a row that refers to one of another table.
  func columns(to table: String) -> [String] { kind == .pairs ? ["\(table)_shop", table] : [table] }

  /// Columns as one value.
  static func tuple(_ columns: [String]) -> String {
    columns.count == 1 ? columns[0] : "(\(columns.joined(separator: ", ")))"
  }

  /// SQL that creates a table with such a key and with other columns.
  ///
  /// - Parameters:
  ///   - parents: Tables with such keys to which its rows refer, whose columns come first.
  ///   - delete: The action of its rows when a row is deleted to which they refer.
  ///   - clause: How SQLite resolves a conflict of keys.
  func table(
    _ name: String, _ rest: String, parents: [String] = [], onDelete delete: String = "", onConflict clause: String = ""
  ) -> String {
    let clause = clause.isEmpty ? "" : " ON CONFLICT \(clause)"
    var parts = [kind == .pairs ? "shop \(type), id \(type)" : "id \(type) PRIMARY KEY\(clause)"]
    for parent in parents {
      parts += columns(to: parent).map { "\($0) \(kind == .numbers ? "INTEGER" : "TEXT")" }
    }
    parts.append(rest)
    if kind == .pairs { parts.append("PRIMARY KEY (shop, id)\(clause)") }
    for parent in parents {
      parts.append(
        "FOREIGN KEY (\(columns(to: parent).joined(separator: ", "))) REFERENCES \(parent)(\(names))\(delete)")
    }
    return "CREATE TABLE \(name)(\(parts.joined(separator: ", ")))"
  }

  /// Rules of a table whose key is one column, for a table with such a key.
  func rules(_ rules: ConflictRules) -> ConflictRules {
    var rules = rules
    let shift = columns.count - 1
    rules.columns = Dictionary(uniqueKeysWithValues: rules.columns.map { ($0.key + shift, $0.value) })
    return rules
  }

  // MARK: Values

  private func values(_ number: Int) -> [String] {
    switch kind {
    case .numbers: return ["\(number)"]
    case .texts: return ["'\(Self.list[(first + number - 1) % Self.list.count])'"]
    case .pairs:
      let (shop, id) = Self.pairs[(first + number - 1) % Self.pairs.count]
      return ["'\(shop)'", "'\(id)'"]
    }
  }

  /// One of the keys, from 1 on, as SQL has it: its values, parted by commas.
  subscript(_ number: Int) -> String { values(number).joined(separator: ", ") }

  /// A value for another column, of the same kind.
  func single(_ number: Int) -> String {
    kind == .numbers ? "\(number)" : "'\(Self.list[(first + number - 1) % Self.list.count])'"
  }

  /// The condition that columns, the key's ones if none are named, have one of the keys.
  func has(_ number: Int, _ columns: [String]? = nil, in table: String = "") -> String {
    let table = table.isEmpty ? "" : table + "."
    let parts = zip(columns ?? self.columns, values(number)).map { "\(table)\($0) = \($1)" }
    return parts.count == 1 ? parts[0] : "(\(parts.joined(separator: " AND ")))"
  }

  /// The assignments by which an UPDATE gives a row one of the keys.
  func setting(_ number: Int) -> String {
    zip(columns, values(number)).map { "\($0) = \($1)" }.joined(separator: ", ")
  }

  /// Rows in an order that no collation changes, each in ASCII: Swift takes two normal forms of a letter for one. An
  /// empty text is shown in one way, which those of a file and of a server are not.
  static func plain(_ rows: [String]) -> [String] {
    rows.map { row in
      let values = row.split(separator: "|", omittingEmptySubsequences: false).map { $0 == "''" ? "" : $0 }
      return values.joined(separator: "|").unicodeScalars.map {
        $0.isASCII ? String($0) : "\\u{\(String($0.value, radix: 16))}"
      }.joined()
    }.sorted()
  }

  // MARK: Seeds

  /// A few in normal runs, as each family also runs with numbers.
  static var seeds: [UInt64] { Seeds.drawn(reduced: [1, 2]) }

  /// One run of a random test.
  struct Run: Sendable, CustomTestStringConvertible {
    let seed: UInt64
    let keys: KeyPool
    var testDescription: String { "\(seed), \(keys)" }
  }

  /// Each seed with numbers, and as many with keys that look alike; in reduced runs few of these. A seed that is given
  /// runs with each kind. `CAIRN_KEYS` names the one kind that runs.
  static func runs(_ seeds: [UInt64]) -> [Run] {
    let numbers = seeds.map { Run(seed: $0, keys: .numbers) }
    let others = (Seeds.isReduced ? Self.seeds : seeds).flatMap { seed in
      let kinds: [Kind] = [.texts, .pairs]
      var random = Seeded(~seed)
      let drawn = kinds[random.below(2)]
      return (Seeds.given == nil ? [drawn] : kinds).map { Run(seed: seed, keys: KeyPool($0, seed: seed)) }
    }
    let wanted = ProcessInfo.processInfo.environment["CAIRN_KEYS"]
    return (numbers + others).filter { wanted == nil || wanted == $0.keys.kind.rawValue }
  }
}
