import SystemKit
import Trails

/// A way to find the changes of an SQLite file, for ``CaptureLoop``. The trail gets all changes of one reading (`Look`)
/// or none of them.
///
///     switch try source.look() {
///     case .nothing: …                          // wait
///     case .settled: …                          // look again
///     case .found(let look):
///       try source.write(look, stop: stop)
///       try trail.sync()
///       try source.finish(look)
///     }
///     source.endLook()
protocol ChangeSource: AnyObject {
  /// The changes of one reading. The source keeps the snapshot open until `write` returns.
  associatedtype Look: ChangeLook

  /// Whether commits with only applied notes go into the trail at once. If not, such commits wait up to a second.
  var takesNotesAtOnce: Bool { get set }
  /// The longest pause before the next call of ``look()`` if no application commits, ms.
  var idleMilliseconds: Int32 { get }

  /// Continues where the last run of capture ended; called once, before the first ``look()``.
  func begin() throws
  /// Opens a snapshot of the file, and returns the changes that can be written to the trail now.
  func look() throws -> Found<Look>
  /// Writes all changes of one reading to the trail. Throws ``CaptureStopped`` if `stop` is set meanwhile.
  func write(_ look: Look, stop: StopSignal) throws
  /// Ends one reading after its changes are durable in the trail, so that the source may forget these changes.
  func finish(_ look: Look) throws
  /// Called after each reading, whether it succeeded or failed. Releases the lock that keeps two-way applies from
  /// writing, if the reading took it.
  func endLook()
  /// Returns whether the file has changes that ``look()`` has not seen. Opens no transaction.
  func hasNews() throws -> Bool
  /// Does work that is not urgent, such as a purge of the journal. Does not wait for locks of applications.
  func rest() throws
  /// Forgets the present reading after an error. The caller then waits for the file's lock.
  func release()
  /// Throws an error if an application has dropped Cairn's tables. Called after an SQL error.
  func checkParts() throws
  /// Ends the run: stores in the source the place of the last change in the trail.
  func end() throws
}

/// The changes that one reading of a source found.
protocol ChangeLook {
  /// The time at which the reading began, in µs since 1970 and in monotonic µs.
  var readAt: Int64 { get }
  var begun: Int64 { get }
}

/// The result of reading a source once.
enum Found<Look> {
  case nothing
  /// The source did other work than reading changes, such as adapting to a changed schema; read it again.
  case settled
  case found(Look)
}

/// The stop signal was set while capture wrote to the trail. The next run reads all unwritten
/// changes again.
struct CaptureStopped: Error {
  /// Reports that the calling thread is alive. Throws if the thread's stop signal is set.
  static func check() throws {
    Pulse.beat()
    if Pulse.isToEnd { throw CaptureStopped() }
  }
}
