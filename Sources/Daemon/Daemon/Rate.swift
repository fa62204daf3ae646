/// The rate at which a counter grows, over the last ten seconds.
struct Rate: Equatable, Sendable {
  private static let windowMilliseconds: Int64 = 10_000
  private static let stepMilliseconds: Int64 = 1_000
  private var looks: [(at: Int64, count: UInt64)] = []

  static func == (a: Rate, b: Rate) -> Bool { a.looks.elementsEqual(b.looks) { $0 == $1 } }

  mutating func note(_ count: UInt64, now: Int64) {
    if let last = looks.last {
      // A worker that was created again counts from zero.
      if count < last.count { looks = [] }
      guard now - last.at >= Self.stepMilliseconds else { return }
    }
    looks.append((now, count))
    looks.removeAll { now - $0.at > Self.windowMilliseconds }
  }

  var perSecond: Double {
    guard let first = looks.first, let last = looks.last, last.at > first.at else { return 0 }
    return Double(last.count - first.count) * 1000 / Double(last.at - first.at)
  }
}
