import Changes

/// The updates and deletes that come in the trail before the insert or the key change that makes their row.
///
/// SQLite runs foreign key actions and TEMP triggers before capture's triggers. An update or delete waits here until
/// the trail has a row that equals the row before the change.
struct OutOfOrderChanges {
  struct Update {
    let before: [UInt8]
    /// The row after the update; nil: the row is deleted.
    let after: [UInt8]?
    let error: CairnError
    /// Resolves the change as a conflict if the transaction ends without the insert of the changed row. Returns false
    /// if the change stays unresolved.
    var meet: (() throws -> Bool)?

    fileprivate var bytes: Int { before.count + (after?.count ?? 0) }
  }
  private var updates: [NameKey: [Update]] = [:]
  private var budget: RowBudget

  init(_ budget: RowBudget = RowBudget(rows: 10_000)) { self.budget = budget }

  var isEmpty: Bool { budget.rows == 0 }

  /// - Throws: The update's error, if the list has too many updates or too many bytes.
  mutating func add(_ update: Update, table: String) throws {
    guard budget.take(update.bytes) else { throw update.error }
    updates[table, default: []].append(update)
  }

  mutating func take(table: String, image: UnsafeRawBufferPointer) -> Update? {
    guard let index = updates[table]?.firstIndex(where: { $0.before.elementsEqual(image) }) else { return nil }
    let update = updates[table]?.remove(at: index)
    if let update { budget.giveBack(update.bytes) }
    return update
  }

  /// Removes the first change whose before image equals `image`, if that change is a delete. Returns whether it was
  /// removed.
  mutating func takeDelete(table: String, image: UnsafeRawBufferPointer) -> Bool {
    let isNext = { (update: Update) in update.before.elementsEqual(image) }
    guard let index = updates[table]?.firstIndex(where: isNext), updates[table]?[index].after == nil else {
      return false
    }
    if let update = updates[table]?.remove(at: index) { budget.giveBack(update.bytes) }
    return true
  }

  typealias Keys<Key> = (Update) throws -> (before: Key, after: Key?)

  /// Returns whether the list has an update of the row `image`, and the listed updates leave a row with the key `key`.
  func areOf<Key: ByteComparable>(
    _ image: UnsafeRawBufferPointer, table: String, key: Key, keys: Keys<Key>
  ) rethrows -> Bool {
    guard let updates = updates[table], updates.contains(where: { $0.before.elementsEqual(image) }) else {
      return false
    }
    for update in updates.reversed() {
      let (before, after) = try keys(update)
      if let after, Key.areSame(after, key) { return true }
      if Key.areSame(before, key) { return false }
    }
    return false
  }

  /// Removes and returns, in the order of the trail, the successive updates that lead to a row with the key `key`.
  ///
  /// - Parameter keys: Returns the row's key before and after an update.
  mutating func takeLine<Key: ByteComparable>(
    of table: String, to key: Key, keys: Keys<Key>
  ) rethrows -> [Update] {
    var reached = [key]
    var (taken, left): ([Update], [Update]) = ([], [])
    for update in (updates[table] ?? []).reversed() {
      let (before, after) = try keys(update)
      let keys = [before] + (after.map { [$0] } ?? [])
      if keys.contains(where: { key in reached.contains { Key.areSame($0, key) } }) {
        reached.append(before)
        taken.append(update)
      } else {
        left.append(update)
      }
    }
    for update in taken { budget.giveBack(update.bytes) }
    updates[table] = left.reversed()
    return taken.reversed()
  }

  /// Removes and returns all entries. Called at the end of the transaction.
  mutating func takeAll() -> [Update] {
    guard !isEmpty else { return [] }
    defer { removeAll() }
    return updates.values.flatMap { $0 }
  }

  mutating func removeAll() {
    updates.removeAll()
    budget.clear()
  }
}
