import TestServers

/// W1, W2, W4, W5: a backlog is written while cairn is off; the clock runs from cairn's start to its exit.
struct Drain {
  let stage: Stage
  let workload: Workload
  let pairs: [Pair]

  func run() throws -> [Report] {
    var reports = Dictionary(uniqueKeysWithValues: pairs.map { ($0, Report(workload, $0.name)) })
    let backlog = Backlog(workload, stage.options)
    for round in 0..<stage.options.rounds {
      stage.note("\(workload.rawValue), round \(round + 1) of \(stage.options.rounds)")
      let fromPostgres = pairs.filter { $0.from == .postgres }
      if !fromPostgres.isEmpty {
        let load: any DrainLoad =
          workload == .pgbench ? PgbenchLoad(stage.options) : SalesLoad(workload: workload, backlog: backlog)
        try PostgresDrain(stage, fromPostgres, load).run(round: round, &reports)
      }
      for pair in pairs where pair.from == .sqlite {
        guard var report = reports[pair] else { continue }
        try SQLiteDrain(stage: stage, workload: workload, backlog: backlog).run(pair, &report)
        reports[pair] = report
      }
      try addCeilings(backlog, &reports)
    }
    return pairs.compactMap { reports[$0] }
  }

  private func addCeilings(_ backlog: Backlog, _ reports: inout [Pair: Report]) throws {
    let ceilings = Ceilings(stage: stage, backlog: backlog)
    for engine in Engine.allCases where workload != .pgbench && pairs.contains(where: { $0.to == engine }) {
      let rates = try engine == .postgres ? ceilings.postgres() : ceilings.sqlite()
      for (name, rate) in rates {
        stage.note("\(engine.rawValue), \(name): \(Int(rate)) changes/s")
        for pair in pairs where pair.to == engine { reports[pair]?.add(ceiling: name, rate) }
      }
    }
    let syncs = try Ceilings.syncs(stage)
    for pair in pairs { reports[pair]?.add(ceiling: "fdatasync", syncs, unit: "syncs/s") }
  }
}
