import Changes

/// The state of a daemon at one moment. Times of day are µs since 1970 UTC.
///
///     NodeStatus(node: "till", version: "1.0.0", process: 7, now: now, startedAt: now, loadedAt: now)
package struct NodeStatus: Sendable {
  package enum WorkerState: String, CaseIterable, Sendable {
    case running
    /// The worker waits for something, such as a server, a trail or a lock.
    case waiting
    case ending
    /// The worker failed, and will be started again.
    case retrying
    /// The worker failed, and an operator must act.
    case failed
    case stopped
    /// The worker is paused because the trails are over their disk limit, or by the operator.
    case paused
  }

  /// The last error of a worker.
  ///
  ///     NodeStatus.Problem(code: "database-busy", message: message, hint: hint, times: 1)
  package struct Problem: Equatable, Sendable {
    package var code: String
    package var message: String
    package var hint: String
    package var times: Int
    /// The ms since the last occurrence; nil if unknown.
    package var agoMilliseconds: Int64?
    /// Whether the problem is over: after its last occurrence, the worker has run for 15 s without an error.
    package var isPassed: Bool
    /// The row at which an apply has stopped; nil for any other problem.
    package var row: StoppedRow?
    package init(
      code: String, message: String, hint: String, times: Int, agoMilliseconds: Int64? = nil, isPassed: Bool = false,
      row: StoppedRow? = nil
    ) {
      (self.code, self.message, self.hint, self.times) = (code, message, hint, times)
      (self.agoMilliseconds, self.isPassed, self.row) = (agoMilliseconds, isPassed, row)
    }
  }

  /// A suspended table of an apply, with the reason.
  ///
  ///     NodeStatus.Wait(table: "orders", code: "row-missing", message: message, hint: hint)
  package struct Wait: Equatable, Sendable {
    @ByBytes package var table: String
    @ByBytes package var code: String
    @ByBytes package var message: String
    @ByBytes package var hint: String
    package init(table: String, code: String, message: String, hint: String) {
      (self.table, self.code, self.message, self.hint) = (table, code, message, hint)
    }

    /// Whether the table continues after a refresh. If false, the operator must first remove the cause of the
    /// suspension.
    package var goesOnWithCopy: Bool {
      code == ErrorCode.ruleRefused.rawValue && hint.hasSuffix(TableTreatment.thenCopy)
    }

    package var reason: String { "[\(code)] \(message.prefix { $0 != "\n" })" }
  }

  /// The state of one worker.
  ///
  ///     NodeStatus.Worker(WorkerName(.capture, "pos"), .running)
  package struct Worker: Sendable {
    package var name: WorkerName
    package var state: WorkerState
    package var trail = ""
    /// The database, such as `postgresql://db.example/shop`, without a password. For a pump, the URL of the peer; for
    /// the worker `receive`, its own address.
    package var place = ""
    /// The present activity of the worker, or the reason why it waits, in words.
    package var detail = ""
    package var position = ""
    package var rows: UInt64 = 0
    package var transactions: UInt64 = 0
    package var rowsPerSecond: Double = 0
    /// The present lag in ms. It grows while changes wait for the worker, and is 0 while the worker is idle; nil if
    /// unknown.
    package var lagMilliseconds: Double?
    package var lags = LatencyHistogram()
    /// The commit time of the last transaction of the worker, in µs since 1970 UTC; nil for none.
    package var lastChangeAt: Int64?
    /// The number of conflicts that the apply has resolved since it was started.
    package var conflicts = 0
    package var isCaughtUp = false
    package var waits: [Wait] = []
    /// The number of suspended tables that ``waits`` lacks, in a client.
    package var moreWaits = 0
    /// The number of transactions in the quarantine of the apply.
    package var quarantined = 0
    /// The number of tables in which the audit found rows that differ from the source.
    package var driftedTables = 0
    /// The number of waiting rows, by table.
    package var rowsWaiting: [NameKey: Int] = [:]
    /// The number of tables that ``rowsWaiting`` lacks, in a client.
    package var moreRowsWaiting = 0
    /// The tables that the apply skips because its option `tables` does not list them, by their names at the target.
    package var leftOut: [String] = []
    /// The number of tables that ``leftOut`` lacks, in a client.
    package var moreLeftOut = 0
    /// The number of versions in the version window of a two-way apply's database. Counts below 100,000 are reported as
    /// 0.
    package var versionsKept = 0
    /// How many of the source's statements apply executed, and for how many it wrote the changed rows.
    package var statements = Statements()
    package var copying: Copying?
    /// The number of tables whose refresh the apply has completed since the daemon was started.
    package var tablesCopied = 0
    /// The newest file of a snapshot; nil for other workers, and until there is one.
    package var snapshot: Snapshot?
    package var restarts = 0
    package var retryInMilliseconds: Int64?
    /// The end of the operator's pause, in µs since 1970 UTC; nil for none.
    package var pausedUntil: Int64?
    package var silentMilliseconds: Int64 = 0
    package var problem: Problem?
    package init(_ name: WorkerName, _ state: WorkerState) { (self.name, self.state) = (name, state) }

    /// A sentence for the operator about versions that the peer has not confirmed; nil for fewer than 100,000 versions.
    package var silence: String? {
      guard versionsKept > 0, let node = trail.split(separator: ".").first else { return nil }
      return
        "keeps \(versionsKept.counted("version")) of rows, as node \(node) has not confirmed them: check that its capture and its applies run"
    }

    /// Returns whether the worker runs without problems.
    ///
    /// - Parameter lag: The largest lag, in milliseconds, that is no problem.
    package func isWell(lagMilliseconds lag: Double) -> Bool {
      state == .running && waits.isEmpty && quarantined == 0 && driftedTables == 0 && (lagMilliseconds ?? 0) <= lag
    }
  }

  /// Counts of the source's statements since the worker was started. Apply either executes a statement again, or writes
  /// the changed rows.
  package struct Statements: Equatable, Sendable {
    package var replayed: UInt64 = 0
    package var asRows: UInt64 = 0
    /// The reasons why apply wrote rows instead of executing a statement, the most frequent first.
    package var reasons: [Reason] = []
    package struct Reason: Equatable, Sendable {
      package var text: String
      package var count: UInt64
      package init(text: String, count: UInt64) { (self.text, self.count) = (text, count) }
    }
    package init() {}
    package var total: UInt64 { replayed + asRows }
  }

  /// A table whose refresh an apply is receiving.
  package struct Copying: Equatable, Sendable {
    @ByBytes package var table: String
    package var rows: UInt64
    /// The number of rows that the source estimated when the refresh began; 0 for no estimate.
    package var estimated: UInt64
    /// The number of tables whose refresh this apply has completed since the daemon was started.
    package var tablesDone: Int
    package init(table: String, rows: UInt64, estimated: UInt64, tablesDone: Int) {
      (self.table, self.rows, self.estimated, self.tablesDone) = (table, rows, estimated, tablesDone)
    }
  }

  /// The size and the end of one trail.
  ///
  ///     NodeStatus.Trail(name: "till.pos", bytes: 65_536, segments: 1, end: "00000001:00000040", oldest: now)
  package struct Trail: Sendable {
    package var name: String
    package var bytes: UInt64
    package var segments: Int
    package var end: String
    /// The time when the oldest segment was begun, in µs since 1970 UTC.
    package var oldest: Int64
    /// The history that is kept besides what readers need; nil if the conf asks for none.
    package var keep: History?
    package init(name: String, bytes: UInt64, segments: Int, end: String, oldest: Int64) {
      (self.name, self.bytes, self.segments, self.end, self.oldest) = (name, bytes, segments, end, oldest)
    }
  }

  /// The history of a trail, by `[trail.NAME] keep`.
  ///
  ///     NodeStatus.History(text: "7 d", milliseconds: 604_800_000, maxBytes: nil, bytes: 0, isShortened: false)
  package struct History: Sendable {
    /// The bounds as the conf gives them, in words.
    package var text: String
    /// The age to keep; nil for no bound.
    package var milliseconds: Int64?
    /// The size to keep, in bytes; nil for no bound.
    package var maxBytes: Int64?
    /// The part of the trail that no reader needs, in bytes.
    package var bytes: UInt64
    /// Whether a disk limit makes the history shorter than the bounds allow.
    package var isShortened: Bool
    package init(text: String, milliseconds: Int64?, maxBytes: Int64?, bytes: UInt64, isShortened: Bool) {
      (self.text, self.milliseconds, self.maxBytes) = (text, milliseconds, maxBytes)
      (self.bytes, self.isShortened) = (bytes, isShortened)
    }
  }

  /// The state of a source: of its slot or its journal.
  ///
  ///     var source = NodeStatus.Source(capture: "pos")
  ///     source.journalRows = 12
  package struct Source: Sendable {
    package var capture: String
    /// The bytes of log that the server keeps for the slot; PostgreSQL only.
    package var slotBytes: Int64?
    package var slotSafeBytes: Int64?
    package var slotStatus: String?
    /// The journal rows that capture has not read yet; SQLite only.
    package var journalRows: Int64?
    package var journalCapRows: Int64?
    /// Whether the journal was full, and lost rows that capture had not read yet.
    package var isJournalFull = false
    package var database = ""
    package var unhooked: [String] = []
    package var secondsUntilFull: Double?
    package init(capture: String) { self.capture = capture }
  }

  /// The use of the disk that has the trails.
  ///
  ///     NodeStatus.Disk(bytes: 65_536, limitBytes: nil, freeBytes: 1 << 30, secondsUntilFull: nil)
  package struct Disk: Sendable {
    package var bytes: UInt64
    package var limitBytes: Int64?
    package var freeBytes: UInt64
    package var secondsUntilFull: Double?
    package init(bytes: UInt64, limitBytes: Int64?, freeBytes: UInt64, secondsUntilFull: Double?) {
      (self.bytes, self.limitBytes, self.freeBytes, self.secondsUntilFull) =
        (bytes, limitBytes, freeBytes, secondsUntilFull)
    }
  }

  package var node: String
  package var version: String
  package var process: Int32
  package var now: Int64
  package var startedAt: Int64
  package var loadedAt: Int64
  package var isEnding = false
  package var workers: [Worker] = []
  package var trails: [Trail] = []
  package var sources: [Source] = []
  /// The transfers of trails to and from other nodes.
  package var paths: [Path] = []
  package var disk: Disk?
  package var leftSlots: [LeftSlot] = []
  /// The reason why the daemon refused the conf at the last reload; nil if it accepted the conf.
  package var refusal: Problem?
  /// The reason why the listener for metrics does not listen; nil if it does, or if the conf asks for none.
  package var metricsProblem: Problem?

  package init(node: String, version: String, process: Int32, now: Int64, startedAt: Int64, loadedAt: Int64) {
    (self.node, self.version, self.process) = (node, version, process)
    (self.now, self.startedAt, self.loadedAt) = (now, startedAt, loadedAt)
  }

  package var greatestLagMilliseconds: Double { workers.compactMap(\.lagMilliseconds).max() ?? 0 }

  /// The status line for `systemctl status`.
  package var summary: String {
    if isEnding { return "ending" }
    let main = workers.filter { [.capture, .pump, .receive, .apply, .snapshot].contains($0.name.kind) }
    let running = main.filter { $0.state == .running }.count
    let others = NodeStatus.WorkerState.allCases.filter { $0 != .running }.compactMap { state -> String? in
      let names = main.filter { $0.state == state }.map(\.name.description)
      guard let first = names.first else { return nil }
      return "\(state.rawValue): \(first)" + (names.count > 1 ? " and \(names.count - 1) more" : "")
    }
    let lag = Lag.text(milliseconds: greatestLagMilliseconds)
    return (["\(running) of \(main.count.counted("worker")) running, greatest lag \(lag)"] + others).joined(
      separator: "; ")
  }
}

/// Formats a number of bytes, such as `1.5 MiB`.
package enum Size {
  package static func text(bytes: Int64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"]
    var (value, unit) = (Double(bytes), 0)
    while value >= 1024, unit < units.count - 1 { (value, unit) = (value / 1024, unit + 1) }
    return unit == 0 ? "\(bytes) B" : "\((value * 10).rounded() / 10) \(units[unit])"
  }
}

/// Formats a delay, such as `1.5 s`.
package enum Lag {
  package static func text(milliseconds: Double) -> String {
    switch milliseconds {
    case ..<0: "0 ms"
    case ..<1000: "\(Int(milliseconds)) ms"
    case ..<120_000: "\(Int(milliseconds / 1000)).\(Int(milliseconds) % 1000 / 100) s"
    case ..<7_200_000: "\(Int(milliseconds / 60_000)) min"
    default: "\(Int(milliseconds / 3_600_000)) h"
    }
  }
}
