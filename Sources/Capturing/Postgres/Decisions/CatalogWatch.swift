import Changes
import PostgresKit

/// The schedule of looks at the catalog, which find tables that were created, dropped or changed without a report in
/// the stream. Pure; `now` is monotonic time in ms.
///
/// The catalog shows the present, while the stream reports the past. So a reading counts only once the stream has
/// reached a barrier after it. If the stream reported a change of a schema in between, the catalog is read again.
struct CatalogWatch {
  /// A reading of the catalog; everything in it is of one moment.
  struct Catalog {
    var fingerprint: String
    var tables: [PostgresTable]
  }

  private static let intervalMilliseconds: Int64 = 2000
  private(set) var isWanted = true
  /// Whether the catalog was read on this connection and found as the trail knows it.
  private(set) var isDone = false
  private var fingerprint: String?
  private var barrier: String?
  private var catalog: Catalog?
  private var isReached = false
  private var dueAt: Int64 = 0
  /// Grows as long as another session's lock is in the way.
  private var postponedMilliseconds: Int64 = 0
  private var isPostponed = false
  /// Whether event triggers report schema changes in the stream.
  private(set) var hasTriggers = false
  /// The objects that have been reported to the operator.
  private var reported: Set<NameKey> = []

  /// Whether a step is due as soon as the stream is quiet.
  var isPending: Bool { isReached || (isWanted && barrier == nil && !isPostponed) }

  enum Step {
    case nothing, compare, read
    case adopt(Catalog)
  }

  /// Begins again on another connection. What was reported to the operator stays known.
  mutating func reconnect() {
    let known = self
    self = CatalogWatch()
    (hasTriggers, reported) = (known.hasTriggers, known.reported)
  }

  /// Asks for a reading: something changed that the stream does not describe.
  mutating func want() { isWanted = true }

  mutating func note(hasTriggers: Bool) { self.hasTriggers = hasTriggers }

  /// Notes a report about an object, such as `view v`. Returns false if it has been reported before.
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

  /// Compares fingerprints; `found` is the present one.
  mutating func compare(_ found: String, now: Int64, took: Int64) {
    dueAt = now + max(Self.intervalMilliseconds, took * 20)
    if found != fingerprint { isWanted = true }
  }

  /// Postpones the look: a session has locked a table, and definitions can be read only after that.
  mutating func postpone(now: Int64) {
    postponedMilliseconds = min(max(500, postponedMilliseconds * 3 / 2), 5000)
    (dueAt, isPostponed) = (now + postponedMilliseconds, true)
  }

  mutating func wait(for barrier: String, _ catalog: Catalog) {
    (self.barrier, self.catalog, isReached, isWanted) = (barrier, catalog, false, false)
    postponedMilliseconds = 0
  }

  mutating func reached(_ barrier: String) { if barrier == self.barrier { isReached = true } }

  /// Notes that the stream reported a schema: the reading may be older, or newer, than that report.
  mutating func noteReport() {
    if barrier != nil { isWanted = true }
    (barrier, catalog, isReached) = (nil, nil, false)
  }

  /// Notes that the trail knows everything that was read.
  mutating func adopted(now: Int64) {
    fingerprint = catalog?.fingerprint
    (barrier, catalog, isReached, isDone) = (nil, nil, false, true)
    dueAt = now + Self.intervalMilliseconds
  }
}
