import Changes
import Conflicts
import Mapping
import Reshaping
import SQLiteKit

/// The settings of one apply, for either target engine.
package struct ApplyOptions: Sendable {
  /// The policy for rows that a table holds before its first copy.
  package var existing = ExistingRows.overwrite
  /// Whether ``existing`` also applies to copies that are requested later; otherwise such a copy overwrites rows.
  ///
  /// True if a conf sets the policy for good: another apply of the trail may have requested the copy.
  package var existingHolds = false
  /// The number of rows after which a commit is due if more transactions are waiting; nil: the engine's own limit.
  package var commitRows: Int?
  /// The time after which a commit is due, in ms.
  package var commitMilliseconds: Int64 = 200
  /// Whether apply deletes the segments of the trail that are no longer needed (``needed(_:of:)``).
  package var purgesTrail = false
  /// Whether apply stops before a copy would write to a table that already holds rows.
  ///
  /// True if the tables could not be checked in advance and the operator set no policy for such rows.
  package var refusesRows = false
  /// The last transaction of the trail when a copy of everything was requested; 0: none was. Earlier copies do not
  /// count.
  package var askedBehind: UInt64 = 0
  /// The place in the trail of the request ``askedBehind``; nil: the target needs the trail from its beginning.
  ///
  /// A target that has nothing of a trail whose beginning is purged starts here, and creates tables as it meets them.
  package var askedAt: Checkpoint?
  /// The policy by which names of SQLite become names of PostgreSQL.
  package var names = NamePolicy.fold
  /// The policies for values that do not fit their column in PostgreSQL.
  package var misfits = MisfitPolicies()
  /// Whether apply executes statements of the source again instead of applying their rows.
  package var replay = ReplayPolicy.rows
  /// The time limit for a statement that is executed again, in ms; see ``StatementTime``.
  package var statementMilliseconds: Int64 = 30_000
  /// The policy for schema changes at the target; nil: it depends on who created the table.
  package var ddl: DDLPolicy?
  /// The tables of the target that the trail may write.
  package var scope = TargetScope()
  /// The size limit for a value and for a row that an SQLite target builds, in bytes; nil: SQLite's own limit.
  ///
  /// Set for trails of other nodes: an expression of a table that such a trail created must not build larger values.
  package var valueBytesMax: Int32?
  /// Stores durably that ``scope`` leaves out a table, before the checkpoint passes the table's first record.
  package var noteLeftOut: @Sendable (LeftOutTable) throws -> Void = { _ in }
  /// The triggers of the target that may fire while apply writes, as patterns of their names. In PostgreSQL, a pattern
  /// with the name of the table also admits triggers whose code another role owns (``fires(_:among:)``).
  package var fireTriggers: [String] = []
  /// The rules for single tables.
  package var rules: [TableRule] = []
  /// The tables whose rules differ from those under which their rows were applied.
  package var changedRules: [ChangedRule] = []
  /// Whether apply stops if a changed rule leads to another table that already holds rows.
  ///
  /// True if the operator set no policy for such rows.
  package var refusesRowsElsewhere = false
  /// Whether apply puts a transaction in quarantine if the target refuses its rows, instead of stopping before it.
  package var quarantines = false
  /// The policy for rows that applications write to the target's tables, if replication is one-way.
  package var localWrites = LocalWritesPlan()
  /// The state that all applies of a captured database share; nil for a one-way apply.
  package var twoWay: TwoWay?
  /// Returns the place from which other readers need the trail, for an apply that purges it; nil: they need none of it.
  package var alsoNeeded: @Sendable () throws -> Position? = { nil }
  /// Stores the place from which this apply needs the trail. Called after each commit.
  package var noteNeeded: @Sendable (Position) throws -> Void = { _ in }
  /// The tables of the source that this target receives. The trail may have more, for other targets.
  package var sourceTables = TablePatterns()
  /// Returns whether other applies of the trail may request copies of whole tables.
  ///
  /// Such a copy treats rows as ``existing`` says. Rows that differ stay if applications may write to the table.
  package var othersAskForCopies: @Sendable () -> Bool = { false }
  /// Keeps capture in step with schema changes, if the target is an SQLite file that is captured too.
  package var schemaFollower: SchemaFollower?
  /// Whether applied rows also go into the trail into which the target is captured. True only if no path leads from
  /// that trail back to the source of the rows.
  package var relays = false
  /// The lead that the clock of the trail's node may have over ours before a one-way apply holds the trail back, in µs.
  ///
  /// Nil: apply never holds the trail back, as for a trail of this node.
  package var skewMicrosecondsMax: Int64?
  /// The name of the origin under which rows of this trail also enter the target's own trail; nil: the name of the
  /// trail.
  package var originName: TrailName?
  /// The trail into which the target is captured. Apply passes over transactions that began there.
  package var ownTrail: TrailName?
  /// The origins (names of trails before the dot) that count as ``ownTrail`` does.
  package var ownOrigins: Set<String> = []
  package init() {}
}

/// The functions that keep capture of an SQLite target in step with apply's schema changes, in apply's transaction.
package struct SchemaFollower: Sendable {
  /// Prepares capture before a table is altered. `version` is that of the schema when the transaction began.
  package var release: @Sendable (_ table: String, Database, _ version: Int64) throws -> Void
  /// Brings capture in step before the commit of a transaction that has changed the schema.
  package var adopt: @Sendable (Database, _ version: Int64) throws -> Void

  /// Makes the connection write its changes to the journal, in step with the present schema. Called in a transaction.
  package var hook: @Sendable (Database) throws -> Void
  /// Makes the connection write its changes to the journal no longer.
  package var unhook: @Sendable (Database) throws -> Void

  package init(
    release: @escaping @Sendable (String, Database, Int64) throws -> Void,
    adopt: @escaping @Sendable (Database, Int64) throws -> Void,
    hook: @escaping @Sendable (Database) throws -> Void = { _ in },
    unhook: @escaping @Sendable (Database) throws -> Void = { _ in }
  ) { (self.release, self.adopt, self.hook, self.unhook) = (release, adopt, hook, unhook) }
}

extension ApplyOptions {
  /// Returns the transaction in which rows began, for the note about these rows; nil if the rows are not to be in the
  /// target's own trail.
  func origin(of header: TransactionHeader, in trail: TrailName) -> TransactionHeader.Dependency? {
    guard relays else { return nil }
    // The origin in a trail's header is input: it must be a valid name of a trail.
    if let relay = header.relay, TrailName(relay.origin) != nil { return relay }
    return .init(origin: (originName ?? trail).description, number: header.number)
  }

  /// Returns whether a transaction began in the target itself and comes back over other databases.
  func isOwn(_ header: TransactionHeader) -> Bool {
    guard let relay = header.relay, let name = TrailName(relay.origin) else { return false }
    return name == ownTrail || ownOrigins.contains(name.origin)
  }
}

/// A table of a trail that the setting `tables` of the trail's apply does not include.
package struct LeftOutTable: Hashable, Sendable {
  /// The table's ``TableSchema/plainName`` at the source.
  package var source: String
  /// The schema that the table would have at the target; empty in SQLite.
  package var namespace: String
  /// The name that the table would have at the target.
  package var name: String

  package init(source: String, namespace: String, name: String) {
    (self.source, self.namespace, self.name) = (source, namespace, name)
  }

  package static func == (a: Self, b: Self) -> Bool { a.parts == b.parts }
  package func hash(into hasher: inout Hasher) { hasher.combine(parts) }
  private var parts: [NameKey] { [source.nameKey, namespace.nameKey, name.nameKey] }
}

extension ApplyOptions {
  /// Returns whether the conf lets a trigger of a PostgreSQL target fire although another role owns its code: the last
  /// pattern that matches decides.
  ///
  /// A pattern names the table too, as `table.trigger` for a table of `public`, else as `schema.table.trigger`. The
  /// owner of another table can give a trigger of its own any name. So a bare name counts only while all triggers that
  /// it matches are of tables of one owner. A name without `*` and `?` is compared by its bytes. A pattern that
  /// excludes may be a bare name.
  ///
  ///     // fire_triggers = ["order.audit"]
  ///     options.fires(.init(namespace: "public", table: "order", name: "audit"), among: [])  // true
  ///     options.fires(.init(namespace: "public", table: "mine", name: "audit"), among: [])   // false
  ///
  /// - Parameter all: All triggers of the database, with the owners of their tables.
  func fires(_ trigger: OwnersCode.Trigger, among all: [OwnersCode.TriggerOwner]) -> Bool {
    func isMatch(_ part: Substring.UTF8View, _ name: String) -> Bool {
      let pattern = String(decoding: part, as: UTF8.self)
      if pattern.hasSameBytes(as: name) { return true }
      return pattern.utf8.first != UInt8(ascii: "!")
        && part.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: "?") }
        && TablePatterns([pattern]).includes(name)
    }
    var isIncluded = false
    for pattern in fireTriggers {
      let excludes = pattern.utf8.first == UInt8(ascii: "!")
      let parts = pattern[...].utf8.dropFirst(excludes ? 1 : 0)
        .split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
      let whole = [trigger.namespace, trigger.table, trigger.name]
      let names: [String]
      switch parts.count {
      case 1 where excludes: names = [trigger.name]
      case 1:
        let matched = all.filter { isMatch(parts[0], $0.name) }
        guard let first = matched.first, matched.allSatisfy({ $0.owner == first.owner }) else { continue }
        names = [trigger.name]
      case 2 where trigger.namespace.hasSameBytes(as: "public"): names = Array(whole.dropFirst())
      case 3: names = whole
      default: continue
      }
      if zip(parts, names).allSatisfy({ isMatch($0, $1) }) { isIncluded = !excludes }
    }
    return isIncluded
  }

  /// Throws `table-forbidden` if the list does not include a table into which apply is about to write rows.
  ///
  /// Apply may know a table under another name than the trail's rules give it now.
  func checkAllowed(_ namespace: String, _ name: String, in engine: Engine) throws(CairnError) {
    guard scope.verdict(namespace, name, in: engine) != .allowed else { return }
    let table = namespace.isEmpty ? name : "\(namespace).\(name)"
    throw CairnError(
      .tableForbidden, "apply would write table \(table), which 'tables' of the apply does not include",
      hint: "add \"\(table)\" to 'tables' of the apply, or copy the table again under its new name",
      remedy: .badInput, context: ["table": table])
  }

  /// The place at which a target begins that has nothing of the trail, and the last transaction before that place.
  var begin: (checkpoint: Checkpoint?, number: UInt64) { askedAt.map { ($0, askedBehind) } ?? (nil, 0) }

  /// Whether a table that apply does not know is one whose rows are still to be copied.
  ///
  /// True after a request for copies of everything: apply has not read the part of the trail before the request.
  var expectsStrangers: Bool { askedBehind > 0 }

  /// Returns the place from which the trail is still needed, for a target that has applied it up to `position`.
  func needed(_ position: Position, of trail: TrailName) throws -> Position {
    let places = [try twoWay?.window.needs()[trail], try alsoNeeded()].compactMap { $0 }
    return places.reduce(position, min)
  }

  /// Returns the error for a first copy into a table that already holds rows.
  static func holdsRows(_ table: String) -> CairnError {
    CairnError(
      .targetDiffers, "table \(table) already holds rows at the target before its first copy",
      hint:
        "set existing in [apply.NAME] to \"keep\" (these rows stay), \"overwrite\" (the target becomes equal to the source) or \"merge\" (the source's rows win), then run 'cairn reload'",
      context: ["table": table])
  }

  /// Returns whether the target refuses what applications write to a table.
  func isGuarded(_ namespace: String, _ name: String) -> Bool {
    let plain = ["", "public"].contains(namespace) ? name : "\(namespace).\(name)"
    return localWrites.writes(forTarget: plain.asciiLowercased) == .refuse && !goesBothWays(namespace, name)
  }

  /// Returns whether all rows of a target's table are the source's: the first copy left no others, and applications may
  /// not write to it.
  func holdsOnlyTheSource(_ namespace: String, _ name: String) -> Bool {
    let plain = ["", "public"].contains(namespace) ? name : "\(namespace).\(name)"
    let writes = localWrites.writes(forTarget: plain.asciiLowercased)
    return existing == .overwrite && [.stop, .refuse].contains(writes)
  }

  /// Returns whether this end replaces its own default by that of the other end, if both ends have added the same
  /// column. It concerns rows that have the default in that column.
  ///
  /// Exactly one of two ends does. If both did, an operator who follows the hints at both ends would swap the values.
  func yieldsDefaults(_ namespace: String, _ name: String, to trail: TrailName) -> Bool {
    guard let twoWay, goesBothWays(namespace, name) else { return false }
    return NameKey(trail.description) < NameKey(twoWay.own.description)
  }

  /// Returns whether rows written to a table of the target are replicated back.
  func goesBothWays(_ namespace: String, _ name: String) -> Bool { twoWay?.captures(namespace, name) ?? false }

  /// Returns the policy for schema changes of a table. Unless one is set, apply follows them only in tables that Cairn
  /// created.
  func policy(isCreated: Bool) -> DDLPolicy { ddl ?? (isCreated ? .follow : .stop) }
}
