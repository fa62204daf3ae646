import Capturing
import Changes
import Endpoints
import PostgresKit
import Replicating
import SQLiteKit
import SystemKit
import TestServers
import Trails

/// W12: the backlogs of W1 and W4 wait in the trail, and are applied one-way and two-way. In the two-way runs, programs
/// write at the source only, so there are no conflicts. All four workers run, as in any two-way replication. The time
/// of a run without work is subtracted from both.
struct TwoWayDrain {
  let stage: Stage
  let pairs: [Pair]
  private static let loads: [Workload] = [.inserts, .scattered]

  func run() throws -> [Report] {
    let kinds = pairs.flatMap { pair in Self.loads.map { (pair: pair, load: $0) } }
    var reports = kinds.map { Report(.twoWay, "\($0.pair.name) \($0.load.rawValue)") }
    for round in 0..<stage.options.rounds {
      stage.note("W12, round \(round + 1) of \(stage.options.rounds)")
      for (index, kind) in kinds.enumerated() {
        let backlog = Backlog(kind.load, stage.options)
        reports[index].changes = backlog.changes.count
        // The kind that starts alternates between rounds.
        for isTwoWay in round % 2 == 0 ? [false, true] : [true, false] {
          try drain(kind.pair, backlog, isTwoWay: isTwoWay, &reports[index])
        }
      }
    }
    return reports
  }

  private func drain(_ pair: Pair, _ backlog: Backlog, isTwoWay: Bool, _ report: inout Report) throws {
    let from = try Ends.source(stage, pair.from, rows: backlog.rows)
    var replication = try Replication(stage, from: from, to: try Ends.target(stage, pair.to), state: "state")
    replication.isTwoWay = isTwoWay
    try replication.once()
    try Ends.vacuum(replication.to)
    let idle = Figures(values: try (0..<3).map { _ in try replication.once().seconds }).median
    switch pair.from {
    case .sqlite: try SQLiteSales(Ends.path(from)).write(backlog.changes, perTransaction: backlog.perTransaction)
    case .postgres: try PostgresSales(from).write(backlog.changes, perTransaction: backlog.perTransaction)
    }
    let last = try capture(replication)
    stage.settle()
    let checkpoint = try TargetCheckpoint(replication.to)
    let begun = Stopwatch()
    var appliedSeconds: Double?
    let run = try replication.once {
      if appliedSeconds == nil, try checkpoint.number() >= last { appliedSeconds = begun.seconds }
    }
    try Ends.judge(from, replication.to, pair)
    let seconds = run.seconds - idle
    guard seconds > 0 else { throw TestFailure("the backlog is too short: it took no longer than none at all") }
    let rate = Double(backlog.changes.count) / seconds
    if isTwoWay {
      report.add(.cairn, rate)
      report.add(run)
      report.add(fact: "seconds", run.seconds)
      report.add(fact: "applied_seconds", appliedSeconds ?? run.seconds)
      report.add(fact: "idle_seconds", idle)
    } else {
      report.add(ceiling: "one_way", rate)
      report.add(fact: "one_way_cpu_seconds", run.cpuSeconds)
      report.add(fact: "one_way_seconds", run.seconds)
      report.add(fact: "one_way_applied_seconds", appliedSeconds ?? run.seconds)
      report.add(fact: "one_way_idle_seconds", idle)
    }
    stage.note("\(report.pair), \(isTwoWay ? "two-way" : "one way"): \(Int(rate)) changes/s")
  }

  /// Captures everything that is committed at the source into the trail from which apply continues. Returns the last
  /// transaction.
  private func capture(_ replication: Replication) throws -> UInt64 {
    let source = try DatabaseURL(replication.from).canonical
    let trail = TrailName(origin: "local", name: source.stem)
    let folder = "\(replication.state)/\(trail)"
    let last = try Trail.info(folder: folder).lastTransaction
    try CaptureRun(source, trail: trail, folder: folder, place: replication.state)
      .run(stop: StopSignal(), untilCaughtUp: true, progress: CaptureProgress(notice: { _ in })) {}
    let captured = try Trail.info(folder: folder).lastTransaction
    guard captured > last else { throw TestFailure("nothing was captured") }
    return captured
  }
}

/// The checkpoint of a target.
private final class TargetCheckpoint {
  private let postgres: PostgresConnection?
  private let sqlite: Database?

  init(_ url: String) throws {
    let isFile = url.hasPrefix("sqlite:")
    postgres = isFile ? nil : try PostgresConnection(url, application: "cairn-bench")
    sqlite = isFile ? try Database(path: Ends.path(url)) : nil
  }

  func number() throws -> UInt64 {
    if let sqlite { return UInt64(try sqlite.integer("SELECT max(number) FROM cairn_checkpoint") ?? 0) }
    return try postgres?.first("SELECT max(number) FROM cairn.checkpoint").flatMap { UInt64($0) } ?? 0
  }
}
