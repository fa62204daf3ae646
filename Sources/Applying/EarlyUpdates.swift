import Changes

/// Updates that stand in the trail before the row that they update.
///
/// The triggers that capture write a row down after foreign key actions on it have run, and after TEMP triggers of the
/// program's connection: the update that those made comes first, the insert (or the change of key) that brought the row
/// follows in the same transaction. Such an update waits here until a row appears that is, byte for byte, what it
/// changes. What is still here at the end of its transaction is a row that the target does not have.
struct EarlyUpdates {
  struct Update {
    let before: [UInt8]
    let after: [UInt8]
    let error: CairnError
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

  /// At the end of a transaction.
  mutating func checkEmpty() throws {
    guard !isEmpty else { return }
    defer { removeAll() }
    if let first = updates.values.lazy.flatMap({ $0 }).first { throw first.error }
  }

  mutating func removeAll() {
    updates.removeAll()
    count = 0
  }
}
