import Changes

extension TableSchema {
  /// Checks that a database can have a table with these names.
  ///
  /// - Throws: `table-refused` if a name has the character NUL, or if two columns have one name.
  func checkNames() throws(CairnError) {
    if hasNUL { throw refused("a name with the character NUL, which no database takes") }
    var seen: Set<NameKey> = []
    for column in columns where !seen.insert(column.name.key(in: engine)).inserted {
      throw refused("two columns \(column.name), which no database takes")
    }
  }

  /// Checks that statements about rows of the table can be written.
  ///
  /// - Throws: `table-refused` if the table has no columns.
  package func checkHasColumns() throws(CairnError) {
    if columns.isEmpty { throw refused("no columns, so that no statement can name its rows") }
  }

  /// Whether a name in the definition has the character NUL. A program in C such as a shell ends its line there.
  private var hasNUL: Bool {
    var names = [namespace, name] + objects.map(\.name)
    for column in columns { names += [column.name, column.collation] }
    for key in foreignKeys { names += [key.namespace, key.table] + key.references }
    return names.contains { $0.utf8.contains(0) } || original?.hasNUL == true
  }

  private func refused(_ why: String) -> CairnError {
    CairnError(
      .tableRefused, "table \(fullName) has \(why)",
      hint: "run 'cairn trail verify' at the node that sends the trail; leave the table out with 'tables'",
      remedy: .badInput, context: ["table": fullName])
  }
}
