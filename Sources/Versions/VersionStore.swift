import Changes

/// The versions of the window: in memory, and past a limit in a temporary file, until there are half as many again.
struct VersionStore {
  private let spillRows: Int
  private var memory = MemoryStore()
  private var spill: SpillStore?
  /// By origin, the last transaction of which a version was ever here.
  private var latest: [UInt64] = []

  init(spillRows: Int) { self.spillRows = spillRows }

  var count: Int { spill?.count ?? memory.count }
  var isSpilled: Bool { spill != nil }

  func holds(_ row: UInt64) throws -> Bool { try spill?.holds(row) ?? memory.holds(row) }

  /// False: no version is here of which somebody does not know who knows so much of each origin. Tells so without a look at
  /// any row.
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

  /// Whether there is no version of another origin; false where that is not known.
  func isOnly(of origin: Int) -> Bool { spill == nil && memory.isOnly(of: origin) }

  /// Of one origin the later ones first.
  func forEach(of row: UInt64, _ body: (WindowEntry) -> Void) throws {
    if let spill { try spill.forEach(of: row, body) } else { memory.forEach(of: row, body) }
  }

  /// The rows that an origin's transactions behind `after`, up to `through`, wrote. Some may be told twice, some may be
  /// without versions by now.
  func rows(of origin: Int, after: UInt64, through: UInt64) throws -> [UInt64] {
    if let spill { return try spill.rows(of: origin, after: after, through: through) }
    return memory.rows(of: origin, after: after, through: through)
  }

  /// Removes those versions of a row for which it is said. No transaction of one that goes may be asked for its rows
  /// again.
  mutating func remove(of row: UInt64, where isGone: (WindowEntry) -> Bool) throws {
    if let spill { return try spill.remove(of: row, where: isGone) }
    memory.remove(of: row, where: isGone)
  }

  /// Puts an entry in the place of another one, of whose transaction nothing has been removed yet. False: that would cost
  /// too much, and nothing has changed.
  mutating func replace(of row: UInt64, _ old: WindowEntry, by new: WindowEntry) throws -> Bool {
    note(new)
    guard let spill else { return memory.replace(of: row, old, by: new) }
    try spill.remove(of: row) { $0 == old }
    try spill.add(row, new)
    return true
  }

  /// Removes a row all of whose versions are of a number that is no greater than that of their origin in `floors`; false
  /// where it has others, or it must be looked at in another way.
  mutating func remove(_ row: UInt64, below floors: [UInt64]) -> Bool {
    spill == nil && memory.remove(row, below: floors)
  }

  /// The first transaction of an origin that has a version here.
  mutating func oldest(of origin: Int) throws -> WindowEntry? {
    if let spill { return try spill.oldest(of: origin) }
    return memory.oldest(of: origin)
  }

  /// Gives room back, after some have been removed.
  mutating func tidy() throws {
    guard let spill else { return memory.tidy() }
    guard spill.count <= spillRows / 2 else { return }
    var memory = MemoryStore()
    try spill.forEach { memory.add($0, $1) }
    (self.memory, self.spill) = (memory, nil)
  }
}
