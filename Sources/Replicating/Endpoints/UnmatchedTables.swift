import Changes

extension SourceDatabase {
  /// Returns the names in `patterns` that match no table of the database.
  package func unmatched(_ patterns: TablePatterns) throws -> [TablePatterns.Unmatched] {
    switch handle {
    case .sqlite: return patterns.unmatched(in: try tables(TablePatterns()).flatMap { $0.schema.listedNames })
    case .postgres(let connection):
      return patterns.unmatched(in: try connection.userTableNames().flatMap { $0.listedNames })
    }
  }
}

extension TableSchema {
  /// The names by which a list of tables can refer to this table.
  package var listedNames: [String] { Self.listedNames(namespace, name) }

  static func listedNames(_ namespace: String, _ name: String) -> [String] {
    if namespace.isEmpty { return [name] }
    return namespace == "public" ? [name, "public.\(name)"] : ["\(namespace).\(name)", name]
  }
}

extension TablePatterns.Unmatched {
  /// Returns the error for a name in a list of tables that matches no table.
  /// - Parameter list: The setting with the list, such as `'tables' of [capture.pos]`.
  /// - Parameter place: The name of the database for messages.
  package func error(_ list: String, at place: String) -> CairnError {
    let mark = isExclusion ? "!" : ""
    return CairnError(
      .tableMissing, "\(list) names \(mark)\(name), and \(place) has no table \(name)",
      hint: nearest.map {
        "did you mean \(mark)\($0)?"
          + (isExclusion ? " If not, a pattern may match nothing: write \(mark)\(name)*" : "")
      }
        ?? "create the table first, or remove the name from the list; a pattern with * may match nothing",
      remedy: .badInput, context: ["table": name])
  }
}
