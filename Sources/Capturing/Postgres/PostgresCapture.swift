import Changes
import PostgresKit
import SystemKit
import Trails

/// Captures one PostgreSQL database into a trail: by logical slot, `pgoutput` and refresh (`docs/postgres-capture.md`).
///
/// One blocking worker on one thread. A transaction of the source is one transaction of the trail. The slot is
/// confirmed only to positions that are durable in the trail.
package final class PostgresCapture {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    /// The state folder, where the known tables are stored.
    package var place = ""
    /// Whether every table is copied again, and a lost slot is created again.
    package var copiesAgain = false
    /// Whether rows are sent that existed before capture began; if not, they arrive another way.
    package var copiesRows = true
    /// Whether a source without tables is an error.
    package var needsTables = true
    /// The watch to inform when its messages have been read.
    package var watch: LocalWatch?
    /// The trails whose applies' transactions are left out, because they come from where the trail goes. Writes of
    /// other applies count as those of applications. Nil: all applies are left out.
    package var applies: Set<String>?
    /// Whether rows that applies write go into the trail too, if the applies know of no way back.
    package var relays = false
    /// How far the clocks of other nodes may be ahead of this node's, µs: no note of an apply moves the trail's clock
    /// further.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    package init() {}
  }

  /// The transaction whose messages are arriving.
  struct Incoming {
    var transaction: PostgresPosition.Transaction
    /// Whether it is left out, because it is already in the trail or is an apply's.
    var isSkipped: Bool
    /// Whether only its begin and messages have been seen.
    var isFresh = true
    /// The text of a barrier in it; nil if there is none.
    var barrier: String?
    /// Whether an apply made it, as its first message states.
    var isApplied = false
    /// The trail of that apply.
    var applier = ""
    /// The first note of the apply, if the rows go on into the trail.
    var relay: AppliedNote?
    /// The time of the commit, µs since 1970. For a transaction with a replication origin the server reports the
    /// origin's time, which apply does not set. Then it is the clock that apply noted.
    var commitTime: Int64 { relay.map { max(transaction.time, Int64(clamping: $0.clock)) } ?? transaction.time }
    /// Whether it is left out but not yet in the trail: the trail then gets its changes of tables, not of rows.
    var isNews = false
    /// The notes of the apply in it.
    var notes: [AppliedNote] = []
    /// Whether a message asks the trail to record its position after it.
    var wantsProgress = false
    /// Whether the keys of messages were read again for it.
    var hasReadKeys = false
    /// The tables whose rows were rewritten, each with the server's bits for the reason.
    var rewrites: [UInt32: Int] = [:]
  }

  let uri: String
  let options: Options
  let trail: TrailWriter
  let clock: Clock
  let progress: CaptureProgress
  let slotName: String
  var source: PostgresSource
  var replication: PostgresConnection
  var stream: ReplicationStream?
  var registry: PostgresRegistry { didSet { isRegistrySaved = false } }
  /// The registry at the start of the current transaction.
  var committedRegistry: PostgresRegistry
  let registryFile: RegistryFile
  var isRegistrySaved = true
  var position: PostgresPosition
  /// The knowledge in the last transaction of the trail.
  var toldKnowledge = Knowledge()

  // The state of one connection
  var relations: [UInt32: PgOutput.Relation] = [:]
  var captured: [UInt32: Captured] = [:]
  /// The number of changes in the current transaction.
  var changeCount: UInt64 = 0
  var incoming: Incoming?
  var isTrailOpen = false
  /// The number of the transaction that is open in the trail.
  var openNumber: UInt64 = 0
  var hasUnsynced = false
  /// The time at which the source committed the last unsynced transaction; 0: none.
  var committedAt: Int64 = 0
  /// The number of transactions since the last sync.
  var unsyncedCount = 0
  /// The place before which every committed transaction has been processed.
  var received = LSN(0)
  /// The end of the last transaction received.
  var passed = LSN(0)
  var confirmed = LSN(0)
  /// A time before which nothing new in the stream was committed, by the server's clock, µs. Transactions of the trail
  /// that are not the source's have it as their clock. So changes that wait in the stream do not seem later than they
  /// are.
  var streamTime: Int64 = 0
  /// The transaction that the server must send again before any newer one.
  var expected: PostgresPosition.Transaction?
  var reportedAt: Int64 = 0
  var syncedAt: Int64 = 0
  /// The time of the last message of the stream. Every five seconds the server is asked for an answer.
  var heardAt: Int64 = 0
  var isSilent = false
  static let silentMilliseconds: Int64 = 9000
  var progressAt: Int64 = 0

  // The state of copies
  var copier: PostgresCopier?
  var chunk: PostgresChunk?
  var wantedRows: [(relation: UInt32, key: [String])] = []
  var copyNotBefore: Int64 = 0
  /// The locked table, the time since which its copy waits, and whether that was reported.
  var lockWait: (relation: UInt32, since: Int64, isTold: Bool)?
  var requests: PostgresRequests
  /// The tables of which rows were requested: the trail has the start of their refresh, not the end.
  var repairing: Set<UInt32> = []
  var committedRepairing: Set<UInt32> = []
  var barrierNumber = 0
  /// Whether nothing was left to do in the last quiet moment.
  var isCaughtUp = false
  /// The text of a barrier: everything committed before the run comes before it.
  var goal: String?
  var look = SchemaLook()
  /// The keys by which Cairn's messages are recognized.
  var keys: MessageKeys
  /// The next time that capture logs ignored messages of other roles, in monotonic milliseconds.
  var refusalTellAt: Int64 = 0
  /// The next time at which a connection may be ended for its memory, in monotonic milliseconds.
  var giveBackAt: Int64 = 0
  static let giveBackMilliseconds: Int64 = 60_000
  /// Whether the database reports schema changes in the stream.
  var isTold = false
  /// The views and other objects that have been reported.
  var toldOf: Set<NameKey> = []
  /// The partitioned tables of which a partition logs too little of its old rows, at this place of the stream.
  var unsure: Set<UInt32> = []
  var isConnected = true
  var sequences: [NameKey: Int64] = [:]
  var sequencesAt: Int64 = 0
  var hasChangedSinceSequences = true

  var image = ByteWriter()
  var record = ByteWriter()

  // MARK: Opening

  /// Connects, creates a missing publication and slot, and checks that the server is where the trail ends.
  ///
  /// Errors: the errors of ``PostgresError``; `server-setting`, `privilege-missing`, `table-refused`, `slot-lost`,
  /// `source-went-back`.
  package init(
    uri: String, trail: TrailWriter, options: Options, clock: Clock = .system, progress: CaptureProgress = .init()
  ) throws {
    (self.uri, self.trail, self.options, self.clock, self.progress) = (uri, trail, options, clock, progress)
    slotName = PostgresSource.name(of: trail.id)
    let application = PostgresSource.application(slotName)
    let connection = try PostgresConnection(uri, application: application)
    source = PostgresSource(connection, uri: uri, trail: trail.id)
    let stored = try trail.lastHeader.map { try PostgresPosition(decoding: $0.sourcePosition) }
    try PostgresSource.check(connection, newSlots: stored == nil ? 1 : 0)
    if stored != nil, let notice = try PostgresSource.encodingNotice(connection) { progress.tell(notice) }
    replication = try PostgresConnection(uri, purpose: .replication, application: application)
    registryFile = try RegistryFile(folder: options.place, number: trail.lastHeader?.number ?? 0)
    registry = registryFile.registry
    requests = try PostgresRequests(folder: options.place)
    keys = try MessageKeys()
    committedRegistry = registry
    let identity = try PostgresSource.identity(replication)
    position = stored ?? PostgresPosition(system: identity.system, timeline: identity.timeline, reached: LSN(0))
    // First of all, as other roles could have put objects there that are read next.
    try installTriggers()
    try OwnSchema.check(MessageKey.Place.own.rawValue, source.connection)
    try readKeys()
    if stored == nil {
      try beginAnew(.firstCopy)
    } else {
      if position.knowledge.hasUnnamed {
        try position.knowledge.name(by: source.applied(clock: UInt64(clamping: clock.microseconds())))
      }
      toldKnowledge = position.knowledge
      try resume(identity, copiesAgain: options.copiesAgain)
      forgetUnfinishedCopy()
      try beginAwaitedCopies()
    }
    try tellOfRefusals()
  }

  /// Begins a new slot. The publication is created first: a slot does not know publications that were created after it.
  private func beginAnew(_ reason: Refresh.Reason) throws {
    let identity = try PostgresSource.identity(replication)
    let tables = try wantedTables()
    guard !tables.isEmpty || !options.needsTables else {
      throw CairnError(
        .noTables, "\(source.connection.place) has no table that could be captured",
        hint: "create a table first, or look at --tables", remedy: .badInput)
    }
    _ = try source.publish(tables)
    try source.dropSlot()
    streamTime = try source.time()
    let (start, snapshot) = try source.createSlot(replication, tell: progress.tell)
    var begun = PostgresPosition(system: identity.system, timeline: identity.timeline, reached: start)
    begun.knowledge = position.knowledge
    for note in try source.applied(asOf: snapshot, clock: UInt64(clamping: clock.microseconds()))
    where note.trail != trail.name.description && leavesOut(note.trail) {
      begun.knowledge.note(note)
    }
    position = begun
    (received, passed) = (start, start)
    try openTransaction()
    // From here on the slot has every change.
    try announce(tables, reason == .firstCopy && !options.copiesRows ? nil : reason)
    try endTransaction()
    try sync()
  }

  /// Returns whether transactions of the apply of a trail are left out.
  func leavesOut(_ trail: String) -> Bool { options.applies.map { $0.contains(trail) } ?? true }

  /// Ends the transaction that ``announce(_:_:copiesAll:)`` began, if it had something to write.
  func endAnnouncement() throws {
    guard isTrailOpen else { return }
    try endTransaction()
    try sync()
  }

  /// Checks that the server continues where the trail ends: the cluster, its timeline, slot, publication and place in
  /// the log. Then the transaction `witness` must come again, unless the slot has been confirmed beyond it.
  func resume(_ identity: (system: UInt64, timeline: UInt32), copiesAgain: Bool) throws {
    let place = source.connection.place
    guard identity.system == position.system else {
      throw Self.wentBack(place, "it is another cluster, \(identity.system)")
    }
    try follow(timeline: identity.timeline)
    guard let slot = try source.slot(), !slot.isLost else {
      if copiesAgain { return try beginAnew(.asked) }
      throw CairnError(
        .slotLost,
        "\(place): slot \(slotName) \(try source.slot() == nil ? "is gone" : "was invalidated by the server")",
        hint:
          "with the daemon 'cairn copy APPLY', else run again with --existing overwrite: a new slot is made and every table is copied again"
      )
    }
    guard try source.published() != nil else {
      if copiesAgain { return try beginAnew(.asked) }
      throw publicationLost()
    }
    let here = try source.connection.first("SELECT current_database()") ?? ""
    guard slot.database == here, slot.plugin == "pgoutput" else {
      throw CairnError(
        .slotLost, "\(place): slot \(slotName) is one of database \(slot.database) with plugin \(slot.plugin)",
        hint: "look who made it; run again with --existing overwrite once it is gone")
    }
    guard slot.confirmed <= position.quiet else {
      if copiesAgain { return try beginAnew(.asked) }
      throw CairnError(
        .slotLost,
        "\(place): slot \(slotName) was moved on to \(slot.confirmed), the trail ends at \(position.quiet)",
        hint:
          "with the daemon 'cairn copy APPLY', else run again with --existing overwrite: a new slot is made and every table is copied again"
      )
    }
    let current = try source.connection.first("SELECT pg_current_wal_lsn()").flatMap { LSN($0) } ?? LSN(0)
    guard current >= position.reached else {
      throw Self.wentBack(place, "its WAL ends at \(current), the trail at \(position.reached)")
    }
    expected = position.witness.flatMap { slot.confirmed <= $0.commit ? $0 : nil }
    (received, passed) = (position.quiet, position.reached)
    confirmed = slot.confirmed
    if copiesAgain { try askForCopies() }
  }

  /// Checks that the server's timeline has everything that the trail has, if the timeline has changed: a standby was
  /// promoted, or a backup restored. The timeline's history gives the place at which each earlier one was left.
  private func follow(timeline: UInt32) throws {
    guard timeline != position.timeline else { return }
    let place = source.connection.place
    let history = timeline > 1 ? try PostgresSource.history(of: timeline, replication) : [:]
    guard let left = history[position.timeline] else {
      throw Self.wentBack(
        place, "it is on timeline \(timeline), which does not follow timeline \(position.timeline) of the trail")
    }
    guard left >= position.reached else {
      throw Self.wentBack(
        place,
        "its timeline \(timeline) left timeline \(position.timeline) at \(left), and the trail ends at \(position.reached)"
      )
    }
    position.timeline = timeline
  }

  /// Returns the error for a missing publication. Creating it again does not help: a stream looks it up as it was at
  /// each moment of the log.
  func publicationLost() -> CairnError {
    CairnError(
      .slotLost, "\(source.connection.place): publication \(slotName) is gone",
      hint:
        "with the daemon 'cairn copy APPLY', else run again with --existing overwrite: publication and slot are made anew and every table is copied again"
    )
  }

  static func wentBack(_ place: String, _ how: String) -> CairnError {
    CairnError(
      .sourceWentBack, "the source \(place) is not where the trail ends: \(how)",
      hint:
        "it was restored or replaced, and the target may hold newer rows: run 'cairn detach' on both, and replicate into a new --state from the end that is to be kept, with --existing overwrite"
    )
  }

  /// Forgets a copy that cannot continue at its cursor: that of a table without key, or one with unknown requested
  /// rows. A completed copy that was requested again also begins again.
  private func forgetUnfinishedCopy() {
    guard let refresh = position.refresh else { return }
    let table = registry.tables[refresh.relation]
    if refresh.isDone || table?.epoch != refresh.epoch || table?.isKeyed != true || refresh.wantsRows
      || table?.refresh == nil
    {
      position.refresh = nil
    }
  }

  private func askForCopies() throws {
    for var table in registry.tables.values {
      table.refresh = .asked
      registry.set(table)
    }
    position.refresh = nil
    try saveRegistry()
  }
}
