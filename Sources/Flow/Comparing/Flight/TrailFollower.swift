import Applying
import Capturing
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import Trails

/// The location of a replication's trail: the state folder, and the folder of the trail in it.
package struct TrailPlace: Sendable {
  /// The state folder. A Cairn process that replicates with this folder holds the folder's lock.
  package let state: String
  package let name: TrailName
  package var folder: String { state + "/" + name.description }
  package init(state: String, name: TrailName) { (self.state, self.name) = (state, name) }
}

/// Follows a trail to find the rows that were in flight between two reads.
final class TrailFollower {
  let place: TrailPlace
  private let stop: StopSignal
  private var reader: TrailReader?
  /// Whether the last wait for the trail or the target timed out.
  var isStalled = false

  init(_ place: TrailPlace, stop: StopSignal) { (self.place, self.stop) = (place, stop) }

  /// Whether a Cairn process is replicating with this state folder now.
  var isRunning: Bool {
    guard let file = try? File(place.state + "/lock", .read), let isFree = try? file.tryLock() else { return false }
    try? file.close()
    return !isFree
  }

  /// Moves the reading position to the current durable end of the trail. Returns false if there is no checkpoint to
  /// start from.
  /// - Parameter checkpoint: Returns the target's checkpoint, whose segment is not purged.
  func goToEnd(_ checkpoint: () throws -> Checkpoint?) throws -> Bool {
    if let reader {
      do {
        while try reader.next() != nil {}
        return true
      } catch is CairnError {
        // The segment at this position was purged since the last read.
        self.reader = nil
      }
    }
    guard let checkpoint = try checkpoint() else { return false }
    let opened = try TrailReader.open(folder: place.folder, at: checkpoint)
    reader = opened
    while try opened.next() != nil {}
    return true
  }

  /// Moves the reading position to a checkpoint.
  func go(to checkpoint: Checkpoint) throws { reader = try TrailReader.open(folder: place.folder, at: checkpoint) }

  /// Returns the reader of the trail at the current position. Call ``goToEnd(_:)`` first.
  func current() throws -> TrailReader {
    guard let reader else {
      throw CairnError(.bug, "the trail \(place.name) is not open", hint: "please report this", remedy: .bug)
    }
    return reader
  }

  func reach(_ engine: Engine) throws -> SourceReach? {
    try reader?.lastSourcePosition.map { try SourceReach(decoding: $0, of: engine) }
  }

  /// Forgets the reading position after an error.
  func reset() { reader = nil }

  /// Passes records to `take` until a transaction ends for which `isEnough` returns true. Returns false if the trail
  /// ends before that; a later call continues there.
  func read(_ take: (Record, TrailReader) throws -> Void, until isEnough: (TrailReader) throws -> Bool) throws -> Bool {
    let reader = try current()
    while let record = try reader.next() {
      try reader.decoding { try take(record, reader) }
      if case .commit = record, try isEnough(reader) {
        reader.pause()
        return true
      }
    }
    return false
  }
}
