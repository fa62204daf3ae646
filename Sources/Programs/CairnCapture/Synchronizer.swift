import Capturing
import Changes
import Endpoints
import Synchronization
import SystemKit
import Trails

/// Synchronises a database of this program with a peer database, in both directions, each time the program asks. No
/// daemon is needed: the synchronisation runs on a thread of the caller.
///
/// ```swift
/// let sync = try Synchronizer(shop, with: "postgresql://till@db.example/shop")
/// try sync.initialize()                  // once: schema and rows come down
/// let outcome = try sync.synchronize()   // whenever it can connect: sends and fetches all commits so far
/// print(outcome.sent, outcome.received, outcome.conflicts)
/// ```
///
/// The database stays open during a synchronisation, and the program may read and write. After any interruption (a lost
/// connection, ``cancel()``, `kill -9`, a power cut), the next synchronisation continues: nothing is lost or applied
/// twice. If a row was written in both databases, the later write wins by default. The losing version is kept (`cairn
/// conflicts list`).
///
/// `docs/guides/embedding.md` lists what a PostgreSQL server must provide. Any thread may use the object; one
/// synchronisation runs at a time. Call no method from within a transaction of the database.
public final class Synchronizer: Sendable {
  /// Options of a synchronisation.
  ///
  /// ```swift
  /// var options = Synchronizer.Options()
  /// options.tables = ["sale", "item"]
  /// let sync = try Synchronizer(shop, with: "postgresql://till@db.example/shop", options: options)
  /// ```
  public struct Options: Sendable {
    /// The direction of the initial load: the first copy of tables and rows.
    public enum FirstCopy: Sendable, Hashable {
      /// The direction from the peer into the database of the program.
      case down
      /// The direction from the database of the program to the peer.
      case up
    }
    /// The reaction to a transaction that one database refuses, because a row breaks a constraint or a value does not
    /// fit.
    public enum Refusal: Sendable, Hashable {
      /// The synchronisation stops at the transaction with an error. The next synchronisation tries the transaction
      /// again.
      case stop
      /// The transaction goes into quarantine (`cairn quarantine list`) with all transactions that depend on it. All
      /// other transactions are applied.
      case setAside
    }
    /// The reaction to a schema change of a table in the other database.
    public enum SchemaChanges: Sendable, Hashable {
      /// The table is changed in the same way.
      case follow
      /// The table is suspended until the operator has made the same change. Other tables continue.
      case stop
      /// The table stays as it is.
      case ignore
    }

    /// The folder for trails and checkpoints; nil for a folder beside the database, such as `shop.db-cairn`.
    public var state: String?
    /// Names or patterns of the tables that are synchronised; `!` excludes a table: `["*", "!tmp_*"]`.
    public var tables = ["*"]
    /// The direction of the first copy of tables and rows. After that copy has begun, this option has no effect.
    public var firstCopy = FirstCopy.down
    /// Whether the first copy of tables and rows may replace rows that its destination already holds.
    public var overwrites = false
    public var refusal = Refusal.stop
    /// The conflict rule for rows that were written in both databases: `newest`, `oldest`, `priority:NODE,NODE` …
    /// (`docs/explanation/conflicts.md`). All programs with the same peer must have the same rules.
    public var conflict = "newest"
    /// Conflict rules of single columns, by `TABLE.COLUMN`: `["item.stock": "delta"]`.
    public var columnConflicts: [String: String] = [:]
    /// Whether the changes of this database since the last synchronisation are reduced to their net effect, and sent as
    /// one transaction. A row that was changed ten times is sent once; a row that was inserted and deleted is not sent.
    public var folds = false
    /// The reaction to schema changes. If nil, tables that the first copy created are changed in the same way, and all
    /// other tables are suspended.
    public var schemaChanges: SchemaChanges?
    public init() {}
  }

  /// The database of the program.
  public let database: CapturedDatabase
  /// The address of the peer, without a password.
  public let peer: String
  private let ends: SynchronizedEnds
  private let options: Options
  private let current = Mutex<SynchronizationRun?>(nil)

  /// Prepares a synchronisation. Writes nothing, and does not connect yet.
  /// - Parameters:
  ///   - database: The database of the program.
  ///   - peer: `postgresql://user@host/db` (any URI of libpq), `sqlite:other.db` or `sqlite:///folder/other.db`.
  ///   - options: The rules of this synchronisation. All programs with the same peer need the same conflict rules.
  /// - Throws: ``SynchronizationError`` of kind `address` or `rule`; ``DatabaseError`` if the database is in memory or
  ///   closed.
  public init(_ database: CapturedDatabase, with peer: String, options: Options = Options()) throws {
    self.database = database
    self.options = options
    ends = try SynchronizationError.wrapping {
      try SynchronizedEnds(
        path: database.file, node: database.node, peer: DatabaseURL(peer), state: options.state)
    }
    self.peer = ends.peer.shown
  }

  // MARK: Work

  /// Creates the missing tables, copies the existing rows (see ``Options/firstCopy``), and then synchronises. If an
  /// earlier call has done so, only synchronises.
  /// - Throws: ``SynchronizationError`` of kind `rowsInTheWay` if the destination of the copy already has rows.
  @discardableResult
  public func initialize(
    progress: (SynchronizationProgress) -> Void = { _ in }
  ) throws -> SynchronizationOutcome { try run(SynchronizationRun(), isFirst: true, progress) }

  /// Sends all commits that one database has made so far and the other lacks, in both directions.
  @discardableResult
  public func synchronize(
    progress: (SynchronizationProgress) -> Void = { _ in }
  ) throws -> SynchronizationOutcome { try run(SynchronizationRun(), isFirst: false, progress) }

  /// Initialises without blocking a thread of the calling task. Cancelling the task cancels the synchronisation.
  @discardableResult
  public func initialize(
    progress: @escaping @Sendable (SynchronizationProgress) -> Void = { _ in }
  ) async throws -> SynchronizationOutcome { try await runApart(isFirst: true, progress) }

  /// Synchronises without blocking a thread of the calling task. Cancelling the task cancels the synchronisation.
  @discardableResult
  public func synchronize(
    progress: @escaping @Sendable (SynchronizationProgress) -> Void = { _ in }
  ) async throws -> SynchronizationOutcome { try await runApart(isFirst: false, progress) }

  /// Stops the running synchronisation at the next transaction boundary; its caller gets an error of kind `cancelled`.
  /// Any thread may call this at any time; without a running synchronisation it has no effect.
  public func cancel() { current.withLock { $0 }?.cancel() }

  // MARK: Delivery

  /// The commits of this database that the peer may not have. Needs no connection to the peer.
  public var pending: SynchronizationPending {
    get throws {
      let inFile = try database.pending
      return try SynchronizationError.wrapping {
        SynchronizationPending(inFile: inFile, unsent: try ends.unsent())
      }
    }
  }

  /// Waits until the peer has applied a commit and all earlier commits of this database. Runs a synchronisation for
  /// this, or waits for the running one.
  ///
  /// - Returns: true when the peer has applied the commit; false after `timeout`.
  /// - Throws: the errors of `synchronize()`; kind `refused` if the peer put the commit into quarantine
  ///   (``Options/Refusal/setAside``). Earlier commits in quarantine cause no error.
  public func waitUntilApplied(_ token: CommitToken, timeout: Duration = .seconds(30)) throws -> Bool {
    let limit = Clock.monotonicMilliseconds + timeout.milliseconds
    while try !isApplied(token) {
      guard Clock.monotonicMilliseconds < limit else { return false }
      guard current.withLock({ $0 }) == nil else {
        Clock.sleep(milliseconds: 10)
        continue
      }
      do { try run(SynchronizationRun(until: limit), isFirst: false) { _ in } } catch let error as SynchronizationError
        where error.kind == .alreadyRunning || error.kind == .cancelled
      {
        continue
      }
      if try isRefused(token) { throw putAside() }
    }
    return true
  }

  /// Returns whether the peer is known to have applied a commit. False for a commit in quarantine at the peer.
  public func isApplied(_ token: CommitToken) throws -> Bool {
    let run = current.withLock { $0 }
    guard try !isRefused(token) else { return false }
    if let run, run.applied >= token.sequence { return true }
    return try SynchronizationError.wrapping { try ends.sent().journal >= token.sequence }
  }

  private func isRefused(_ token: CommitToken) throws -> Bool {
    try SynchronizationError.wrapping { try ends.isRefused(token) }
  }

  private func putAside() -> SynchronizationError {
    SynchronizationError(
      .refused, "\(peer) refused the commit, or one that it depends on: it is in quarantine there",
      hint:
        "run 'cairn quarantine list --database URL' with the address of the peer to see the cause; then 'cairn quarantine retry N' or 'discard N', which the next synchronisation carries out"
    )
  }

  // MARK: Running

  @discardableResult
  private func run(
    _ run: SynchronizationRun, isFirst: Bool, _ progress: (SynchronizationProgress) -> Void
  ) throws -> SynchronizationOutcome {
    // Within a transaction of this thread, the synchronisation would wait for itself.
    try database.checkIsFree()
    try begin(run)
    defer { current.withLock { $0 = nil } }
    try database.beginSynchronization()
    defer { database.endSynchronization() }
    return try SynchronizationError.wrapping {
      if !isFirst { try ends.checkIsInitialized() }
      return try run.run(ends, options, progress)
    }
  }

  private func begin(_ run: SynchronizationRun) throws {
    try current.withLock { current in
      guard current == nil else {
        throw SynchronizationError(
          .alreadyRunning, "a synchronisation with \(peer) is running", hint: "wait until it ends, or cancel it")
      }
      current = run
    }
  }

  private func runApart(
    isFirst: Bool, _ progress: @escaping @Sendable (SynchronizationProgress) -> Void
  ) async throws -> SynchronizationOutcome {
    let run = SynchronizationRun()
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        do throws(CairnError) {
          try detached {
            continuation.resume(with: Result { try self.run(run, isFirst: isFirst, progress) })
          }
        } catch { continuation.resume(throwing: SynchronizationError(error)) }
      }
    } onCancel: {
      run.cancel()
    }
  }
}

extension Duration {
  var milliseconds: Int64 {
    let (seconds, rest) = components
    return max(0, min(seconds, 1_000_000_000)) * 1000 + rest / 1_000_000_000_000_000
  }
}
