extension TableSchema {
  /// Returns whether a pattern matches the table's name.
  ///
  /// - Parameter pattern: A name, or a pattern with `*` and `?`. For a PostgreSQL table outside of `public`, it must
  ///   include the schema (namespace), as in `sales.*`. The case of ASCII letters is ignored.
  package func matches(_ pattern: String) -> Bool {
    let isBare = !pattern.has(".")
    if isBare, !["", "public"].contains(namespace) { return false }
    return TablePatterns([pattern]).includes(isBare || namespace.isEmpty ? name : fullName)
  }
}

extension TablePatterns {
  package static func isPattern(_ text: String) -> Bool { text.unicodeScalars.contains { $0 == "*" || $0 == "?" } }
}
