/// The knowledge of a database: for each trail, the last transaction whose effects the database contains. Capture reads
/// the knowledge from the applied notes in the database.
///
///     var knowledge = VersionVector()
///     knowledge.note("hq.erp", number: 12, clock: clock)
///     knowledge.number(of: "hq.erp")   // 12
package struct VersionVector: Equatable, Sendable {
  /// The last known transaction of one trail, with its clock.
  package struct Entry: Equatable, Sendable {
    /// The id of the trail; nil if a version of Cairn without trail ids stored the entry.
    package var id: TrailID?
    package var number: UInt64
    package var clock: UInt64
    package init(id: TrailID? = nil, number: UInt64, clock: UInt64) {
      (self.id, self.number, self.clock) = (id, number, clock)
    }
  }

  private static let trailsMax = 4
  /// The entries by trail name, `NODE.NAME`.
  package private(set) var origins: [String: [Entry]] = [:]

  package init() {}

  /// Stores the last known transaction of a trail. A stored number or clock that is greater stays.
  ///
  /// - Parameter id: The id of the trail; nil if an earlier version of Cairn reported the transaction.
  package mutating func note(_ origin: String, id: TrailID? = nil, number: UInt64, clock: UInt64) {
    var entries = origins[origin] ?? []
    var noted = Entry(id: id, number: number, clock: clock)
    if let index = entries.firstIndex(where: { $0.id == id }) {
      let known = entries.remove(at: index)
      (noted.number, noted.clock) = (max(known.number, number), max(known.clock, clock))
    }
    if id != nil {
      // Earlier notes of the same apply that name no id are replaced.
      for known in entries where known.id == nil { noted.clock = max(noted.clock, known.clock) }
      entries.removeAll { $0.id == nil }
    }
    while entries.count >= Self.trailsMax { noted.clock = max(noted.clock, entries.removeFirst().clock) }
    origins[origin] = entries + [noted]
  }

  package mutating func note(_ applied: AppliedNote) {
    note(applied.trail, id: applied.id, number: applied.number, clock: applied.clock)
  }

  package var hasUnnamed: Bool { origins.values.contains { $0.contains { $0.id == nil } } }

  /// Gives each entry that has no trail id the id that a note in `applied` has for the entry's trail.
  package mutating func name(by applied: [AppliedNote]) {
    for note in applied where note.id != nil {
      guard let known = origins[note.trail]?.first(where: { $0.id == nil }) else { continue }
      self.note(note.trail, id: note.id, number: min(known.number, note.number), clock: known.clock)
    }
  }

  /// Returns the number of the last known transaction of a trail, by the trail's name; 0 if there is none.
  package func number(of origin: String) -> UInt64 { origins[origin]?.last?.number ?? 0 }

  /// The greatest clock of all known transactions; 0 if there is none.
  package var clock: UInt64 { origins.values.flatMap { $0 }.map(\.clock).max() ?? 0 }

  package var dependencies: [TransactionHeader.Dependency] {
    origins.sorted { $0.key < $1.key }.flatMap { origin, entries in
      entries.map { .init(origin: origin, number: $0.number, id: $0.id) }
    }
  }
}

extension TransactionHeader {
  /// Stores the knowledge in the header. Raises the transaction's clock, if necessary, above the greatest known clock,
  /// but at most to 2^61 + 1 µs.
  package mutating func follow(_ knowledge: VersionVector) {
    dependencies = knowledge.dependencies
    guard !dependencies.isEmpty else { return }
    clock = max(clock, min(knowledge.clock, NumberBounds.followedClock) + 1)
  }
}

extension TransactionHeader {
  static let dependenciesMax = 10_000

  /// The transaction in which the rows of a relayed transaction began; nil for any other transaction.
  package var relay: Dependency? { flags.contains(.relayed) ? dependencies.first : nil }

  /// Marks the transaction as one whose rows an apply wrote.
  ///
  ///     header.hand(on: .init(origin: "shop.pos", number: 17), after: note.clock)
  ///
  /// - Parameter clock: The clock of the transaction that the rows come from. This transaction gets a later clock.
  package mutating func hand(on origin: Dependency, after clock: UInt64) {
    flags.insert(.relayed)
    let known = dependencies.first { $0.origin == origin.origin }
    dependencies.removeAll { $0.origin == origin.origin }
    let number = max(known?.number ?? 0, origin.number)
    dependencies.insert(.init(origin: origin.origin, number: number, id: known?.id ?? origin.id), at: 0)
    self.clock = max(self.clock, min(clock, NumberBounds.followedClock) + 1)
  }
}

extension ByteWriter {
  package mutating func append(_ knowledge: VersionVector) {
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
  /// Reads an encoded ``Knowledge``.
  package mutating func readKnowledge(hasIDs: Bool = true) throws -> VersionVector {
    var knowledge = VersionVector()
    for _ in 0..<(try readCount()) {
      let (origin, number, clock) = (try readString(), try readNumber("transaction"), try readClock())
      knowledge.note(origin, id: hasIDs ? try readTrailID() : nil, number: number, clock: clock)
    }
    return knowledge
  }
}

/// The note that apply writes into the commit of its rows. It states the last transaction that the database contains
/// from one trail. The number 0 states no transaction.
///
///     let note = AppliedNote(trail: "hq.erp", number: 12, clock: clock, position: .start)
///     AppliedNote(note.text)?.number   // 12
package struct AppliedNote: Equatable, Sendable {
  private static func version(isRelayed: Bool, isNamed: Bool) -> String {
    isRelayed ? (isNamed ? "4" : "2") : (isNamed ? "3" : "1")
  }

  package var trail: String
  /// The id of the trail; nil if the note states no transaction, or comes from a version without trail ids.
  package var id: TrailID?
  package var number: UInt64
  package var clock: UInt64
  /// The position of the stated transaction in the trail.
  package var position: Position
  /// The transaction that first wrote the rows of the commit; nil if capture must not append the rows to its trail.
  package var origin: TransactionHeader.Dependency?

  package init(
    trail: String, id: TrailID? = nil, number: UInt64, clock: UInt64, position: Position,
    origin: TransactionHeader.Dependency? = nil
  ) {
    (self.trail, self.id, self.number, self.clock) = (trail, id, number, clock)
    (self.position, self.origin) = (position, origin)
  }

  // Additional µs: this node's clock may have been set back after apply wrote the note.
  private static let setBackMicroseconds: Int64 = 60_000_000

  /// Lowers the note's clock to at most 60 s more than `now` and the skew, because any application can forge a note.
  ///
  /// - Parameters:
  ///   - now: The time, µs since 1970 UTC.
  ///   - skewMicrosecondsMax: The maximum time, in µs, by which the clock of another node may be ahead of this node's
  ///     clock.
  package mutating func bound(now: Int64, skewMicrosecondsMax: Int64) {
    let (first, isBeyond) = now.addingReportingOverflow(skewMicrosecondsMax)
    let (last, isFar) = first.addingReportingOverflow(Self.setBackMicroseconds)
    guard !isBeyond, !isFar else { return }
    clock = min(clock, UInt64(clamping: last))
  }

  /// Reads a note from its text; nil for any other text.
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

  /// The text of the note: `1 TRAIL NUMBER CLOCK POSITION`, or with an id `3 TRAIL NUMBER CLOCK POSITION ID`. With an
  /// origin, the first word is 2 or 4, and ` ORIGIN NUMBER` follows.
  package var text: String {
    let version = Self.version(isRelayed: origin != nil, isNamed: id != nil)
    var text = "\(version) \(trail) \(number) \(clock) \(position)"
    if let id { text += " \(id)" }
    if let origin { text += " \(origin.origin) \(origin.number)" }
    return text
  }

  /// The same note without a trail id, for a version of capture that cannot read ids.
  package var withoutID: AppliedNote {
    var note = self
    note.id = nil
    return note
  }
}
