import Changes

/// The SQL statements that create types which are not built in, such as enums and domains.
struct TypeScript {
  private let document: CatalogDocument
  private let types: [NameKey: [String?]]
  private var seen: Set<NameKey> = []
  // A role that may create types can make a longer chain of domains.
  static let depthMax = 200
  private var depth = 0

  init(_ document: CatalogDocument) {
    self.document = document
    types = Dictionary(document[.type].map { (NameKey($0[0] ?? ""), $0) }, uniquingKeysWith: { first, _ in first })
  }

  /// Returns the statements that create the type with an oid, in the order of execution. Empty for a built-in type, and
  /// at a repeated call for a type.
  mutating func statements(for oid: String) -> [String] {
    guard depth < Self.depthMax else { return [] }
    depth += 1
    defer { depth -= 1 }
    guard let row = types[oid], seen.insert(oid).inserted, let namespace = row[1], let name = row[2] else { return [] }
    let place = namespace == "public" ? [] : ["CREATE SCHEMA IF NOT EXISTS \(namespace.quotedName)"]
    if let extensionName = row[9] {
      return place + [
        "CREATE EXTENSION IF NOT EXISTS \(extensionName.quotedName) WITH SCHEMA \((row[10] ?? "public").quotedName)"
      ]
    }
    if row[11] == "A", let element = row[4], element != "0" { return statements(for: element) }
    let type = "\(namespace.quotedName).\(name.quotedName)"
    switch row[3] {
    case "e": return place + enumeration(type, oid)
    case "d":
      var text = "CREATE DOMAIN \(type) AS \(row[6] ?? "")"
      if let collation = row[12] { text += " COLLATE \(collation)" }
      if let expression = row[8] { text += " DEFAULT \(expression)" }
      if row[7] == "true" { text += " NOT NULL" }
      for check in document[.domainCheck] where check[0] == oid { text += " " + (check[1] ?? "") }
      return statements(for: row[5] ?? "") + place + [Self.guarded(text)]
    case "c":
      let attributes = document[.attribute].filter { $0[0] == oid }
      let needed = attributes.flatMap { statements(for: $0[4] ?? "") }
      let list = attributes.map { "\(($0[2] ?? "").quotedName) \($0[3] ?? "")" }.joined(separator: ", ")
      return needed + place + [Self.guarded("CREATE TYPE \(type) AS (\(list))")]
    case "r", "m":
      guard let range = document[.range].first(where: { $0[0] == oid || $0[1] == oid }) else { return [] }
      let options = [("COLLATION", range[7]), ("SUBTYPE_DIFF", range[8])].compactMap { name, value in
        value.map { ", \(name) = \($0)" }
      }.joined()
      let multirange = "MULTIRANGE_TYPE_NAME = \(range[6] ?? "").\(range[5] ?? "")"
      return statements(for: range[2] ?? "") + place + [
        Self.guarded("CREATE TYPE \(range[4] ?? "") AS RANGE (SUBTYPE = \(range[3] ?? ""), \(multirange)\(options))")
      ]
    default: return place
    }
  }

  // An existing enum gets its missing labels, from the last to the first, each before the label that follows it.
  private func enumeration(_ type: String, _ oid: String) -> [String] {
    let labels = document[.label].filter { $0[0] == oid }.compactMap { $0[2]?.postgresLiteral }
    var statements = [Self.guarded("CREATE TYPE \(type) AS ENUM (\(labels.joined(separator: ", ")))")]
    var next: String?
    for label in labels.reversed() {
      let place = next.map { " BEFORE \($0)" } ?? ""
      statements.append("ALTER TYPE \(type) ADD VALUE IF NOT EXISTS \(label)\(place)")
      next = label
    }
    return statements
  }

  // CREATE TYPE has no IF NOT EXISTS, so a DO block ignores the error.
  private static func guarded(_ statement: String) -> String {
    "DO " + " BEGIN \(statement); EXCEPTION WHEN duplicate_object THEN NULL; END ".dollarQuoted
  }
}
