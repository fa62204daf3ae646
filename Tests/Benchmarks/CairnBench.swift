import Glibc
import TestServers

/// The command line: runs the workloads that are asked for, and prints a line of JSON for each pair.
@main
enum CairnBench {
  static func main() {
    let words = Array(CommandLine.arguments.dropFirst())
    if words.contains("--help") || words.contains("-h") {
      write(BenchOptions.help, to: 1)
      return
    }
    do {
      try run(BenchOptions(words))
    } catch let misuse as BenchOptions.Misuse {
      write("cairn-bench: \(misuse.message); see 'cairn-bench --help'", to: 2)
      exit(64)
    } catch {
      write("cairn-bench: \(error)", to: 2)
      exit(1)
    }
  }

  private static func run(_ options: BenchOptions) throws {
    let stage = try Stage(options)
    for workload in options.workloads {
      let pairs = options.pairs.filter { workload.pairs.contains($0) }
      guard !pairs.isEmpty || workload.pairs.isEmpty else { continue }
      for report in try measure(workload, stage, pairs) { write(try report.line(Machine.describe(stage)), to: 1) }
    }
  }

  private static func measure(_ workload: Workload, _ stage: Stage, _ pairs: [Pair]) throws -> [Report] {
    switch workload {
    case .inserts, .pgbench, .scattered, .oneTransaction:
      return try Drain(stage: stage, workload: workload, pairs: pairs).run()
    case .latency: return try Latency(stage: stage, pairs: pairs).run()
    case .firstCopy: return try FirstCopy(stage: stage, pairs: pairs).run()
    case .compare: return try CompareRate(stage: stage, pairs: pairs).run()
    case .copies: return try CopyRate(stage: stage).run()
    case .copyLatency: return try CopyLatency(stage: stage).run()
    case .idlePeers: return try IdlePeers(stage: stage).run()
    case .twoWay: return try TwoWayDrain(stage: stage, pairs: pairs).run()
    case .hotRows: return try HotRows(stage: stage, pairs: pairs).run()
    case .statements: return try StatementReplay(stage: stage, pairs: pairs).run()
    case .embedded:
      let folder = try stage.freshFolder("embedded")
      return [try EmbeddedCost(folder: folder, rows: stage.options.scaled(500_000), rounds: stage.options.rounds).run()]
    case .triggers:
      let folder = try stage.freshFolder("triggers")
      return [try TriggerCost(folder: folder, rows: stage.options.scaled(500_000), rounds: stage.options.rounds).run()]
    }
  }

  /// Writes a line at once, because standard output is read during the run.
  static func write(_ line: String, to descriptor: Int32) {
    var text = line + "\n"
    text.withUTF8 { _ = Glibc.write(descriptor, $0.baseAddress, $0.count) }
  }
}
