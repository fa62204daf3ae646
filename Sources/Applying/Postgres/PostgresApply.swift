import Changes
import Mapping
import PostgresKit
import SystemKit
import Trails

/// Applies a trail to a PostgreSQL database: whole transactions, in order, with the checkpoint in the same commit.
///
/// One blocking worker on one thread. Small transactions share a commit. A row that is not as the trail says it must be
/// stops apply with an error that names it; nothing of its transaction stays. A server that goes away is waited for, and
/// asked for the checkpoint when it is back: its last answer may have been lost with the connection.
package final class PostgresApply {
  package typealias Options = ApplyOptions

  /// `stop` was set in the middle of a group, which was rolled back.
  struct Stopped: Error {}

  private static let conflictsMax = 10
  private static let waitMillisecondsMax: Int64 = 5000
  /// How long a server may be away while `drain` is set.
  private static let awayMillisecondsMax: Int64 = 60_000

  private let uri: String
  private let folder: String
  private let name: TrailName
  private let options: Options
  private let clock: Clock
  private let progress: ApplyProgress
  private var connection: PostgresConnection?
  private var replay: PostgresReplay?
  /// Transactions up to this one are applied carefully.
  private var carefulThrough: UInt64 = 0
  private var purgedBelow: UInt64 = 0

  /// Connects to a target and proves that apply could write to it, without a trace; the connection is the caller's.
  package static func prove(_ uri: String) throws -> PostgresConnection {
    do { return try PostgresApplySession.prove(uri) } catch let error as PostgresError { throw error.asCairnError }
  }

  /// Connects and opens the trail. Errors: what ``PostgresError`` maps to; `checkpoint-foreign` when the target was fed
  /// from another trail, or needs what the trail no longer has.
  package init(
    uri: String, trail folder: String, name: TrailName, options: Options, clock: Clock = .system,
    progress: ApplyProgress = .init()
  ) throws {
    (self.uri, self.folder, self.name, self.options, self.clock, self.progress) =
      (uri, folder, name, options, clock, progress)
    do { _ = try ready(nil) } catch let error as PostgresError { throw error.asCairnError }
  }

  /// Applies until `stop` is set, which is seen within a second, or at once when `drain` is set with it; once `drain` is
  /// set, until the trail's end is reached.
  package func run(stop: StopSignal, drain: StopSignal) throws {
    connection?.interrupt = stop.descriptor
    defer { close() }
    var conflicts = 0
    var awaySince: Int64?
    var wait: Int64 = 100
    while !stop.isSet {
      // Asked before the trail is read: what was appended before `drain` was set is still found.
      let isLast = drain.isSet
      do {
        let replay = try ready(stop)
        if awaySince != nil { progress.update { $0.isReconnecting = false } }
        (awaySince, wait) = (nil, 100)
        if try step(replay, stop) {
          conflicts = 0
          continue
        }
        try replay.keepUpIdentities(isLast: isLast)
        progress.update { $0.isCaughtUp = true }
        if isLast { return }
        _ = try replay.reader.wait(milliseconds: drain.isSet ? 0 : 1000, also: drain.descriptor)
      } catch is Stopped {
        return
      } catch let error as PostgresError {
        forget()
        if stop.isSet { return }
        if error.isServerGone {
          connection = nil
          let now = Clock.monotonicMilliseconds
          let since = awaySince ?? now
          awaySince = since
          progress.update { $0.isReconnecting = true }
          if drain.isSet, now - since > Self.awayMillisecondsMax { throw error.asCairnError }
        } else if error.isTransient || error.isCancelled {
          conflicts += 1
          guard conflicts < Self.conflictsMax else { throw error.asCairnError }
        } else {
          throw error.asCairnError
        }
        // Others may be waiting for the same: not all of them come back at once.
        if stop.wait(milliseconds: Int32(wait + Int64.random(in: 0...wait / 2))) { return }
        wait = min(wait * 2, Self.waitMillisecondsMax)
      } catch let error as CairnError
        where awaySince != nil && [.databaseBusy, .databaseReadOnly].contains(error.code)
      {
        // The session that was cut off still holds the replication origin, or a standby is not yet promoted.
        close()
        if stop.wait(milliseconds: Int32(wait)) { return }
        wait = min(wait * 2, Self.waitMillisecondsMax)
        if Clock.monotonicMilliseconds - (awaySince ?? 0) > Self.awayMillisecondsMax { throw error }
      }
    }
  }

  /// One group; carefully again where it was not taken as a whole.
  private func step(_ replay: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    do {
      guard try replay.applyAvailable(stop) else { return false }
    } catch let fault as PostgresSink.Fault {
      guard !replay.isCareful else {
        throw fault.error
          ?? PostgresError(
            sqlState: "", message: "a statement of cairn touched no row", place: replay.connection.place,
            isConnectionLost: false)
      }
      carefulThrough = max(replay.number, 1)
      forget()
      return true
    }
    if replay.isCareful, replay.number >= carefulThrough { forget() }
    try purge(replay)
    return true
  }

  private func purge(_ replay: PostgresReplay) throws {
    guard options.purgesTrail, replay.position.segment > purgedBelow else { return }
    purgedBelow = replay.position.segment
    _ = try Trail.purge(folder: folder, below: replay.position)
  }

  /// The replication origin is free for another session then.
  private func close() {
    forget()
    connection = nil
  }

  private func forget() {
    replay?.abandon()
    replay = nil
  }

  private func ready(_ stop: StopSignal?) throws -> PostgresReplay {
    if let replay { return replay }
    let connection = try self.connection ?? PostgresApplySession.open(uri, trail: name)
    connection.interrupt = stop?.descriptor ?? -1
    let progress = self.progress
    connection.onWait = {
      // Somebody's long transaction: it is told, and waited for.
      progress.update { $0.isWaitingForLock = true }
      return true
    }
    self.connection = connection
    let applied = try PostgresTargetState(connection).checkpoint(of: name)?.number ?? 0
    let made = try PostgresReplay(
      connection, trail: folder, name: name, options: options, clock: clock, progress: progress,
      isCareful: applied < carefulThrough)
    replay = made
    return made
  }
}
