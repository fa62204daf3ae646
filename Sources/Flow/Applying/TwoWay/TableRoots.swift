import Changes
import Synchronization

/// The first names of renamed tables. The version window lists the rows of a table under its first name.
///
/// Two nodes may write one row under the former and the present name of its table.
///
///     roots.rename("item", to: "goods")
///     roots.root(of: "goods")  // "item"
final class TableRoots: Sendable {
  private let names = Mutex<[NameKey: String]>([:])
  private let spellings = Mutex<Set<NameKey>>([])
  private let changes = Atomic<Int>(0)

  /// The number of changes of the names in this object since it was created. After a change, row names must be computed
  /// again.
  var count: Int { changes.load(ordering: .acquiring) }

  func root(of name: String) -> String {
    guard count > 0 else { return name }
    return names.withLock { $0[name.sqliteKey] ?? name }
  }

  /// Returns whether a table was renamed from or to this name by a change of case only.
  func isSpelling(_ name: String) -> Bool { spellings.withLock { $0.contains(name.nameKey) } }

  func rename(_ old: String, to new: String) {
    spell(root(of: old), new)
    spell(old, new)
    guard old.sqliteKey != new.sqliteKey else { return }
    change { names in
      let root = names[old.sqliteKey] ?? old
      if root.sqliteKey == new.sqliteKey {
        names[new.sqliteKey] = nil
        return
      }
      Self.free(new, &names)
      names[new.sqliteKey] = root
    }
  }

  private func spell(_ old: String, _ new: String) {
    guard old.sqliteKey == new.sqliteKey, !old.hasSameBytes(as: new) else { return }
    let isNew = spellings.withLock { spellings in
      let count = spellings.count
      spellings.formUnion([old.nameKey, new.nameKey])
      return spellings.count > count
    }
    if isNew { changes.add(1, ordering: .acquiringAndReleasing) }
  }

  /// Notes that a new table gets this name. If it was the first name of a renamed table, that table is listed under its
  /// present name from now on.
  func free(_ name: String) {
    guard count > 0 else { return }
    change { Self.free(name, &$0) }
  }

  private static func free(_ name: String, _ names: inout [NameKey: String]) {
    names[name.sqliteKey] = nil
    names = names.filter { $0.value.sqliteKey != name.sqliteKey }
  }

  private func change(_ body: (inout [NameKey: String]) -> Void) {
    let isChanged = names.withLock { names in
      let before = names.mapValues(\.nameKey)
      body(&names)
      return before != names.mapValues(\.nameKey)
    }
    if isChanged { changes.add(1, ordering: .acquiringAndReleasing) }
  }
}
