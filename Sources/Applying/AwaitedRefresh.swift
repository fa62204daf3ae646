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
