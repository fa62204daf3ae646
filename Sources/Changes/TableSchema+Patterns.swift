extension TableSchema {
  /// Whether a rule is for the table. `pattern`: its name, or one with `*` and `?`, with the schema where that is not
  /// `public`; matched without regard to case.
  package func matches(_ pattern: String) -> Bool {
    let isBare = !pattern.contains(".")
    if isBare, !["", "public"].contains(namespace) { return false }
    return TablePatterns([pattern]).includes(isBare || namespace.isEmpty ? name : fullName)
  }
}

extension TablePatterns {
  /// Whether it may be for several tables.
  package static func isPattern(_ text: String) -> Bool { text.unicodeScalars.contains { $0 == "*" || $0 == "?" } }
}
