import Changes
import ControlAPI

/// Formats a daemon's status in the text format of Prometheus, version 0.0.4.
///
/// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
package enum Metrics {
  package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  package enum Kind: String, Sendable {
    case gauge
    case counter
    case histogram
  }

  /// A metric as the metrics page and docs/reference/metrics.md show it.
  package struct Metric: Sendable {
    package let name: String
    package let kind: Kind
    package let labels: String
    package let help: String
    let samples: @Sendable (NodeStatus) -> [Sample]
  }

  struct Sample {
    var suffix = ""
    var labels: [(String, String)] = []
    var value: Double
  }

  package static let all = workers + paths + disk

  private static let workers: [Metric] = [
    Metric(
      name: "cairn_info", kind: .gauge, labels: "node, version",
      help: "Always 1; its labels name the node and the version."
    ) {
      [Sample(labels: [("node", $0.node), ("version", $0.version)], value: 1)]
    },
    Metric(
      name: "cairn_start_time_seconds", kind: .gauge, labels: "", help: "Start of the daemon, in seconds since 1970."
    ) {
      [Sample(value: Double($0.startedAt) / 1e6)]
    },
    Metric(
      name: "cairn_conf_refused", kind: .gauge, labels: "", help: "1 while a conf that was loaded last is refused."
    ) {
      [Sample(value: $0.refusal == nil ? 0 : 1)]
    },
    Metric(
      name: "cairn_worker_state", kind: .gauge, labels: "worker, state", help: "1 for the state that the worker is in."
    ) { status in
      status.workers.flatMap { worker in
        NodeStatus.WorkerState.allCases.map { state in
          Sample(
            labels: [("worker", worker.name.description), ("state", state.rawValue)],
            value: worker.state == state ? 1 : 0)
        }
      }
    },
    of("cairn_worker_restarts_total", .counter, "Starts after an error.") { Double($0.restarts) },
    of("cairn_worker_silent_seconds", .gauge, "Since the worker's last sign of life.") {
      Double($0.silentMilliseconds) / 1000
    },
    of("cairn_worker_failures", .gauge, "Times that the current error has occurred.") {
      Double($0.problem.map { $0.isPassed ? 0 : $0.times } ?? 0)
    },
    ofData("cairn_rows_total", .counter, "Rows captured or applied since the daemon was started.") { Double($0.rows) },
    ofData("cairn_transactions_total", .counter, "Transactions: captured since the start, applied of the trail.") {
      Double($0.transactions)
    },
    ofData("cairn_lag_seconds", .gauge, "From the commit at the source to trail (capture) or target (apply).") {
      ($0.lagMilliseconds ?? 0) / 1000
    },
    ofData("cairn_caught_up", .gauge, "1 if nothing waits to be captured or applied.") { $0.isCaughtUp ? 1 : 0 },
    ofData("cairn_tables_waiting", .gauge, "Tables that are suspended until an operator acts.") {
      Double($0.waits.count)
    },
    ofData(
      "cairn_drifted_tables", .gauge,
      "Tables in which the audit of an apply found rows that differ from the source."
    ) { Double($0.driftedTables) },
    ofData("cairn_quarantined_transactions", .gauge, "Transactions in the quarantine of an apply.") {
      Double($0.quarantined)
    },
    Metric(
      name: "cairn_latency_seconds", kind: .histogram, labels: "worker, stage, le",
      help: "From the commit at the source to the trail (stage capture) or to the commit at the target (stage apply)."
    ) { status in status.workers.filter(isOfData).flatMap(latency) },
    ofSnapshots("cairn_snapshot_age_seconds", "Since the newest file of the snapshot was made.") {
      Double($0.ageMilliseconds) / 1000
    },
    ofSnapshots("cairn_snapshot_bytes", "Bytes of the newest file of the snapshot.") { Double($0.bytes) },
    ofTrails("cairn_trail_bytes", "Bytes of the trail on disk.") { Double($0.bytes) },
    ofTrails("cairn_trail_segments", "Segments of the trail.") { Double($0.segments) },
    ofTrails("cairn_trail_oldest_time_seconds", "Start of the oldest segment, in seconds since 1970.") {
      Double($0.oldest) / 1e6
    },
    ofTrails("cairn_trail_history_bytes", "Bytes of the trail that no reader needs, kept by [trail.NAME].") {
      Double($0.keep?.bytes ?? 0)
    },
    ofTrails("cairn_trail_history_shortened", "1 while a disk limit makes the history shorter than `keep`.") {
      $0.keep?.isShortened == true ? 1 : 0
    },
    ofSources("cairn_slot_retained_bytes", "Log that the server keeps for the slot.") { $0.slotBytes.map(Double.init) },
    ofSources("cairn_slot_safe_bytes", "Log that may still be written before the slot is lost.") {
      $0.slotSafeBytes.map(Double.init)
    },
    Metric(
      name: "cairn_slot_status", kind: .gauge, labels: "capture, status", help: "1 for the slot's wal_status."
    ) { status in
      status.sources.compactMap { source in
        source.slotStatus.map { Sample(labels: [("capture", source.capture), ("status", $0)], value: 1) }
      }
    },
    ofSources("cairn_journal_rows", "Rows in the journal of an SQLite source that capture has not read.") {
      $0.journalRows.map(Double.init)
    },
    ofSources(
      "cairn_journal_cap_rows", "Rows beyond which the journal drops the oldest, so that all tables are copied again."
    ) {
      $0.journalCapRows.map(Double.init)
    },
    ofSources("cairn_unhooked_tables", "Tables of an SQLite source whose capture `cairn unhook` stopped.") {
      $0.journalRows == nil ? nil : Double($0.unhooked.count)
    },
    ofSources("cairn_source_full_seconds", "Until slot or journal is full, as it grew in the last minutes.") {
      $0.secondsUntilFull
    },
    Metric(
      name: "cairn_left_slot_bytes", kind: .gauge, labels: "capture, slot",
      help: "Log that a server keeps for the slot of a capture that left the conf."
    ) { status in
      status.leftSlots.map {
        Sample(labels: [("capture", $0.capture), ("slot", $0.slot)], value: Double($0.bytes ?? 0))
      }
    },
  ]

  private static let disk: [Metric] = [
    Metric(name: "cairn_disk_bytes", kind: .gauge, labels: "", help: "Bytes of all trails on disk.") { status in
      status.disk.map { [Sample(value: Double($0.bytes))] } ?? []
    },
    Metric(name: "cairn_disk_limit_bytes", kind: .gauge, labels: "", help: "Allowed for all trails.") { status in
      status.disk?.limitBytes.map { [Sample(value: Double($0))] } ?? []
    },
    Metric(name: "cairn_disk_free_bytes", kind: .gauge, labels: "", help: "Free on the state's file system.") {
      status in status.disk.map { [Sample(value: Double($0.freeBytes))] } ?? []
    },
    Metric(
      name: "cairn_disk_full_seconds", kind: .gauge, labels: "",
      help: "Until trails reach their limit or the file system is full, as they grew in the last minutes."
    ) { status in status.disk?.secondsUntilFull.map { [Sample(value: $0)] } ?? [] },
  ]

  private static func isOfData(_ worker: NodeStatus.Worker) -> Bool {
    worker.name.kind == .capture || worker.name.kind == .apply
  }

  private static func of(
    _ name: String, _ kind: Kind, _ help: String, _ value: @escaping @Sendable (NodeStatus.Worker) -> Double
  ) -> Metric {
    Metric(name: name, kind: kind, labels: "worker", help: help) { status in
      status.workers.map { Sample(labels: [("worker", $0.name.description)], value: value($0)) }
    }
  }

  // For each capture and each apply, but not for other workers.
  private static func ofData(
    _ name: String, _ kind: Kind, _ help: String, _ value: @escaping @Sendable (NodeStatus.Worker) -> Double
  ) -> Metric {
    Metric(name: name, kind: kind, labels: "worker, trail", help: help) { status in
      status.workers.filter(isOfData).map {
        Sample(labels: [("worker", $0.name.description), ("trail", $0.trail)], value: value($0))
      }
    }
  }

  private static func ofSnapshots(
    _ name: String, _ help: String, _ value: @escaping @Sendable (NodeStatus.Snapshot) -> Double
  ) -> Metric {
    Metric(name: name, kind: .gauge, labels: "worker", help: help) { status in
      status.workers.compactMap { worker in
        worker.snapshot.map { Sample(labels: [("worker", worker.name.description)], value: value($0)) }
      }
    }
  }

  private static func ofTrails(
    _ name: String, _ help: String, _ value: @escaping @Sendable (NodeStatus.Trail) -> Double
  ) -> Metric {
    Metric(name: name, kind: .gauge, labels: "trail", help: help) { status in
      status.trails.map { Sample(labels: [("trail", $0.name)], value: value($0)) }
    }
  }

  private static func ofSources(
    _ name: String, _ help: String, _ value: @escaping @Sendable (NodeStatus.Source) -> Double?
  ) -> Metric {
    Metric(name: name, kind: .gauge, labels: "capture", help: help) { status in
      status.sources.compactMap { source in
        value(source).map { Sample(labels: [("capture", source.capture)], value: $0) }
      }
    }
  }

  private static func latency(_ worker: NodeStatus.Worker) -> [Sample] {
    let labels = [("worker", worker.name.description), ("stage", worker.name.kind.rawValue)]
    var sum: UInt64 = 0
    var samples: [Sample] = []
    let bounds = LatencyHistogram.boundsMicroseconds.map { number(Double($0) / 1e6) } + ["+Inf"]
    for (bound, count) in zip(bounds, worker.lags.counts) {
      sum += count
      samples.append(Sample(suffix: "_bucket", labels: labels + [("le", bound)], value: Double(sum)))
    }
    samples.append(Sample(suffix: "_sum", labels: labels, value: Double(worker.lags.sumMicroseconds) / 1e6))
    samples.append(Sample(suffix: "_count", labels: labels, value: Double(sum)))
    return samples
  }

  // MARK: Text

  package static func page(_ status: NodeStatus) -> String {
    var page = ""
    for metric in all {
      page += "# HELP \(metric.name) \(metric.help)\n# TYPE \(metric.name) \(metric.kind.rawValue)\n"
      for sample in metric.samples(status) {
        let labels = sample.labels.map { "\($0.0)=\"\(escaped($0.1))\"" }.joined(separator: ",")
        page += "\(metric.name)\(sample.suffix)\(labels.isEmpty ? "" : "{\(labels)}") \(number(sample.value))\n"
      }
    }
    return page
  }

  private static func number(_ value: Double) -> String {
    value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : String(value)
  }

  // Works by characters of one code point, because Swift takes CR LF, or a quote with a combining mark, for one
  // character.
  private static func escaped(_ text: String) -> String {
    var scalars = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": scalars.append(contentsOf: "\\\\".unicodeScalars)
      case "\"": scalars.append(contentsOf: "\\\"".unicodeScalars)
      case "\n": scalars.append(contentsOf: "\\n".unicodeScalars)
      case _ where scalar.isObeyed: scalars.append(contentsOf: ("\\" + scalar.code).unicodeScalars)
      default: scalars.append(scalar)
      }
    }
    return String(scalars)
  }

  /// The table of docs/reference/metrics.md, in Markdown.
  package static var markdown: String {
    "| name | type | labels | meaning |\n|---|---|---|---|\n"
      + all.map { "| `\($0.name)` | \($0.kind.rawValue) | \($0.labels) | \($0.help) |\n" }.joined()
  }
}
