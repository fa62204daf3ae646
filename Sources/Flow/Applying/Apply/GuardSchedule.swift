import Changes

/// The target tables whose triggers against writes of applications (`local_writes = "refuse"`) are not yet as they must
/// be, with the times of the next attempts. Pure: all times are monotonic, in ms.
///
///     var guards = GuardSchedule()
///     guards.set([GuardSchedule.Table(schema: "s", name: "k", isWanted: true)])
///     guards.fail("\"s\".\"k\"", error, isLocked: true, now)   // guards.open: the error
///     guards.remove("\"s\".\"k\"")                             // guards.open: empty
struct GuardSchedule {
  struct Table {
    @ByBytes var schema: String
    @ByBytes var name: String
    /// Whether the table must have the triggers; false: triggers of an earlier conf must go.
    var isWanted: Bool
    var schedule = CatchUpSchedule.due
    /// The reason why the last attempt failed; nil: there was none.
    var error: CairnError?
    /// Whether the last attempt failed only because another session had locked the table.
    var isLocked = false

    init(schema: String, name: String, isWanted: Bool) {
      (self.schema, self.name, self.isWanted) = (schema, name, isWanted)
    }

    var quotedName: String { "\(schema.quotedName).\(name.quotedName)" }
  }

  /// The time of the next look at which tables need an attempt; nil: apply has looked.
  private var look: CatchUpSchedule? = .due
  private var tables: [NameKey: Table] = [:]

  /// The tables whose triggers are missing, each with the reason, in the order of their names.
  var open: [CairnError] {
    tables.sorted { $0.key < $1.key }.compactMap { $0.value.isWanted ? $0.value.error : nil }
  }

  /// Whether another session prevented the last attempt for some table.
  var isLocked: Bool { tables.values.contains { $0.isWanted && $0.isLocked } }

  /// Notes that the tables which must have triggers may have changed.
  mutating func noteChange() { look = .due }

  func isLookDue(_ now: Int64) -> Bool { look?.isDue(now) ?? false }

  mutating func postponeLook(_ now: Int64) { look?.postpone(now) }

  /// Takes over the tables that need an attempt. Attempts that failed keep their times.
  mutating func set(_ found: [Table]) {
    look = nil
    let before = tables
    tables = [:]
    for table in found {
      let known = before[table.quotedName]
      tables[table.quotedName] = known?.isWanted == table.isWanted ? known : table
    }
  }

  /// Returns the tables whose next attempt is due, in the order of their names.
  func due(_ now: Int64) -> [Table] {
    tables.filter { $0.value.schedule.isDue(now) }.sorted { $0.key < $1.key }.map(\.value)
  }

  /// Notes an attempt that failed, and sets the time of the next one.
  ///
  /// - Parameter table: The quoted name of the table.
  mutating func fail(_ table: String, _ error: CairnError, isLocked: Bool, _ now: Int64) {
    tables[table]?.schedule.postpone(now)
    tables[table]?.error = error
    tables[table]?.isLocked = isLocked
  }

  /// - Parameter table: The quoted name of a table whose triggers are as they must be.
  mutating func remove(_ table: String) { tables[table] = nil }

  /// Returns whether a table has all triggers that it must have.
  func isMade(_ schema: String, _ name: String) -> Bool {
    look == nil && tables["\(schema.quotedName).\(name.quotedName)"]?.isWanted != true
  }

  /// Throws the reason why the triggers of a table cannot be made, so that the table is suspended. Does nothing if the
  /// table has them, or if they only wait for another session.
  ///
  /// - Parameter source: The name of the table at the source.
  func check(_ schema: String, _ name: String, of source: String) throws {
    guard let table = tables["\(schema.quotedName).\(name.quotedName)"], table.isWanted, !table.isLocked,
      let error = table.error
    else { return }
    throw CairnError(error.code, error.message, hint: error.hint, context: ["table": source])
  }
}
