import Changes

/// The versions of the window: in memory, and past a limit in a file.
struct VersionStore {
  private let spillRows: Int
  private var memory = MemoryStore()

  init(spillRows: Int) { self.spillRows = spillRows }

  var count: Int { memory.count }

  func holds(_ row: UInt64) throws -> Bool { memory.holds(row) }

  mutating func add(_ row: UInt64, _ entry: WindowEntry) throws { memory.add(row, entry) }

  func forEach(of row: UInt64, _ body: (WindowEntry) -> Void) throws { memory.forEach(of: row, body) }

  /// The rows that an origin's transactions behind `after`, up to `through`, wrote.
  func rows(of origin: Int, after: UInt64, through: UInt64) throws -> [UInt64] {
    memory.rows(of: origin, after: after, through: through)
  }

  mutating func remove(of row: UInt64, where isGone: (WindowEntry) -> Bool) throws {
    memory.remove(of: row, where: isGone)
  }

  mutating func oldest(of origin: Int) throws -> WindowEntry? { memory.oldest(of: origin) }

  mutating func tidy() throws { memory.tidy() }
}
