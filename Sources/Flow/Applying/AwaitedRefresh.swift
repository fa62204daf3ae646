import Changes

extension Refresh {
  /// The code that apply's state stores for a requested refresh that has not begun.
  static let awaited: UInt8 = 255

  static func code(_ method: Method?, isAwaited: Bool) -> UInt8 { isAwaited ? awaited : method?.rawValue ?? 0 }

  /// Returns whether this record begins a requested refresh.
  ///
  /// - Parameter last: The trail's last transaction at the time of the request.
  /// - Parameter number: The transaction of this record.
  func isStart(behind last: UInt64, in number: UInt64) -> Bool {
    if case .start(_, let method, _) = event { method != .rows && number > last } else { false }
  }

  static func method(_ code: UInt8) -> Method? { code == awaited ? .byKey : Method(rawValue: code) }
}

extension ApplyOptions {
  /// Returns whether a refresh was requested only for another reader of the trail.
  func isForOthers(_ reason: Refresh.Reason, isAwaited: Bool) -> Bool {
    reason == .asked && !isAwaited && othersAskForCopies()
  }

  /// Returns whether apply skips a change because a requested refresh of its table has not begun.
  func leavesOut(_ change: ChangeView, in number: UInt64, isAwaited: Bool, goesBothWays: Bool) -> Bool {
    guard isAwaited else { return false }
    return !goesBothWays || askedBehind == 0 || number <= askedBehind || change.treatment.contains(.refused)
  }
}
