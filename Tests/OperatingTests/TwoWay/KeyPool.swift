import TestServers

/// The keys of a random test: small numbers, or texts; a careless comparison takes some of the texts for one.
enum KeyPool: String, Sendable {
  case numbers, texts

  private static let list = ["1", "01", "A", "a", "1.0", "t", "\u{E9}", "e\u{301}", "+1", "0", "-0", "\\x01", "1e0"]

  /// A few in normal runs, as each family also runs with numbers.
  static var seeds: [UInt64] { isSoak || MeshConvergenceTests.seeds.count == 1 ? MeshConvergenceTests.seeds : [1, 2] }

  var type: String { self == .numbers ? "INTEGER" : "TEXT NOT NULL" }

  /// One of the keys, from 1 on, as SQL has it.
  subscript(_ number: Int) -> String {
    self == .numbers ? "\(number)" : "'\(Self.list[(number - 1) % Self.list.count])'"
  }

  /// Rows in an order that no collation changes, each in ASCII: Swift takes two normal forms of a letter for one.
  static func plain(_ rows: [String]) -> [String] {
    rows.map { row in
      row.unicodeScalars.map { $0.isASCII ? String($0) : "\\u{\(String($0.value, radix: 16))}" }.joined()
    }.sorted()
  }
}
