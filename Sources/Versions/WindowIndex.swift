import Changes
import Conflicts

/// Which versions the window holds, what each origin knew when, and what may be forgotten. No trails, no locks.
struct WindowIndex {
  /// A trail whose versions come here, or the own one.
  struct Origin {
    var name: String
    /// The id of its trail; nil: there is none yet.
    var id: TrailID?
    /// While there is none, the id of the trail of which others told that they know it.
    var told: TrailID?
    /// By place of the other origin.
    var steps: [KnowledgeSteps] = []
    /// Up to here its transactions are here for good: whatever comes of it knows what the last of them knew.
    var reached: UInt64 = 0
    /// Up to here they have been met by an apply that has not committed yet.
    var met: UInt64 = 0
    /// Where one of its tables waits, nothing that comes behind counts as known there.
    var held: UInt64?
    /// Its transactions up to here are known to all.
    var floor: UInt64 = 0
    /// The last transaction of it that was noted to refer to a row.
    var lastReference: UInt64 = 0
    /// Whether what was here of it before the start has been read.
    var isRead = false

    var border: UInt64 { min(reached, held ?? .max) }
  }

  private static let own = 0
  private(set) var origins: [Origin] = []
  private(set) var places: [String: Int] = [:]
  var store: VersionStore
  /// Rows of which a version came that all know already: to be looked at when something is forgotten next.
  private var late: Set<UInt64> = []
  /// Of rows that have been forgotten, the last version.
  private(set) var lasts = LastVersions()
  /// The kept versions that deleted their row, if ``lasts`` are kept: only a write is a last version.
  private var ends: Set<End> = []

  private struct End: Hashable {
    let row: UInt64
    let origin: Int
    let number: UInt64
  }
  /// Whether references were ever noted: most databases are looked through for rows alone.
  private(set) var hasReferences = false

  init(own: String, spillRows: Int) {
    store = VersionStore(spillRows: spillRows)
    _ = add(own)
  }

  var count: Int { store.count }
  var isSpilled: Bool { store.isSpilled }
  var isRead: Bool { origins.allSatisfy(\.isRead) }
  /// Whether no version of another origin is here.
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
    if entry.number <= origins[entry.origin].floor {
      // The only one of its row: whatever comes follows it.
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
    // One that knew as much as the one before it stands for both: who knows it knows the earlier one.
    if let last = try lastReference(row, origin), last.number < entry.number, last.number > origins[origin].floor,
      origins[origin].steps.allSatisfy({ $0.known(at: last.number) == $0.known(at: entry.number) }),
      try store.replace(of: row.chain, last, by: entry)
    {
      return
    }
    try store.add(row.chain, entry)
  }

  /// What has been read of a transaction.
  mutating func take(_ part: TrailScan.Part, of origin: String) throws {
    learn(origin, number: part.header.number, knew: part.header.dependencies)
    let entry = WindowEntry(
      origin: add(origin), number: part.header.number, clock: part.header.clock, begin: part.begin)
    for row in part.rows { try note(row, entry) }
  }

  // MARK: Of the transaction that is applied

  /// What its author knew, by place of the origin; of those behind the last place, nothing.
  func known(_ incoming: String, _ number: UInt64, seen: [String: UInt64]) -> [UInt64] {
    origins.map { $0.name == incoming ? number : seen[$0.name] ?? 0 }
  }

  /// False: there is no version of any row that the transaction does not follow.
  func mayConcur(_ met: MetTransaction) -> Bool { store.mayHold(behind: met.known(of:)) }

  /// Notes versions of rows that follow all others; false where one of them does not, and nothing is noted.
  mutating func follow(_ rows: some Sequence<RowName>, _ met: MetTransaction) throws -> Bool {
    if mayConcur(met) {
      for row in rows {
        var isInConflict = false
        try store.forEach(of: row.chain) { if $0.number > met.known(of: $0.origin) { isInConflict = true } }
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

  /// As ``VersionWindow/fingerprint(_:upTo:without:)``.
  func fingerprint(_ row: RowName, upTo reached: [String: UInt64], without: [Stamp]) throws -> VersionFingerprint {
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

  func concurrent(_ row: RowName, with incoming: Stamp, seen: [String: UInt64]) throws
    -> [VersionPlace]
  {
    var found: [VersionPlace] = []
    // The vector is looked at once for each origin, however many versions there are.
    var last = -1
    var (isOwn, known): (Bool, UInt64) = (false, 0)
    try store.forEach(of: row.chain) { entry in
      if entry.origin != last {
        last = entry.origin
        isOwn = origins[last].name == incoming.origin
        known = isOwn ? incoming.number : seen[origins[last].name] ?? 0
      }
      if entry.number > known { found.append(place(entry)) }
    }
    return found.sorted { $0.stamp < $1.stamp }
  }

  /// Of a row of which no version is here any more, the last one; nil where it is earlier than all that are here, or lasts
  /// are not kept.
  func lastForgotten(_ row: RowName) -> Stamp? { lasts[row.chain].map { place($0).stamp } }

  private func place(_ entry: WindowEntry) -> VersionPlace {
    VersionPlace(
      stamp: Stamp(clock: entry.clock, origin: origins[entry.origin].name, number: entry.number),
      begin: entry.begin)
  }

  // MARK: Knowledge

  /// Notes the trail that an origin has. False if another one was counted under its name.
  mutating func identify(_ origin: String, _ id: TrailID) -> Bool {
    let place = add(origin)
    if let known = origins[place].id { return known == id }
    if let told = origins[place].told, told != id { return false }
    origins[place].id = id
    return true
  }

  /// Whether an origin has a trail.
  func isIdentified(_ origin: String) -> Bool { places[origin].map { origins[$0].id != nil } ?? false }

  /// Whether a transaction that an author knew is one of the trail that is here under that name. One of which an earlier
  /// version told no id counts by the name.
  private mutating func counts(_ known: TransactionHeader.Dependency) -> Bool {
    guard let id = known.id, let place = places[known.origin] else { return true }
    if let own = origins[place].id { return own == id }
    // Before the own trail has begun, nobody can know of it.
    guard place != Self.own else { return false }
    if origins[place].told == nil { origins[place].told = id }
    return origins[place].told == id
  }

  /// What the author of a transaction knew of the trails that are here, by their names.
  mutating func seen(_ header: TransactionHeader) -> [String: UInt64] {
    var seen: [String: UInt64] = [:]
    for known in header.dependencies where counts(known) {
      seen[known.origin] = max(seen[known.origin] ?? 0, known.number)
    }
    return seen
  }

  /// What the author of an origin's transaction knew.
  mutating func learn(_ origin: String, number: UInt64, knew: [TransactionHeader.Dependency]) {
    let place = add(origin)
    for one in knew {
      guard let other = places[one.origin], other != place, counts(one) else { continue }
      origins[place].steps[other].add(number, knows: one.number)
    }
    origins[place].met = max(origins[place].met, number)
  }

  /// What has been met of an origin is here for good.
  mutating func settle(_ origin: String) {
    let place = add(origin)
    origins[place].reached = max(origins[place].reached, origins[place].met)
  }

  /// What has been met of an origin comes again.
  mutating func forgetMet(_ origin: String) {
    let place = add(origin)
    origins[place].met = origins[place].reached
  }

  mutating func hold(_ origin: String, through number: UInt64?) {
    origins[add(origin)].held = number
  }
  func isRead(_ origin: String) -> Bool { places[origin].map { origins[$0].isRead } ?? false }
  func reached(_ origin: String) -> UInt64 { places[origin].map { origins[$0].reached } ?? 0 }

  /// Whether anything is kept here that an origin has not told that it knows.
  mutating func isKept(for origin: String) throws -> Bool {
    guard let place = places[origin] else { return false }
    for other in origins.indices where other != place {
      guard let oldest = try store.oldest(of: other) else { continue }
      if oldest.number > origins[place].steps[other].known(at: origins[place].border) { return true }
    }
    return false
  }

  /// The first transaction of an origin of which a version is here, and where it begins.
  mutating func oldest(of origin: String) throws -> (number: UInt64, begin: Position)? {
    guard let place = places[origin], let entry = try store.oldest(of: place) else { return nil }
    return (entry.number, entry.begin)
  }
}

// MARK: - Start and end

extension WindowIndex {
  /// The first transaction of an origin that has not been taken.
  func firstNeeded(_ origin: String) -> UInt64 { reached(origin) + 1 }

  /// What was here of an origin before the start has been read, through transaction `number`.
  mutating func endReading(_ origin: String, through number: UInt64) throws {
    let place = add(origin)
    origins[place].met = max(origins[place].met, number)
    origins[place].isRead = true
    settle(origin)
    try sweep()
  }
}

// MARK: - Forgetting

extension WindowIndex {
  /// Forgets what nobody can ask for any more.
  mutating func sweep() throws {
    guard isRead else { return }
    let before = origins.map(\.floor)
    for place in origins.indices { origins[place].floor = max(before[place], floor(of: place)) }
    let floors = origins.map(\.floor)
    var rows = Array(late)
    late = []
    for place in origins.indices where floors[place] > before[place] {
      rows += try store.rows(of: place, after: before[place], through: floors[place])
    }
    // A row that was written all the time is told for each of its transactions.
    var left: Set<UInt64> = []
    for row in rows where !left.contains(row) {
      try sweep(row, floors)
      if try hasReferences || store.holds(row) { left.insert(row) }
    }
    if lasts.isFull {
      let oldest = try origins.indices.compactMap { try store.oldest(of: $0)?.clock }.min()
      lasts.forget(before: oldest ?? .max) { (try? store.holds($0)) ?? true }
    }
    // What comes from now on follows what all know of the own trail: it need not be read any more.
    if isOwnOnly { origins[Self.own].reached = max(origins[Self.own].reached, floors[Self.own]) }
    guard !rows.isEmpty else { return }
    try store.tidy()
    for place in origins.indices {
      let first = min(try store.oldest(of: place)?.number ?? .max, origins[place].border)
      for other in origins.indices { origins[place].steps[other].forget(before: first) }
    }
  }

  /// The number of an origin's last transaction that all others know.
  private func floor(of place: Int) -> UInt64 {
    origins.indices.filter { $0 != place }.map {
      origins[$0].steps[place].known(at: origins[$0].border)
    }.min() ?? 0
  }

  /// Forgets of a row what nobody can ask for any more.
  private mutating func sweep(_ chain: UInt64, _ floors: [UInt64]) throws {
    let row = RowName(hash: chain)
    if lasts.areKept, !row.isReference {
      var before: [WindowEntry] = []
      try store.forEach(of: row.chain) { before.append($0) }
      try sweep(row, floors)
      var left: [WindowEntry] = []
      try store.forEach(of: row.chain) { left.append($0) }
      for entry in before where !left.contains(entry) {
        let end = End(row: row.chain, origin: entry.origin, number: entry.number)
        // If only deletes that do not count are left, the row has the rank of its last write.
        if ends.remove(end) == nil { keepLast(of: row.chain, entry) }
      }
      return
    }
    try sweep(row, floors)
  }

  mutating func keepLasts() { lasts.areKept = true }

  private mutating func noteEnd(_ row: RowName, _ entry: WindowEntry) {
    guard lasts.areKept, row.isEnd || !ends.isEmpty else { return }
    let end = End(row: row.chain, origin: entry.origin, number: entry.number)
    if row.isEnd { ends.insert(end) } else { ends.remove(end) }
  }

  private mutating func keepLast(of row: UInt64, _ entry: WindowEntry) {
    if let last = lasts[row], !isEarlier(last, entry) { return }
    lasts.keep(entry, of: row)
  }

  private mutating func sweep(_ row: RowName, _ floors: [UInt64]) throws {
    // Most have no version that is still needed.
    if !store.remove(row.chain, below: floors) { try sweepVersions(row.chain) }
    if hasReferences { try sweepReferences(row) }
  }

  /// Forgets the versions of a row that all know, up to the latest border behind which everything follows them, as
  /// `RowHistory` does.
  private mutating func sweepVersions(_ row: UInt64) throws {
    var entries: [WindowEntry] = []
    try store.forEach(of: row) { entries.append($0) }
    entries.sort { isEarlier($0, $1) }
    let known = entries.prefix { $0.number <= origins[$0.origin].floor }.count
    guard known > 0 else { return }
    guard known < entries.count else { return try store.remove(of: row) { _ in true } }
    guard let border = border(entries, upTo: known) else { return }
    let last = entries[border - 1]
    let names = origins.map(\.name)
    try store.remove(of: row) { entry in
      (entry.clock, names[entry.origin], entry.number) <= (
        last.clock, names[last.origin], last.number
      )
    }
  }

  private func isEarlier(_ a: WindowEntry, _ b: WindowEntry) -> Bool {
    (a.clock, origins[a.origin].name, a.number) < (b.clock, origins[b.origin].name, b.number)
  }

  /// How many versions there are at most, up to `count`, that all others follow; nil where there are none.
  private func border(_ entries: [WindowEntry], upTo count: Int) -> Int? {
    // What everything from an index on knows of each origin.
    var known = Array(repeating: UInt64.max, count: origins.count)
    func take(_ entry: WindowEntry) {
      for place in origins.indices {
        let one =
          place == entry.origin
          ? entry.number - 1 : origins[entry.origin].steps[place].known(at: entry.number)
        known[place] = min(known[place], one)
      }
    }
    for entry in entries[count...] { take(entry) }
    // Of the versions before an index, the last of each origin.
    var last = [Array(repeating: UInt64(0), count: origins.count)]
    for entry in entries[..<count] {
      var next = last[last.count - 1]
      next[entry.origin] = max(next[entry.origin], entry.number)
      last.append(next)
    }
    for border in stride(from: count, to: 0, by: -1) {
      if zip(last[border], known).allSatisfy({ $0 <= $1 }) { return border }
      take(entries[border - 1])
    }
    return nil
  }
}
