import Changes

/// The tables that capture cannot take at present, each with its cause. Capture of all other tables continues.
///
///     var waits = WaitingTables()
///     waits.set([17: wait], .refused)  // [wait], as it is news
///     waits.set([:], .refused)         // the table is captured again
struct WaitingTables {
  enum Cause: Int, CaseIterable {
    /// The table cannot be captured as it is, or capture's role may not publish it. An operator must act.
    case refused
    case unreadable
    case copyHeldUp
    /// Another session keeps the table locked, so that capture cannot read its definition or publish it.
    case locked
  }

  private var waits: [Cause: [UInt32: TableWait]] = [:]

  /// Replaces the tables that are suspended for `cause`. Returns those that are new or have a new error code.
  mutating func set(_ found: [UInt32: TableWait], _ cause: Cause) -> [TableWait] {
    let known = waits[cause] ?? [:]
    waits[cause] = found
    return Self.sorted(Array(found.filter { known[$0.key]?.code != $0.value.code }.values))
  }

  mutating func add(_ wait: TableWait, of relation: UInt32, _ cause: Cause) -> Bool {
    let known = waits[cause, default: [:]].updateValue(wait, forKey: relation)
    return known?.code != wait.code
  }

  mutating func end(_ relation: UInt32, _ cause: Cause? = nil) {
    for cause in cause.map({ [$0] }) ?? Cause.allCases { waits[cause]?[relation] = nil }
  }

  /// The highest number of suspended tables that the status shows.
  static let shownMax = 100

  var all: [TableWait] {
    var found: [UInt32: TableWait] = [:]
    for cause in Cause.allCases { found.merge(waits[cause] ?? [:]) { first, _ in first } }
    return Array(Self.sorted(Array(found.values)).prefix(Self.shownMax))
  }

  private static func sorted(_ waits: [TableWait]) -> [TableWait] {
    waits.sorted { $0.table.utf8.lexicographicallyPrecedes($1.table.utf8) }
  }

  /// The tables that stay suspended until an operator acts.
  var forOperator: Set<UInt32> { Set((waits[.refused] ?? [:]).keys).union((waits[.unreadable] ?? [:]).keys) }

  /// The error that lists the tables that need an operator; nil if there are none.
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
