import Changes
import PostgresKit

/// The schedule by which capture reads the catalog, to find tables that were created, dropped or changed without a
/// report in the stream. This type does no I/O; `now` is monotonic time in ms.
///
/// The catalog shows the present, while the stream reports the past. So capture first reads the catalog, then commits a
/// message (a barrier). When the stream brings that message, capture uses what it read. If the stream reported a schema
/// change before the message, the catalog is read again.
struct CatalogWatch {
  /// The content of the catalog, as capture has read it once.
  ///
  /// If no table was locked, all tables are of one moment. Otherwise each table may be of another moment. These moments
  /// are after the fingerprint (a digest of the catalog) was computed, and before the barrier message was committed.
  struct Catalog {
    var fingerprint: String
    var tables: [PostgresTable]
    /// The tables whose definition could not be read, because other sessions keep them locked. The lists of their
    /// columns are empty.
    var locked: [PostgresTable] = []
    /// The time that it took to read the catalog, ms.
    var tookMilliseconds: Int64 = 0
  }

  private static let intervalMilliseconds: Int64 = 2000
  /// The longest pause after a slow comparison of the catalog's fingerprint (a digest), ms.
  private static let restMilliseconds: Int64 = 10_000
  private(set) var isWanted = true
  /// Whether, on this connection, the trail has got every table as the catalog showed it, and no table was locked.
  private(set) var isDone = false
  private var fingerprint: String?
  private var barrier: String?
  private var catalog: Catalog?
  private var isReached = false
  private var dueAt: Int64 = 0
  /// The last pause before the catalog was read again because tables were locked, ms. It grows while tables stay
  /// locked.
  private var postponedMilliseconds: Int64 = 0
  private var isPostponed = false
  /// Whether event triggers report schema changes in the stream.
  private(set) var hasTriggers = false
  /// The objects, such as `view v`, that have been reported to the operator.
  private var reported: Set<NameKey> = []

  /// Whether capture must read the catalog, or use what it has read, as soon as the stream is quiet.
  var isPending: Bool { isReached || (isWanted && barrier == nil && !isPostponed) }

  enum Step {
    case nothing, compare, read
    case adopt(Catalog)
  }

  /// Forgets what was read from the catalog, because the connection to the server is a new one. Objects that were
  /// reported to the operator are not reported again.
  mutating func reconnect() {
    let known = self
    self = CatalogWatch()
    (hasTriggers, reported) = (known.hasTriggers, known.reported)
  }

  /// Requests that the catalog be read, because something changed that the stream does not describe.
  mutating func want() { isWanted = true }

  mutating func note(hasTriggers: Bool) { self.hasTriggers = hasTriggers }

  /// Remembers that an object, such as `view v`, has been reported to the operator. Returns false if it was reported
  /// earlier.
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

  /// Compares the present fingerprint of the catalog, `found`, with the last one. If they differ, the catalog is to be
  /// read.
  mutating func compare(_ found: String, now: Int64, took: Int64) {
    dueAt = now + max(Self.intervalMilliseconds, min(took * 20, Self.restMilliseconds))
    if found != fingerprint { isWanted = true }
  }

  /// Postpones the next reading of the catalog by 0.5 s at first, and by up to 5 s while tables stay locked.
  mutating func postpone(now: Int64) {
    postponedMilliseconds = min(max(500, postponedMilliseconds * 3 / 2), 5000)
    (dueAt, isPostponed) = (now + postponedMilliseconds, true)
  }

  mutating func wait(for barrier: String, _ catalog: Catalog) {
    (self.barrier, self.catalog, isReached, isWanted) = (barrier, catalog, false, false)
  }

  mutating func reached(_ barrier: String) { if barrier == self.barrier { isReached = true } }

  /// Drops what was read from the catalog, because the stream reported a schema change: the catalog may have been read
  /// before or after that change. If capture has not used what was read, the catalog is to be read again.
  mutating func noteReport() {
    if barrier != nil { isWanted = true }
    (barrier, catalog, isReached) = (nil, nil, false)
  }

  /// Ends one reading of the catalog, after the trail has every table as the catalog showed it. The catalog is read
  /// again after a pause if `isWhole` is false or `looksAgain` is true.
  ///
  /// - Parameter isWhole: Whether all tables could be read, because none was locked.
  /// - Parameter looksAgain: Whether a table is suspended for a cause that the catalog's fingerprint (a digest) does
  ///   not show.
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
