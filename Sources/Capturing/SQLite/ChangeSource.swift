import SystemKit
import Trails

/// A way of finding the changes of an SQLite file. ``CaptureLoop`` knows nothing else of it.
///
/// One look is one snapshot of the file. It goes into the trail whole, or, if `write` throws, not at all. The trail is
/// durable before `finish`, so the source may then forget what it kept for the look.
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
  /// What one look found; the source holds its snapshot until `write` returns.
  associatedtype Look: ChangeLook

  /// Whether the last commits, if they are nothing but notes of applies, are taken at once. If not, they wait for a
  /// second, so that a busy apply makes no transaction of the trail for each of its own.
  var takesNotesAtOnce: Bool { get set }
  /// The time until the next call of ``look()`` may find something although nothing is committed, ms.
  var idleMilliseconds: Int32 { get }

  /// Continues where an earlier run ended. Called once, before the first look.
  func begin() throws
  /// Looks for what can be taken now.
  func look() throws -> Found<Look>
  /// Writes everything of the look to the trail. Throws ``CaptureStopped`` if `stop` is set meanwhile.
  func write(_ look: Look, stop: StopSignal) throws
  /// Takes note that the trail has the look, durably.
  func finish(_ look: Look) throws
  /// Ends a look, whatever came of it.
  func endLook()
  /// Returns whether there is something new, without a transaction.
  func hasNews() throws -> Bool
  /// Uses a quiet moment: whatever the source writes to the file must not wait for an application, nor hold one up.
  func rest() throws
  /// Gives up the snapshot after an error: an application holds the file's lock.
  func release()
  /// Throws the error for a source in which capture's own parts are gone. Called after an SQL error.
  func checkParts() throws
  /// Ends the run.
  func end() throws
}

/// What a look found.
protocol ChangeLook {
  /// When the look began, µs since 1970; and in monotonic µs.
  var readAt: Int64 { get }
  var begun: Int64 { get }
}

/// The result of a look.
enum Found<Look> {
  case nothing
  /// There was something to do, such as a changed schema, before anything can be taken. It is done.
  case settled
  case found(Look)
}

/// The stop signal was set while a look was written. The trail drops what it has of it, and the next run takes it.
struct CaptureStopped: Error {}
