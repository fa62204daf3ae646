import Changes

/// The results of all rounds of a workload for one pair, as one line of JSON.
struct Report {
  let workload: Workload
  let pair: String
  /// Rows changed, copied or compared in a round.
  var changes = 0
  private var cairn: [String: Figures] = [:]
  private var native: [String: Figures] = [:]
  private var ceilings: [(name: String, unit: String, figures: Figures)] = []
  private var facts: [(name: String, figures: Figures)] = []

  /// The competitor of a figure. Figures have the unit of the workload; latency has several, distinguished by `metric`.
  enum Competitor { case cairn, native }

  init(_ workload: Workload, _ pair: String) { (self.workload, self.pair) = (workload, pair) }

  mutating func add(_ competitor: Competitor, _ value: Double, metric: String = "") {
    switch competitor {
    case .cairn: cairn[metric, default: Figures()].values.append(value)
    case .native: native[metric, default: Figures()].values.append(value)
    }
  }

  /// Adds the best rate that the machine reaches in another way. `unit` is nil for the unit of the workload.
  mutating func add(ceiling name: String, _ value: Double, unit: String? = nil) {
    if let index = ceilings.firstIndex(where: { $0.name == name }) {
      ceilings[index].figures.values.append(value)
    } else {
      ceilings.append((name, unit ?? workload.unit, Figures(values: [value])))
    }
  }

  /// Adds another measurement of cairn.
  mutating func add(fact name: String, _ value: Double) {
    if let index = facts.firstIndex(where: { $0.name == name }) {
      facts[index].figures.values.append(value)
    } else {
      facts.append((name, Figures(values: [value])))
    }
  }

  /// Adds the resources that a run of cairn used.
  mutating func add(_ run: MeasuredRun) {
    add(fact: "memory_mib", run.peakMebibytes)
    add(fact: "cpu_seconds", run.cpuSeconds)
  }

  func line(_ machine: JSONObject) -> String {
    var object = JSONObject([
      ("workload", .text(workload.rawValue)), ("pair", .text(pair)), ("changes", .integer(Int64(changes))),
      ("rounds", .integer(Int64(cairn.values.first?.values.count ?? 0))), ("cairn", .object(show(cairn))),
    ])
    if !native.isEmpty { object["native"] = .object(show(native)) }
    if !ceilings.isEmpty {
      object["ceilings"] = .object(
        JSONObject(
          ceilings.map { ceiling in
            var figures = ceiling.figures.json
            figures["unit"] = .text(ceiling.unit)
            return (ceiling.name, .object(figures))
          }))
    }
    object["ratios"] = .object(ratios)
    for fact in facts {
      // Memory must never exceed a limit, so its maximum counts; other figures are typical values, like the rates.
      let value = fact.name == "memory_mib" ? fact.figures.values.max() ?? 0 : fact.figures.median
      object[fact.name] = Figures.number(value)
    }
    if let trail = object["trail_bytes"].flatMap(Self.double), let log = object["wal_bytes"].flatMap(Self.double),
      log > 0
    {
      object["trail_to_wal"] = Figures.number(trail / log)
    }
    object["machine"] = .object(machine)
    return object.line
  }

  private static func double(_ value: JSONObject.Value) -> Double? {
    switch value {
    case .integer(let n): Double(n)
    case .real(let r): r
    default: nil
    }
  }

  private func show(_ metrics: [String: Figures]) -> JSONObject {
    var object = metrics[""]?.json ?? JSONObject()
    for (name, figures) in metrics.sorted(by: { $0.key < $1.key }) where !name.isEmpty {
      object[name] = .object(figures.json)
    }
    object["unit"] = .text(workload.unit)
    return object
  }

  /// The ratios, greater than 1 if cairn is better. For times, the other's is divided by ours.
  private var ratios: JSONObject {
    let isTime = workload.unit == "ms"
    var object = JSONObject()
    for (metric, theirs) in native.sorted(by: { $0.key < $1.key }) {
      guard let ours = cairn[metric] else { continue }
      let name = metric.isEmpty ? "native" : "native_\(metric)"
      object[name] = .object(isTime ? Figures.ratio(theirs, by: ours) : Figures.ratio(ours, by: theirs))
    }
    if let ours = cairn[""] {
      for ceiling in ceilings where ceiling.unit == workload.unit {
        object[ceiling.name] = .object(Figures.ratio(ours, by: ceiling.figures))
      }
    }
    return object
  }
}
