/// The times at which a trail reached some of its positions, from which the lag of a reader is computed in ms.
struct PlaceClock<Place: Comparable & Sendable>: Sendable {
  static var samplesMax: Int { 2048 }
  private static var sharesOfAge: Int64 { 128 }

  private var samples: [(place: Place, at: Int64)] = []

  /// Adds a sample: the trail ends at `place` at the time `now`.
  ///
  /// - Parameter now: µs since 1970 UTC.
  mutating func note(_ place: Place, at now: Int64) {
    if let last = samples.last {
      // The trail was replaced by a new one.
      if place < last.place { samples = [] }
      if place == last.place { return }
    }
    samples.append((place, now))
    if samples.count > Self.samplesMax { thinOut(now) }
  }

  private mutating func thinOut(_ now: Int64) {
    var kept: [(place: Place, at: Int64)] = []
    for sample in samples.reversed() {
      guard let next = kept.last else {
        kept.append(sample)
        continue
      }
      if next.at - sample.at >= (now - sample.at) / Self.sharesOfAge { kept.append(sample) }
    }
    samples = kept.reversed()
  }

  /// Returns the ms since the trail first grew beyond `place`: 0 if it has not; nil if the samples begin later.
  ///
  /// - Parameter now: µs since 1970 UTC.
  func lagMilliseconds(at place: Place, now: Int64) -> Double? {
    guard let first = samples.first, let last = samples.last else { return nil }
    if place >= last.place { return 0 }
    guard place >= first.place, let next = samples.first(where: { $0.place > place }) else { return nil }
    return Double(max(0, now - next.at)) / 1000
  }
}
