import Changes
import Conflicts
import Mapping
import SQLiteKit
import Transforming

/// The settings of one apply, for either target engine.
///
///     var options = ApplyOptions()
///     options.existing = .keep
///     let apply = try SQLiteApply(path: "copy.db", trail: folder, name: trail, options: options)
package struct ApplyOptions: Sendable {
  package var existing = ExistingRows.overwrite
  /// Whether the policy for existing rows also applies to refreshes after the initial load. If false, these refreshes
  /// overwrite rows.
  package var existingHolds = false
  /// The number of rows after which apply commits a group. Nil: the default of the target's engine.
  package var commitRows: Int?
  /// The time since a group's begin after which apply commits the group, in ms.
  package var commitMilliseconds: Int64 = 200
  /// The number of the last transaction that apply writes. Apply takes it for the end of the trail.
  package var lastTransaction = UInt64.max
  /// Whether apply deletes the segments of the trail that no reader needs any more.
  package var purgesTrail = false
  /// Whether apply stops before a refresh of a table that Cairn did not create and that already holds rows at the
  /// target.
  package var refusesRows = false
  /// The number of the trail's last transaction at the time when an operator requested a refresh of all tables; 0: no
  /// request.
  package var askedBehind: UInt64 = 0
  /// The end of the trail at the time when a refresh of all tables was requested; nil: no request.
  ///
  /// A target that has applied nothing begins to read the trail at this place.
  package var askedAt: Checkpoint?
  package var names = NamePolicy.fold
  /// The policies for values that do not fit their column in PostgreSQL.
  package var misfits = MisfitPolicies()
  /// The policy that decides whether apply executes a statement of the source again, or writes the changed rows.
  package var replay = ReplayPolicy.rows
  package var statements = StatementLimits()
  /// The policy for schema changes at the target. Nil: apply follows them only in tables that Cairn created.
  package var ddl: DDLPolicy?
  package var scope = TargetScope()
  /// The size limit for a value and for a row that an SQLite target builds, in bytes; nil: SQLite's own limit.
  package var valueBytesMax: Int32?
  package var noteLeftOut: @Sendable (LeftOutTable) throws -> Void = { _ in }
  /// Patterns for names of the target's triggers that fire while apply writes.
  ///
  /// In PostgreSQL, such a trigger may fire although another role owns its code.
  package var fireTriggers: [String] = []
  package var rules: [TableRule] = []
  /// The tables whose rules in the conf have changed since apply wrote their rows.
  package var changedRules: [ChangedRule] = []
  /// Whether apply stops if a changed rule sends rows to another target table that already holds rows.
  package var refusesRowsElsewhere = false
  /// The treatment of rows that the target refuses.
  package var refused = RefusedRows()
  /// The policy for rows that applications write to the target's tables, if replication is one-way.
  package var localWrites = LocalWritesPlan()
  /// The state that all apply workers of a captured database share; nil for a one-way apply.
  package var twoWay: TwoWay?
  /// Returns the earliest place in the trail that readers except this apply need; nil if they need no part of the
  /// trail.
  package var alsoNeeded: @Sendable () throws -> Position? = { nil }
  /// Stores the earliest place in the trail that this apply still needs. Called after each commit of apply.
  package var noteNeeded: @Sendable (Position) throws -> Void = { _ in }
  package var sourceTables = TablePatterns()
  /// Returns whether other apply workers of the trail may request refreshes of whole tables.
  package var othersAskForCopies: @Sendable () -> Bool = { false }
  /// The functions that update capture's triggers after schema changes of apply. Nil unless the target is a captured
  /// SQLite file.
  package var schemaFollower: SchemaFollower?
  /// The memory limit, in bytes, for the table definitions that one commit of apply changes in a captured SQLite file.
  package var followedDefinitionBytesMax = TableSchema.memoryMax / 4
  /// Whether the target's own trail gets the rows that apply writes. May be true only if no path leads from that trail
  /// back to the rows' source.
  package var relays = false
  /// The maximum time by which the clock of the trail's node may be ahead of this node's clock, in µs.
  ///
  /// If that clock is further ahead, a one-way apply waits. Nil: apply never waits.
  package var skewMicrosecondsMax: Int64?
  /// The origin that is stored with rows of this trail when the target's own trail gets them. Nil: this trail's name.
  package var originName: TrailName?
  /// The trail into which the target's own changes are captured. Apply skips transactions whose origin is that trail.
  package var ownTrail: TrailName?
  /// The origins, written like trail names, of all captures that read the target. Apply skips transactions of these
  /// origins.
  package var ownOrigins: Set<String> = []
  package init() {}

  /// Whether apply puts a transaction in quarantine if the target refuses its rows.
  package var quarantines: Bool {
    get { refused.quarantines }
    set { refused.quarantines = newValue }
  }
}

/// The treatment of rows that the target of an apply refuses.
///
///     options.refused.quarantines = true
package struct RefusedRows: Sendable {
  /// Whether apply puts a transaction in quarantine if the target refuses its rows. If not, apply stops.
  package var quarantines = false
  /// The operator's decisions about rows at which this apply has stopped; one-way only.
  package var decisions: [RowDecision] = []
}

/// The functions by which an apply to a captured SQLite file keeps capture in step with schema changes.
///
///     options.schemaFollower = SchemaFollower(
///       release: { try AppliedSchema.release($0, in: $1, since: $2) },
///       adopt: { try AppliedSchema.adopt(in: $0, since: $1, of: trail) })
package struct SchemaFollower: Sendable {
  /// Drops capture's triggers on a table before apply alters the table.
  ///
  /// - Parameter version: SQLite's `schema_version` when the transaction began.
  package var release: @Sendable (_ table: String, Database, _ version: Int64) throws -> Void
  /// Updates capture's triggers to the new definitions of tables. Called before apply commits a schema change.
  package var adopt: @Sendable (Database, _ version: Int64) throws -> Void

  package var hook: @Sendable (Database) throws -> Void
  package var unhook: @Sendable (Database) throws -> Void

  package init(
    release: @escaping @Sendable (String, Database, Int64) throws -> Void,
    adopt: @escaping @Sendable (Database, Int64) throws -> Void,
    hook: @escaping @Sendable (Database) throws -> Void = { _ in },
    unhook: @escaping @Sendable (Database) throws -> Void = { _ in }
  ) { (self.release, self.adopt, self.hook, self.unhook) = (release, adopt, hook, unhook) }
}

extension ApplyOptions {
  /// Returns the transaction in which applied rows were first committed. Nil if the target's own trail does not get the
  /// rows.
  func origin(of header: TransactionHeader, in trail: TrailName) -> TransactionHeader.Dependency? {
    guard relays else { return nil }
    // The origin in a trail's header is input: it must be a valid name of a trail.
    if let relay = header.relay, TrailName(relay.origin) != nil { return relay }
    return .init(origin: (originName ?? trail).description, number: header.number)
  }

  /// Returns whether a transaction was first committed in this target and came back through other databases.
  func isOwn(_ header: TransactionHeader) -> Bool {
    guard let relay = header.relay, let name = TrailName(relay.origin) else { return false }
    return name == ownTrail || ownOrigins.contains(name.origin)
  }
}

/// A table of a trail that apply skips: the setting `tables` does not include it, or its name is reserved. Also a
/// sequence with a reserved name.
///
///     LeftOutTable(source: "items", namespace: "public", name: "items")
package struct LeftOutTable: Hashable, Sendable {
  package var source: String
  /// The schema (namespace) that the table would have at the target; empty in SQLite.
  package var namespace: String
  /// The name that the table would have at the target.
  package var name: String

  package init(source: String, namespace: String, name: String) {
    (self.source, self.namespace, self.name) = (source, namespace, name)
  }

  /// Whether apply skips the table because of its name, whatever `tables` says. A schema (`namespace`) exists only in
  /// PostgreSQL.
  package var isReserved: Bool {
    TargetScope.isReserved(namespace, name, in: namespace.isEmpty ? .sqlite : .postgres)
  }

  /// Why apply skips the table, for a notice.
  package func reason(_ apply: String) -> String {
    isReserved
      ? "its name at the target is reserved for Cairn or the database engine; rename it at the source"
      : "'tables' of \(apply) does not include it"
  }

  package static func == (a: Self, b: Self) -> Bool { a.parts == b.parts }
  package func hash(into hasher: inout Hasher) { hasher.combine(parts) }
  private var parts: [NameKey] { [source.nameKey, namespace.nameKey, name.nameKey] }
}

extension ApplyOptions {
  /// Returns whether the conf lets a trigger of a PostgreSQL target fire although another role owns its code.
  ///
  /// A pattern is `table.trigger` for a table of `public`, else `schema.table.trigger`. The last pattern that matches
  /// decides. A pattern with `!` excludes triggers.
  ///
  /// A pattern without a table and without `!` counts only if all triggers that match are on tables of one owner.
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

  /// Throws `table-forbidden` if apply may not write a table: `tables` does not include it, or its name is reserved.
  func checkAllowed(_ namespace: String, _ name: String, in engine: Engine) throws(CairnError) {
    guard scope.verdict(namespace, name, in: engine) != .allowed else { return }
    let table = namespace.isEmpty ? name : "\(namespace).\(name)"
    throw CairnError(
      .tableForbidden, "apply would write table \(table), which 'tables' of the apply does not include",
      hint: "add \"\(table)\" to 'tables' of the apply, or copy the table again under its new name",
      remedy: .badInput, context: ["table": table])
  }

  /// The place at which a target that has applied nothing begins to read, and the last transaction before that place.
  /// If `checkpoint` is nil, the place is the trail's start.
  var begin: (checkpoint: Checkpoint?, number: UInt64) { askedAt.map { ($0, askedBehind) } ?? (nil, 0) }

  /// Whether apply creates a table that apply's state does not list, at the table's first record. A requested refresh
  /// then brings the rows.
  var expectsStrangers: Bool { askedBehind > 0 }

  /// Returns the earliest place in the trail that this apply, the version window or another reader still needs.
  ///
  /// - Parameter position: The place up to which this target has applied the trail.
  func needed(_ position: Position, of trail: TrailName) throws -> Position {
    let places = [try twoWay?.window.needs()[trail], try alsoNeeded()].compactMap { $0 }
    return places.reduce(position, min)
  }

  /// Returns the error for an initial load of a table that already holds rows at the target.
  static func holdsRows(_ table: String) -> CairnError {
    CairnError(
      .targetDiffers, "table \(table) already holds rows at the target before its first copy",
      hint:
        "set existing in [apply.NAME] to \"keep\" (these rows stay), \"overwrite\" (the target becomes equal to the source) or \"merge\" (the source's rows win), then run 'cairn reload'",
      context: ["table": table])
  }

  /// Returns whether triggers at the target refuse writes of applications to a table.
  func isGuarded(_ namespace: String, _ name: String) -> Bool {
    let plain = ["", "public"].contains(namespace) ? name : "\(namespace).\(name)"
    return localWrites.writes(forTarget: plain.asciiLowercased) == .refuse && !goesBothWays(namespace, name)
  }

  /// Returns whether the conf ensures that all rows of a target table come from the source.
  func holdsOnlyTheSource(_ namespace: String, _ name: String) -> Bool {
    let plain = ["", "public"].contains(namespace) ? name : "\(namespace).\(name)"
    let writes = localWrites.writes(forTarget: plain.asciiLowercased)
    return existing == .overwrite && [.stop, .refuse].contains(writes)
  }

  /// Returns whether this database takes the other database's default for a column that both databases of a two-way
  /// pair have added.
  ///
  /// Exactly one of the two databases gives up its own default.
  func yieldsDefaults(_ namespace: String, _ name: String, to trail: TrailName) -> Bool {
    guard let twoWay, goesBothWays(namespace, name) else { return false }
    return NameKey(trail.description) < NameKey(twoWay.own.description)
  }

  /// Returns whether rows written to a table of the target are replicated back.
  func goesBothWays(_ namespace: String, _ name: String) -> Bool { twoWay?.captures(namespace, name) ?? false }

  func policy(isCreated: Bool) -> DDLPolicy { ddl ?? (isCreated ? .follow : .stop) }
}

/// The limits for statements of the source that apply executes again.
///
///     options.statements = StatementLimits(milliseconds: 60_000)
package struct StatementLimits: Sendable {
  /// The time limit for one statement, in ms. A statement that writes many rows gets more time.
  package var milliseconds: Int64
  /// The file that says whether apply is executing a statement of the source; nil if this is not stored.
  package var mark: String?

  package init(milliseconds: Int64 = 30_000, mark: String? = nil) {
    (self.milliseconds, self.mark) = (milliseconds, mark)
  }
}
