extension String {
  /// As an SQL identifier in double quotes.
  package var quotedName: String {
    "\"" + split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
  }
  /// As an SQL string literal.
  package var quotedText: String {
    "'" + split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
  }
}

extension TableSchema.Column {
  /// SQLite's affinity of the declared type. Source: https://sqlite.org/datatype3.html, section 3.1.
  package var affinity: String {
    let type = declaredType.uppercased()
    func has(_ part: String) -> Bool {
      let (whole, part) = (Array(type.utf8), Array(part.utf8))
      return whole.count >= part.count
        && (0...whole.count - part.count).contains { Array(whole[$0..<$0 + part.count]) == part }
    }
    if has("INT") { return "INTEGER" }
    if has("CHAR") || has("CLOB") || has("TEXT") { return "TEXT" }
    if has("BLOB") || type.isEmpty { return "BLOB" }
    if has("REAL") || has("FLOA") || has("DOUB") { return "REAL" }
    return "NUMERIC"
  }
}
