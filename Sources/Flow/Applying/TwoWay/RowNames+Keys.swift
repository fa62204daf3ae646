import Changes
import Versions

/// Foreign keys, from which the names of referenced rows are computed.
extension RowNames {
  struct Parent {
    let name: RowName
    /// Whether the foreign key refers to the row's key; false: to other unique columns.
    let isByKey: Bool
    /// The values of the referenced columns, in order. Empty unless they were requested.
    var key: [Value] = []
    /// Whether rows with other keys may have the same row name, such as the keys `'7'` and `'07'`.
    var isLoose = false

    /// The name under which the version window lists references to the row.
    var reference: RowName { name.reference(isLoose: isLoose) }
  }

  /// The unique columns, except keys, that foreign keys reference, by table. Names are in lower case and sorted.
  typealias Alternates = [NameKey: Set<[NameKey]>]

  typealias Catalog = (alternates: Alternates, own: Set<OwnKey>, holders: TableHolders)

  /// A foreign key of the target. Names are in lower case; column names are sorted.
  struct OwnKey: Hashable {
    let child: NameKey
    let columns: [NameKey]
    let parent: NameKey

    init(_ child: String, _ columns: [String], to parent: String) {
      (self.child, self.parent) = (child.sqliteKey, parent.sqliteKey)
      self.columns = columns.map { $0.sqliteKey }.sorted()
    }
  }

  /// Returns the further row names of a change: from unique columns, except the key, to which foreign keys refer.
  func alternates(_ schema: TableSchema, _ change: ChangeView) throws -> [RowName] {
    try keyedAlternates(schema, change).reduce(into: []) { names, row in
      if !names.contains(row.name) { names.append(row.name) }
    }
  }
}
