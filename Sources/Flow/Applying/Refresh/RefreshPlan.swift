import Changes
import Conflicts
import Mapping

/// The effect of a refresh's begin on the rows that its target table holds. Pure: the caller reads the facts, and
/// carries the plan out.
///
///     let facts = RefreshPlan.Facts(existing: .overwrite, holdsRows: true, hasRanges: false)
///     RefreshPlan(.asked, .byKey, state, facts).emptiesTable   // true: ranges of keys differ at the target
struct RefreshPlan: Equatable {
  struct Facts {
    /// The option `existing`: the treatment of rows that the table had before its first copy.
    var existing: ExistingRows
    /// Whether ``existing`` holds for requested copies, too.
    var existingHolds = false
    /// Whether the refresh was requested only for another reader of the trail.
    var isForOthers = false
    var localWrites = LocalWrites.stop
    /// Whether the table has rows of this trail. False for the method `rows`, which reads single rows again.
    var holdsRows: Bool
    /// Whether a key range covers the same rows at source and target.
    var hasRanges: Bool
    /// Whether the table must be empty before its first copy.
    var refusesRows = false
    /// Whether ``RefreshPlan/checksRows`` was true before, for this table in this run.
    var areRowsChecked = false
  }

  enum Refusal: Equatable {
    /// The table must be empty before its first copy.
    case holdsRows
    /// The table has no key, so its rows cannot be compared with the source's rows.
    case keyless(ExistingRows)
  }

  /// The treatment of the table's rows during the refresh.
  let existing: ExistingRows
  /// Whether the begin of the refresh removes all rows of the table, because chunks cannot remove them range by range.
  let emptiesTable: Bool
  /// Whether the plan depends on ``Facts/refusesRows``. The caller then sets ``Facts/areRowsChecked`` for later plans.
  let checksRows: Bool
  let refusal: Refusal?
  /// Whether the table had no rows when the refresh began.
  private let wasEmpty: Bool

  init(_ reason: Refresh.Reason, _ method: Refresh.Method, _ table: some TableState, _ facts: Facts) {
    existing = Self.existing(reason, method, table, facts)
    checksRows = facts.refusesRows && !table.isCreated && method != .rows && !facts.areRowsChecked
    if checksRows, facts.holdsRows {
      refusal = .holdsRows
    } else if method == .whole, existing != .overwrite, facts.holdsRows {
      refusal = .keyless(existing)
    } else {
      refusal = nil
    }
    emptiesTable =
      switch method {
      case .rows: false
      case .whole: facts.holdsRows
      case .byKey: facts.holdsRows && existing == .overwrite && !facts.hasRanges
      }
    wasEmpty = method != .rows && existing == .overwrite && !facts.holdsRows
  }

  private static func existing(
    _ reason: Refresh.Reason, _ method: Refresh.Method, _ table: some TableState, _ facts: Facts
  ) -> ExistingRows {
    if method != .rows, reason != .firstCopy || table.isCreated, facts.localWrites.areSettled {
      guard facts.localWrites == .allow, facts.holdsRows else { return .overwrite }
      let isWhole = table.refreshing == nil || table.refreshing == .rows
      return facts.isForOthers && isWhole ? .keep : .merge
    }
    if reason == .asked {
      let holds = (facts.existingHolds || facts.isForOthers) && method == .byKey && !table.isCreated
      return holds ? facts.existing : .overwrite
    }
    return reason == .firstCopy && !table.isCreated ? facts.existing : table.existing
  }

  /// Returns whether the table has no rows after the begin of the refresh, so that no chunk removes rows.
  ///
  /// - Parameter removal: Whether a removed row is deleted, kept, or marked.
  func isEmptied(_ removal: TableTreatment.Removal) -> Bool { wasEmpty || emptiesTable && removal == .applied }

  /// Returns whether a chunk removes the rows of its range before its own rows are written.
  ///
  /// - Parameter existing: The treatment of the table's rows during this refresh.
  /// - Parameter hasRanges: Whether a key range covers the same rows at source and target. If not, the begin of the
  ///   refresh has removed the rows, and the range may cover rows of earlier chunks.
  static func clears(
    _ range: Refresh.Range, _ existing: ExistingRows, hasRanges: Bool, isEmptied: Bool = false
  ) -> Bool {
    switch range {
    case .row: true
    case .some: false
    case .nullKeys, .keys, .unkeyed: existing == .overwrite && hasRanges && !isEmptied
    }
  }
}

extension RefreshPlan.Refusal {
  /// Returns the error for a refresh that must not begin.
  ///
  /// - Parameter source: The table's name at the source.
  func error(_ target: String, of source: String) -> CairnError {
    switch self {
    case .holdsRows: ApplyOptions.holdsRows(target)
    case .keyless(let existing):
      CairnError(
        .targetDiffers, "table \(source) has no key, so \(existing.rawValue) cannot identify its rows",
        hint: "empty the table at the target, or use existing = \"overwrite\" (--existing overwrite)",
        context: ["table": source])
    }
  }
}

extension TableState {
  mutating func beginRefresh(_ method: Refresh.Method, _ plan: RefreshPlan) {
    (refreshing, isAwaited, existing) = (method, false, plan.existing)
  }

  /// Ends the refresh in progress.
  ///
  /// - Parameter usual: The option `existing`.
  /// - Returns: Whether the refresh was a copy of the table, not of single rows.
  mutating func endRefresh(_ writes: LocalWrites, existing usual: ExistingRows) -> Bool {
    defer { refreshing = nil }
    guard refreshing != .rows else { return false }
    // The effect of the copy on rows that were there is complete.
    if writes.areSettled { existing = isCreated ? .overwrite : usual }
    return true
  }
}
