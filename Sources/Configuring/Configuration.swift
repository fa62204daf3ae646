import Changes
import Conflicts
import Mapping

/// What a daemon is to do: all conf files of one node as one value, checked and with every default filled in.
package struct Configuration: Equatable, Sendable {
  package var node: Node
  /// What has a name is sorted by it.
  package var databases: [Database] = []
  package var captures: [Capture] = []
  package var applies: [Apply] = []
  package var pumps: [Pump] = []
  /// Nil: nobody is let in.
  package var receive: Receive?
  package var peers: [Peer] = []
  package var limits = Limits()
  /// Nil: nothing listens.
  package var metrics: Metrics?
  package var control = Control()
  package var log = Log()

  package init(node: Node) { self.node = node }

  /// The database that a capture or an apply names.
  package func database(_ name: String) -> Database? { databases.first { $0.name == name } }

  /// The trail that a capture writes: `NODE.NAME`.
  package func trail(of capture: Capture) -> String { "\(node.name).\(capture.name)" }

  /// `[node]`
  package struct Node: Equatable, Sendable {
    /// The origin of what starts here.
    @ByBytes package var name: String
    /// An absolute path: the folder with lock and trails.
    @ByBytes package var state: String

    package init(name: String, state: String = "/var/lib/cairn") {
      self.name = name
      self.state = state
    }
  }

  /// `[database.NAME]`
  package struct Database: Equatable, Sendable {
    @ByBytes package var name: String
    /// As in the conf, without a password; the path of an SQLite file is absolute.
    @ByBytes package var url: String
    /// The password, from a systemd credential. Never printed.
    @ByBytes package var secret: String? = nil
    /// Whether tables may draw the same keys as those of other nodes: programs take care that they do not.
    package var sharesKeys = false

    package init(name: String, url: String, secret: String? = nil) {
      (self.name, self.url, self.secret) = (name, url, secret)
    }
  }

  /// What becomes of rows that applies write to a captured database.
  package enum AppliedRows: String, CaseIterable, Sendable {
    /// They go into its trail too.
    case include
    /// Only what programs write goes into its trail.
    case skip
  }

  /// `[capture.NAME]`: a database into the trail `NODE.NAME`.
  package struct Capture: Equatable, Sendable {
    @ByBytes package var name: String
    @ByBytes package var database: String
    /// Patterns of ``Changes/TablePatterns``.
    package var tables = ["*"]
    /// Whether executed statements go into the trail where the program gives them.
    package var statements = true
    /// SQLite: the cap of the journal.
    package var journalRows = 5_000_000
    /// Whether the rows are sent that are there when capture begins.
    package var copiesRows = true
    /// What becomes of rows that applies write to the database; nil: they go on if no way leads back.
    package var applied: AppliedRows?
    /// Between two heartbeats while nothing else moves; zero: none.
    package var heartbeat = Duration.seconds(10)
    /// Between two looks for segments of the trail that nobody needs.
    package var purge = Duration.seconds(10)

    package init(name: String, database: String) { (self.name, self.database) = (name, database) }
  }

  /// `[apply.NAME]`: a trail into a database.
  package struct Apply: Equatable, Sendable {
    @ByBytes package var name: String
    /// `NODE.NAME`; of another node where it is received.
    @ByBytes package var trail: String
    @ByBytes package var database: String
    /// The tables of the target that the trail may write: patterns of ``Changes/TablePatterns``.
    package var tables = ["*"]
    /// Patterns of triggers of a PostgreSQL target that may fire, whoever owns their code.
    @ByBytes package var fireTriggers: [String] = []
    /// How conflicts are settled in all tables whose rules say nothing else.
    package var conflicts = ConflictPlan.Part(rule: .newest, tracking: .row, deletes: .newest)
    /// What becomes of what others write to tables whose rows come only this way, where their rules say nothing else.
    package var localWrites = LocalWrites.stop
    /// How far the clock of the trail's node may be ahead of ours before its transactions are held back.
    package var maxClockSkew = Duration.seconds(60)
    package var onError = OnError.stop
    /// What becomes of rows that the target holds before the first copy; nil: the apply stops before it writes.
    package var existing: ExistingRows?
    package var names = NamePolicy.fold
    package var misfits = MisfitPolicies()
    /// Nil: it depends on who created the table.
    package var ddl: DDLPolicy?
    package var replay = ReplayPolicy.rows
    /// Bytes of rows a second that an audit may read, over both ends; 0: there is none; nil: it depends on ``mayDiffer``.
    package var auditBytesPerSecond: Int?
    /// In the order of the conf.
    package var rules: [TableRule] = []

    package init(name: String, trail: String, database: String) {
      (self.name, self.trail, self.database) = (name, trail, database)
    }

    /// Whether rows of the target may differ from those of the source by what the conf says, though all is applied. Of
    /// databases that are written to at both ends it says nothing.
    package var mayDiffer: Bool {
      localWrites == .allow || ![nil, .overwrite].contains(existing) || misfits != MisfitPolicies()
        || rules.contains { $0.delete != .apply || $0.mode != .mirror }
    }
  }

  /// Bytes of rows a second where the conf says nothing: some 2,000 rows of 100 bytes, and less than a hundredth of a core.
  package static let auditBytesUsual = 256 << 10

  package enum OnError: String, CaseIterable, Sendable {
    case stop
    case quarantine
  }

  /// `[limits]`
  package struct Limits: Equatable, Sendable {
    /// For all trails together; nil: none.
    package var diskBytes: Int64?
    /// An apply that is behind for longer is refreshed; nil: the trail is kept for it for ever.
    package var retain: Duration?
    /// When nothing else helps, slots are given up before the disk of the source fills.
    package var givesUpSlot = false
    /// The largest block that is taken from another node.
    package var blockBytes: Int64 = 64 << 20
    /// The memory for all blocks of unusual size together, in bytes.
    package var memoryBytes: Int64 = 256 << 20

    package init() {}
  }

  /// `[metrics]`
  package struct Metrics: Equatable, Sendable {
    /// An IP address without brackets, or `localhost`.
    @ByBytes package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) { (self.host, self.port) = (host, port) }
  }

  /// `[control]`
  package struct Control: Equatable, Sendable {
    /// An absolute path; nil: `control` in the runtime directory of the service, or in the state folder.
    @ByBytes package var socket: String? = nil
    /// The group that may use the socket; nil: that of the daemon.
    @ByBytes package var group: String? = nil

    package init() {}
  }

  /// `[log]`
  package struct Log: Equatable, Sendable {
    package var level = LogLevel.info

    package init() {}
  }

  /// What is logged: this and all before it.
  package enum LogLevel: String, CaseIterable, Sendable { case error, warning, notice, info, debug }
}
