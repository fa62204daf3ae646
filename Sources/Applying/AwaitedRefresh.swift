import Changes

extension Refresh {
  /// How the tables of apply's state tell that a copy is awaited, where otherwise the number of its method stands.
  static let awaited: UInt8 = 255

  static func code(_ method: Method?, isAwaited: Bool) -> UInt8 { isAwaited ? awaited : method?.rawValue ?? 0 }

  /// Whether a copy begins here, in transaction `number`, that was asked for when the trail ended with `last`.
  func isStart(behind last: UInt64, in number: UInt64) -> Bool {
    if case .start(_, let method, _) = event { method != .rows && number > last } else { false }
  }

  static func method(_ code: UInt8) -> Method? { code == awaited ? .byKey : Method(rawValue: code) }
}

extension ApplyOptions {
  /// Whether another reader of the trail asked for a copy: this target has the rows already.
  func isForOthers(_ reason: Refresh.Reason, isAwaited: Bool) -> Bool {
    reason == .asked && !isAwaited && othersAskForCopies()
  }

  /// Whether a change is left out as its table is still to be copied. Where both ends write, those that come behind the
  /// request are taken, as far as they go: of a row that was deleted in between the copy does not tell, and this end may have
  /// copied it meanwhile. What stood before may be what apply stopped at.
  func leavesOut(_ change: ChangeView, in number: UInt64, isAwaited: Bool, goesBothWays: Bool) -> Bool {
    guard isAwaited else { return false }
    return !goesBothWays || askedBehind == 0 || number <= askedBehind || change.treatment.contains(.refused)
  }
}
