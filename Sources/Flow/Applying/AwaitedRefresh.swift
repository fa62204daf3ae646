import Changes

extension Refresh {
  /// The code that apply's state stores for a requested copy that has not begun. A copy in progress is stored as the
  /// number of its method.
  static let awaited: UInt8 = 255

  static func code(_ method: Method?, isAwaited: Bool) -> UInt8 { isAwaited ? awaited : method?.rawValue ?? 0 }

  /// Returns whether this record, in transaction `number`, begins a copy after the request. The trail ended with
  /// transaction `last` when the copy was requested.
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
  /// Two-way, apply skips only changes before the request, one of which may have stopped apply. It takes the later ones
  /// as far as they fit: the copy does not show which rows the source has deleted, and this end may have them.
  func leavesOut(_ change: ChangeView, in number: UInt64, isAwaited: Bool, goesBothWays: Bool) -> Bool {
    guard isAwaited else { return false }
    return !goesBothWays || askedBehind == 0 || number <= askedBehind || change.treatment.contains(.refused)
  }
}
