import Changes

/// The reaction of apply to the error of a group that it has rolled back. Pure: the caller carries the reaction out.
///
///     ApplyDecision(isCareful: false, mayResolve: true).next(after: error)   // .sendSingly
struct ApplyDecision {
  enum Next: Equatable {
    /// An application has changed a row of the group. Repeat the group after capture has read the change.
    case waitForCapture
    /// Repeat the group when this transaction's clock is no longer too far ahead.
    case waitForClock(TransactionHeader)
    /// Repeat the group one row at a time, to find the row that the target refuses.
    case sendSingly
    /// Repeat the group, with all rows of the transaction resolved from their versions.
    case resolveAll
    /// The target refuses a row of the transaction, or a schema change. The transaction may go into quarantine.
    case refused
    case fail
  }

  /// Whether the target has answered each row of the group singly, so that the error is about the last transaction.
  var isCareful: Bool
  /// Whether the apply is two-way, and has not yet resolved all rows of the transaction.
  var mayResolve: Bool

  func next(after error: any Error) -> Next {
    switch error {
    case is LocalAhead: .waitForCapture
    case let ahead as ClockGate.Ahead: .waitForClock(ahead.header)
    case let error as CairnError: next(after: error)
    default: .fail
    }
  }

  private func next(after error: CairnError) -> Next {
    let isOfRows = QuarantineStore.isOfRows(error)
    if !isCareful, isOfRows || error.code == .ruleRefused { return .sendSingly }
    if mayResolve, TwoWay.isOfRow(error) { return .resolveAll }
    return isOfRows ? .refused : .fail
  }
}
