import Changes
import Versions

/// The parts of foreign keys from which the names of referenced rows are computed.
extension RowNames {
  /// A row that another row references.
  struct Parent {
    let name: RowName
    /// Whether the row is referenced by its key; false: by other unique columns.
    let isByKey: Bool
    /// The values by which the row is referenced, in the order of the referenced columns. Empty unless they were
    /// requested.
    var key: [Value] = []
  }

  /// The columns that foreign keys reference and that are not the key, by table. All names are in lower case; column
  /// names are sorted.
  typealias Alternates = [NameKey: Set<[NameKey]>]

  /// The parts of the target's catalog from which row names are computed.
  typealias Catalog = (alternates: Alternates, own: Set<OwnKey>, holders: TableHolders)

  /// A foreign key of the target. All names are in lower case; column names are sorted.
  struct OwnKey: Hashable {
    let child: NameKey
    let columns: [NameKey]
    let parent: NameKey

    init(_ child: String, _ columns: [String], to parent: String) {
      (self.child, self.parent) = (child.sqliteKey, parent.sqliteKey)
      self.columns = columns.map { $0.sqliteKey }.sorted()
    }
  }
}
