import Changes

// The PostgreSQL types for the declarations of SQLite columns.
extension PostgresType {
  /// Chooses the PostgreSQL type for the declared type of an SQLite column; `text` if no type is known.
  ///
  /// Source: https://sqlite.org/datatype3.html, section 3.1, for declarations without a known type name.
  package init(declaration: String) {
    let declaration = Declaration(declaration)
    self.init(Self.name(of: declaration))
  }

  private static func name(of declaration: Declaration) -> String {
    let words = declaration.words
    let numbers = declaration.numbers
    guard let first = words.first else { return "text" }
    let hasZone = words.contains("ZONE") && words.contains("WITH")
    switch first {
    case "BOOLEAN", "BOOL": return "boolean"
    case "TIMESTAMPTZ", "DATETIMEOFFSET": return "timestamp with time zone"
    case "DATETIME", "DATETIME2", "SMALLDATETIME", "TIMESTAMP":
      return hasZone ? "timestamp with time zone" : "timestamp without time zone"
    case "TIMETZ": return "time with time zone"
    case "TIME": return hasZone ? "time with time zone" : "time without time zone"
    case "DATE": return "date"
    case "INTERVAL", "POINT": return "text"
    case "SERIAL", "BIGSERIAL": return "bigint"
    case "DECIMAL", "NUMERIC", "DEC", "NUMBER":
      guard let precision = numbers.first, (1...1000).contains(precision) else { return "numeric" }
      let scale = numbers.count > 1 ? numbers[1] : 0
      return (0...precision).contains(scale) ? "numeric(\(precision),\(scale))" : "numeric"
    case "MONEY", "SMALLMONEY", "CURRENCY": return "numeric"
    case "JSON", "JSONB": return "json"
    case "UUID": return "uuid"
    case "BYTEA", "BINARY", "VARBINARY": return "bytea"
    default: break
    }
    func has(_ part: String) -> Bool { declaration.whole.containsASCII(part) }
    if has("INT") { return "bigint" }
    if has("CHAR") {
      guard let length = numbers.first, (1...10_485_760).contains(length) else { return "text" }
      return "character varying(\(length))"
    }
    if has("CLOB") || has("TEXT") { return "text" }
    if has("BLOB") { return "bytea" }
    if has("REAL") || has("FLOA") || has("DOUB") { return "double precision" }
    return "text"
  }

  /// A declared type of SQLite, split into words and numbers, such as DECIMAL, 10 and 2.
  struct Declaration {
    let whole: String
    let words: [String]
    let numbers: [Int]

    init(_ text: String) {
      whole = text.asciiUppercased
      let open = whole.firstIndex(of: "(") ?? whole.endIndex
      let close = whole[open...].firstIndex(of: ")") ?? whole.endIndex
      let tail = close < whole.endIndex ? whole[whole.index(after: close)...] : ""
      func split(_ part: Substring) -> [String] {
        part.split { !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init)
      }
      words = split(whole[..<open]) + split(tail)
      let inner = open < whole.endIndex ? whole[whole.index(after: open)..<close] : ""
      let parts = inner.split(separator: ",").map { part in Int(part.filter { $0 != " " }) }
      numbers = parts.contains(nil) ? [] : parts.compactMap { $0 }
    }
  }
}

extension String {
  func containsASCII(_ part: String) -> Bool {
    let (text, part) = (Array(utf8), Array(part.utf8))
    guard text.count >= part.count else { return false }
    return (0...text.count - part.count).contains { text[$0..<$0 + part.count].elementsEqual(part) }
  }
}
