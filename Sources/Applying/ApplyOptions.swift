import Changes
import Conflicts
import Mapping
import Reshaping
import SQLiteKit

/// How a trail is applied, whatever the engine of the target.
package struct ApplyOptions: Sendable {
  /// What becomes of rows that a table holds before its first copy.
  package var existing = ExistingRows.overwrite
  /// Whether ``existing`` holds for copies that were asked for too, as a conf says it once and for all: another apply of
  /// the trail may have asked. Otherwise such a copy overwrites.
  package var existingHolds = false
  /// Rows after which a commit is due when more transactions are waiting; nil: what suits the engine.
  package var commitRows: Int?
  /// Milliseconds after which one is due.
  package var commitMilliseconds: Int64 = 200
  /// Deletes segments of the trail that this target has behind it: where nobody else reads the trail.
  package var purgesTrail = false
  /// What a table holds before its first copy could not be looked at in advance, and nobody said what is to become of it:
  /// apply stops there before it writes.
  package var refusesRows = false
  /// A copy of everything was asked for when this was the trail's last transaction: copies that began before are none.
  package var askedBehind: UInt64 = 0
  /// Where that was, for a target that has nothing of a trail whose beginning is gone: it begins there, and tables are
  /// made as they are met. Nil: it needs the trail from its beginning.
  package var askedAt: Checkpoint?
  /// How names of SQLite become names of PostgreSQL.
  package var names = NamePolicy.fold
  /// What becomes of values that have no place in their column in PostgreSQL.
  package var misfits = MisfitPolicies()
  /// Whether statements are executed once more instead of their rows.
  package var replay = ReplayPolicy.rows
  /// What schema changes do at the target; nil: it depends on who created the table.
  package var ddl: DDLPolicy?
  /// The tables of the target that the trail may write.
  package var scope = TargetScope()
  /// The largest value, and the largest row, that an SQLite target makes, in bytes; nil: SQLite's own limit.
  ///
  /// For trails of other nodes: an expression of a table that such a trail made must not build more.
  package var valueBytesMax: Int32?
  /// Notes a table that ``scope`` leaves out, durably, before the checkpoint passes its first record.
  package var noteLeftOut: @Sendable (LeftOutTable) throws -> Void = { _ in }
  /// Patterns of triggers of the target: those of SQLite that fire while apply writes, and those of PostgreSQL that may fire
  /// although another role owns their code.
  package var fireTriggers: [String] = []
  /// What becomes of single tables on their way.
  package var rules: [ReshapeRule] = []
  /// Tables whose rules are other ones than those under which their rows came.
  package var changedRules: [ChangedRule] = []
  /// A table that such a rule leads to must hold no rows of others: nobody said what is to become of them.
  package var refusesRowsElsewhere = false
  /// Puts a transaction aside that the target does not take for its rows, instead of stopping before it.
  package var quarantines = false
  /// What becomes of what others write to the tables, where this way leads only there.
  package var localWrites = LocalWritesPlan()
  /// Where the database is captured too: what its applies share.
  package var twoWay: TwoWay?
  /// What others than this apply need of the trail, where it purges it.
  package var alsoNeeded: @Sendable () throws -> Position? = { nil }
  /// Called with the place from which on this apply needs the trail, after each commit.
  package var noteNeeded: @Sendable (Position) throws -> Void = { _ in }
  /// The tables of the source that the target gets; the trail may have others, which other targets get.
  package var sourceTables = TablePatterns()
  /// Whether others than this apply may ask for copies of whole tables: such a copy leaves rows as ``existing`` says,
  /// and those that differ where programs may write to the table.
  package var othersAskForCopies: @Sendable () -> Bool = { false }
  /// Where the target is an SQLite file that is captured too.
  package var schemaFollower: SchemaFollower?
  /// The rows may go on into the trail of the target: no way leads from there to where they come from.
  package var relays = false
  /// How far the clock of the trail's node may be ahead of ours before a one-way apply holds the trail back, µs; nil: it is
  /// never held back, as a trail of this node.
  package var skewMicrosecondsMax: Int64?
  /// The name by which rows that began in this trail go on; nil: the name of the trail.
  package var originName: TrailName?
  /// The trail into which the target is captured. Apply passes over transactions that began there.
  package var ownTrail: TrailName?
  /// The same as ``ownTrail``, by the part of names before the dot.
  package var ownOrigins: Set<String> = []
  package init() {}
}

/// Keeps the capture of an SQLite target in step with the schema changes that apply makes there, in apply's transaction.
package struct SchemaFollower: Sendable {
  /// Before a table is altered; with the schema's version when the transaction began.
  package var release: @Sendable (_ table: String, Database, _ version: Int64) throws -> Void
  /// Before the commit of a transaction that has changed the schema.
  package var adopt: @Sendable (Database, _ version: Int64) throws -> Void

  /// In a transaction: from here on, the connection logs what it writes, in step with the schema as it is now.
  package var hook: @Sendable (Database) throws -> Void
  /// The connection logs nothing any more.
  package var unhook: @Sendable (Database) throws -> Void

  package init(
    release: @escaping @Sendable (String, Database, Int64) throws -> Void,
    adopt: @escaping @Sendable (Database, Int64) throws -> Void,
    hook: @escaping @Sendable (Database) throws -> Void = { _ in },
    unhook: @escaping @Sendable (Database) throws -> Void = { _ in }
  ) { (self.release, self.adopt, self.hook, self.unhook) = (release, adopt, hook, unhook) }
}

extension ApplyOptions {
  /// The transaction in which rows began, for the note about them; nil if they are not to go on.
  func origin(of header: TransactionHeader, in trail: TrailName) -> TransactionHeader.Dependency? {
    guard relays else { return nil }
    // What a trail names is input: it must be the name of one.
    if let relay = header.relay, TrailName(relay.origin) != nil { return relay }
    return .init(origin: (originName ?? trail).description, number: header.number)
  }

  /// True if a transaction began in the target itself, and comes back over other databases.
  func isOwn(_ header: TransactionHeader) -> Bool {
    guard let relay = header.relay, let name = TrailName(relay.origin) else { return false }
    return name == ownTrail || ownOrigins.contains(name.origin)
  }
}

/// A table of a trail that the list of its apply does not include.
package struct LeftOutTable: Hashable, Sendable {
  /// The ``TableSchema/plainName`` at the source.
  package var source: String
  /// The schema that it would have at the target; empty in SQLite.
  package var namespace: String
  /// The name that it would have at the target.
  package var name: String

  package init(source: String, namespace: String, name: String) {
    (self.source, self.namespace, self.name) = (source, namespace, name)
  }

  package static func == (a: Self, b: Self) -> Bool { a.parts == b.parts }
  package func hash(into hasher: inout Hasher) { hasher.combine(parts) }
  private var parts: [NameKey] { [source.nameKey, namespace.nameKey, name.nameKey] }
}

extension ApplyOptions {
  /// Whether the conf lets a trigger of the target fire, whoever owns its code.
  func fires(_ trigger: String) -> Bool { !fireTriggers.isEmpty && TablePatterns(fireTriggers).includes(trigger) }

  /// Throws `table-forbidden` if the list does not include a table into which apply is about to write rows.
  ///
  /// Apply may know a table under another name than the trail's rules give it now.
  func checkAllowed(_ namespace: String, _ name: String, in engine: Engine) throws(CairnError) {
    guard scope.verdict(namespace, name, in: engine) != .allowed else { return }
    let table = namespace.isEmpty ? name : "\(namespace).\(name)"
    throw CairnError(
      .tableForbidden, "apply would write table \(table), which its list of tables does not include",
      hint: "add \"\(table)\" to 'tables' of the apply, or copy the table again under its new name",
      remedy: .badInput, context: ["table": table])
  }

  /// The place at which a target begins that has nothing of the trail, and the last transaction before it.
  var begin: (checkpoint: Checkpoint?, number: UInt64) { askedAt.map { ($0, askedBehind) } ?? (nil, 0) }

  /// Whether a table that apply knows nothing of is still to be copied: copies of everything were asked for, and what
  /// stood before that was not read.
  var expectsStrangers: Bool { askedBehind > 0 }

  /// Where what is still needed of the trail begins, for a target that is at `position`.
  func needed(_ position: Position, of trail: TrailName) throws -> Position {
    let places = [try twoWay?.window.needs()[trail], try alsoNeeded()].compactMap { $0 }
    return places.reduce(position, min)
  }

  /// A first copy would go where rows are already.
  static func holdsRows(_ table: String) -> CairnError {
    CairnError(
      .targetDiffers, "table \(table) holds rows at the target already, before its first copy",
      hint:
        "say in [apply.NAME] what is to become of them: existing = \"keep\" (they stay), \"overwrite\" (the target becomes equal) or \"merge\" (the source's rows win), and reload",
      context: ["table": table])
  }

  /// Whether what others write to a table of the target is refused.
  func isGuarded(_ namespace: String, _ name: String) -> Bool {
    let plain = ["", "public"].contains(namespace) ? name : "\(namespace).\(name)"
    return localWrites.writes(forTarget: plain.asciiLowercased) == .refuse && !goesBothWays(namespace, name)
  }

  /// Whether what is written to a table of the target goes back.
  func goesBothWays(_ namespace: String, _ name: String) -> Bool { twoWay?.captures(namespace, name) ?? false }

  /// What holds for a table. Unless it was said, tables that Cairn created follow, and others wait for a person.
  func policy(isCreated: Bool) -> DDLPolicy { ddl ?? (isCreated ? .follow : .stop) }
}
