extension TableSchema {
  /// Returns whether a rule is for the table.
  ///
  /// - Parameter pattern: A name, or a pattern with `*` and `?`, with the schema if that is not `public`. Case is
  ///   ignored.
  package func matches(_ pattern: String) -> Bool {
    let isBare = !pattern.has(".")
    if isBare, !["", "public"].contains(namespace) { return false }
    return TablePatterns([pattern]).includes(isBare || namespace.isEmpty ? name : fullName)
  }
}

extension TablePatterns {
  /// Returns whether the text may match several tables.
  package static func isPattern(_ text: String) -> Bool { text.unicodeScalars.contains { $0 == "*" || $0 == "?" } }
}
