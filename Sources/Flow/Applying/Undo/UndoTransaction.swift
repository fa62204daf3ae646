import Changes
import Trails

/// A transaction of a trail that is to be undone, with its plan.
///
///     let found = try UndoTransaction(folder: folder, number: 7)
///     found.plan.refusals(isForced: false)
package struct UndoTransaction {
  /// The highest number of changes, which are in memory.
  private static let changesMax = 1_000_000

  package let trail: TrailName
  package let header: TransactionHeader
  package let position: Position
  package private(set) var plan = UndoPlan()
  /// The tables that later transactions copied, whose earlier writes the trail may lack.
  package private(set) var copied: [String] = []

  /// Reads the transaction and the later changes of its tables.
  ///
  /// - Throws: `usage` if the trail does not have the transaction, or no longer; `unsupported` for a transaction of
  ///   another node, or with too many changes; `trail-damaged`.
  package init(folder: String, number: UInt64) throws {
    let info = try Trail.info(folder: folder)
    trail = info.name
    let first = info.segments.first?.firstTransaction ?? 1
    guard number > 0, number <= info.lastTransaction else {
      let last = info.lastTransaction
      throw CairnError(
        .usage, "trail \(info.name) has no transaction \(number)",
        hint: last == 0
          ? "it has no transactions yet; see 'cairn trail list'"
          : "the last one is \(last); see 'cairn trail show \(info.name) --last 5'", remedy: .badInput)
    }
    guard number >= first else { throw Self.purged(number, info.name, first) }
    var bounds = TrailSearch.Bounds()
    // A large transaction may continue in segments that begin with its number.
    bounds.from = info.segments.last { $0.firstTransaction < number }.map { Position(segment: $0.number, offset: 0) }
    var found: (header: TransactionHeader, begin: Position)?
    var (isWhole, plan, changes) = (false, UndoPlan(), 0)
    try TrailSearch(folder: folder, filter: RowFilter(), bounds: bounds).run(newestFirst: false) { hit in
      guard hit.transaction.number == number else { return }
      found = (hit.transaction, hit.begin)
      if case .commit = hit.record { isWhole = true }
      if case .change = hit.record { changes += 1 }
      guard changes <= Self.changesMax else { throw Self.tooLarge(number, info.name) }
      try Self.note(hit, in: &plan)
    } done: {
      isWhole ? .end : .more
    }
    guard let found, isWhole else { throw Self.purged(number, info.name, first) }
    (header, position, self.plan) = (found.header, found.begin, plan)
    try checkOrigin()
    try readLater(folder)
  }

  private static func purged(_ number: UInt64, _ trail: TrailName, _ first: UInt64) -> CairnError {
    CairnError(
      .usage, "transaction \(number) of trail \(trail) is purged; the trail begins with transaction \(first)",
      hint: "undo it by hand; [trail.NAME] keep holds more history", remedy: .badInput)
  }

  private static func tooLarge(_ number: UInt64, _ trail: TrailName) -> CairnError {
    CairnError(
      .unsupported, "transaction \(number) of trail \(trail) has more than \(changesMax) changes",
      hint: "print the statements that undo it, with 'cairn trail show \(trail) --sql sqlite|postgres --reverse'",
      remedy: .badInput)
  }

  // The inverse must be made where the transaction began: there, all nodes get it.
  private func checkOrigin() throws {
    guard let relay = header.relay else { return }
    // The name comes from a peer.
    let there = TrailName(relay.origin).map { "undo it there: cairn undo \($0) \(relay.number)" }
    throw CairnError(
      .unsupported,
      "transaction \(header.number) of trail \(trail) began elsewhere, as transaction \(relay.number) of \(relay.origin)",
      hint: there ?? "undo it where it began", remedy: .badInput)
  }

  private static func note(_ hit: TrailSearch.Hit, in plan: inout UndoPlan) throws {
    func schema(_ id: UInt64) -> TableSchema? { hit.schema(id) }
    switch hit.record {
    case .change(let change):
      guard let given = schema(change.schemaID) else {
        throw CairnError(
          .trailDamaged, "\(hit.position): schema \(change.schemaID) is not in the segment",
          hint: "run 'cairn trail verify'")
      }
      plan.note(change.operation, given, before: try change.before?.values(), after: try change.after?.values())
    case .ddl(let ddl): plan.refuse(schema(ddl.after) ?? schema(ddl.before), .reshaped(nil))
    case .refresh(let refresh):
      if case .start = refresh.event { plan.refuse(schema(refresh.schemaID), .copied) }
    default: break
    }
  }

  private mutating func readLater(_ folder: String) throws {
    var bounds = TrailSearch.Bounds()
    bounds.from = Position(segment: position.segment, offset: position.offset + 1)
    for table in plan.tables {
      var (plan, copied) = (plan, copied)
      let origin = trail.origin
      try TrailSearch(folder: folder, filter: RowFilter(table: table.fullName), bounds: bounds).run(newestFirst: false)
      { hit in
        guard hit.transaction.number > header.number else { return }
        let writer = UndoWriter(
          number: hit.transaction.number, node: hit.transaction.node(trail: origin), time: hit.transaction.commitTime)
        switch hit.record {
        case .change(let change):
          guard let schema = hit.schema(change.schemaID) else { return }
          plan.noteLater(
            change.operation, schema, before: try change.before?.values(), after: try change.after?.values(),
            by: writer)
        case .ddl(let ddl):
          for schema in [ddl.before, ddl.after].compactMap(hit.schema).prefix(1) {
            plan.noteReshaped(schema, by: writer)
          }
        case .refresh(let refresh):
          if case .start = refresh.event, copied.last != table.fullName { copied.append(table.fullName) }
        default: break
        }
      } done: {
        .more
      }
      (self.plan, self.copied) = (plan, copied)
    }
  }
}
