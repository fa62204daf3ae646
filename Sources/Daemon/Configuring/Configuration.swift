import Changes
import Conflicts
import Mapping

/// The configuration of one node: the content of all its files, checked, with all defaults filled in.
package struct Configuration: Equatable, Sendable {
  package var node: Node
  /// The databases, sorted by name, as are all other lists of sections.
  package var databases: [Database] = []
  package var captures: [Capture] = []
  /// The history to keep of each trail that has a section, by `NODE.NAME`.
  package var histories: [NameKey: History] = [:]
  package var applies: [Apply] = []
  package var snapshots: [Snapshot] = []
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

  package func database(_ name: String) -> Database? { databases.first { $0.name == name } }

  package func trail(of capture: Capture) -> String { "\(node.name).\(capture.name)" }

  /// `[node]`: the name and the state folder of the node.
  ///
  ///     Configuration.Node(name: "till").state   // "/var/lib/cairn"
  package struct Node: Equatable, Sendable {
    /// The name of the node, which is part of the names of its trails.
    @ByBytes package var name: String
    /// The absolute path of the state folder.
    @ByBytes package var state: String

    package init(name: String, state: String = "/var/lib/cairn") {
      self.name = name
      self.state = state
    }
  }

  /// `[database.NAME]`: a database by its URL.
  package struct Database: Equatable, Sendable {
    @ByBytes package var name: String
    /// The URL as configured, without a password. The path of an SQLite file is absolute.
    @ByBytes package var url: String
    /// The password, from a systemd credential; never printed.
    @ByBytes package var secret: String? = nil
    /// Whether applies start even if this database generates the same keys as another one. The operator vouches that
    /// applications do not insert equal keys.
    package var sharesKeys = false
    /// Whether two-way SQLite tables may have a foreign key to themselves with ON UPDATE CASCADE.
    package var acceptsMovedKeys = false

    package init(name: String, url: String, secret: String? = nil) {
      (self.name, self.url, self.secret) = (name, url, secret)
    }
  }

  /// The option `applied` of a capture: whether its trail includes rows that an apply has written to the source.
  package enum AppliedRows: String, CaseIterable, Sendable {
    case include
    case skip
  }

  /// `[capture.NAME]`: a capture, which writes the trail `NODE.NAME`.
  package struct Capture: Equatable, Sendable {
    @ByBytes package var name: String
    @ByBytes package var database: String
    /// The captured tables, as patterns of names.
    @ByBytes package var tables: [String] = ["*"]
    /// Whether statements that applications executed go into the trail too.
    package var statements = true
    /// The maximum number of rows in the journal; SQLite only.
    package var journalRows = 5_000_000
    /// Whether a new capture begins with a refresh of the rows that are already in the tables.
    package var copiesRows = true
    /// Whether the trail includes rows that an apply has written to the source. Nil: only if the rows would not return
    /// to their origin.
    package var applied: AppliedRows?
    /// The interval of heartbeats while there are no other changes; zero for no heartbeats.
    package var heartbeat = Duration.seconds(10)
    /// The interval at which segments that no reader needs are deleted.
    package var purge = Duration.seconds(10)

    package init(name: String, database: String) { (self.name, self.database) = (name, database) }
  }

  /// `[apply.NAME]`: an apply, which writes a trail to a target.
  package struct Apply: Equatable, Sendable {
    @ByBytes package var name: String
    /// The trail, `NODE.NAME`. A trail of another node has to be received from there.
    @ByBytes package var trail: String
    @ByBytes package var database: String
    /// The tables of the target to which the apply may write, as patterns.
    @ByBytes package var tables: [String] = ["*"]
    /// Patterns of the triggers of a PostgreSQL target that may fire, even if another role owns their code.
    @ByBytes package var fireTriggers: [String] = []
    /// The conflict rules for tables without rules of their own.
    package var conflicts = ConflictPlan.Part(rule: .newest, tracking: .row, deletes: .newest)
    /// The reaction if an application writes to a table that only this apply should write.
    package var localWrites = LocalWrites.stop
    /// The maximum time by which the clock of a transaction may be ahead of this node's clock. A transaction further
    /// ahead waits until it is within the limit.
    package var maxClockSkew = Duration.seconds(60)
    package var onError = OnError.stop
    /// The action for rows that are in the target's tables before the initial load; nil: such rows stop the apply.
    package var existing: ExistingRows?
    package var names = NamePolicy.fold
    package var misfits = MisfitPolicies()
    /// The policy for schema changes; nil: follow for tables that Cairn created, stop for all others.
    package var ddl: DDLPolicy?
    package var replay = ReplayPolicy.rows
    /// The rate of the audit, in bytes per second from source and target together; 0 for no audit, nil for the default.
    package var auditBytesPerSecond: Int?
    package var rules: [TableRule] = []
    /// The tables with conflict settings of their own.
    package var tableConflicts: [ConflictPlan.Table] = []
    /// The tables with a setting of their own for writes of applications.
    package var tableLocalWrites: [LocalWritesPlan.Table] = []

    package init(name: String, trail: String, database: String) {
      (self.name, self.trail, self.database) = (name, trail, database)
    }

    /// Whether the apply's settings allow the rows of a one-way target to differ from the source.
    package var mayDiffer: Bool {
      localWrites == .allow || ![nil, .overwrite].contains(existing) || misfits != MisfitPolicies()
        || rules.contains { $0.delete != .apply || $0.mode != .mirror }
    }
  }

  /// The default rate of an audit, in bytes per second.
  package static let auditBytesUsual = 256 << 10

  package enum OnError: String, CaseIterable, Sendable {
    case stop
    case quarantine
  }

  /// `[limits]`: the limits of disk, time and memory for all trails.
  package struct Limits: Equatable, Sendable {
    /// The maximum disk space of all trails together, in bytes; nil for no limit.
    package var diskBytes: Int64?
    /// The longest lag of a reader for which segments are kept; nil for no limit. A reader with a longer lag expires,
    /// and its tables need a refresh.
    package var retain: Duration?
    /// Whether Cairn may drop a replication slot before the source's disk becomes full.
    package var givesUpSlot = false
    /// The largest block that this node accepts from another node, in bytes.
    package var blockBytes: Int64 = 64 << 20
    /// The maximum memory for all blocks of more than 1 MiB together, in bytes.
    package var memoryBytes: Int64 = 256 << 20

    package init() {}
  }

  /// `[metrics]`: the address at which metrics are served.
  package struct Metrics: Equatable, Sendable {
    /// The address to listen on: an IP address without brackets, or `localhost`.
    @ByBytes package var host: String
    package var port: UInt16
    /// The certificates; nil for plain HTTP.
    package var tls: PeerFiles?
    /// The token that a client must send, from the credential `metrics.token`; nil for none.
    @ByBytes package var token: String? = nil

    package init(host: String, port: UInt16) { (self.host, self.port) = (host, port) }

    /// The name of the credential with the token.
    package static let credential = "metrics.token"

    package var isLoopback: Bool { PeerURL.isLoopback(host) }
    package var address: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
  }

  /// `[control]`: the control socket and the group that may use it.
  package struct Control: Equatable, Sendable {
    /// The absolute path of the socket; nil for the default path.
    @ByBytes package var socket: String? = nil
    /// The group that may use the socket; nil for the daemon's group.
    @ByBytes package var group: String? = nil

    package init() {}
  }

  /// `[log]`: the level of the log.
  package struct Log: Equatable, Sendable {
    package var level = LogLevel.info

    package init() {}
  }

  /// The level of the log. Messages of this level and of more severe ones are logged.
  package enum LogLevel: String, CaseIterable, Sendable { case error, warning, notice, info, debug }
}

extension Configuration.Capture {
  /// Returns the hint for a two-way table with a foreign key to itself that has ON UPDATE CASCADE.
  package func movedKeysHint(_ table: String) -> String {
    "leave it out of 'tables' of [capture.\(name)], as in [\"*\", \"!\(table)\"]; or, if applications change no keys of such rows, write moved_keys = \"accept\" into [database.\(database)]"
  }
}
