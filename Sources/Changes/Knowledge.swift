/// Up to which transaction of each other trail a database holds what they did.
///
/// Capture learns it from what apply notes in its own commits, and writes it into the header of every transaction that
/// follows (``TransactionHeader/dependencies``). A trail that is begun again under its name has another id, and counts from
/// 1 again: what is known of it stands beside what is known of the trail before, as a node may still have that one.
package struct Knowledge: Equatable, Sendable {
  /// The last transaction of a trail, and its clock.
  package struct Entry: Equatable, Sendable {
    /// Nil: noted by an earlier version.
    package var id: TrailID?
    package var number: UInt64
    package var clock: UInt64
    package init(id: TrailID? = nil, number: UInt64, clock: UInt64) {
      (self.id, self.number, self.clock) = (id, number, clock)
    }
  }

  /// Trails of one name that are remembered: a node that lacks more of them takes versions of one more for unknown.
  private static let trailsMax = 4
  /// By the trail's name, `NODE.NAME`; the one that was noted last stands last.
  package private(set) var origins: [String: [Entry]] = [:]

  package init() {}

  /// Notes what is known of a trail. The number of a trail never goes back: an apply that begins again knows less than the
  /// database.
  ///
  /// - Parameter id: of the trail; nil if an earlier version says it.
  package mutating func note(_ origin: String, id: TrailID? = nil, number: UInt64, clock: UInt64) {
    var entries = origins[origin] ?? []
    var noted = Entry(id: id, number: number, clock: clock)
    if let index = entries.firstIndex(where: { $0.id == id }) {
      let known = entries.remove(at: index)
      (noted.number, noted.clock) = (max(known.number, number), max(known.clock, clock))
    }
    if id != nil {
      // What the same apply noted before it named ids.
      for known in entries where known.id == nil { noted.clock = max(noted.clock, known.clock) }
      entries.removeAll { $0.id == nil }
    }
    while entries.count >= Self.trailsMax { noted.clock = max(noted.clock, entries.removeFirst().clock) }
    origins[origin] = entries + [noted]
  }

  package mutating func note(_ applied: AppliedNote) {
    note(applied.trail, id: applied.id, number: applied.number, clock: applied.clock)
  }

  /// Whether an earlier version noted any of it.
  package var hasUnnamed: Bool { origins.values.contains { $0.contains { $0.id == nil } } }

  /// Gives what an earlier version noted the ids of the trails that have been applied, as checkpoints name them; of these, no
  /// more is known than has been applied.
  package mutating func name(by applied: [AppliedNote]) {
    for note in applied where note.id != nil {
      guard let known = origins[note.trail]?.first(where: { $0.id == nil }) else { continue }
      self.note(note.trail, id: note.id, number: min(known.number, note.number), clock: known.clock)
    }
  }

  /// Of the trail of that name that was noted last. 0: nothing of it.
  package func number(of origin: String) -> UInt64 { origins[origin]?.last?.number ?? 0 }

  /// The greatest of all that is known; 0: nothing.
  package var clock: UInt64 { origins.values.flatMap { $0 }.map(\.clock).max() ?? 0 }

  /// Sorted by origin.
  package var dependencies: [TransactionHeader.Dependency] {
    origins.sorted { $0.key < $1.key }.flatMap { origin, entries in
      entries.map { .init(origin: origin, number: $0.number, id: $0.id) }
    }
  }
}

extension TransactionHeader {
  /// The transaction's author knew this much: its clock is beyond everything that it may follow.
  package mutating func follow(_ knowledge: Knowledge) {
    dependencies = knowledge.dependencies
    guard !dependencies.isEmpty else { return }
    clock = max(clock, min(knowledge.clock, NumberBounds.followedClock) + 1)
  }
}

extension TransactionHeader {
  /// The transaction that the rows come from, if an apply wrote them; nil if programs did.
  package var relay: Dependency? { flags.contains(.relayed) ? dependencies.first : nil }

  /// Marks the transaction as one whose rows an apply wrote.
  ///
  ///     header.hand(on: .init(origin: "shop.pos", number: 17), after: note.clock)
  ///
  /// - Parameter clock: that of the transaction that the rows come from. This one's is later.
  package mutating func hand(on origin: Dependency, after clock: UInt64) {
    flags.insert(.relayed)
    let known = dependencies.first { $0.origin == origin.origin }?.number ?? 0
    dependencies.removeAll { $0.origin == origin.origin }
    dependencies.insert(.init(origin: origin.origin, number: max(known, origin.number)), at: 0)
    self.clock = max(self.clock, min(clock, NumberBounds.followedClock) + 1)
  }
}

extension ByteWriter {
  package mutating func append(_ knowledge: Knowledge) {
    appendVarint(UInt64(knowledge.origins.values.reduce(0) { $0 + $1.count }))
    for (origin, entries) in knowledge.origins.sorted(by: { $0.key < $1.key }) {
      for entry in entries {
        appendString(origin)
        appendVarint(entry.number)
        appendVarint(entry.clock)
        append(entry.id)
      }
    }
  }
}

extension ByteReader {
  /// - Parameter hasIDs: false for what an earlier version wrote.
  package mutating func readKnowledge(hasIDs: Bool = true) throws -> Knowledge {
    var knowledge = Knowledge()
    for _ in 0..<(try readCount()) {
      let (origin, number, clock) = (try readString(), try readNumber("transaction"), try readClock())
      knowledge.note(origin, id: hasIDs ? try readTrailID() : nil, number: number, clock: clock)
    }
    return knowledge
  }
}

/// What apply writes into its own commit: that the database holds the transactions of a trail through this one.
///
/// Number 0 says that nothing was changed: the commit is apply's, but there is nothing to know.
package struct AppliedNote: Equatable, Sendable {
  /// The first word of the printed form: whether it has ``origin``, and whether it has ``id``.
  private static func version(isRelayed: Bool, isNamed: Bool) -> String {
    isRelayed ? (isNamed ? "4" : "2") : (isNamed ? "3" : "1")
  }

  /// `NODE.NAME`.
  package var trail: String
  /// Of the trail: another one may come under its name, which counts from 1. Nil in a note of an earlier version, and where
  /// there is nothing to know.
  package var id: TrailID?
  package var number: UInt64
  package var clock: UInt64
  /// Where in the trail the transaction stands.
  package var position: Position
  /// The transaction in which the rows began, if they may go on into the trail of the database: apply knows of no way
  /// back to where they come from.
  package var origin: TransactionHeader.Dependency?

  package init(
    trail: String, id: TrailID? = nil, number: UInt64, clock: UInt64, position: Position,
    origin: TransactionHeader.Dependency? = nil
  ) {
    (self.trail, self.id, self.number, self.clock) = (trail, id, number, clock)
    (self.position, self.origin) = (position, origin)
  }

  /// The clock of this node may have been set back since an apply noted the transaction: by so much it does not count, µs.
  private static let setBackMicroseconds: Int64 = 60_000_000

  /// Takes over a clock only as far as an apply lets it in. Roles and programs that write to the database can forge notes.
  ///
  /// - Parameters:
  ///   - now: the time, µs since 1970.
  ///   - skewMicrosecondsMax: how far the clock of another node may be ahead.
  package mutating func bound(now: Int64, skewMicrosecondsMax: Int64) {
    let (first, isBeyond) = now.addingReportingOverflow(skewMicrosecondsMax)
    let (last, isFar) = first.addingReportingOverflow(Self.setBackMicroseconds)
    guard !isBeyond, !isFar else { return }
    clock = min(clock, UInt64(clamping: last))
  }

  /// Reads the printed form; nil when `text` is not one.
  package init?(_ text: String) {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
    let version = parts[0]
    let (isNamed, isRelayed) = (version == "3" || version == "4", version == "2" || version == "4")
    guard isNamed || isRelayed || version == "1", parts.count == 5 + (isNamed ? 1 : 0) + (isRelayed ? 2 : 0),
      TrailName(parts[1]) != nil, let number = UInt64(parts[2]),
      NumberBounds.isNumber(number), let clock = UInt64(parts[3]), NumberBounds.isClock(clock),
      let position = Position(parts[4])
    else { return nil }
    self.init(trail: parts[1], number: number, clock: clock, position: position)
    if isNamed {
      guard let id = TrailID(hex: parts[5]) else { return nil }
      self.id = id
    }
    guard isRelayed else { return }
    guard TrailName(parts[parts.count - 2]) != nil, let first = UInt64(parts[parts.count - 1]),
      NumberBounds.isNumber(first)
    else { return nil }
    origin = .init(origin: parts[parts.count - 2], number: first)
  }

  /// `1 TRAIL NUMBER CLOCK POSITION`; with an id `3 TRAIL NUMBER CLOCK POSITION ID`. With an origin, 2 or 4 stands first, and
  /// ` ORIGIN NUMBER` last.
  package var text: String {
    let version = Self.version(isRelayed: origin != nil, isNamed: id != nil)
    var text = "\(version) \(trail) \(number) \(clock) \(position)"
    if let id { text += " \(id)" }
    if let origin { text += " \(origin.origin) \(origin.number)" }
    return text
  }

  /// As a capture of an earlier version reads it.
  package var withoutID: AppliedNote {
    var note = self
    note.id = nil
    return note
  }
}
