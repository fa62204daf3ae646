import Changes

extension Refresh {
  /// The code in apply's state for a copy that is awaited; other copies have the number of their method there.
  static let awaited: UInt8 = 255

  static func code(_ method: Method?, isAwaited: Bool) -> UInt8 { isAwaited ? awaited : method?.rawValue ?? 0 }

  /// Returns whether a copy begins here, in transaction `number`, that was requested when the trail ended with `last`.
  func isStart(behind last: UInt64, in number: UInt64) -> Bool {
    if case .start(_, let method, _) = event { method != .rows && number > last } else { false }
  }

  static func method(_ code: UInt8) -> Method? { code == awaited ? .byKey : Method(rawValue: code) }
}

extension ApplyOptions {
  /// Returns whether another reader of the trail requested a copy: this target already has the rows.
  func isForOthers(_ reason: Refresh.Reason, isAwaited: Bool) -> Bool {
    reason == .asked && !isAwaited && othersAskForCopies()
  }

  /// Returns whether apply skips a change because its table is still to be copied.
  ///
  /// If both ends write, apply takes the changes after the request, as far as they fit. The copy does not show rows
  /// that were deleted meanwhile, and this end may have copied them. A change before the request may be the one that
  /// stopped apply.
  func leavesOut(_ change: ChangeView, in number: UInt64, isAwaited: Bool, goesBothWays: Bool) -> Bool {
    guard isAwaited else { return false }
    return !goesBothWays || askedBehind == 0 || number <= askedBehind || change.treatment.contains(.refused)
  }
}
