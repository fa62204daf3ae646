import Changes
import Synchronization
import SystemKit
import Trails

/// The copies of other nodes' trails that this process writes. All transfers and peers share one open copy of each
/// trail.
///
///     let copies = TrailCopies(state: "/var/lib/cairn")
///     copies.folder(TrailName("till.pos")!)   // "/var/lib/cairn/till.pos"
package final class TrailCopies: Sendable {
  private final class Slot: @unchecked Sendable {
    let lock = Mutex<Void>(())
    var copy: TrailCopy?
    var lastUsed: Int64 = 0
  }

  private static let openMax = 500

  /// The state folder, in which the folders of the trails are.
  package let state: String
  private let slots = Mutex<[TrailName: Slot]>([:])

  package init(state: String) { self.state = state }

  package func folder(_ trail: TrailName) -> String { "\(state)/\(trail)" }

  package func exists(_ trail: TrailName) -> Bool { Trail.exists(folder: folder(trail)) }

  /// Calls `body` with the copy of a trail, which no other thread uses meanwhile. An error that leaves the copy in an
  /// unknown state closes the copy. A new copy without data leaves no files.
  package func with<T: Sendable>(_ trail: TrailName, _ body: (TrailCopy) throws -> T) throws -> T {
    let slot = slots.withLock { slots in
      if let slot = slots[trail] { return slot }
      let slot = Slot()
      slots[trail] = slot
      return slot
    }
    defer { closeIdle() }
    return try slot.lock.withLock { _ in
      slot.lastUsed = Clock.monotonicMilliseconds
      do {
        let copy = try slot.copy ?? TrailCopy.open(folder: folder(trail), name: trail)
        slot.copy = copy
        defer {
          if !copy.hasBegun {
            copy.discard()
            slot.copy = nil
          }
        }
        return try body(copy)
      } catch let error as CairnError {
        if ![.trailElsewhere, .trailForked, .busy].contains(error.code) {
          try? slot.copy?.close()
          slot.copy = nil
        }
        throw error
      }
    }
  }

  /// Deletes a copy from the disk if `isGone` returns true. Returns whether the copy was deleted.
  package func remove(_ trail: TrailName, if isGone: (TrailCopy) throws -> Bool) throws -> Bool {
    try with(trail) { copy in
      guard copy.hasBegun, try isGone(copy) else { return false }
      try copy.remove()
      return true
    }
  }

  /// Closes all copies, and releases their locks.
  package func close() {
    for slot in slots.withLock({ Array($0.values) }) {
      slot.lock.withLock { _ in
        try? slot.copy?.close()
        slot.copy = nil
      }
    }
  }

  private func closeIdle() {
    let surplus = slots.withLock { slots -> [Slot] in
      guard slots.count > Self.openMax else { return [] }
      let oldest = slots.sorted { $0.value.lastUsed < $1.value.lastUsed }.prefix(slots.count - Self.openMax)
      for (name, _) in oldest { slots[name] = nil }
      return oldest.map(\.value)
    }
    for slot in surplus {
      slot.lock.withLock { _ in
        try? slot.copy?.close()
        slot.copy = nil
      }
    }
  }
}
