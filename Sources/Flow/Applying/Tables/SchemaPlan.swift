import Changes
import Mapping

/// The decisions about one schema change of the trail: whether apply makes it at the target, and under which terms.
/// Pure: an engine carries the plan out.
///
///     let plan = SchemaPlan(change, .init(right: right, ddl: .follow))
///     if case .drop = plan.dropping(change.name) { … }
struct SchemaPlan {
  /// The step that brings the target's table to its next shape.
  enum Step: Equatable {
    /// Creates the table. If `isAwaited`, apply skips the table's changes until a requested refresh begins.
    case create(isAwaited: Bool)
    case drop
    case alter
    case nothing
  }

  /// The facts about a table on which a plan depends.
  struct Facts {
    var right: SchemaRight
    /// The policy that the operator set for the apply; nil: none.
    var ddl: DDLPolicy?
    /// Whether a requested refresh will bring the rows again.
    var isAwaited = false
    /// Whether all rows of the target's table come from the source.
    var holdsOnlyTheSource = false
    /// Two-way: whether this database takes the other database's defaults instead of its own.
    var yieldsDefaults = false
    /// Two-way: the name of this database's own trail. Nil for a one-way table.
    @ByBytes var ownTrail: String? = nil
  }

  let right: SchemaRight
  let policy: DDLPolicy
  var isRefreshed = false
  var isAwaited = false
  var isSourceAlone = false
  /// Two-way: whether this database takes the other database's default for a column that both have added.
  var yieldsDefaults = false
  /// Two-way: the name of this database's own trail. Nil for a one-way table.
  @ByBytes var ownTrail: String? = nil

  /// Whether a copy brings the rows of the source again.
  var isReplaced: Bool { isRefreshed || isAwaited }
  /// Whether Cairn created the table, and this trail may change it.
  var isCreated: Bool { right.isCreated }

  init(_ change: ShapeChange, _ facts: Facts) {
    right = facts.right
    policy = change.action == .drop ? right.policyOfDrop(facts.ddl) : right.policy(facts.ddl)
    (isRefreshed, isAwaited, ownTrail) = (change.isRefreshed, facts.isAwaited, facts.ownTrail)
    isSourceAlone = right.isOnlyTrail && !change.isApplied && facts.holdsOnlyTheSource
    yieldsDefaults = facts.yieldsDefaults && !facts.isAwaited
  }

  /// Creates the plan for a table that the target may not have yet.
  init(creating ddl: DDLPolicy?) { (right, policy) = (SchemaRight(isCreated: false), ddl ?? .follow) }

  /// Returns the step for a schema change.
  ///
  /// - Parameter isStranger: Whether apply skipped the record that created the table.
  /// - Parameter isCopyAsked: Whether a requested copy brings the rows of tables that are created now.
  static func step(_ change: ShapeChange, isStranger: Bool, isCopyAsked: Bool) -> Step {
    switch (change.action, change.before, change.after) {
    case (.create, _, _?): .create(isAwaited: isCopyAsked)
    case (.drop, _?, _): .drop
    // The table did not exist when copies were requested.
    case (.rename, _?, _?), (.reshape, _?, _?): isStranger ? .create(isAwaited: true) : .alter
    default: .nothing
    }
  }

  // MARK: Drop

  enum Drop: Equatable {
    case drop
    /// The table stays, with this notice.
    case keep(String)
    case refuse(String)

    static func == (a: Self, b: Self) -> Bool {
      switch (a, b) {
      case (.drop, .drop): true
      case (.keep(let a), .keep(let b)), (.refuse(let a), .refuse(let b)): a.hasSameBytes(as: b)
      default: false
      }
    }
  }

  /// Returns what becomes of a table that the source has dropped.
  ///
  /// - Parameter table: The table's name at the target.
  func dropping(_ table: String) -> Drop {
    switch policy {
    case .stop: return .refuse(right.refusal)
    case .follow where isCreated: return .drop
    case .follow:
      let why = right.others.isEmpty ? "Cairn did not create it" : right.refusal
      return .keep("table \(table) of the target stays: \(why); it receives no more rows of this trail")
    case .ignore: return .keep("table \(table) of the target stays, as 'ddl' is ignore; it receives no more rows")
    }
  }

  // MARK: Alter

  /// A column that a target's table had before the source added one of its name.
  struct OwnColumn<Rows: FilledRows> {
    let column: TableSchema.Column
    /// Whether the target gave its rows the column's default.
    let wasFilled: Bool
    let rows: Rows
  }

  /// Whether a table that the target lacks is created again: a copy brings its rows.
  var mayCreateAgain: Bool { policy == .follow && isCreated && isRefreshed }

  /// Returns the first renamed column whose new name is taken by a column that only the target has; nil if there is
  /// none.
  ///
  /// - Parameter there: The names of the target table's columns.
  func takenName(_ difference: TableDifference, in there: Set<NameKey>) -> (old: String, new: String)? {
    difference.ownNames(in: there, isStrict: policy == .follow && isCreated)
  }

  /// Returns the reason why a schema change by which columns take each other's names is refused: the target's table
  /// looks the same before and after. Nil if apply makes the change, or if a refresh replaces the rows.
  func refusalOfReusedNames(_ difference: TableDifference) -> String? {
    guard policy != .follow, !isRefreshed, difference.reusesNames else { return nil }
    return policy == .ignore ? "schema changes are ignored (--ddl ignore)" : right.refusal
  }

  /// Throws `schema-stopped` if the target already had a column that the source adds, and its values are not the
  /// source's. Then gives the waiting rows the source's values.
  ///
  /// - Parameter change: The schema change, with the columns in the order of `source`, the source's table after it.
  /// - Parameter note: Called with each notice.
  /// - Parameter own: Returns the target's column of this name; nil: the target had no such column.
  func checkFilled<Rows: FilledRows>(
    _ change: TableDifference, of source: TableSchema, from before: TableSchema, to after: TableSchema,
    named name: String, _ refusal: @autoclosure () -> SchemaRefusal, note: (String) -> Void,
    own: (NameKey) throws -> OwnColumn<Rows>?
  ) throws {
    guard !isReplaced || ownTrail != nil else { return }
    for case .addColumn(let index) in change.changes {
      let (source, column) = (source.columns[index], after.columns[index])
      if ownTrail != nil, let notice = FilledColumn.notice(source, of: name) { note(notice) }
      let key = column.name.key(in: after.engine)
      guard !before.columns.contains(where: { $0.name.key(in: after.engine) == key }), let own = try own(key) else {
        continue
      }
      let filled = FilledColumn(
        source, column, isSourceAlone: isSourceAlone, own: own.column, wasFilled: own.wasFilled, yields: yieldsDefaults)
      try own.rows.check(filled, isRefreshed: isReplaced, trail: ownTrail, refusal(), named: name)
    }
  }
}

extension SchemaRight.Effect {
  init(of change: TableDifference?) { self = change?.onlyAddsColumns ?? false ? .adds : .removes }
}

extension ApplyOptions {
  /// Returns the facts for a schema change of a target table.
  ///
  /// - Parameter known: The table's state; nil if apply does not know the table.
  /// - Parameter trail: The trail that has the schema change.
  func schemaFacts(
    _ right: SchemaRight, _ known: (any TableState)?, _ schema: String, _ name: String, of trail: TrailName
  ) -> SchemaPlan.Facts {
    SchemaPlan.Facts(
      right: right, ddl: ddl, isAwaited: known?.isAwaited ?? false,
      holdsOnlyTheSource: holdsOnlyTheSource(schema, name), yieldsDefaults: yieldsDefaults(schema, name, to: trail),
      ownTrail: goesBothWays(schema, name) ? twoWay?.own.description : nil)
  }
}

extension CairnError {
  /// Whether a table whose schema change, rule or name fails with this error is suspended, and other tables continue.
  var suspendsTable: Bool {
    [.schemaStopped, .nameCollision, .tableRefused, .ruleRefused, .privilegeMissing, .ownersCode].contains(code)
  }
}
