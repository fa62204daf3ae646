import Changes
import Conflicts

/// The content of a version window: row versions, and which transactions each author knew. This type reads no trails
/// and takes no locks.
struct WindowIndex {
  /// A trail with versions in the window: a peer's, or that of this database's own capture.
  struct Origin {
    var name: String
    /// The id of the trail; nil if the trail does not exist on this node yet.
    var id: TrailID?
    /// The id that other trails state for this trail, used while `id` is nil.
    var told: TrailID?
    /// For each other trail, by index, the transactions that the authors of this trail's transactions knew.
    var steps: [KnowledgeSteps] = []
    /// The number of the last transaction of this origin's trail that is committed in the database. For the trail that
    /// is captured from the database, the last transaction that the window has no need to read.
    var reached: UInt64 = 0
    /// The last transaction of this trail that apply has begun to process, committed or not.
    var met: UInt64 = 0
    /// The clocks of transactions `reached` and `met`.
    var reachedClock: UInt64 = 0
    var metClock: UInt64 = 0
    /// While a table of this trail is suspended: the last transaction whose statements about known versions count. Nil
    /// at other times.
    var held: UInt64?
    var floor = KnownFloor()
    /// The last transaction of this trail that wrote a foreign key value.
    var lastReference: UInt64 = 0
    var lastReferenceClock: UInt64 = 0
    var lastClock: UInt64 = 0
    /// Whether the trail has been read up to the state of the database at the start of the process.
    var isRead = false

    var border: UInt64 { min(reached, held ?? .max) }
  }

  static let own = 0
  var origins: [Origin] = []
  private(set) var places: [String: Int] = [:]
  var store: VersionStore
  /// The rows with a new version that every node already knew. The next ``sweep()`` may remove that version.
  var late: Set<UInt64> = []
  /// The rows with a version that did not exist yet when every node claimed to know it.
  var claimed: Set<UInt64> = []
  /// The last write of each row that has no versions left in the window.
  var lasts = LastVersions()
  /// The versions in the window that deleted their row.
  var ends: Set<End> = []

  struct End: Hashable {
    let row: UInt64
    let origin: Int
    let number: UInt64
  }
  /// The part of this database's own trail that was not read, because every node stated to know it; nil if all of it
  /// was read.
  var skipped: Skip?
  /// The transactions of this database's own trail that state less than their authors knew.
  var understated = UnderstatedList()
  /// Whether a node stated falsely to know a transaction of this database. If so, the whole trail of this database must
  /// be read.
  var readsAll = false

  struct Skip {
    var from: UInt64
    var floor: KnownFloor
  }

  private(set) var hasReferences = false

  init(own: String, spillRows: Int) {
    store = VersionStore(spillRows: spillRows)
    _ = add(own)
  }

  var count: Int { store.count }
  var isSpilled: Bool { store.isSpilled }
  var isRead: Bool { origins.allSatisfy(\.isRead) }
  var isOwnOnly: Bool { store.isOnly(of: Self.own) }

  @discardableResult mutating func add(_ name: String) -> Int {
    if let place = places[name] { return place }
    places[name] = origins.count
    origins.append(Origin(name: name))
    for index in origins.indices {
      while origins[index].steps.count < origins.count {
        origins[index].steps.append(KnowledgeSteps())
      }
    }
    return origins.count - 1
  }

  // MARK: Versions

  mutating func note(_ row: RowName, _ place: VersionPlace) throws {
    let origin = places[place.stamp.origin] ?? add(place.stamp.origin)
    try note(
      row,
      WindowEntry(
        origin: origin, number: place.stamp.number, clock: place.stamp.clock, begin: place.begin))
  }

  private mutating func note(_ row: RowName, _ entry: WindowEntry) throws {
    origins[entry.origin].lastClock = max(origins[entry.origin].lastClock, entry.clock)
    if origins[entry.origin].floor.includes(entry) {
      // It would be the only version of its row, and all later authors know it: do not keep it.
      if try !store.holds(row.chain), try !hasReferences || !store.holds(row.reference.chain) {
        if !row.isReference, !row.isEnd { keepLast(of: row.chain, entry) }
        return
      }
      late.insert(row.chain)
    }
    guard row.isReference else {
      noteEnd(row, entry)
      return try store.add(row.chain, entry)
    }
    hasReferences = true
    let origin = entry.origin
    origins[origin].lastReference = max(origins[origin].lastReference, entry.number)
    origins[origin].lastReferenceClock = max(origins[origin].lastReferenceClock, entry.clock)
    // If the last reference of this origin knew as much as this one, this one replaces it: an author who knows it knows
    // both. Two loose ones may reference different rows.
    if !row.isLoose, let last = try lastReference(row, origin), last.number < entry.number,
      !origins[origin].floor.includes(last),
      origins[origin].steps.allSatisfy({ $0.known(at: last.number) == $0.known(at: entry.number) }),
      try store.replace(of: row.chain, last, by: entry)
    {
      return
    }
    try store.add(row.chain, entry)
  }

  /// Adds the versions of a transaction that was read from a trail, and the transactions that its author knew.
  mutating func take(_ part: TrailScan.Part, of origin: String) throws {
    learn(origin, number: part.header.number, clock: part.header.clock, knew: part.header.dependencies)
    let entry = WindowEntry(
      origin: add(origin), number: part.header.number, clock: part.header.clock, begin: part.begin)
    if entry.origin == Self.own, let one = try Understated(part, entry, in: self) { understated.note(one) }
    for row in part.rows { try note(row, entry) }
  }

  // MARK: The transaction to be applied

  /// Returns, for each trail, by index, the last transaction that the author of a transaction knew; 0 for none.
  func known(_ incoming: String, _ number: UInt64, seen: [String: UInt64]) -> [UInt64] {
    origins.map { $0.name == incoming ? number : seen[$0.name] ?? 0 }
  }

  /// Returns false if the transaction's author knew every version in the window. True does not prove a conflict.
  func mayConcur(_ met: MetTransaction) -> Bool {
    // The clock of an author that states the truth is later than those of all versions that it knows.
    store.mayHold(behind: met.known(of:))
      || origins.indices.contains { $0 != met.entry.origin && origins[$0].lastClock >= met.entry.clock }
  }

  /// Adds a transaction's versions of rows, if its author knew all other versions of these rows. If not, returns false
  /// and adds nothing.
  mutating func follow(_ rows: some Sequence<RowName>, _ met: MetTransaction) throws -> Bool {
    if mayConcur(met) {
      for row in rows {
        var isInConflict = false
        try store.forEach(of: row.chain) { if !met.knows($0) { isInConflict = true } }
        if isInConflict { return false }
      }
    }
    for row in rows { try note(row, met.entry) }
    return true
  }

  func versions(_ row: RowName) throws -> [VersionPlace] {
    var all: [VersionPlace] = []
    try store.forEach(of: row.chain) { all.append(place($0)) }
    return all.sorted { $0.stamp < $1.stamp }
  }

  func fingerprint(_ row: RowName, upTo reached: [String: UInt64], without: [VersionStamp]) throws -> VersionFingerprint
  {
    let reached = origins.map { reached[$0.name] ?? .max }
    let left = without.map { (origin: places[$0.origin] ?? -1, number: $0.number) }
    var fingerprint = VersionFingerprint()
    try store.forEach(of: row.chain) { entry in
      guard entry.number <= reached[entry.origin],
        !left.contains(where: { $0.number == entry.number && $0.origin == entry.origin })
      else { return }
      fingerprint.add(entry)
    }
    return fingerprint
  }

  func concurrent(_ row: RowName, with incoming: VersionStamp, seen: [String: UInt64]) throws
    -> [VersionPlace]
  {
    var found: [VersionPlace] = []
    // The knowledge is looked up once for each origin, however many versions it has.
    var last = -1
    var (isOwn, known): (Bool, UInt64) = (false, 0)
    try store.forEach(of: row.chain) { entry in
      if entry.origin != last {
        last = entry.origin
        isOwn = origins[last].name == incoming.origin
        known = isOwn ? incoming.number : seen[origins[last].name] ?? 0
      }
      if isOwn ? entry.number > known : !entry.isKnown(through: known, at: incoming.clock) {
        found.append(place(entry))
      }
    }
    return found.sorted { $0.stamp < $1.stamp }
  }

  /// Returns the stamp of the last write of a row whose versions the window has removed; nil if it was not kept.
  func lastForgotten(_ row: RowName) -> VersionStamp? { lasts[row.chain].map { place($0).stamp } }

  func place(_ entry: WindowEntry) -> VersionPlace {
    VersionPlace(
      stamp: VersionStamp(clock: entry.clock, origin: origins[entry.origin].name, number: entry.number),
      begin: entry.begin)
  }

  // MARK: Knowledge

  /// Stores the id of a trail. Returns false, without a change, if the trail is known with another id.
  mutating func identify(_ origin: String, _ id: TrailID) -> Bool {
    let place = add(origin)
    if let known = origins[place].id { return known == id }
    if let told = origins[place].told, told != id { return false }
    origins[place].id = id
    return true
  }

  func id(of origin: String) -> TrailID? { places[origin].flatMap { origins[$0].id } }

  /// Returns the clock of a trail's last processed transaction, if the clock of `header` is not later; otherwise nil.
  /// - Parameter header: The header of the next transaction of the trail.
  func clockNotBefore(_ header: TransactionHeader, of origin: String) -> UInt64? {
    guard let place = places[origin], header.number > origins[place].met else { return nil }
    let clock = origins[place].metClock
    return clock > 0 && header.clock <= clock ? clock : nil
  }

  func isIdentified(_ origin: String) -> Bool { places[origin].map { origins[$0].id != nil } ?? false }

  /// Returns whether an entry of a header names the present trail, not a replaced trail of the same name. Returns false
  /// for an entry without a trail id.
  private mutating func counts(_ known: TransactionHeader.Dependency) -> Bool {
    guard let id = known.id else { return false }
    guard let place = places[known.origin] else { return true }
    if let own = origins[place].id { return own == id }
    // Before the own trail has begun, no other node can know it.
    guard place != Self.own else { return false }
    if origins[place].told == nil { origins[place].told = id }
    return origins[place].told == id
  }

  /// Returns, for each trail, by name, the last transaction that the author of a transaction knew. Header entries
  /// without a trail id, or with the id of a replaced trail, do not count.
  mutating func seen(_ header: TransactionHeader) -> [String: UInt64] {
    var seen: [String: UInt64] = [:]
    for known in header.dependencies where counts(known) {
      seen[known.origin] = max(seen[known.origin] ?? 0, known.number)
    }
    return seen
  }

  /// Stores which transactions of other trails the author of a transaction knew.
  mutating func learn(_ origin: String, number: UInt64, clock: UInt64, knew: [TransactionHeader.Dependency]) {
    let place = add(origin)
    for one in knew {
      guard let other = places[one.origin], other != place, counts(one) else { continue }
      origins[place].steps[other].add(number, clock: clock, knows: one.number)
    }
    origins[place].met = max(origins[place].met, number)
    origins[place].metClock = max(origins[place].metClock, clock)
  }

  /// Marks the transactions that apply has processed since its last commit as committed.
  mutating func settle(_ origin: String) {
    let place = add(origin)
    origins[place].reached = max(origins[place].reached, origins[place].met)
    origins[place].reachedClock = max(origins[place].reachedClock, origins[place].metClock)
  }

  /// Forgets which transactions apply has processed since its last commit.
  mutating func forgetMet(_ origin: String) {
    let place = add(origin)
    origins[place].met = origins[place].reached
    origins[place].metClock = origins[place].reachedClock
  }

  mutating func hold(_ origin: String, through number: UInt64?) {
    let place = add(origin)
    if origins[place].held != number { understated.wake() }
    origins[place].held = number
  }
  func isRead(_ origin: String) -> Bool { places[origin].map { origins[$0].isRead } ?? false }
  func reached(_ origin: String) -> UInt64 { places[origin].map { origins[$0].reached } ?? 0 }

  /// Returns whether the window has a version that the node of trail `origin` may not know.
  mutating func isKept(for origin: String) throws -> Bool {
    guard let place = places[origin] else { return false }
    for other in origins.indices where other != place {
      guard let oldest = try store.oldest(of: other) else { continue }
      if oldest.number > origins[place].steps[other].known(at: origins[place].border) { return true }
    }
    return false
  }

  /// Returns the first transaction of a trail that has a version in the window; nil if there is none.
  mutating func oldest(of origin: String) throws -> (number: UInt64, begin: Position)? {
    guard let place = places[origin], let entry = try store.oldest(of: place) else { return nil }
    return (entry.number, entry.begin)
  }
}

// MARK: - Start and end

extension WindowIndex {
  /// Returns the number of the first transaction of a trail that is not committed in the database. For the database's
  /// own trail, the first one that must be read.
  func firstNeeded(_ origin: String) -> UInt64 { reached(origin) + 1 }

  /// Marks a trail as read up to the state that the database had at the start of the process.
  /// - Parameter number: The last transaction of the part that was read.
  mutating func endReading(_ origin: String, through number: UInt64) throws {
    let place = add(origin)
    origins[place].met = max(origins[place].met, number)
    origins[place].isRead = true
    settle(origin)
    try sweep()
  }
}
