import Capturing
import Changes
import Operating
import Synchronization
import SystemKit
import Trails

/// Brings a database of this program and another one to the same rows, both ways, whenever it is asked to: without a daemon,
/// on a thread of the caller.
///
/// ```swift
/// let sync = try Synchronizer(shop, with: "postgresql://till@db.example/shop")
/// try sync.initialize()                  // once: schema and rows come down
/// let outcome = try sync.synchronize()   // whenever there is a line: both ways, all that was committed up to now
/// print(outcome.sent, outcome.received, outcome.conflicts)
/// ```
///
/// The database stays open meanwhile, and the program goes on reading and writing. Whatever interrupts a synchronisation (a
/// lost line, ``cancel()``, `kill -9`, a power cut), the next one goes on: nothing is lost or applied twice. A row that was
/// written at both ends is settled alike at both: the later write wins, and the other one is kept (`cairn conflicts list`).
///
/// What it needs of a PostgreSQL server is told in `docs/embedding.md`. Any thread may use it; one synchronisation runs at a
/// time. Nothing here may be called inside of a transaction of the database.
public final class Synchronizer: Sendable {
  /// What can be chosen.
  public struct Options: Sendable {
    /// From where to where the tables and rows go that are there at the beginning.
    public enum FirstCopy: Sendable, Hashable {
      /// From the peer into the database of the program.
      case down
      /// From the database of the program to the peer.
      case up
    }
    /// What becomes of a transaction that an end does not take for its rows: a constraint, a value that does not fit.
    public enum Refusal: Sendable, Hashable {
      /// The synchronisation ends with an error at it, and goes on from there the next time.
      case stop
      /// It is put aside (`cairn quarantine list`), with those that need it, and all others go on.
      case setAside
    }
    /// What the change of a table does at the other end.
    public enum SchemaChanges: Sendable, Hashable {
      /// The other end's table is changed in the same way.
      case follow
      /// The table waits until a person has changed it there, too; others go on.
      case stop
      /// The other end's table stays as it is.
      case ignore
    }

    /// The folder for trails and checkpoints; nil: beside the database, `shop.db-cairn`.
    public var state: String?
    /// Tables that go both ways, by name or pattern; `!` takes some out: `["*", "!tmp_*"]`.
    public var tables = ["*"]
    /// Has no effect once the first copy has begun: the state folder knows then where it came from.
    public var firstCopy = FirstCopy.down
    /// The first copy may replace rows that the database it goes to holds already.
    public var overwrites = false
    public var refusal = Refusal.stop
    /// How a row is settled that both ends wrote: `newest`, `oldest`, `priority:NODE,NODE` … (`docs/conflicts.md`). All programs
    /// with one peer have the same rules.
    public var conflict = "newest"
    /// The same of single columns, by `TABLE.COLUMN`: `["item.stock": "delta"]`.
    public var columnConflicts: [String: String] = [:]
    /// Of what was committed here since the last synchronisation, what cancels out is not sent: a row that was inserted and
    /// deleted goes nowhere, one that was changed ten times goes once. All of it then arrives as one transaction.
    public var folds = false
    /// Nil: tables that were made by a first copy follow, all others wait.
    public var schemaChanges: SchemaChanges?
    public init() {}
  }

  /// The database of the program.
  public let database: CapturedDatabase
  /// Where the other one is, without a password.
  public let peer: String
  private let ends: SynchronizedEnds
  private let options: Options
  private let current = Mutex<SynchronizationRun?>(nil)

  /// Writes nothing, and does not connect yet. `peer`: `postgresql://user@host/db` (any URI of libpq), `sqlite:other.db` or
  /// `sqlite:///folder/other.db`.
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

  /// Makes the tables that are missing and copies the rows that are there, from the peer down (or up, as ``Options`` say);
  /// then it is as ``synchronize(progress:)``. Once it is done, to call it again does just that.
  ///
  /// Throws ``SynchronizationError`` of kind `rowsInTheWay` where the end that it copies to holds rows already.
  @discardableResult
  public func initialize(
    progress: (SynchronizationProgress) -> Void = { _ in }
  ) throws -> SynchronizationOutcome { try run(SynchronizationRun(), isFirst: true, progress) }

  /// Brings everything that was committed at either end up to now to the other one.
  @discardableResult
  public func synchronize(
    progress: (SynchronizationProgress) -> Void = { _ in }
  ) throws -> SynchronizationOutcome { try run(SynchronizationRun(), isFirst: false, progress) }

  /// The same for tasks: it blocks no thread of theirs. A task that is cancelled cancels it.
  @discardableResult
  public func initialize(
    progress: @escaping @Sendable (SynchronizationProgress) -> Void = { _ in }
  ) async throws -> SynchronizationOutcome { try await runApart(isFirst: true, progress) }

  /// The same for tasks: it blocks no thread of theirs. A task that is cancelled cancels it.
  @discardableResult
  public func synchronize(
    progress: @escaping @Sendable (SynchronizationProgress) -> Void = { _ in }
  ) async throws -> SynchronizationOutcome { try await runApart(isFirst: false, progress) }

  /// Ends what is under way at the next border of a transaction; its caller gets an error of kind `cancelled`. Any thread may
  /// call it, also when nothing is under way.
  public func cancel() { current.withLock { $0 }?.cancel() }

  // MARK: What becomes of it

  /// What was committed here and is not known to be at the peer. It is asked of the file, not of the peer.
  public var pending: SynchronizationPending {
    get throws {
      let inFile = try database.pending
      return try SynchronizationError.wrapping {
        SynchronizationPending(inFile: inFile, unsent: try ends.unsent())
      }
    }
  }

  /// Waits until a commit is at the peer, with all that was committed here before it: who reads there afterwards reads it. A
  /// synchronisation that is under way is waited for; where there is none, one is made.
  ///
  /// False where that took longer than `timeout`. Throws what ``synchronize(progress:)`` throws, and an error of kind `refused`
  /// where the peer did not take the commit and it is put aside (``Options/Refusal/setAside``); others before it may be, too.
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

  /// Whether a commit is known to be at the peer.
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
      .refused, "\(peer) did not take the commit, or one that it depends on: it is put aside there",
      hint:
        "'cairn quarantine list --database URL' says why, with the peer's address; 'retry' there once it can be taken, or 'discard', is done by the next synchronisation"
    )
  }

  // MARK: Running

  @discardableResult
  private func run(
    _ run: SynchronizationRun, isFirst: Bool, _ progress: (SynchronizationProgress) -> Void
  ) throws -> SynchronizationOutcome {
    // In a transaction of this thread it would wait for itself.
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
          .alreadyRunning, "a synchronisation with \(peer) is under way", hint: "wait until it ends, or cancel it")
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
        detached {
          continuation.resume(with: Result { try self.run(run, isFirst: isFirst, progress) })
        }
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
