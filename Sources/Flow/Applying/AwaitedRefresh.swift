import Changes

extension Refresh {
  /// The code that apply's state stores for a requested copy that has not begun. A copy in progress is stored as the
  /// number of its method.
  static let awaited: UInt8 = 255

  static func code(_ method: Method?, isAwaited: Bool) -> UInt8 { isAwaited ? awaited : method?.rawValue ?? 0 }

  /// Returns whether this record begins a requested copy. `last`: the trail's last transaction when the copy was
  /// requested. `number`: the transaction of this record.
  func isStart(behind last: UInt64, in number: UInt64) -> Bool {
    if case .start(_, let method, _) = event { method != .rows && number > last } else { false }
  }

  static func method(_ code: UInt8) -> Method? { code == awaited ? .byKey : Method(rawValue: code) }
}

extension ApplyOptions {
  /// Returns whether a copy was requested by another reader of the trail, so that this target already has the rows.
  func isForOthers(_ reason: Refresh.Reason, isAwaited: Bool) -> Bool {
    reason == .asked && !isAwaited && othersAskForCopies()
  }

  /// Returns whether apply skips a change because a requested copy of its table has not begun.
  ///
  /// If replication is one-way, or ``askedBehind`` is 0, apply skips all changes until the copy begins. Otherwise it
  /// skips only changes up to ``askedBehind``, and changes that the table's rule refuses. It applies the others,
  /// because a copy does not show which rows the source has deleted.
  func leavesOut(_ change: ChangeView, in number: UInt64, isAwaited: Bool, goesBothWays: Bool) -> Bool {
    guard isAwaited else { return false }
    return !goesBothWays || askedBehind == 0 || number <= askedBehind || change.treatment.contains(.refused)
  }
}
