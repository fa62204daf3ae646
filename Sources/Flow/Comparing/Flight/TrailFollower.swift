import Applying
import Capturing
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import Trails

/// The location of a replication's trail: the state folder, and the folder of the trail in it.
///
///     TrailPlace(state: "/var/lib/cairn", name: name).folder   // "/var/lib/cairn/till.pos"
package struct TrailPlace: Sendable {
  /// The state folder. A Cairn process that replicates holds the lock of this folder.
  package let state: String
  package let name: TrailName
  package var folder: String { state + "/" + name.description }
  package init(state: String, name: TrailName) { (self.state, self.name) = (state, name) }
}

/// Reads a trail to find the rows that were in flight between two reads.
final class TrailFollower {
  let place: TrailPlace
  private let stop: StopSignal
  private var reader: TrailReader?
  var isStalled = false

  init(_ place: TrailPlace, stop: StopSignal) { (self.place, self.stop) = (place, stop) }

  var isRunning: Bool {
    guard let file = try? File(place.state + "/lock", .read), let isFree = try? file.tryLock() else { return false }
    try? file.close()
    return !isFree
  }

  /// Moves to the durable end of the trail. Returns false if the trail is not open yet and the target has no checkpoint
  /// at which to open it.
  ///
  /// - Parameter checkpoint: Returns the target's checkpoint, from which on the trail is not purged.
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

  func go(to checkpoint: Checkpoint) throws { reader = try TrailReader.open(folder: place.folder, at: checkpoint) }

  /// Returns the reader of the trail. Requires an earlier call of ``goToEnd(_:)``.
  func current() throws -> TrailReader {
    guard let reader else {
      throw CairnError(.bug, "the trail \(place.name) is not open", hint: "please report this", remedy: .bug)
    }
    return reader
  }

  func reach(_ engine: Engine) throws -> SourceReach? {
    try reader?.lastSourcePosition.map { try SourceReach(decoding: $0, of: engine) }
  }

  func reset() { reader = nil }

  /// Passes records to `take` up to the end of a transaction after which `isEnough` returns true. Returns false if the
  /// durable end of the trail comes first.
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
