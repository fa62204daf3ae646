extension TableSchema {
  /// Returns whether a pattern matches the table's name.
  ///
  /// - Parameter pattern: A name, or a pattern with `*` and `?`. It includes the schema (namespace), except for
  ///   `public`. Case is ignored.
  package func matches(_ pattern: String) -> Bool {
    let isBare = !pattern.has(".")
    if isBare, !["", "public"].contains(namespace) { return false }
    return TablePatterns([pattern]).includes(isBare || namespace.isEmpty ? name : fullName)
  }
}

extension TablePatterns {
  package static func isPattern(_ text: String) -> Bool { text.unicodeScalars.contains { $0 == "*" || $0 == "?" } }
}
