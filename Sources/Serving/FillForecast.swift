/// When something that grows will be full, from how it grew in the last minutes.
package struct FillForecast: Equatable, Sendable {
  /// Looks older than this are forgotten.
  static let windowMilliseconds: Int64 = 300_000
  /// What grew for less long says nothing.
  static let leastMilliseconds: Int64 = 20_000
  /// What some minutes say of a time that is further away means nothing.
  static let secondsMax: Double = 30 * 86_400

  private struct Look: Equatable {
    var at: Int64
    var used: Int64
  }
  private var looks: [Look] = []

  package init() {}

  /// `now` is of a clock that never jumps.
  package mutating func note(used: Int64, now: Int64) {
    looks.append(Look(at: now, used: used))
    looks.removeAll { now - $0.at > Self.windowMilliseconds }
  }

  /// Nil: it does not grow, or hardly, or that is not known yet.
  package func secondsUntil(_ capacity: Int64) -> Double? {
    guard let first = looks.first, let last = looks.last, last.at - first.at >= Self.leastMilliseconds,
      last.used > first.used
    else { return nil }
    let perSecond = Double(last.used - first.used) * 1000 / Double(last.at - first.at)
    let seconds = max(0, Double(capacity - last.used)) / perSecond
    return seconds <= Self.secondsMax ? seconds : nil
  }
}
