import Changes

/// The tables that are suspended while all others are captured, each with its cause. This type does no I/O.
///
///     var waits = WaitingTables()
///     waits.set([17: wait], .refused)  // [wait], as it is news
///     waits.set([:], .refused)         // the table is captured again
struct WaitingTables {
  enum Cause: Int, CaseIterable {
    /// The table cannot be captured as it is, or capture's role may not publish it. An operator must execute a
    /// statement.
    case refused
    /// Capture's role may not read the table's rows.
    case unreadable
    /// Another session delays the copy of the table.
    case copyHeldUp
    /// Another session keeps the table locked, so that its definition cannot be read or the table cannot be published.
    case locked
  }

  private var waits: [Cause: [UInt32: TableWait]] = [:]

  /// Replaces the list of tables that are suspended for `cause`. Returns those that were not suspended before.
  mutating func set(_ found: [UInt32: TableWait], _ cause: Cause) -> [TableWait] {
    let known = waits[cause] ?? [:]
    waits[cause] = found
    return Self.sorted(Array(found.filter { known[$0.key]?.code != $0.value.code }.values))
  }

  /// Adds a suspended table. Returns whether it was not suspended before.
  mutating func add(_ wait: TableWait, of relation: UInt32, _ cause: Cause) -> Bool {
    let known = waits[cause, default: [:]].updateValue(wait, forKey: relation)
    return known?.code != wait.code
  }

  /// Removes the entry of a table for one cause, or its entries for all causes if `cause` is nil.
  mutating func end(_ relation: UInt32, _ cause: Cause? = nil) {
    for cause in cause.map({ [$0] }) ?? Cause.allCases { waits[cause]?[relation] = nil }
  }

  /// The most suspended tables that are shown in the status. There is a limit because any role that may create tables
  /// can create any number of tables that must be suspended.
  static let shownMax = 100

  /// The suspended tables, each once, in the order of their names; at most ``shownMax``.
  var all: [TableWait] {
    var found: [UInt32: TableWait] = [:]
    for cause in Cause.allCases { found.merge(waits[cause] ?? [:]) { first, _ in first } }
    return Array(Self.sorted(Array(found.values)).prefix(Self.shownMax))
  }

  private static func sorted(_ waits: [TableWait]) -> [TableWait] {
    waits.sorted { $0.table.utf8.lexicographicallyPrecedes($1.table.utf8) }
  }

  /// The tables that are suspended until an operator acts. A run that ends once it has caught up does not wait for
  /// them.
  var forOperator: Set<UInt32> { Set((waits[.refused] ?? [:]).keys).union((waits[.unreadable] ?? [:]).keys) }

  /// The error at the end of a run that has captured all other tables; nil if no table needs an operator. The hint has
  /// the statements for the first ten tables, and the number of the others.
  var error: CairnError? {
    let waits = Self.sorted([Cause.refused, .unreadable].flatMap { (self.waits[$0] ?? [:]).values })
    guard let first = waits.first else { return nil }
    let shown = waits.prefix(10)
    let count = waits.count - shown.count
    let others = count > 0 ? "; \(count.counted("other table is", "other tables are")) suspended too" : ""
    return CairnError(
      first.code, shown.map(\.message).joined(separator: "; ") + others,
      hint: shown.map(\.hint).joined(separator: "; "), context: ["table": first.table])
  }
}
