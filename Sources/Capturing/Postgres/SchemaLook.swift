import PostgresKit

/// When the catalog is looked at, to find tables that came, went and changed without a word in the stream.
///
/// What the catalog says is true when it is read, the stream tells of before. So what was read counts only when the stream
/// has reached a barrier behind the reading; and where the stream told of a schema in between, it is read again.
struct SchemaLook {
  /// All of one moment.
  struct Catalog {
    var fingerprint: String
    var tables: [PostgresTable]
  }

  private static let intervalMilliseconds: Int64 = 2000
  var isWanted = true
  /// Looked at since the connection was made, and found as the trail was told.
  private(set) var isDone = false
  private var fingerprint: String?
  private var barrier: String?
  private var catalog: Catalog?
  private var isReached = false
  private var dueAt: Int64 = 0
  /// Grows as long as somebody is in the way.
  private var postponedMilliseconds: Int64 = 0
  private var isPostponed = false

  /// Something is to be done as soon as the stream rests.
  var isPending: Bool { isReached || (isWanted && barrier == nil && !isPostponed) }

  enum Step {
    case nothing, compare, read
    case adopt(Catalog)
  }

  mutating func next(now: Int64) -> Step {
    if barrier != nil {
      if isReached, let catalog { return .adopt(catalog) }
      return .nothing
    }
    if isWanted, !isPostponed || now >= dueAt {
      isPostponed = false
      return .read
    }
    return now >= dueAt ? .compare : .nothing
  }

  /// `found` is the fingerprint of now.
  mutating func compare(_ found: String, now: Int64, took: Int64) {
    dueAt = now + max(Self.intervalMilliseconds, took * 20)
    if found != fingerprint { isWanted = true }
  }

  /// Somebody has a table locked, and definitions can be read when that has ended.
  mutating func postpone(now: Int64) {
    postponedMilliseconds = min(max(500, postponedMilliseconds * 3 / 2), 5000)
    (dueAt, isPostponed) = (now + postponedMilliseconds, true)
  }

  mutating func wait(for barrier: String, _ catalog: Catalog) {
    (self.barrier, self.catalog, isReached, isWanted) = (barrier, catalog, false, false)
    postponedMilliseconds = 0
  }

  mutating func reached(_ barrier: String) { if barrier == self.barrier { isReached = true } }

  /// The stream told of a schema: what was read may be older, or newer, than that.
  mutating func told() {
    if barrier != nil { isWanted = true }
    (barrier, catalog, isReached) = (nil, nil, false)
  }

  /// What was read is what the trail knows.
  mutating func adopted(now: Int64) {
    fingerprint = catalog?.fingerprint
    (barrier, catalog, isReached, isDone) = (nil, nil, false, true)
    dueAt = now + Self.intervalMilliseconds
  }
}
