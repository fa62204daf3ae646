import SystemKit
import Trails

/// A way to find the changes of an SQLite file. ``CaptureLoop`` uses only this interface.
///
/// One reading (look) is one snapshot of the file. The trail gets all of the reading, or, if `write` throws, nothing of
/// it. The trail is durable before `finish`, so the source may then forget the changes.
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
  /// The changes of one reading of the file; the source keeps the snapshot open until `write` returns.
  associatedtype Look: ChangeLook

  /// Whether commits that contain only applied notes go into the trail at once. If not, they wait for a second, so that
  /// one transaction of the trail contains many of them.
  var takesNotesAtOnce: Bool { get set }
  /// The longest pause before the next call of ``look()``, ms: after that time, work may be due even if no application
  /// commits.
  var idleMilliseconds: Int32 { get }

  /// Continues where an earlier run ended. It is called once, before the first call of ``look()``.
  func begin() throws
  /// Opens a snapshot of the file, and returns the changes that can be written to the trail now.
  func look() throws -> Found<Look>
  /// Writes all changes of one reading to the trail. Throws ``CaptureStopped`` if `stop` is set meanwhile.
  func write(_ look: Look, stop: StopSignal) throws
  /// Ends one reading after its changes have become durable in the trail, so that the source may forget them.
  func finish(_ look: Look) throws
  /// Ends one reading of the file, whether it succeeded or failed.
  func endLook()
  /// Returns whether the file has changes that ``look()`` has not seen; begins no transaction.
  func hasNews() throws -> Bool
  /// Writes to the file while no application does, for example to purge. It must not wait for an application, nor make
  /// one wait.
  func rest() throws
  /// Gives up the snapshot of the present reading after an error, because an application holds the file's lock.
  func release()
  /// Throws an error if an application has dropped Cairn's tables in the source. It is called after an SQL error.
  func checkParts() throws
  /// Ends the run of capture: records in the source which change is the last one in the trail.
  func end() throws
}

/// The changes that one reading of a source found.
protocol ChangeLook {
  /// The time at which the reading began, µs since 1970; `begun` is the same time in monotonic µs.
  var readAt: Int64 { get }
  var begun: Int64 { get }
}

/// The result of reading a source once.
enum Found<Look> {
  case nothing
  /// The source first had to adapt, for example to a changed schema. That is done: read the source again.
  case settled
  case found(Look)
}

/// The error if the stop signal is set while capture writes to the trail. The open transaction of the trail is dropped,
/// and the next run reads its changes again.
struct CaptureStopped: Error {}
