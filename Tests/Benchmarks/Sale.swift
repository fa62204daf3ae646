import Changes

/// A row of the table that the workloads write: 100 bytes of words, a key, two numbers and a timestamp.
///
/// A row is a function of its key, so that it can be created again wherever it is needed.
struct Sale {
  let id: Int

  /// Returns the CREATE TABLE statement. In PostgreSQL, the type of the time is text if the rows come from SQLite,
  /// which has no timestamps.
  static func schema(_ engine: Engine, time: String = "timestamptz") -> String {
    switch engine {
    case .postgres:
      "CREATE TABLE sale(id bigint PRIMARY KEY, till integer, price double precision, item text, sold_at \(time))"
    case .sqlite: "CREATE TABLE sale(id INTEGER PRIMARY KEY, till INTEGER, price REAL, item TEXT, sold_at TEXT)"
    }
  }

  /// Quarters, which sums and text conversions keep exact in both engines.
  private static let fractions = ["0", "25", "5", "75"]
  /// Texts of words, so that they compress as texts do, and none twice within many rows.
  private static let items: [[UInt8]] = {
    let words = [
      "green", "tea", "from", "the", "northern", "hills", "pack", "of", "twelve", "with", "lemon", "and", "honey",
      "small",
      "coffee", "roasted", "slowly", "in", "a", "tin", "box", "bread", "rye", "sunflower", "seeds", "without", "sugar",
      "fresh", "milk", "cheese", "aged", "eighteen", "months", "olive", "oil", "first", "pressing", "glass", "bottle",
      "returned", "damaged", "discount", "member", "price", "gift", "wrapped", "invoice", "number", "delivery",
      "tomorrow",
      "before", "noon", "apples", "pears", "plums", "market", "stall", "organic", "local", "farm", "eggs", "large",
      "basket",
    ]
    var random = Seeded(7)
    return (0..<16384).map { number in
      var text = String(number)
      while text.utf8.count < 100 { text += " " + words[Int(random.next() % UInt64(words.count))] }
      return Array(text.utf8.prefix(100))
    }
  }()

  var item: [UInt8] { Self.items[id & 16383] }
  var till: Int { id % 1000 }
  var price: Double { Double(id) / 4 }
  /// The row after an update.
  var changed: Sale { Sale(id: id + 1) }

  /// A number of quarters as a decimal number.
  static func append(price quarters: Int, to bytes: inout [UInt8]) {
    bytes.append(contentsOf: String(quarters / 4).utf8)
    bytes.append(UInt8(ascii: "."))
    bytes.append(contentsOf: fractions[quarters % 4].utf8)
  }

  /// Appends the time: `2026-01-01 00:00:00+00` plus a number of seconds given by the key.
  func appendTime(to bytes: inout [UInt8]) {
    let second = id % 2_000_000
    bytes.append(contentsOf: "2026-01-".utf8)
    for (number, separator) in [
      (second / 86400 + 1, " "), (second / 3600 % 24, ":"), (second / 60 % 60, ":"), (second % 60, "+"),
    ] as [(Int, Unicode.Scalar)] {
      bytes.append(UInt8(ascii: "0") + UInt8(number / 10))
      bytes.append(UInt8(ascii: "0") + UInt8(number % 10))
      bytes.append(UInt8(ascii: separator))
    }
    bytes.append(contentsOf: "00".utf8)
  }

  /// A line of COPY's text format.
  func appendLine(to bytes: inout [UInt8]) {
    bytes.append(contentsOf: "\(id)\t\(till)\t".utf8)
    Self.append(price: id, to: &bytes)
    bytes.append(UInt8(ascii: "\t"))
    bytes.append(contentsOf: item)
    bytes.append(UInt8(ascii: "\t"))
    appendTime(to: &bytes)
    bytes.append(UInt8(ascii: "\n"))
  }
}
