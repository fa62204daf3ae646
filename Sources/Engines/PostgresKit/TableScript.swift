import Changes

/// The SQL statements that create a table with its types and sequences, unless these exist.
struct TableScript {
  let table: PostgresTable
  let document: CatalogDocument
  /// The SQL text of each index's constraint; empty for an index without a constraint.
  let constraints: [String]

  var text: String {
    let schema = table.schema
    let (columns, sequences) = (document[.column], document[.sequence])
    var types = TypeScript(document)
    var statements: [String] = []
    if schema.namespace != "public" { statements.append("CREATE SCHEMA IF NOT EXISTS \(schema.namespace.quotedName)") }
    for column in columns { statements += types.statements(for: column[5] ?? "") }
    let free = sequences.filter { $0[3] != "i" }
    for sequence in free {
      let namespace = sequence[0] ?? ""
      if namespace != "public", namespace != schema.namespace {
        statements.append("CREATE SCHEMA IF NOT EXISTS \(namespace.quotedName)")
      }
      statements.append("CREATE SEQUENCE IF NOT EXISTS \(name(of: sequence)) \(sequence[4] ?? "")")
    }
    var parts = columns.map { line($0, sequences) }
    parts += constraints.filter { !$0.isEmpty }
    parts += document[.check].compactMap { $0[0] }
    statements.append("CREATE TABLE IF NOT EXISTS \(schema.qualifiedName) (\n  \(parts.joined(separator: ",\n  "))\n)")
    for sequence in free where sequence[3] == "a" {
      guard let owner = columns.first(where: { $0[0] == sequence[2] })?[1] else { continue }
      statements.append(
        "ALTER SEQUENCE \(name(of: sequence)) OWNED BY \(schema.qualifiedName).\(owner.quotedName)")
    }
    if schema.flags.contains(.wholeRow) {
      statements.append("ALTER TABLE \(schema.qualifiedName) REPLICA IDENTITY FULL")
    }
    return statements.map { $0 + ";" }.joined(separator: "\n")
  }

  private func name(of sequence: [String?]) -> String {
    "\((sequence[0] ?? "").quotedName).\((sequence[1] ?? "").quotedName)"
  }

  private func line(_ column: [String?], _ sequences: [[String?]]) -> String {
    var line = "\((column[1] ?? "").quotedName) \(column[2] ?? "")"
    if let collation = column[7], !collation.isEmpty { line += " COLLATE \(collation)" }
    if column[4] == "s" {
      line += " GENERATED ALWAYS AS (\(column[8] ?? "NULL")) STORED"
    } else if let kind = column[10], !kind.isEmpty {
      let sequence = sequences.first { $0[2] == column[0] && $0[3] == "i" }
      let options = sequence.map { " (SEQUENCE NAME \(name(of: $0)) \(Self.withoutType($0[4] ?? "")))" } ?? ""
      line += " GENERATED \(kind == "a" ? "ALWAYS" : "BY DEFAULT") AS IDENTITY\(options)"
    } else if let expression = column[8] {
      line += " DEFAULT \(expression)"
    }
    return line + (column[3] == "true" ? " NOT NULL" : "")
  }

  // An identity column has the type already.
  private static func withoutType(_ options: String) -> String {
    let words = options.split(separator: " ")
    return words.drop { $0 != "INCREMENT" }.joined(separator: " ")
  }
}
