/// Up to which transaction of each other origin a database holds what they did.
///
/// Capture learns it from what apply notes in its own commits, and writes it into the header of every transaction that
/// follows (``TransactionHeader/dependencies``).
package struct Knowledge: Equatable, Sendable {
  /// The last transaction of an origin, and its clock.
  package struct Entry: Equatable, Sendable {
    package var number: UInt64
    package var clock: UInt64
    package init(number: UInt64, clock: UInt64) {
      self.number = number
      self.clock = clock
    }
  }

  /// By the trail's name, `NODE.NAME`.
  package private(set) var origins: [String: Entry] = [:]

  package init() {}

  /// Never goes back: an apply that begins anew knows less than the database.
  package mutating func note(_ origin: String, number: UInt64, clock: UInt64) {
    let known = origins[origin] ?? Entry(number: 0, clock: 0)
    origins[origin] = Entry(number: max(known.number, number), clock: max(known.clock, clock))
  }

  package mutating func note(_ applied: AppliedNote) {
    note(applied.trail, number: applied.number, clock: applied.clock)
  }

  /// 0: nothing of it.
  package func number(of origin: String) -> UInt64 { origins[origin]?.number ?? 0 }

  /// The greatest of all that is known; 0: nothing.
  package var clock: UInt64 { origins.values.map(\.clock).max() ?? 0 }

  /// Sorted by origin.
  package var dependencies: [TransactionHeader.Dependency] {
    origins.sorted { $0.key < $1.key }.map { .init(origin: $0.key, number: $0.value.number) }
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
    appendVarint(UInt64(knowledge.origins.count))
    for (origin, entry) in knowledge.origins.sorted(by: { $0.key < $1.key }) {
      appendString(origin)
      appendVarint(entry.number)
      appendVarint(entry.clock)
    }
  }
}

extension ByteReader {
  package mutating func readKnowledge() throws -> Knowledge {
    var knowledge = Knowledge()
    for _ in 0..<(try readCount()) {
      knowledge.note(try readString(), number: try readNumber("transaction"), clock: try readClock())
    }
    return knowledge
  }
}

/// What apply writes into its own commit: that the database holds the transactions of a trail through this one.
///
/// Number 0 says that nothing was changed: the commit is apply's, but there is nothing to know.
package struct AppliedNote: Equatable, Sendable {
  private static let version = "1"
  /// Of a note with ``origin``.
  private static let relayVersion = "2"

  /// `NODE.NAME`.
  package var trail: String
  package var number: UInt64
  package var clock: UInt64
  /// Where in the trail the transaction stands.
  package var position: Position
  /// The transaction in which the rows began, if they may go on into the trail of the database: apply knows of no way
  /// back to where they come from.
  package var origin: TransactionHeader.Dependency?

  package init(
    trail: String, number: UInt64, clock: UInt64, position: Position, origin: TransactionHeader.Dependency? = nil
  ) {
    (self.trail, self.number, self.clock, self.position) = (trail, number, clock, position)
    self.origin = origin
  }

  /// Reads the printed form; nil when `text` is not one.
  package init?(_ text: String) {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
    let isRelayed = parts.count == 7 && parts[0] == Self.relayVersion
    guard isRelayed || parts.count == 5 && parts[0] == Self.version, TrailName(parts[1]) != nil,
      let number = UInt64(parts[2]),
      NumberBounds.isNumber(number), let clock = UInt64(parts[3]), NumberBounds.isClock(clock),
      let position = Position(parts[4])
    else { return nil }
    self.init(trail: parts[1], number: number, clock: clock, position: position)
    guard isRelayed else { return }
    guard TrailName(parts[5]) != nil, let first = UInt64(parts[6]), NumberBounds.isNumber(first) else { return nil }
    origin = .init(origin: parts[5], number: first)
  }

  /// `1 TRAIL NUMBER CLOCK POSITION`; with an origin `2 TRAIL NUMBER CLOCK POSITION ORIGIN NUMBER`.
  package var text: String {
    let note = "\(trail) \(number) \(clock) \(position)"
    guard let origin else { return "\(Self.version) \(note)" }
    return "\(Self.relayVersion) \(note) \(origin.origin) \(origin.number)"
  }
}
