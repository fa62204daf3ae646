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
  private var updates: [String: [Update]] = [:]
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

  /// Whether a row that looks like `image` is waited for.
  func holds(table: String, image: UnsafeRawBufferPointer) -> Bool {
    updates[table]?.contains { $0.before.elementsEqual(image) } ?? false
  }

  /// Those of one table of whose row, as it was, `isMeant` says so, in their order; they are taken out.
  mutating func takeAll(of table: String, where isMeant: (_ before: [UInt8]) throws -> Bool) rethrows -> [Update] {
    var (taken, left): ([Update], [Update]) = ([], [])
    for update in updates[table] ?? [] {
      if try isMeant(update.before) { taken.append(update) } else { left.append(update) }
    }
    count -= taken.count
    updates[table] = left
    return taken
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
