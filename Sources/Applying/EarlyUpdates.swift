import Changes

/// Updates, and deletes, that stand in the trail before the row that they change.
///
/// The triggers that capture write a row down after foreign key actions on it have run, and after TEMP triggers of the
/// program's connection: the update that those made comes first, the insert (or the change of key) that brought the row
/// follows in the same transaction. Such an update waits here until a row appears that is, byte for byte, what it
/// changes. Under a filter such an update may be a delete. What is still here at the end of its transaction is a row that
/// the target does not have.
struct EarlyUpdates {
  struct Update {
    let before: [UInt8]
    /// Nil: the row is deleted.
    let after: [UInt8]?
    let error: CairnError
    /// Where others write to the target: deals with a row that does not come; false where it cannot.
    var meet: (() throws -> Bool)?
  }
  private static let countMax = 10_000
  private var updates: [NameKey: [Update]] = [:]
  private var count = 0

  var isEmpty: Bool { count == 0 }

  mutating func add(_ update: Update, table: String) throws {
    guard count < Self.countMax else { throw update.error }
    updates[table, default: []].append(update)
    count += 1
  }

  /// The first update of a row that looks like `image`; it is taken out.
  mutating func take(table: String, image: UnsafeRawBufferPointer) -> Update? {
    guard let index = updates[table]?.firstIndex(where: { $0.before.elementsEqual(image) }) else { return nil }
    count -= 1
    return updates[table]?.remove(at: index)
  }

  /// Whether a row that looks like `image` is deleted as soon as it comes; then it is taken out.
  mutating func takeDelete(table: String, image: UnsafeRawBufferPointer) -> Bool {
    let isNext = { (update: Update) in update.before.elementsEqual(image) }
    guard let index = updates[table]?.firstIndex(where: isNext), updates[table]?[index].after == nil else {
      return false
    }
    count -= 1
    updates[table]?.remove(at: index)
    return true
  }

  typealias Keys<Key> = (Update) throws -> (before: Key, after: Key?)

  /// Whether the row that is to have `key`, and looks like `image`, is one for which updates wait, that leave it there: a
  /// row that comes to a key of which another one was deleted, or which it left, is a row of its own.
  func areOf<Key: Equatable>(
    _ image: UnsafeRawBufferPointer, table: String, key: Key, keys: Keys<Key>
  ) rethrows -> Bool {
    guard let updates = updates[table], updates.contains(where: { $0.before.elementsEqual(image) }) else {
      return false
    }
    for update in updates.reversed() {
      let (before, after) = try keys(update)
      if after == key { return true }
      if before == key { return false }
    }
    return false
  }

  /// What waits for rows that had a key, came to it, or led there in turn, in its order; it is taken out. `keys`: of the row
  /// as it was, and as it became.
  mutating func takeLine<Key: Equatable>(
    of table: String, to key: Key, keys: Keys<Key>
  ) rethrows -> [Update] {
    var reached = [key]
    var (taken, left): ([Update], [Update]) = ([], [])
    for update in (updates[table] ?? []).reversed() {
      let (before, after) = try keys(update)
      if reached.contains(before) || after.map(reached.contains) ?? false {
        reached.append(before)
        taken.append(update)
      } else {
        left.append(update)
      }
    }
    count -= taken.count
    updates[table] = left.reversed()
    return taken.reversed()
  }

  /// What is left at the end of a transaction.
  mutating func takeAll() -> [Update] {
    guard !isEmpty else { return [] }
    defer { removeAll() }
    return updates.values.flatMap { $0 }
  }

  mutating func removeAll() {
    updates.removeAll()
    count = 0
  }
}
