import Changes
import PostgresKit

/// The schedule for reading the catalog of the source, to find schema changes that the stream does not report. Capture
/// reads the catalog, then commits a logical message, and uses the result when the stream brings that message. If the
/// stream reports a schema change first, capture reads the catalog again.
struct CatalogWatch {
  /// The content of the catalog, as capture has read it once. If tables were locked, capture may have read the tables
  /// at different times.
  struct Catalog {
    var fingerprint: String
    var tables: [PostgresTable]
    /// The tables whose columns could not be read, because other sessions keep them locked.
    var locked: [PostgresTable] = []
    var tookMilliseconds: Int64 = 0
  }

  private static let intervalMilliseconds: Int64 = 2000
  private static let restMilliseconds: Int64 = 10_000
  private(set) var isWanted = true
  /// Whether capture has read the whole catalog on this connection, and the trail has every table as the catalog showed
  /// it.
  private(set) var isDone = false
  private var fingerprint: String?
  private var barrier: String?
  private var catalog: Catalog?
  private var isReached = false
  private var dueAt: Int64 = 0
  private var postponedMilliseconds: Int64 = 0
  private var isPostponed = false
  private(set) var hasTriggers = false
  private var reported: Set<NameKey> = []

  /// Whether capture must read the catalog, or process what it has read, as soon as the stream is quiet.
  var isPending: Bool { isReached || (isWanted && barrier == nil && !isPostponed) }

  enum Step {
    case nothing, compare, read
    case adopt(Catalog)
  }

  /// Drops what was read from the catalog, because the connection to the server is new.
  mutating func reconnect() {
    let known = self
    self = CatalogWatch()
    (hasTriggers, reported) = (known.hasTriggers, known.reported)
  }

  mutating func want() { isWanted = true }

  mutating func note(hasTriggers: Bool) { self.hasTriggers = hasTriggers }

  /// Registers that an object, such as `view v`, is reported to the operator. Returns false if it was reported earlier.
  mutating func isNews(_ object: String) -> Bool { reported.insert(object.nameKey).inserted }

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

  mutating func compare(_ found: String, now: Int64, took: Int64) {
    dueAt = now + max(Self.intervalMilliseconds, min(took * 20, Self.restMilliseconds))
    if found != fingerprint { isWanted = true }
  }

  mutating func postpone(now: Int64) {
    postponedMilliseconds = min(max(500, postponedMilliseconds * 3 / 2), 5000)
    (dueAt, isPostponed) = (now + postponedMilliseconds, true)
  }

  mutating func wait(for barrier: String, _ catalog: Catalog) {
    (self.barrier, self.catalog, isReached, isWanted) = (barrier, catalog, false, false)
  }

  mutating func reached(_ barrier: String) { if barrier == self.barrier { isReached = true } }

  /// Drops what was read from the catalog, because the stream reported a schema change. If a reading was in progress,
  /// another one must follow.
  mutating func noteReport() {
    if barrier != nil { isWanted = true }
    (barrier, catalog, isReached) = (nil, nil, false)
  }

  /// Ends one reading of the catalog, after the trail has every table as the catalog showed it.
  ///
  /// - Parameter isWhole: Whether all tables could be read, because none was locked.
  /// - Parameter looksAgain: Whether to read the catalog again soon, because its fingerprint does not show when a
  ///   suspended table can continue.
  mutating func adopted(now: Int64, isWhole: Bool = true, looksAgain: Bool = false) {
    let took = catalog?.tookMilliseconds ?? 0
    fingerprint = catalog?.fingerprint
    (barrier, catalog, isReached, isDone) = (nil, nil, false, isDone || isWhole)
    guard isWhole, !looksAgain else {
      isWanted = true
      postpone(now: now)
      dueAt = max(dueAt, now + min(took * 20, Self.restMilliseconds))
      return
    }
    postponedMilliseconds = 0
    dueAt = now + Self.intervalMilliseconds
  }
}
