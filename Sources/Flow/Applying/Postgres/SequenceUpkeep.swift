import Changes
import Mapping
import PostgresKit
import SystemKit

/// Advances the target's sequences past the numbers in replicated rows, so that an application never gets such a number
/// again.
///
/// A sequence moves only forward, and only to a value that it would itself generate.
struct SequenceUpkeep {
  /// The number of steps by which a target's sequence is set ahead of the last value of the source's sequence.
  private static let margin: Int64 = 32
  private static let intervalMilliseconds: Int64 = 2000
  private static let nameBytesMax = 1024
  /// The longest time that a commit waits for sequences that other sessions have locked, in ms, all together.
  private static let lockMilliseconds = 100

  private var carried: [NameKey: SequenceState] = [:]
  private var budget: RowBudget
  private var identities: [NameKey: PostgresApplyTable] = [:]
  private var keptUpAt: Int64 = 0
  /// The time before which sequences that were locked are not tried again.
  private var laterAt: Int64 = 0

  init(_ budget: RowBudget = RowBudget(rows: 10_000, bytes: 4 << 20)) { self.budget = budget }

  /// The number of sequences that ``carry(_:_:_:)`` will advance.
  var carriedCount: Int { carried.count }

  /// Keeps a sequence's value until the commit. A sequence above the limit, or with a name that no server can have, is
  /// left as it is.
  mutating func note(_ sequence: SequenceState) {
    let texts = [sequence.namespace.utf8, sequence.name.utf8]
    guard texts.allSatisfy({ $0.count <= Self.nameBytesMax && !$0.contains(0) }) else { return }
    let name = "\(sequence.namespace.quotedName).\(sequence.name.quotedName)"
    guard carried[name] != nil || budget.take(name.utf8.count) else { return }
    carried[name] = sequence
  }

  /// Adds a target table that has a column filled by a sequence, if the table's source is SQLite.
  mutating func note(_ table: PostgresApplyTable) {
    guard table.source.engine == .sqlite, table.columns.contains(where: \.isCounting) else { return }
    identities[table.target.qualifiedName] = table
  }

  /// Advances the sequences whose values were in the group's records. Called before the group's commit; a rollback does
  /// not undo it.
  mutating func carry(_ sink: PostgresSink, _ progress: ApplyProgress, _ scope: TargetScope) throws {
    guard !carried.isEmpty, Clock.monotonicMilliseconds >= laterAt else { return }
    let before = try sink.connection.first("SELECT current_setting('lock_timeout')") ?? "0"
    try sink.connection.execute("SET LOCAL lock_timeout = \(Self.lockMilliseconds)")
    var locked: [NameKey: SequenceState] = [:]
    let allowed = try Self.allowed(carried.values.map { ($0.namespace, $0.name) }, scope, sink.connection)
    for (name, sequence) in carried.sorted(by: { $0.key < $1.key }).map({ ($0.key.text, $0.value) })
    where allowed.contains(name.nameKey) {
      let (step, isTooFar) = sequence.increment.multipliedReportingOverflow(by: Self.margin)
      let (ahead, isOver) = sequence.last.addingReportingOverflow(isTooFar ? 0 : step)
      let wanted = isOver ? sequence.last : ahead
      do {
        _ = try sink.attempt {
          try sink.connection.query(
            """
            SELECT setval(s.seqrelid, w.value) FROM pg_sequence s CROSS JOIN LATERAL (SELECT CASE
              WHEN $2::bigint > s.seqmax THEN s.seqmax WHEN $2::bigint < s.seqmin THEN s.seqmin ELSE $2::bigint END
              AS value) r CROSS JOIN LATERAL (SELECT s.seqstart
                + div(r.value::numeric - s.seqstart, s.seqincrement) * s.seqincrement AS value) v
              CROSS JOIN LATERAL (SELECT v.value::bigint AS value
                WHERE v.value BETWEEN s.seqmin AND s.seqmax) w
            WHERE s.seqrelid = to_regclass($1) AND CASE WHEN s.seqincrement > 0
              THEN w.value > coalesce(pg_sequence_last_value(s.seqrelid), s.seqmin - 1)
              ELSE w.value < coalesce(pg_sequence_last_value(s.seqrelid), s.seqmax + 1) END
            """, [name, String(wanted)])
        }
      } catch let error as PostgresError where error.isLockTimeout {
        // The next ones wait no longer.
        if locked.isEmpty { try sink.connection.execute("SET LOCAL lock_timeout = 1") }
        locked[name.nameKey] = sequence
      } catch let error as PostgresError where !error.isServerGone && !error.isTransient {
        progress.note("sequence \(name) of \(sink.connection.place) is not advanced: \(error.message)")
      }
    }
    try sink.connection.query("SELECT set_config('lock_timeout', $1, true)", [before])
    if let first = locked.keys.min() {
      progress.note(
        "sequence \(first.text) of \(sink.connection.place) is locked by another session, and is advanced later")
      laterAt = Clock.monotonicMilliseconds + Self.intervalMilliseconds
    }
    carried.removeAll()
    budget.clear()
    for (name, sequence) in locked where budget.take(name.text.utf8.count) { carried[name] = sequence }
  }

  /// Returns those of the given sequences that the target has and `scope` includes, each as `"schema"."name"`.
  ///
  /// One query looks up all names, because a peer can invent thousands of them for each commit.
  static func allowed(
    _ names: [(namespace: String, name: String)], _ scope: TargetScope, _ connection: PostgresConnection
  ) throws -> Set<NameKey> {
    let rows = try connection.query(
      """
      \(owners) FROM unnest($1::text[], $2::text[]) AS w(namespace, name)
        JOIN pg_namespace sn ON sn.nspname = w.namespace
        JOIN pg_class s ON s.relnamespace = sn.oid AND s.relname = w.name
        \(joinedOwners)
      """, [PostgresArrays.text(names.map(\.namespace)), PostgresArrays.text(names.map(\.name))])
    let found = Set(rows.map { "\(($0[0] ?? "").quotedName).\(($0[1] ?? "").quotedName)".nameKey })
    return found.subtracting(closed(rows, to: scope))
  }

  /// Returns the sequences that the setting `tables` excludes, each as `"schema"."name"`.
  static func closed(to scope: TargetScope, _ connection: PostgresConnection) throws -> Set<NameKey> {
    let rows = try connection.query(
      """
      \(owners) FROM pg_class s JOIN pg_namespace sn ON sn.oid = s.relnamespace
        \(joinedOwners)
      """)
    return closed(rows, to: scope)
  }

  private static let owners = "SELECT sn.nspname, s.relname, n.nspname, c.relname"
  /// Joins the tables whose columns own a sequence.
  private static let joinedOwners = """
    LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid
      AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
    LEFT JOIN pg_class c ON c.oid = d.refobjid LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE s.relkind = 'S'
    """

  private static func closed(_ rows: [[String?]], to scope: TargetScope) -> Set<NameKey> {
    var closed: Set<NameKey> = []
    for row in rows.map({ $0.map { $0 ?? "" } }) {
      let place = row[3].isEmpty ? (row[0], row[1]) : (row[2], row[3])
      guard scope.verdict(place.0, place.1, in: .postgres) != .allowed else { continue }
      closed.insert("\(row[0].quotedName).\(row[1].quotedName)")
    }
    return closed
  }

  mutating func keepUp(_ connection: PostgresConnection, isLast: Bool) throws {
    let now = Clock.monotonicMilliseconds
    guard !identities.isEmpty, isLast || now - keptUpAt > Self.intervalMilliseconds else { return }
    keptUpAt = now
    for (name, table) in identities where table.hasNewKeys {
      // Without an index on the column, the highest value is found by reading the whole table.
      let key = table.key.count == 1 ? table.key.first : nil
      let columns = table.columns.indices.filter { table.columns[$0].isCounting && (isLast || $0 == key) }
      table.hasNewKeys = columns.count < table.columns.count(where: \.isCounting)
      for column in columns { try keepUp(name.text, table.columns[column].name, connection) }
    }
  }

  private func keepUp(_ table: String, _ column: String, _ connection: PostgresConnection) throws {
    do {
      try connection.transaction {
        try connection.execute("SET LOCAL lock_timeout = 1000")
        guard let greatest = try connection.extreme(of: column, in: table, isLeast: false) else { return }
        try connection.query(
          """
          SELECT setval(s.name, v.value::bigint) FROM (SELECT pg_get_serial_sequence($1, $2)::regclass AS name) s
            JOIN pg_sequence AS q ON q.seqrelid = s.name AND q.seqincrement > 0,
            LATERAL (SELECT q.seqstart + ceil(($3::numeric - q.seqstart) / q.seqincrement) * q.seqincrement
              AS value) v
          WHERE $3::numeric > coalesce(pg_sequence_last_value(s.name), 0) AND v.value BETWEEN q.seqmin AND q.seqmax
          """, [table, column, String(greatest)])
      }
    } catch let error as PostgresError where !error.isServerGone && !error.isCancelled {
      // The table was dropped or renamed since: nothing depends on the sequence any more.
    } catch let error as CairnError where [.tableRefused, .ownersCode].contains(error.code) {
      // Another thing has its name by now, or code of another role: the next write of the table refuses it.
    }
  }
}
