import Changes

extension Refresh {
  /// The code in apply's state for a copy that is awaited; other copies have the number of their method there.
  static let awaited: UInt8 = 255

  static func code(_ method: Method?, isAwaited: Bool) -> UInt8 { isAwaited ? awaited : method?.rawValue ?? 0 }

  /// Returns whether a requested copy begins with this record. The trail ended with transaction `last` at the request;
  /// `number` is the present one.
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

  /// Returns whether apply skips a change because its table is still to be copied.
  ///
  /// Two-way, apply takes the changes after the request, as far as they fit. The copy does not show rows that were
  /// deleted meanwhile, and this end may have copied them. A change before the request may be the one that stopped
  /// apply.
  func leavesOut(_ change: ChangeView, in number: UInt64, isAwaited: Bool, goesBothWays: Bool) -> Bool {
    guard isAwaited else { return false }
    return !goesBothWays || askedBehind == 0 || number <= askedBehind || change.treatment.contains(.refused)
  }
}
