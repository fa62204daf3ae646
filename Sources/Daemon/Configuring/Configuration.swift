import Changes
import Conflicts
import Mapping

/// The configuration of one node: the content of all its files, checked, with all defaults filled in.
package struct Configuration: Equatable, Sendable {
  package var node: Node
  /// The databases. They and all other named sections are sorted by name.
  package var databases: [Database] = []
  package var captures: [Capture] = []
  package var applies: [Apply] = []
  package var pumps: [Pump] = []
  /// The listener for other nodes; nil if no node may connect.
  package var receive: Receive?
  package var peers: [Peer] = []
  package var limits = Limits()
  /// The listener for metrics; nil if there is none.
  package var metrics: Metrics?
  package var control = Control()
  package var log = Log()

  package init(node: Node) { self.node = node }

  /// Returns the database with this name; nil if the configuration has none.
  package func database(_ name: String) -> Database? { databases.first { $0.name == name } }

  /// Returns the trail that a capture writes: `NODE.NAME`.
  package func trail(of capture: Capture) -> String { "\(node.name).\(capture.name)" }

  /// `[node]`: the name and the state folder of the node.
  package struct Node: Equatable, Sendable {
    /// The name of the node. It is part of the origin of all changes that are first committed here.
    @ByBytes package var name: String
    /// The folder with the lock and the trails, as an absolute path.
    @ByBytes package var state: String

    package init(name: String, state: String = "/var/lib/cairn") {
      self.name = name
      self.state = state
    }
  }

  /// `[database.NAME]`: a database by its URL.
  package struct Database: Equatable, Sendable {
    @ByBytes package var name: String
    /// The URL as configured, without a password; the path of an SQLite file is absolute.
    @ByBytes package var url: String
    /// The password, from a systemd credential. Never printed.
    @ByBytes package var secret: String? = nil
    /// Whether tables of the database may generate keys that tables of other nodes also generate. Applications must
    /// then avoid equal keys.
    package var sharesKeys = false

    package init(name: String, url: String, secret: String? = nil) {
      (self.name, self.url, self.secret) = (name, url, secret)
    }
  }

  /// The option `applied` of a capture: whether it sends the rows that apply has written to its source.
  package enum AppliedRows: String, CaseIterable, Sendable {
    /// The trail also includes rows that apply has written to the source.
    case include
    /// The trail includes only rows that applications have written to the source.
    case skip
  }

  /// `[capture.NAME]`: the capture of a database into the trail `NODE.NAME`.
  package struct Capture: Equatable, Sendable {
    @ByBytes package var name: String
    @ByBytes package var database: String
    /// The captured tables, as patterns of ``Changes/TablePatterns``.
    package var tables = ["*"]
    /// Whether executed statements go into the trail, if the application provides them.
    package var statements = true
    /// SQLite: the maximum number of rows in the journal.
    package var journalRows = 5_000_000
    /// Whether capture first sends the rows that are in the tables when it begins.
    package var copiesRows = true
    /// Whether the trail includes rows that apply has written to the database. Nil: it includes them if they would not
    /// return to their origin.
    package var applied: AppliedRows?
    /// The interval of heartbeats while there are no other changes; zero: no heartbeats.
    package var heartbeat = Duration.seconds(10)
    /// The interval at which trail segments that no reader needs are looked for and deleted.
    package var purge = Duration.seconds(10)

    package init(name: String, database: String) { (self.name, self.database) = (name, database) }
  }

  /// `[apply.NAME]`: the apply of a trail to a database.
  package struct Apply: Equatable, Sendable {
    @ByBytes package var name: String
    /// The trail, `NODE.NAME`. If NODE is another node, the trail is received from there.
    @ByBytes package var trail: String
    @ByBytes package var database: String
    /// The tables of the target to which the apply may write: patterns of ``Changes/TablePatterns``.
    package var tables = ["*"]
    /// Patterns of triggers of a PostgreSQL target that may fire, whichever role owns their code.
    @ByBytes package var fireTriggers: [String] = []
    /// The conflict rules for tables that have no rules of their own.
    package var conflicts = ConflictPlan.Part(rule: .newest, tracking: .row, deletes: .newest)
    /// The reaction to writes of applications to tables that only this apply should write. A table may have its own
    /// setting.
    package var localWrites = LocalWrites.stop
    /// The maximum time by which the clock of the trail's node may be ahead of the local clock. A transaction whose
    /// time is further ahead is not applied until the difference is small enough.
    package var maxClockSkew = Duration.seconds(60)
    package var onError = OnError.stop
    /// The action for rows that are in the target's tables before the first copy. Nil: the apply stops if there are
    /// such rows.
    package var existing: ExistingRows?
    package var names = NamePolicy.fold
    package var misfits = MisfitPolicies()
    /// The policy for schema changes; nil: it depends on whether Cairn created the table.
    package var ddl: DDLPolicy?
    package var replay = ReplayPolicy.rows
    /// The maximum number of bytes per second that an audit reads from source and target together. 0: no audit. Nil:
    /// the default rate if the target must equal the source (see ``mayDiffer``), otherwise no audit.
    package var auditBytesPerSecond: Int?
    /// The rules of tables, in the order of the configuration.
    package var rules: [TableRule] = []
    /// The conflict settings of each table that has its own.
    package var tableConflicts: [ConflictPlan.Table] = []
    /// The reaction to writes of applications, for each table that has its own setting.
    package var tableLocalWrites: [LocalWritesPlan.Table] = []

    package init(name: String, trail: String, database: String) {
      (self.name, self.trail, self.database) = (name, trail, database)
    }

    /// Whether these settings allow rows of the target to differ from the source after all changes are applied. The
    /// value has no meaning in two-way replication.
    package var mayDiffer: Bool {
      localWrites == .allow || ![nil, .overwrite].contains(existing) || misfits != MisfitPolicies()
        || rules.contains { $0.delete != .apply || $0.mode != .mirror }
    }
  }

  /// The default rate of an audit in bytes per second: about 2,000 rows of 100 bytes, at less than a hundredth of a
  /// core.
  package static let auditBytesUsual = 256 << 10

  package enum OnError: String, CaseIterable, Sendable {
    case stop
    case quarantine
  }

  /// `[limits]`: the limits of disk, time and memory for all trails.
  package struct Limits: Equatable, Sendable {
    /// The maximum disk space of all trails together, in bytes; nil: no limit.
    package var diskBytes: Int64?
    /// The longest lag of an apply for which segments are kept. An apply that lags more needs a refresh. Nil: segments
    /// are kept for every apply without a limit.
    package var retain: Duration?
    /// Whether Cairn may drop replication slots as a last resort before the source's disk fills.
    package var givesUpSlot = false
    /// The largest block that is accepted from another node, in bytes.
    package var blockBytes: Int64 = 64 << 20
    /// The maximum memory for all unusually large blocks together, in bytes.
    package var memoryBytes: Int64 = 256 << 20

    package init() {}
  }

  /// `[metrics]`: the address at which metrics are served.
  package struct Metrics: Equatable, Sendable {
    /// The address to listen on: an IP address without brackets, or `localhost`.
    @ByBytes package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) { (self.host, self.port) = (host, port) }
  }

  /// `[control]`: the control socket and the group that may use it.
  package struct Control: Equatable, Sendable {
    /// An absolute path; nil: `control` in the runtime directory of the service, or in the state folder.
    @ByBytes package var socket: String? = nil
    /// The group that may use the socket; nil: the daemon's group.
    @ByBytes package var group: String? = nil

    package init() {}
  }

  /// `[log]`: the level of the log.
  package struct Log: Equatable, Sendable {
    package var level = LogLevel.info

    package init() {}
  }

  /// The level of the log: messages of this level and of all preceding ones are logged.
  package enum LogLevel: String, CaseIterable, Sendable { case error, warning, notice, info, debug }
}
