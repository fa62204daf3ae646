import Changes
import PostgresKit
import SystemKit
import Trails

/// Captures one PostgreSQL database into a trail: by logical slot, `pgoutput` and refresh (`docs/postgres-capture.md`).
///
/// One blocking worker on one thread. A transaction of the source is one of the trail. The slot is confirmed only up to
/// what the trail has synced, and only to positions that stand in the trail.
package final class PostgresCapture {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    /// The state folder: what is known of the tables is kept there.
    package var place = ""
    /// Every table is copied again, and a lost slot is made anew.
    package var copiesAgain = false
    /// Whether the rows are sent that are there when capture begins; else another way brings them.
    package var copiesRows = true
    /// Whether it is an error that there is no table yet.
    package var needsTables = true
    /// Whom to tell when its messages have been met.
    package var watch: LocalWatch?
    /// The trails whose applies' transactions are left out, as they come from where the trail goes; what other applies
    /// write is as what programs do. Nil: all are left out.
    package var applies: Set<String>?
    /// Whether what applies write goes into the trail too, if they know of no way back.
    package var relays = false
    /// How far the clocks of other nodes may be ahead of ours, µs: no note of an apply moves the trail's clock further.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    package init() {}
  }

  /// The transaction whose messages are coming in.
  struct Incoming {
    var transaction: PostgresPosition.Transaction
    /// In the trail already, or ours.
    var isSkipped: Bool
    /// Nothing of it was seen but its begin, and messages.
    var isFresh = true
    /// What a barrier of ours says; nil for all others.
    var barrier: String?
    /// An apply made it, which says so first of all.
    var isApplied = false
    /// The trail of that apply.
    var applier = ""
    /// Its rows go on: what the apply noted first.
    var relay: AppliedNote?
    /// The time of the commit, µs since 1970. Of a transaction with a replication origin the server gives the origin's, which
    /// apply does not set: then it is the clock that apply noted.
    var commitTime: Int64 { relay.map { max(transaction.time, Int64(clamping: $0.clock)) } ?? transaction.time }
    /// And it is not in the trail yet: that is told of what it changed in tables, not in rows.
    var isNews = false
    /// What it then notes.
    var notes: [AppliedNote] = []
    /// Somebody waits until the trail tells that it has come this far.
    var wantsProgress = false
    /// The keys of messages were read again for it.
    var hasReadKeys = false
    /// Tables whose rows were written anew, and why, as the server counts reasons.
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
  /// As it was when the transaction under way began.
  var committedRegistry: PostgresRegistry
  let registryFile: RegistryFile
  var isRegistrySaved = true
  var position: PostgresPosition
  /// What the last transaction of the trail tells.
  var toldKnowledge = Knowledge()

  // Of one connection
  var relations: [UInt32: PgOutput.Relation] = [:]
  var captured: [UInt32: Captured] = [:]
  /// Of the transaction that is under way.
  var changeCount: UInt64 = 0
  var incoming: Incoming?
  var isTrailOpen = false
  /// Of the transaction that is open in the trail.
  var openNumber: UInt64 = 0
  var hasUnsynced = false
  /// When the source committed the last transaction that is not synced yet; 0: none.
  var committedAt: Int64 = 0
  /// Transactions since the last sync.
  var unsyncedCount = 0
  /// Every transaction that committed before has been dealt with.
  var received = LSN(0)
  /// The end of the last transaction that came.
  var passed = LSN(0)
  var confirmed = LSN(0)
  /// What comes in the stream from now on was committed later, µs, as far as the server's clock goes. Of a transaction of the
  /// trail that is none of the source this is the clock: what waits in the stream is not to seem later than it is.
  var streamTime: Int64 = 0
  /// Must come again before anything newer does.
  var expected: PostgresPosition.Transaction?
  var reportedAt: Int64 = 0
  var syncedAt: Int64 = 0
  /// When the stream said something last. It is asked for an answer every five seconds.
  var heardAt: Int64 = 0
  var isSilent = false
  static let silentMilliseconds: Int64 = 9000
  var progressAt: Int64 = 0

  // Copying
  var copier: PostgresCopier?
  var chunk: PostgresChunk?
  var wantedRows: [(relation: UInt32, key: [String])] = []
  var copyNotBefore: Int64 = 0
  /// The table that somebody has locked, since when its copy waits, and whether that was said.
  var lockWait: (relation: UInt32, since: Int64, isTold: Bool)?
  var requests: PostgresRequests
  /// Tables of which rows were asked for: the start is in the trail, the end is not.
  var repairing: Set<UInt32> = []
  var committedRepairing: Set<UInt32> = []
  var barrierNumber = 0
  /// Nothing was left to be done in the last quiet moment.
  var isCaughtUp = false
  /// What the barrier says behind which everything was committed before the run began.
  var goal: String?
  var look = SchemaLook()
  /// By which messages of ours are known.
  var keys: MessageKeys
  /// The next time that capture logs ignored messages of other roles, in monotonic milliseconds.
  var refusalTellAt: Int64 = 0
  /// When a connection may be ended again for its memory, in monotonic milliseconds.
  var giveBackAt: Int64 = 0
  static let giveBackMilliseconds: Int64 = 60_000
  /// Whether the database tells of schema changes in the stream.
  var isTold = false
  /// Views and the like that were told of.
  var toldOf: Set<NameKey> = []
  /// Partitioned tables of which a partition logs too little of its old rows, at this place of the stream.
  var unsure: Set<UInt32> = []
  var isConnected = true
  var sequences: [NameKey: Int64] = [:]
  var sequencesAt: Int64 = 0
  var hasChangedSinceSequences = true

  var image = ByteWriter()
  var record = ByteWriter()

  // MARK: Opening

  /// Connects, makes publication and slot where there are none, and proves that the server is where the trail ends.
  ///
  /// Errors: what ``PostgresError`` maps to; `server-setting`, `privilege-missing`, `table-refused`, `slot-lost`,
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
    // Before anything there is read, as other roles could have put it there.
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

  /// Publication first, then the slot: a slot does not know publications that came after it.
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

  /// Whether transactions of the apply of a trail are left out.
  func leavesOut(_ trail: String) -> Bool { options.applies.map { $0.contains(trail) } ?? true }

  /// Ends what ``announce(_:_:copiesAll:)`` began, if it had anything to tell.
  func endAnnouncement() throws {
    guard isTrailOpen else { return }
    try endTransaction()
    try sync()
  }

  /// Proves that the server goes on from where the trail ends: the cluster, its timeline, slot, publication and place in
  /// the log. The transaction `witness` is then expected to come again, if the slot has not been confirmed beyond it.
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

  /// Proves that the server's timeline has everything that the trail has, if it is another one than before: a standby was
  /// promoted, or a backup restored. The timeline's history says where each earlier one was left.
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

  /// A stream looks it up as it was at each moment of the log: one that is made again does not help.
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

  /// A copy goes on by its cursor; one of a table without key, or that wants rows that nobody remembers, begins anew. So
  /// does one that is done and yet wanted.
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
