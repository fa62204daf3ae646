import Glibc
import Pumping
import TestServers

/// W10: the latency of single transactions that go to another node while it follows. The time runs from passing a
/// transaction to the trail, before the sync, until the copy holds it durably.
struct CopyLatency {
  let stage: Stage
  private static let pauseSeconds = 0.02
  /// The number of transactions before the measurement starts.
  private static let warmup = 20

  func run() throws -> [Report] {
    let certificates = try BenchCertificates(stage.freshFolder("certificates"))
    var reports = CopyWay.all.map { Report(.copyLatency, $0.name) }
    for round in 0..<stage.options.rounds {
      let syncs = try Ceilings.syncs(stage)
      for (index, way) in CopyWay.all.enumerated() {
        let latencies = try measure(way, certificates)
        reports[index].changes = latencies.count
        reports[index].add(.cairn, latencies[latencies.count / 2], metric: "p50")
        reports[index].add(.cairn, latencies[latencies.count * 99 / 100], metric: "p99")
        reports[index].add(ceiling: "fdatasync", syncs, unit: "syncs/s")
        stage.note(
          "W10, round \(round + 1) of \(stage.options.rounds), \(way.name): p50 \(latencies[latencies.count / 2]) ms")
      }
    }
    return reports
  }

  /// Returns the latencies in milliseconds, sorted.
  private func measure(_ way: CopyWay, _ certificates: BenchCertificates) throws -> [Double] {
    let (from, to) = try (
      PumpNode("till", state: stage.freshFolder("till")), PumpNode("hub", state: stage.freshFolder("hub"))
    )
    let trail = try SalesTrail(state: from.state)
    let dialler = try way.connect(from, to, certificates)
    var latencies: [Double] = []
    var next = Stopwatch.now
    for number in 0..<Self.warmup + max(20, stage.options.scaled(500)) {
      let pause = next - Stopwatch.now
      if pause > 0 { usleep(UInt32(pause * 1e6)) }
      let begun = Stopwatch()
      try trail.commit(rows: 1)
      try to.wait(until: from, pump: dialler, pause: 50, seconds: 60)
      if number >= Self.warmup { latencies.append(begun.seconds * 1000) }
      next = max(next + Self.pauseSeconds, Stopwatch.now)
    }
    try trail.close()
    return latencies.sorted()
  }
}
