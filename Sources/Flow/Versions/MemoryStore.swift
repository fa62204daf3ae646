import Changes

/// The row versions of a version window, in memory. A version takes 24 bytes, a transaction 56, and a row 12 to 24.
struct MemoryStore {
  private struct Slot {
    var row: UInt64
    var transaction: Int32
    /// The index of the next version of the same row. Versions of one trail are in descending order.
    var nextOfRow: Int32
    var nextOfTransaction: Int32
  }

  private struct Transaction {
    var entry: WindowEntry
    var firstSlot: Int32
    var count: Int32
  }

  private struct Bucket {
    var slot = MemoryStore.none
    /// A part of the row's name.
    var tag: UInt32 = 0

    static func tag(of row: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: row ^ row >> 32) }
  }

  /// The transactions of one trail by ascending number. Some may have no versions any more.
  private struct Order {
    var items: [(number: UInt64, transaction: Int32)] = []
    /// The index of the first transaction that may still have versions.
    var first = 0

    func index(behind number: UInt64) -> Int {
      var (low, high) = (first, items.count)
      while low < high {
        let middle = (low + high) / 2
        if items[middle].number <= number { low = middle + 1 } else { high = middle }
      }
      return low
    }
  }

  private static let none: Int32 = -1

  private(set) var count = 0
  private var counts: [Int] = []
  private var buckets: [Bucket] = []
  private var rowCount = 0
  private var slots: [Slot] = []
  private var freeSlots: [Int32] = []
  private var transactions: [Transaction] = []
  private var freeTransactions: [Int32] = []
  private var orders: [Order] = []

  func holds(_ row: UInt64) -> Bool { first(of: row) != Self.none }

  mutating func add(_ row: UInt64, _ entry: WindowEntry) {
    let transaction = place(of: entry)
    let first = first(of: row)
    var (at, later) = (first, Self.none)
    while at != Self.none {
      let slot = slots[Int(at)]
      if slot.transaction == transaction { return }
      let other = transactions[Int(slot.transaction)].entry
      if other.origin == entry.origin {
        if other.number < entry.number { break }
        later = at
      }
      at = slot.nextOfRow
    }
    let next = later == Self.none ? first : slots[Int(later)].nextOfRow
    let slot = Slot(
      row: row, transaction: transaction, nextOfRow: next,
      nextOfTransaction: transactions[Int(transaction)].firstSlot)
    let new: Int32
    if let free = freeSlots.popLast() {
      new = free
      slots[Int(free)] = slot
    } else {
      new = Int32(slots.count)
      slots.append(slot)
    }
    if later == Self.none {
      setFirst(of: row, new, isNew: first == Self.none)
    } else {
      slots[Int(later)].nextOfRow = new
    }
    transactions[Int(transaction)].firstSlot = new
    transactions[Int(transaction)].count += 1
    count += 1
    while counts.count <= entry.origin { counts.append(0) }
    counts[entry.origin] += 1
  }

  /// Returns whether all versions in the store come from the trail with the index `origin`; true for an empty store.
  func isOnly(of origin: Int) -> Bool { count == 0 || (origin < counts.count && counts[origin] == count) }

  func forEach(of row: UInt64, _ body: (WindowEntry) -> Void) {
    var at = first(of: row)
    while at != Self.none {
      let slot = slots[Int(at)]
      body(transactions[Int(slot.transaction)].entry)
      at = slot.nextOfRow
    }
  }

  func forEach(_ body: (_ row: UInt64, WindowEntry) throws -> Void) rethrows {
    for bucket in buckets where bucket.slot != Self.none {
      let row = slots[Int(bucket.slot)].row
      var all: [WindowEntry] = []
      forEach(of: row) { all.append($0) }
      for entry in all { try body(row, entry) }
    }
  }

  /// Returns the rows that transactions `after` + 1 through `through` of one trail wrote. A row may appear several
  /// times, or have no versions left.
  func rows(of origin: Int, after: UInt64, through: UInt64) -> [UInt64] {
    guard origin < orders.count else { return [] }
    let order = orders[origin]
    var rows: [UInt64] = []
    var index = order.index(behind: after)
    while index < order.items.count, order.items[index].number <= through {
      let item = order.items[index]
      index += 1
      guard isAlive(item, origin) else { continue }
      var at = transactions[Int(item.transaction)].firstSlot
      while at != Self.none {
        rows.append(slots[Int(at)].row)
        at = slots[Int(at)].nextOfTransaction
      }
    }
    return rows
  }

  /// Removes the versions of a row that satisfy the condition. Afterwards, do not call ``rows(of:after:through:)`` for
  /// the transactions of these versions.
  mutating func remove(of row: UInt64, where isGone: (WindowEntry) -> Bool) {
    var at = first(of: row)
    guard at != Self.none else { return }
    var (first, last) = (Self.none, Self.none)
    while at != Self.none {
      let slot = slots[Int(at)]
      if isGone(transactions[Int(slot.transaction)].entry) {
        free(at, of: slot.transaction)
      } else {
        if last == Self.none { first = at } else { slots[Int(last)].nextOfRow = at }
        last = at
      }
      at = slot.nextOfRow
    }
    if last == Self.none {
      forget(row)
    } else {
      slots[Int(last)].nextOfRow = Self.none
      setFirst(of: row, first, isNew: false)
    }
  }

  /// Replaces a version of a row. Returns false, without a change, if the transaction of `old` has more than 64
  /// versions. Must not be called after another version of that transaction was removed.
  mutating func replace(of row: UInt64, _ old: WindowEntry, by new: WindowEntry) -> Bool {
    var at = first(of: row)
    while at != Self.none, transactions[Int(slots[Int(at)].transaction)].entry != old { at = slots[Int(at)].nextOfRow }
    guard at != Self.none, unlink(at) else { return false }
    leave(slots[Int(at)].transaction)
    let transaction = place(of: new)
    slots[Int(at)].transaction = transaction
    slots[Int(at)].nextOfTransaction = transactions[Int(transaction)].firstSlot
    transactions[Int(transaction)].firstSlot = at
    transactions[Int(transaction)].count += 1
    return true
  }

  /// Removes a version from the list of its transaction. Returns false if that list has more than 64 versions.
  private mutating func unlink(_ slot: Int32) -> Bool {
    let transaction = Int(slots[Int(slot)].transaction)
    guard transactions[transaction].count <= 64 else { return false }
    var (at, last) = (transactions[transaction].firstSlot, Self.none)
    while at != slot {
      last = at
      at = slots[Int(at)].nextOfTransaction
    }
    let next = slots[Int(slot)].nextOfTransaction
    if last == Self.none {
      transactions[transaction].firstSlot = next
    } else {
      slots[Int(last)].nextOfTransaction = next
    }
    return true
  }

  /// Removes all versions of a row if every node knows them. Returns false, without a change, if a node may not know
  /// one of them.
  ///
  /// - Parameter floors: For each trail, by index, the transactions that every node knows.
  mutating func remove(_ row: UInt64, below floors: [KnownFloor]) -> Bool {
    let first = first(of: row)
    var at = first
    while at != Self.none {
      let slot = slots[Int(at)]
      let entry = transactions[Int(slot.transaction)].entry
      guard floors[entry.origin].includes(entry) else { return false }
      at = slot.nextOfRow
    }
    guard first != Self.none else { return true }
    at = first
    while at != Self.none {
      free(at, of: slots[Int(at)].transaction)
      at = slots[Int(at)].nextOfRow
    }
    forget(row)
    return true
  }

  /// Returns the first transaction of a trail that still has a version in the store; nil if there is none.
  mutating func oldest(of origin: Int) -> WindowEntry? {
    guard origin < orders.count else { return nil }
    while orders[origin].first < orders[origin].items.count {
      let item = orders[origin].items[orders[origin].first]
      if isAlive(item, origin) { return transactions[Int(item.transaction)].entry }
      orders[origin].first += 1
    }
    orders[origin] = Order()
    return nil
  }

  mutating func tidy() {
    for origin in orders.indices {
      _ = oldest(of: origin)
      let order = orders[origin]
      guard order.items.count > 64,
        order.items.count > 2 * transactions.count - 2 * freeTransactions.count
      else {
        continue
      }
      orders[origin] = Order(items: order.items.filter { isAlive($0, origin) })
    }
    if count == 0, slots.count > 1 << 16 { self = MemoryStore() }
  }

  // MARK: Rows

  private func first(of row: UInt64) -> Int32 { buckets.isEmpty ? Self.none : buckets[bucket(of: row)].slot }

  private func bucket(of row: UInt64) -> Int {
    let (mask, tag) = (buckets.count - 1, Bucket.tag(of: row))
    var at = Int(tag) & mask
    while buckets[at].slot != Self.none, buckets[at].tag != tag || slots[Int(buckets[at].slot)].row != row {
      at = (at + 1) & mask
    }
    return at
  }

  private mutating func setFirst(of row: UInt64, _ slot: Int32, isNew: Bool) {
    if isNew {
      rowCount += 1
      if rowCount * 3 > buckets.count * 2 { growBuckets() }
    }
    buckets[bucket(of: row)] = Bucket(slot: slot, tag: Bucket.tag(of: row))
  }

  private mutating func growBuckets() {
    let all = buckets
    buckets = Array(repeating: Bucket(), count: max(64, all.count * 2))
    let mask = buckets.count - 1
    for bucket in all where bucket.slot != Self.none {
      var at = Int(bucket.tag) & mask
      while buckets[at].slot != Self.none { at = (at + 1) & mask }
      buckets[at] = bucket
    }
  }

  /// Removes a row from the hash table, and moves back the entries that had collided with it.
  private mutating func forget(_ row: UInt64) {
    let mask = buckets.count - 1
    var hole = bucket(of: row)
    guard buckets[hole].slot != Self.none else { return }
    rowCount -= 1
    var at = hole
    while true {
      at = (at + 1) & mask
      guard buckets[at].slot != Self.none else { break }
      let wanted = Int(buckets[at].tag) & mask
      // Skip an entry that its wanted index does not allow to move to the hole; the table wraps around.
      guard (at - wanted) & mask >= (at - hole) & mask else { continue }
      buckets[hole] = buckets[at]
      hole = at
    }
    buckets[hole] = Bucket()
  }

  // MARK: Transactions

  private func isAlive(_ item: (number: UInt64, transaction: Int32), _ origin: Int) -> Bool {
    let transaction = transactions[Int(item.transaction)]
    return transaction.count > 0 && transaction.entry.number == item.number
      && transaction.entry.origin == origin
  }

  private mutating func place(of entry: WindowEntry) -> Int32 {
    while orders.count <= entry.origin { orders.append(Order()) }
    // Transactions arrive in order, except for those of a table that was suspended.
    var index = orders[entry.origin].items.count
    if let last = orders[entry.origin].items.last, last.number >= entry.number {
      index = orders[entry.origin].index(behind: entry.number - 1)
      if index < orders[entry.origin].items.count {
        let item = orders[entry.origin].items[index]
        if item.number == entry.number, isAlive(item, entry.origin) { return item.transaction }
      }
    }
    let transaction = new(entry)
    orders[entry.origin].items.insert((entry.number, transaction), at: index)
    return transaction
  }

  private mutating func new(_ entry: WindowEntry) -> Int32 {
    let transaction = Transaction(entry: entry, firstSlot: Self.none, count: 0)
    if let free = freeTransactions.popLast() {
      transactions[Int(free)] = transaction
      return free
    }
    transactions.append(transaction)
    return Int32(transactions.count - 1)
  }

  private mutating func free(_ slot: Int32, of transaction: Int32) {
    freeSlots.append(slot)
    count -= 1
    counts[transactions[Int(transaction)].entry.origin] -= 1
    leave(transaction)
  }

  private mutating func leave(_ transaction: Int32) {
    transactions[Int(transaction)].count -= 1
    if transactions[Int(transaction)].count == 0 { freeTransactions.append(transaction) }
  }
}
