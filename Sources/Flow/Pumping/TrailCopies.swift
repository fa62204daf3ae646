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
  // The threads that count as `users` use `copy` one after the other, with `lock`.
  private final class Slot: @unchecked Sendable {
    let lock = Mutex<Void>(())
    var copy: TrailCopy?
  }

  private struct Entry {
    let slot: Slot
    var users = 0
    var lastUsed: Int64 = 0
  }

  /// The most copies that stay open while no thread uses them.
  private let openMax: Int

  /// The state folder, in which the folders of the trails are.
  package let state: String
  // The copies that are open or in use.
  private let slots = Mutex<[TrailName: Entry]>([:])

  package init(state: String, openMax: Int = 500) { (self.state, self.openMax) = (state, openMax) }

  package func folder(_ trail: TrailName) -> String { "\(state)/\(trail)" }

  package func exists(_ trail: TrailName) -> Bool { Trail.exists(folder: folder(trail)) }

  /// Calls `body` with the copy of a trail, which no other thread uses meanwhile. An error that leaves the copy in an
  /// unknown state closes the copy. A new copy without data leaves no files.
  package func with<T: Sendable>(_ trail: TrailName, _ body: (TrailCopy) throws -> T) throws -> T {
    let slot = slots.withLock { slots in
      let slot = slots[trail]?.slot ?? Slot()
      slots[trail, default: Entry(slot: slot)].users += 1
      return slot
    }
    defer {
      leave(trail)
      closeIdle()
    }
    return try slot.lock.withLock { _ in
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
    for slot in slots.withLock({ $0.values.map(\.slot) }) {
      slot.lock.withLock { _ in
        try? slot.copy?.close()
        slot.copy = nil
      }
    }
  }

  /// The number of copies that are open or in use.
  var count: Int { slots.withLock { $0.count } }

  /// Returns whether a copy is open or in use.
  func isOpen(_ trail: TrailName) -> Bool { slots.withLock { $0[trail] != nil } }

  // Ends a use of a copy. A copy that is not open keeps no place, so that invented names close no copies of others.
  private func leave(_ trail: TrailName) {
    slots.withLock { slots in
      guard var entry = slots[trail] else { return }
      entry.users -= 1
      entry.lastUsed = Clock.monotonicMilliseconds
      slots[trail] = entry.users == 0 && entry.slot.copy == nil ? nil : entry
    }
  }

  private func closeIdle() {
    while let (trail, slot) = slots.withLock({ surplus(&$0) }) {
      slot.lock.withLock { _ in
        try? slot.copy?.close()
        slot.copy = nil
      }
      leave(trail)
    }
  }

  // Takes into use the copy to be closed: of the node whose trails have the most open copies, the one that was used
  // longest ago. So the many trails of one node close no copies of others.
  private func surplus(_ slots: inout [TrailName: Entry]) -> (TrailName, Slot)? {
    guard slots.count > openMax else { return nil }
    let idle = slots.filter { $0.value.users == 0 }
    let nodes = Dictionary(grouping: idle.keys) { NameKey($0.origin) }
    let most = nodes.values.max { $0.count < $1.count } ?? []
    let oldest = most.min { idle[$0]?.lastUsed ?? 0 < idle[$1]?.lastUsed ?? 0 }
    guard let oldest, let entry = slots[oldest] else { return nil }
    slots[oldest]?.users += 1
    return (oldest, entry.slot)
  }
}
