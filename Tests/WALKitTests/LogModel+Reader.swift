import SQLiteFormat

@testable import WALKit

/// The reader of the model, and what must hold in each state.
extension LogModel {
  private static func salts(_ generation: UInt8) -> WALSalts { WALSalts(first: UInt32(generation), second: 0) }

  private static func head(_ head: Head) -> WALHead {
    WALHead(salts: salts(head.generation), frames: UInt32(head.frames))
  }

  /// The look after the head `seen` was read: SQLite's counts and marks may be later ones.
  private func look(_ seen: Head, elapsed: Int64) -> WALLook {
    var marks = SIMD8<UInt32>(repeating: 0)
    for slot in 0..<5 { marks[slot] = self.marks[slot] == Self.unused ? WALLook.unused : UInt32(self.marks[slot]) }
    let locks = WALLocks(isWriting: exclusive[Lock.write] != 0, isCheckpointing: exclusive[Lock.checkpoint] != 0)
    return WALLook(
      head: Self.head(seen), backfilled: UInt32(backfilled), marks: marks, locks: asksLocks ? locks : nil,
      elapsed: elapsed)
  }

  /// One step of the reader: it reads the head, decides, or performs what was decided. Returns a problem.
  mutating func stepReader(elapsed: Int64) -> String? {
    guard let action else {
      guard let seen else {
        seen = head
        return nil
      }
      let wasHeld = holds.isHeld
      let action = holds.next(look(seen, elapsed: elapsed))
      // A reader that attaches begins at the head that its first hold finds. The log cannot begin again since then.
      if !wasHeld, holds.isHeld { readCommit = commits - (head.frames - seen.frames) }
      (self.action, self.seen, asksLocks) = (action, nil, false)
      if case .lost(let loss) = action { return "the reader reports \(loss)" }
      return nil
    }
    switch action {
    case .lock(let slot): end(lockShared(slot, Actor.pin))
    case .unlock(let slot):
      unlockShared(slot, Actor.pin)
      end()
    case .read(let head): return read(head)
    case .checkpoint:
      if ours.step == .idle {
        ours.step = .lock
      } else {
        ours = stepped(ours, Actor.ours)
        if ours.step == .idle { end() }
      }
    case .askLocks:
      asksLocks = true
      end()
    case .pause, .sleep: end()
    case .lost: return "lost"
    }
    return nil
  }

  private mutating func end(_ didSucceed: Bool = true) {
    guard let action else { return }
    holds.finished(action, didSucceed)
    self.action = nil
  }

  /// Reads frames. Each must have the commit that follows the last one.
  private mutating func read(_ head: WALHead) -> String? {
    guard Self.salts(self.head.generation) == head.salts else { return "frames of a log that has begun again" }
    var frame = holds.read.salts == head.salts ? holds.read.frame : 0
    while frame < head.frames {
      guard log[Int(frame)] == readCommit + 1 else { return "commit \(log[Int(frame)]) after \(readCommit)" }
      readCommit += 1
      frame += 1
    }
    end()
    return nil
  }

  // MARK: Properties

  /// Returns what is wrong in a state; nil if nothing is. `former` is the state before the step.
  func problem(after former: LogModel) -> String? {
    if former.holds.isHeld, !holds.isHeld { return "no hold" }
    let beganAgain = head.generation != former.head.generation
    if beganAgain, former.holds.isPinned { return "the log began again under \(former.holds.hold)" }
    // Whatever is committed and unread is in the log.
    guard holds.isHeld, readCommit < commits else { return nil }
    let unread = Int(commits - readCommit)
    guard unread <= Int(head.frames) else { return "\(unread) unread commits, \(head.frames) frames" }
    for index in 0..<unread {
      let frame = Int(head.frames) - unread + index
      if log[frame] != readCommit + UInt8(index) + 1 { return "frame \(frame) has commit \(log[frame])" }
    }
    return nil
  }

  /// The states that may follow, each with the name of its step.
  func successors() -> [(name: String, state: LogModel, problem: String?)] {
    var all: [(String, LogModel, String?)] = []
    func add(_ name: String, _ body: (inout LogModel) -> String?) {
      var next = self
      let found = body(&next)
      guard next != self else { return }
      all.append((name, next, found ?? next.problem(after: self)))
    }
    for index in Actor.writers {
      if writers[index].step != .idle || commits < commitsMax {
        add("writer \(index) \(writers[index].step)") {
          $0.stepWriter(index)
          return nil
        }
      }
      if killsLeft > 0, writers[index].step != .idle {
        add("kill \(index)") {
          $0.kill(index)
          return nil
        }
      }
      if killsLeft > 0, canTear(index) {
        add("tear \(index)") {
          $0.tear(index)
          return nil
        }
      }
    }
    if checkpoint.step != .idle {
      add("checkpoint \(checkpoint.step)") {
        $0.checkpoint = $0.stepped($0.checkpoint, Actor.checkpointer)
        return nil
      }
    } else if checkpointsLeft > 0 {
      for truncates in [false, true] {
        add("checkpoint begins") {
          $0.checkpointsLeft -= 1
          ($0.checkpoint.step, $0.checkpoint.truncates) = (.lock, truncates)
          return nil
        }
      }
    }
    for elapsed in seen != nil && action == nil ? [0, 10] : [0] as [Int64] {
      add("reader \(action.map { "\($0)" } ?? "looks") \(elapsed)") { $0.stepReader(elapsed: elapsed) }
    }
    return all
  }
}
