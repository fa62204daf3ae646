import Changes

/// The row versions of a version window. Above `spillRows` versions, they are in a temporary file instead of in memory.
struct VersionStore {
  private let spillRows: Int
  private var memory = MemoryStore()
  private var spill: SpillStore?
  private var latest: [UInt64] = []

  init(spillRows: Int) { self.spillRows = spillRows }

  var count: Int { spill?.count ?? memory.count }
  var isSpilled: Bool { spill != nil }

  func holds(_ row: UInt64) throws -> Bool { try spill?.holds(row) ?? memory.holds(row) }

  /// Returns false if an author knew every version that was ever in the store. True does not prove that the store has a
  /// version unknown to the author.
  /// - Parameter known: Returns the last transaction that the author knew of the trail with the given index.
  func mayHold(behind known: (_ origin: Int) -> UInt64) -> Bool {
    latest.indices.contains { latest[$0] > known($0) }
  }

  private mutating func note(_ entry: WindowEntry) {
    while latest.count <= entry.origin { latest.append(0) }
    latest[entry.origin] = max(latest[entry.origin], entry.number)
  }

  mutating func add(_ row: UInt64, _ entry: WindowEntry) throws {
    note(entry)
    if let spill { return try spill.add(row, entry) }
    memory.add(row, entry)
    guard memory.count > spillRows else { return }
    let spill = try SpillStore()
    try memory.forEach { try spill.add($0, $1) }
    self.spill = spill
    memory = MemoryStore()
  }

  /// Returns whether all versions come from the trail with index `origin`; false if that is unknown.
  func isOnly(of origin: Int) -> Bool { spill == nil && memory.isOnly(of: origin) }

  /// Calls `body` with the versions of a row. Versions of one trail come in descending order of their transactions.
  func forEach(of row: UInt64, _ body: (WindowEntry) -> Void) throws {
    if let spill { try spill.forEach(of: row, body) } else { memory.forEach(of: row, body) }
  }

  /// Returns the rows that transactions `after + 1` to `through` of one trail wrote. The result may have duplicates,
  /// and rows without versions.
  func rows(of origin: Int, after: UInt64, through: UInt64) throws -> [UInt64] {
    if let spill { return try spill.rows(of: origin, after: after, through: through) }
    return memory.rows(of: origin, after: after, through: through)
  }

  /// Removes the versions of a row that satisfy the condition. Afterwards, do not call ``rows(of:after:through:)`` for
  /// the transactions of these versions.
  mutating func remove(of row: UInt64, where isGone: (WindowEntry) -> Bool) throws {
    if let spill { return try spill.remove(of: row, where: isGone) }
    memory.remove(of: row, where: isGone)
  }

  /// Replaces a version of a row. Returns false, without a change, if the transaction of `old` has more than 64
  /// versions in memory. Must not be called after another version of that transaction was removed.
  mutating func replace(of row: UInt64, _ old: WindowEntry, by new: WindowEntry) throws -> Bool {
    note(new)
    guard let spill else { return memory.replace(of: row, old, by: new) }
    try spill.remove(of: row) { $0 == old }
    try spill.add(row, new)
    return true
  }

  /// Removes all versions of a row if every node knows them. Returns false, without a change, if a node may not know
  /// one of them, or if the versions are in the temporary file.
  /// - Parameter floors: For each trail, by index, the transactions that every node knows.
  mutating func remove(_ row: UInt64, below floors: [KnownFloor]) -> Bool {
    spill == nil && memory.remove(row, below: floors)
  }

  /// Returns the first transaction of a trail that has a version in the store; nil if there is none.
  mutating func oldest(of origin: Int) throws -> WindowEntry? {
    if let spill { return try spill.oldest(of: origin) }
    return memory.oldest(of: origin)
  }

  /// Frees memory after versions were removed. If few versions remain, moves them from the temporary file to memory.
  mutating func tidy() throws {
    guard let spill else { return memory.tidy() }
    guard spill.count <= spillRows / 2 else { return }
    var memory = MemoryStore()
    try spill.forEach { memory.add($0, $1) }
    (self.memory, self.spill) = (memory, nil)
  }
}
