import Changes
import Conflicts
import Mapping
import Synchronization
import SystemKit

/// The conflict log of a target, stored in `cairn_conflict` (SQLite) or `cairn.conflict` (PostgreSQL).
///
/// Apply writes an entry in the transaction that writes the resolved row. Not thread-safe.
///
///     let log = ConflictLog(try Database(path: "shop.db"))
///     for record in try log.list(before: nil, limit: 20) { print(record) }
package struct ConflictLog {
  private static let name = "conflict"
  private static let numbers = ["at", "number", "clock", "other_number", "other_clock", "overturned_at"]
  private let state: any StateDatabase

  init(_ state: some StateDatabase) { self.state = state }

  private var table: String { state.table(Self.name) }

  package func isInstalled() throws -> Bool { try state.hasTable(Self.name) }

  /// Creates the log's table, or adds the columns that an older version of Cairn did not create. Runs in the caller's
  /// transaction.
  package func install() throws {
    try state.lockForInstall()
    guard try isInstalled() else {
      return try state.create(Self.name, isNeverUsedAgain: false, ConflictColumns.names, numbers: Self.numbers)
    }
    try state.add(ConflictColumns.names, to: Self.name, numbers: Self.numbers)
  }

  static func appendText(_ state: any StateDatabase) -> String {
    """
    INSERT INTO \(state.table(name))(\(ConflictColumns.list)) VALUES (\(state.marks(ConflictColumns.names.count)))
    RETURNING id
    """
  }

  /// Logs a conflict in the caller's transaction and returns its number. For every 64th conflict, also deletes
  /// conflicts older than 30 days.
  @discardableResult package func append(_ record: ConflictRecord) throws -> Int64 {
    let id = try state.first(Self.appendText(state), ConflictColumns.texts(record)).flatMap { Int64($0) }
    if let id, ConflictRetention.isDue(at: id) { _ = try prune(before: record.at - ConflictRetention.microseconds) }
    return id ?? 0
  }

  /// Returns the newest `limit` conflicts, the latest first.
  ///
  /// - Parameter before: If given, only conflicts with smaller numbers are returned.
  package func list(before: Int64?, limit: Int) throws -> [ConflictRecord] {
    guard try isInstalled() else { return [] }
    return try records("WHERE id < ? ORDER BY id DESC LIMIT ?", [String(before ?? .max), String(limit)])
  }

  package func find(_ id: Int64) throws -> ConflictRecord? {
    guard try isInstalled() else { return nil }
    return try records("WHERE id = ?", [String(id)]).first
  }

  private func records(_ condition: String, _ values: [String]) throws -> [ConflictRecord] {
    try state.rows("SELECT id, \(ConflictColumns.list) FROM \(table) \(condition)", values).map { row in
      guard let id = row[0].flatMap({ Int64($0) }), let record = ConflictColumns.record(id: id, { row[$0 + 1] }) else {
        throw CairnError(
          .databaseDamaged, "table \(table) of \(state.place) holds a row that this version of Cairn did not write",
          hint: "use the version of Cairn that wrote it")
      }
      return record
    }
  }

  package func prune(before moment: Int64) throws -> Int64 {
    guard try isInstalled() else { return 0 }
    return try state.run("DELETE FROM \(table) WHERE at < ?", [String(moment)])
  }

  /// Overturns a logged conflict: writes the chosen version of the row, as a new change that is replicated. The same
  /// transaction marks the conflict as overturned.
  ///
  /// - Parameter now: The present time in µs since 1970 UTC.
  /// - Parameter scope: The tables that the apply of the conflict's trail may write.
  /// - Throws: `conflict-missing`; `table-forbidden`; `conflict-stale` if the row has changed since the conflict was
  ///   resolved, unless `force`.
  @discardableResult package func overturn(
    _ id: Int64, to winner: ConflictRecord.Winner?, force: Bool, now: Int64, within scope: TargetScope = TargetScope()
  ) throws -> ConflictRecord {
    try state.actAsApplication()
    return try state.transaction {
      guard var record = try find(id) else { throw ConflictRecord.missing(id, state.place) }
      try state.turn(record.turned(force: force, within: scope), to: record.row(of: winner))
      try state.run("UPDATE \(table) SET overturned_at = ? WHERE id = ?", [String(now), String(id)])
      record.overturnedAt = now
      return record
    }
  }
}

/// The time for which the log keeps conflicts.
enum ConflictRetention {
  static let microseconds: Int64 = 30 * 86_400 * 1_000_000

  /// Returns whether old conflicts are deleted when the conflict with this number is logged.
  static func isDue(at id: Int64) -> Bool { id % 64 == 0 }
}

/// The schedule by which an apply deletes old conflicts from the log: once an hour.
final class ConflictPruning: Sendable {
  private static let pauseMilliseconds: Int64 = 3_600_000
  private let next = Mutex<Int64>(0)

  /// Returns the time, in µs since 1970 UTC, before which conflicts must be deleted now. Nil if the last deletion was
  /// less than an hour ago.
  func due(_ clock: Clock) -> Int64? {
    let now = Clock.monotonicMilliseconds
    let isDue = next.withLock { next in
      guard now >= next else { return false }
      next = now + Self.pauseMilliseconds
      return true
    }
    return isDue ? clock.microseconds() - ConflictRetention.microseconds : nil
  }
}

/// The columns of the conflict log.
enum ConflictColumns {
  static let names = [
    "at", "trail", "position", "number", "clock", "kind", "rule", "schema_name", "table_name", "key", "local",
    "incoming", "before", "settled", "winner", "other_origin", "other_number", "other_clock", "overturned_at",
  ]
  static var list: String { names.joined(separator: ", ") }

  /// Reads a conflict from a row of the log; nil if this version of Cairn cannot read the row.
  static func record(id: Int64, _ text: (Int) -> String?) -> ConflictRecord? {
    func number(_ index: Int) -> UInt64? { text(index).flatMap { Int64($0) }.flatMap(NumberBounds.number) }
    func clock(_ index: Int) -> UInt64? { text(index).flatMap { Int64($0) }.flatMap(NumberBounds.clock) }
    func time(_ index: Int) -> Int64? {
      text(index).flatMap { Int64($0) }.flatMap { NumberBounds.isTime($0) ? $0 : nil }
    }
    func row(_ index: Int) -> ConflictRow? { text(index).flatMap { ConflictRow(json: $0) } }
    guard let at = time(0), let trail = text(1).flatMap({ TrailName($0) }),
      let position = text(2).flatMap({ Position($0) }), let own = number(3), let ownClock = clock(4),
      let kind = text(5).flatMap({ Conflict.Kind(rawValue: $0) }), let table = text(8), let key = row(9),
      let winner = text(14).flatMap({ ConflictRecord.Winner(rawValue: $0) })
    else { return nil }
    // A row image that is stored but unreadable must not count as a row that was absent.
    guard (10...13).allSatisfy({ text($0) == nil || row($0) != nil }) else { return nil }
    var record = ConflictRecord(
      at: at, trail: trail, position: position, number: own, clock: ownClock, kind: kind, rule: text(6) ?? "",
      namespace: text(7) ?? "", table: table, key: key, local: row(10), incoming: row(11), before: row(12),
      settled: row(13), winner: winner, other: nil)
    if let origin = text(15), let number = number(16), let clock = clock(17) {
      record.other = VersionStamp(clock: clock, origin: origin, number: number)
    }
    record.id = id
    record.overturnedAt = time(18)
    return record
  }

  static func texts(_ record: ConflictRecord) -> [String?] {
    func signed(_ number: UInt64) -> String { String(Int64(bitPattern: number)) }
    return [
      String(record.at), record.trail.description, record.position.description, signed(record.number),
      signed(record.clock), record.kind.rawValue, record.rule, record.namespace, record.table, record.key.json,
      record.local?.json, record.incoming?.json, record.before?.json, record.settled?.json, record.winner.rawValue,
      record.other?.origin, record.other.map { signed($0.number) }, record.other.map { signed($0.clock) },
      record.overturnedAt.map(String.init),
    ]
  }
}

extension ConflictRecord {
  /// Returns the version of the row that an overturn writes; nil: the overturn deletes the row.
  ///
  /// - Parameter winner: The version to write; nil: the version that lost.
  /// - Throws: `usage` if no winner is given and no version lost, because the conflict was merged.
  func row(of winner: Winner?) throws -> ConflictRow? {
    switch winner ?? loser {
    case .local: return local
    case .incoming: return incoming
    case .merged, nil:
      throw CairnError(
        .usage, "the rule merged both versions of conflict \(id), so no version lost",
        hint: "choose the version to write: --to local or --to incoming", remedy: .badInput)
    }
  }

  static func missing(_ id: Int64, _ place: String) -> CairnError {
    CairnError(
      .conflictMissing, "\(place) has no conflict \(id)",
      hint: "run 'cairn conflicts list' to see the conflicts that are kept",
      remedy: .badInput)
  }

  func stale(_ why: String) -> CairnError {
    CairnError(
      .conflictStale, "the row of conflict \(id), table \(fullName), key \(key.shown), \(why)",
      hint: "see 'cairn conflicts show \(id)'; --force writes the other version anyway",
      remedy: .badInput, context: ["table": fullName, "key": key.shown])
  }
}

extension ConflictRow {
  package var shown: String { columns.map { "\($0.name) \($0.value.shown)" }.joined(separator: ", ") }
}
