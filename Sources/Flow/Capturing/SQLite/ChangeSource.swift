import SystemKit
import Trails

/// A way to find the changes of an SQLite file. ``CaptureLoop`` uses only this interface.
///
/// One look is one snapshot of the file. The trail gets all of a look, or, if `write` throws, nothing of it. The trail
/// is durable before `finish`, so the source may then forget what it kept for the look.
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
  /// The content of one look; the source holds the look's snapshot until `write` returns.
  associatedtype Look: ChangeLook

  /// Whether commits that contain only notes of applies are taken into the trail at once. If not, they wait for a
  /// second, so that one transaction of the trail takes many commits of a busy apply.
  var takesNotesAtOnce: Bool { get set }
  /// The time until the next call of ``look()`` may find something although no application commits, ms.
  var idleMilliseconds: Int32 { get }

  /// Continues where an earlier run ended. It is called once, before the first look.
  func begin() throws
  /// Looks at the file for changes that can be taken into the trail now.
  func look() throws -> Found<Look>
  /// Writes everything of the look to the trail. Throws ``CaptureStopped`` if `stop` is set meanwhile.
  func write(_ look: Look, stop: StopSignal) throws
  /// Notes that the trail has the look durably, so that the source may forget the look's changes.
  func finish(_ look: Look) throws
  /// Ends a look, whether it succeeded or failed.
  func endLook()
  /// Returns whether the file has changes that no look has seen; begins no transaction.
  func hasNews() throws -> Bool
  /// Uses a quiet moment to write to the file, for example to purge. It must not wait for an application, nor make one
  /// wait.
  func rest() throws
  /// Gives up the look's snapshot after an error, because an application holds the file's lock.
  func release()
  /// Throws the error for a source whose tables of capture are gone. It is called after an SQL error.
  func checkParts() throws
  /// Ends the run of capture: the source writes its last mark.
  func end() throws
}

/// The content of a look at a source.
protocol ChangeLook {
  /// The time at which the look began, µs since 1970; `begun` is the same in monotonic µs.
  var readAt: Int64 { get }
  var begun: Int64 { get }
}

/// The result of a look at a source.
enum Found<Look> {
  case nothing
  /// The source had to adapt first, for example to a changed schema. That is done: look again.
  case settled
  case found(Look)
}

/// The error for a stop signal that was set while capture writes a look to the trail. The trail discards the part
/// already written, and the next run reads these changes again.
struct CaptureStopped: Error {}
