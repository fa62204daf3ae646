import SQLiteFormat

@testable import WALKit

/// A small model of SQLite's write-ahead log: two writers, a checkpointer, and the reader that ``WALHolds`` decides for.
///
/// Each commit is one frame, with a number that rises by one. A step is what SQLite does between two points at which
/// another process can see a difference. Source: wal.c, walTryBeginRead, walRestartLog, walRestartHdr, walCheckpoint.
struct LogModel: Hashable {
  static let unused: UInt8 = 0xff

  enum Lock { static let write = 5, checkpoint = 6 }
  enum Actor { static let writers = 0..<2, checkpointer = 2, pin = 3, ours = 4 }

  struct Head: Hashable {
    var generation: UInt8 = 1
    var frames: UInt8 = 0
  }

  /// The steps of walTryBeginRead.
  enum Begin: Hashable { case readHead, choose, confirmZero, lock, confirm, begun }

  struct Reading: Hashable {
    var step = Begin.readHead
    var head = Head()
    var slot = 0
    var mark: UInt8 = 0
  }

  enum WriterStep: Hashable {
    case idle, begin, lock, confirm, restart, restartHead, restartCounts, restartUnlock, leaveZero, beginAgain, append,
      publish, unlock, end
  }

  struct Writer: Hashable {
    var step = WriterStep.idle
    var reading = Reading()
  }

  enum CheckpointStep: Hashable {
    case idle, lock, readHead, slots, lockZero, copied, unlockZero, restart, restartCounts, unlock
  }

  struct Checkpoint: Hashable {
    var step = CheckpointStep.idle
    var head = Head()
    var safe: UInt8 = 0
    var slot = 1
    var truncates = false
  }

  // The wal-index and the file.
  var head = Head()
  var backfilled: UInt8 = 0
  var marks = SIMD8<UInt8>(0, 0, 0xff, 0xff, 0xff, 0, 0, 0)
  /// The owner of each exclusive lock plus one; 0 if it is free. Five slots, the write lock, the checkpoint lock.
  var exclusive = SIMD8<UInt8>(repeating: 0)
  /// The actors that share each slot, one bit each.
  var shared = SIMD8<UInt8>(repeating: 0)
  /// The commit that each frame of the file has.
  var log = SIMD8<UInt8>(repeating: 0)
  var commits: UInt8 = 0

  var writers = [Writer(), Writer()]
  var checkpoint = Checkpoint()
  var ours = Checkpoint()
  var checkpointsLeft: UInt8
  var killsLeft: UInt8

  // The reader.
  var holds: WALHolds
  var action: WALHolds.Action?
  var seen: Head?
  var asksLocks = false
  /// The last commit that the reader has.
  var readCommit: UInt8 = 0
  /// Whether checkpoints have SQLite's WAL-reset bug.
  let hasResetBug: Bool
  let commitsMax: UInt8

  init(commits: UInt8, checkpoints: UInt8, kills: UInt8, hasResetBug: Bool, holds: WALHolds) {
    (commitsMax, checkpointsLeft, killsLeft, self.hasResetBug) = (commits, checkpoints, kills, hasResetBug)
    self.holds = holds
  }

  // MARK: Locks

  mutating func lockShared(_ slot: Int, _ actor: Int) -> Bool {
    guard exclusive[slot] == 0 else { return false }
    shared[slot] |= 1 << UInt8(actor)
    return true
  }

  mutating func unlockShared(_ slot: Int, _ actor: Int) { shared[slot] &= ~(1 << UInt8(actor)) }

  func isFree(_ lock: Int) -> Bool { exclusive[lock] == 0 && shared[lock] == 0 }

  /// Takes all of the locks or none of them.
  mutating func lockExclusive(_ locks: ClosedRange<Int>, _ actor: Int) -> Bool {
    guard locks.allSatisfy({ isFree($0) }) else { return false }
    for lock in locks { exclusive[lock] = UInt8(actor) + 1 }
    return true
  }

  mutating func unlockExclusive(_ locks: ClosedRange<Int>) { for lock in locks { exclusive[lock] = 0 } }

  // MARK: Reading

  /// One step of the begin of a read transaction. It begins again until it has a slot.
  mutating func stepped(_ former: Reading, _ actor: Int) -> Reading {
    var reading = former
    switch reading.step {
    case .readHead: (reading.head, reading.step) = (head, .choose)
    case .choose:
      if backfilled == reading.head.frames {
        reading.slot = 0
        reading.step = lockShared(0, actor) ? .confirmZero : .readHead
        return reading
      }
      var best = 0
      for slot in 1...4 where marks[slot] <= reading.head.frames {
        if best == 0 || marks[slot] > marks[best] { best = slot }
      }
      if best == 0 || marks[best] < reading.head.frames, let free = (1...4).first(where: { isFree($0) }) {
        marks[free] = reading.head.frames
        best = free
      }
      (reading.slot, reading.mark) = (best, marks[best])
      reading.step = best == 0 ? .readHead : .lock
    case .confirmZero:
      reading.step = head == reading.head ? .begun : .readHead
      if reading.step == .readHead { unlockShared(0, actor) }
    case .lock: reading.step = lockShared(reading.slot, actor) ? .confirm : .readHead
    case .confirm:
      let isSame = marks[reading.slot] == reading.mark && head == reading.head
      reading.step = isSame ? .begun : .readHead
      if !isSame { unlockShared(reading.slot, actor) }
    case .begun: break
    }
    return reading
  }

  // MARK: Writers

  mutating func stepWriter(_ index: Int) {
    var writer = writers[index]
    defer { writers[index] = writer }
    switch writer.step {
    case .idle: (writer.step, writer.reading) = (.begin, Reading())
    case .begin, .beginAgain:
      writer.reading = stepped(writer.reading, index)
      if writer.reading.step == .begun { writer.step = writer.step == .begin ? .lock : .append }
    case .lock: writer.step = lockExclusive(Lock.write...Lock.write, index) ? .confirm : .end
    case .confirm: writer.step = head == writer.reading.head ? .restart : .unlock
    case .restart:
      guard writer.reading.slot == 0 else {
        writer.step = .append
        return
      }
      writer.step = backfilled > 0 && lockExclusive(1...4, index) ? .restartHead : .leaveZero
    case .restartHead:
      beginAgain()
      writer.step = .restartCounts
    case .restartCounts:
      resetCounts()
      writer.step = .restartUnlock
    case .restartUnlock:
      unlockExclusive(1...4)
      writer.step = .leaveZero
    case .leaveZero:
      unlockShared(0, index)
      (writer.step, writer.reading) = (.beginAgain, Reading())
    case .append:
      log[Int(head.frames)] = commits + 1
      writer.step = .publish
    case .publish:
      commits += 1
      head.frames += 1
      writer.step = .unlock
    case .unlock:
      unlockExclusive(Lock.write...Lock.write)
      writer.step = .end
    case .end:
      unlockShared(writer.reading.slot, index)
      (writer.step, writer.reading) = (.idle, Reading())
    }
  }

  mutating func beginAgain() { head = Head(generation: head.generation + 1, frames: 0) }

  mutating func resetCounts() {
    backfilled = 0
    marks = SIMD8(0, 0, 0xff, 0xff, 0xff, 0, 0, 0)
  }

  /// The kernel releases the locks of a process that was killed.
  mutating func kill(_ index: Int) {
    for lock in 0..<7 {
      if exclusive[lock] == UInt8(index) + 1 { exclusive[lock] = 0 }
      shared[lock] &= ~(1 << UInt8(index))
    }
    writers[index] = Writer()
    killsLeft -= 1
  }

  /// Whether a writer is just writing the header of the wal-index, and another connection could recover it.
  func canTear(_ index: Int) -> Bool {
    [.restartHead, .publish].contains(writers[index].step) && exclusive[Lock.checkpoint] == 0
  }

  /// Kills a writer while it writes the header. The next connection makes the wal-index again from the frames of the
  /// file (walIndexRecover). A commit whose frames are complete counts, and nothing counts as copied.
  mutating func tear(_ index: Int) {
    if writers[index].step == .publish {
      commits += 1
      head.frames += 1
    }
    kill(index)
    backfilled = 0
    marks = SIMD8(0, head.frames > 0 ? head.frames : Self.unused, 0xff, 0xff, 0xff, 0, 0, 0)
  }

  // MARK: Checkpoints

  mutating func stepped(_ former: Checkpoint, _ actor: Int) -> Checkpoint {
    var checkpoint = former
    switch checkpoint.step {
    case .idle: break
    case .lock:
      let locks = checkpoint.truncates ? Lock.write...Lock.checkpoint : Lock.checkpoint...Lock.checkpoint
      checkpoint.step = lockExclusive(locks, actor) ? .readHead : .idle
      if checkpoint.step == .idle { checkpoint = Checkpoint() }
    case .readHead:
      (checkpoint.head, checkpoint.safe, checkpoint.slot) = (head, head.frames, 1)
      checkpoint.step = .slots
    case .slots:
      let slot = checkpoint.slot
      if marks[slot] < checkpoint.safe {
        if isFree(slot) {
          marks[slot] = slot == 1 ? checkpoint.safe : Self.unused
        } else {
          checkpoint.safe = marks[slot]
        }
      }
      checkpoint.slot += 1
      if slot == 4 { checkpoint.step = .lockZero }
    case .lockZero:
      let isDue = backfilled < checkpoint.safe
      checkpoint.step = isDue && lockExclusive(0...0, actor) ? .copied : .restart
    case .copied:
      if hasResetBug || head.generation == checkpoint.head.generation { backfilled = checkpoint.safe }
      checkpoint.step = .unlockZero
    case .unlockZero:
      unlockExclusive(0...0)
      checkpoint.step = .restart
    case .restart:
      guard checkpoint.truncates, backfilled >= checkpoint.head.frames, lockExclusive(1...4, actor) else {
        checkpoint.step = .unlock
        return checkpoint
      }
      beginAgain()
      checkpoint.step = .restartCounts
    case .restartCounts:
      resetCounts()
      unlockExclusive(1...4)
      checkpoint.step = .unlock
    case .unlock:
      unlockExclusive(Lock.checkpoint...Lock.checkpoint)
      if checkpoint.truncates { unlockExclusive(Lock.write...Lock.write) }
      checkpoint = Checkpoint()
    }
    return checkpoint
  }
}
