import SQLiteFormat

/// Decides which lock keeps unread frames of a write-ahead log from being overwritten. Pure: looks in, actions out.
///
/// SQLite begins a log again when the database file has all its frames and no reader needs them. Three kinds of hold
/// prevent that, and each costs the program something else:
///
/// | hold | what it is | cost while a program writes |
/// |---|---|---|
/// | mark | a shared lock on a slot with a mark | checkpoints stop at the mark; the log grows |
/// | pin | a shared lock on a slot that no reader uses | each commit after `wal_autocheckpoint` syncs twice |
/// | rest | a shared lock on slot 0, taken when all is read and copied | the log may begin again, once |
///
/// A rest is held while nothing is written, a mark while a program writes, and a pin in between. The next hold is
/// always taken before the former one is released. A rest is taken only when all frames were read and copied. The next
/// log then cannot be copied, so it cannot be overwritten either. `WALHoldsModelTests` checks this for all orders of
/// steps.
///
/// ```swift
/// var holds = WALHolds()
/// while true {
///   let action = holds.next(try index.look())
///   holds.finished(action, try perform(action))
/// }
/// ```
package struct WALHolds: Hashable, Sendable {
  package enum Hold: Hashable, Sendable { case none, pin, mark, rest }

  package enum Action: Hashable, Sendable {
    /// Take a shared lock on a reader slot, without waiting.
    case lock(Int)
    case unlock(Int)
    /// Read the frames up to a head.
    case read(WALHead)
    /// Run a passive checkpoint. The pin that is held prevents the WAL-reset bug.
    case checkpoint
    /// Look again, with the locks of programs.
    case askLocks
    /// Look again after this number of microseconds.
    case pause(Int64)
    /// Look again when a file of the database changes, at the latest after this number of microseconds.
    case sleep(Int64)
    /// Stop: frames were overwritten although they were held. The reader must compare the whole database.
    case lost(Loss)
  }

  package enum Loss: Hashable, Sendable {
    /// The log began again while a hold should have prevented it.
    case beganAgain
    /// The log has fewer frames than were read.
    case wentBack
  }

  /// The times and sizes that decide between holds.
  package struct Limits: Hashable, Sendable {
    /// The frames after which a mark is released for a moment, so that the program can copy all and begin again.
    package var windowFrames: UInt32 = 4000
    /// The most that a window without success raises that limit to.
    package var windowFramesMax: UInt32 = 1 << 20
    /// The unread frames with which no window begins.
    package var windowBacklog: UInt32 = 64
    package var windowCommits = 3
    package var windowTime: Int64 = 50_000
    /// The frames from which an idle log is copied by us, as the program's own checkpoint found a mark.
    package var checkpointFrames: UInt32 = 1000
    package var checkpointQuiet: Int64 = 20_000
    /// The time without a commit after which a checkpoint of the program is looked for.
    package var markQuiet: Int64 = 2000
    /// The time without a commit that counts as a pause of the program.
    package var pauseQuiet: Int64 = 5000
    package var markPoll: Int64 = 500
    package var windowPoll: Int64 = 20
    package var sleepMax: Int64 = 50_000

    package init() {}

    /// Longer times without a commit decide nothing else.
    var quietMax: Int64 { max(checkpointQuiet, markQuiet, pauseQuiet) }
  }

  /// A hold that is being taken: the lock is held already, or is yet to be taken.
  private enum Taking: Hashable, Sendable {
    case nothing
    case pin(slot: Int, isLocked: Bool)
    case rest(WALHead, isLocked: Bool)
    case mark(slot: Int, isLocked: Bool)
  }

  private static let pinSlots = 2...4
  private static let markSlots = 1...4

  package let limits: Limits
  package private(set) var hold = Hold.none
  /// The place up to which all frames were read.
  package private(set) var read: WALPosition
  private var former: WALPosition?
  private var isAttached = false

  // The locks that are held; more than one while a hold is exchanged.
  private var pinSlot: Int?
  private var hasRest = false
  private var markSlot: Int?
  private var taking = Taking.nothing
  private var hasNoSlot = false
  private var didRead = false
  private var missed = false
  private var didCheckpoint = false

  /// The time without a new frame, in microseconds.
  private var quiet: Int64 = 0
  /// The time since the window began; nil if there is none.
  private var windowAge: Int64?
  private var windowCommits = 0
  private var windowBackfilled: UInt32 = 0
  private var windowFrames: UInt32

  /// Creates the holds of a reader that attaches. Its first hold is a pin.
  ///
  /// - Parameter position: The place from which on frames are read; nil to begin at the head that the pin finds.
  package init(from position: WALPosition? = nil, limits: Limits = Limits()) {
    self.limits = limits
    windowFrames = limits.windowFrames
    read = position ?? WALPosition(salts: .none, frame: 0)
    isAttached = position != nil
  }

  /// Whether a hold is confirmed: from now on, no unread frame can be overwritten.
  package var isHeld: Bool { pinSlot != nil || hasRest || markSlot != nil }
  /// Whether the log cannot begin again.
  package var isPinned: Bool { pinSlot != nil || markSlot != nil }
  package var isWindow: Bool { windowAge != nil }

  /// The actions that release all holds.
  package func releases() -> [Action] {
    (hasRest ? [.unlock(0)] : []) + [pinSlot, markSlot].compactMap { $0.map { .unlock($0) } }
  }

  // MARK: Looks

  /// Returns what to do next. Pass the result of the action to ``finished(_:_:)`` before the next look.
  package mutating func next(_ look: WALLook) -> Action {
    quiet = min(quiet + look.elapsed, limits.quietMax)
    windowAge = windowAge.map { min($0 + look.elapsed, limits.windowTime) }
    if let action = take(look) { return action }
    guard hold != .none else { return attach() }
    if let loss = follow(look) { return .lost(loss) }
    if let action = releaseOthers() { return action }
    if didRead, let action = written(look) { return action }
    return look.head.frames > read.frame ? unread(look) : idle(look)
  }

  /// Notes the result of an action: whether a lock was free, or a transaction began.
  package mutating func finished(_ action: Action, _ didSucceed: Bool) {
    switch action {
    case .lock(let slot): locked(slot, didSucceed)
    case .unlock(let slot):
      if slot == 0 {
        hasRest = false
      } else if slot == pinSlot {
        pinSlot = nil
      } else if slot == markSlot {
        markSlot = nil
      }
    case .read(let head):
      (read, quiet, didRead, hasNoSlot, didCheckpoint) = (head.position, 0, true, false, false)
      if isWindow { windowCommits += 1 }
    case .checkpoint, .askLocks, .pause, .sleep, .lost: break
    }
  }

  private mutating func locked(_ slot: Int, _ didSucceed: Bool) {
    switch taking {
    case .pin:
      if didSucceed {
        taking = .pin(slot: slot, isLocked: true)
      } else {
        tryNextSlot(after: slot)
      }
    case .rest(let head, _):
      taking = didSucceed ? .rest(head, isLocked: true) : .nothing
      missed = !didSucceed
    case .mark: taking = didSucceed ? .mark(slot: slot, isLocked: true) : .nothing
    case .nothing: break
    }
  }

  private mutating func tryNextSlot(after slot: Int) {
    hasNoSlot = slot <= Self.pinSlots.lowerBound
    if hasNoSlot, hold == .mark { windowAge = nil }
    taking = hasNoSlot ? .nothing : .pin(slot: slot - 1, isLocked: false)
  }

  // MARK: Taking a hold

  private mutating func attach() -> Action {
    guard !hasNoSlot else {
      hasNoSlot = false
      return .pause(limits.markPoll)
    }
    return take(.pin(slot: 4, isLocked: false))
  }

  private mutating func take(_ next: Taking) -> Action {
    taking = next
    switch next {
    case .pin(let slot, _), .mark(let slot, _): return .lock(slot)
    case .rest: return .lock(0)
    case .nothing: return .pause(limits.markPoll)
    }
  }

  /// Confirms the hold whose lock was taken before this look. Returns nil if no hold is being taken.
  private mutating func take(_ look: WALLook) -> Action? {
    switch taking {
    case .nothing: return nil
    case .pin(_, false), .rest(_, false), .mark(_, false): return take(taking)
    case .pin(let slot, true):
      // A reader may have set a mark before the lock was taken.
      guard look.marks[slot] == WALLook.unused else {
        tryNextSlot(after: slot)
        return .unlock(slot)
      }
      (taking, pinSlot, hold) = (.nothing, slot, .pin)
    case .rest(let head, true):
      guard look.head == head, look.isWhollyBackfilled, read == head.position else {
        (taking, missed) = (.nothing, true)
        return .unlock(0)
      }
      (taking, hasRest, hold, windowAge) = (.nothing, true, .rest, nil)
      windowFrames = limits.windowFrames
    case .mark(let slot, true):
      // A checkpoint may have taken the mark away before the lock was taken.
      guard look.marks[slot] != WALLook.unused else {
        taking = .nothing
        return .unlock(slot)
      }
      (taking, markSlot, hold, windowAge) = (.nothing, slot, .mark, nil)
    }
    if !isAttached { (isAttached, read) = (true, look.head.position) }
    return nil
  }

  /// Follows a log that began again. Returns a loss if that was impossible.
  private mutating func follow(_ look: WALLook) -> Loss? {
    let salts = look.head.salts
    guard salts != read.salts else { return look.head.frames < read.frame ? .wentBack : nil }
    guard hasRest else { return .beganAgain }
    // A program that dies before it writes the first frame leaves the former log.
    if let former, former.salts == salts, look.head.frames <= former.frame {
      (read, self.former) = (former, nil)
      return nil
    }
    (former, read) = (read, WALPosition(salts: salts, frame: 0))
    return nil
  }

  /// Releases the locks of a former hold.
  private func releaseOthers() -> Action? {
    switch hold {
    case .none: return nil
    case .pin: return hasRest ? .unlock(0) : markSlot.map { .unlock($0) }
    case .rest: return (pinSlot ?? markSlot).map { .unlock($0) }
    case .mark: return pinSlot.map { .unlock($0) } ?? (hasRest ? .unlock(0) : nil)
    }
  }

  // MARK: Choosing a hold

  /// Decides after frames were read. If a program never pauses, no other decision is ever made.
  private mutating func written(_ look: WALLook) -> Action? {
    didRead = false
    switch hold {
    case .none, .rest: return nil
    case .pin:
      guard isWindow else { return takeMark(look) }
      guard windowCommits >= limits.windowCommits, look.backfilled > windowBackfilled else { return nil }
      return closeWindow(look)
    case .mark:
      guard look.head.frames >= windowFrames, look.head.frames - read.frame < limits.windowBacklog else { return nil }
      (windowAge, windowCommits, windowBackfilled) = (0, 0, look.backfilled)
      return take(.pin(slot: 4, isLocked: false))
    }
  }

  /// The program has copied the log, but wrote more meanwhile: each further commit would copy again.
  private mutating func closeWindow(_ look: WALLook) -> Action {
    let (doubled, overflow) = look.head.frames.multipliedReportingOverflow(by: 2)
    windowFrames = overflow ? limits.windowFramesMax : min(max(doubled, windowFrames), limits.windowFramesMax)
    windowAge = nil
    return takeMark(look)
  }

  /// Takes the lowest mark, so that checkpoints of the program find the least to do. One slot always has a mark.
  private mutating func takeMark(_ look: WALLook) -> Action {
    let slot = Self.markSlots.min { look.marks[$0] < look.marks[$1] } ?? 1
    return take(.mark(slot: slot, isLocked: false))
  }

  private mutating func unread(_ look: WALLook) -> Action {
    if hold == .rest, !hasNoSlot { return take(.pin(slot: 4, isLocked: false)) }
    return .read(look.head)
  }

  /// Decides when all frames are read.
  private mutating func idle(_ look: WALLook) -> Action {
    if missed {
      missed = false
      return .pause(limits.windowPoll)
    }
    switch hold {
    case .none, .rest: return .sleep(limits.sleepMax)
    case .pin, .mark:
      if look.isWhollyBackfilled { return take(.rest(look.head, isLocked: false)) }
      return hold == .mark ? idleAtMark(look) : isWindow ? idleInWindow(look) : idleAtPin(look)
    }
  }

  private mutating func idleInWindow(_ look: WALLook) -> Action {
    guard let windowAge, windowAge >= limits.windowTime else { return .pause(limits.windowPoll) }
    guard let locks = look.locks else { return .askLocks }
    // The checkpoint for which the window was opened may take long.
    return locks.isCheckpointing ? .pause(limits.markPoll) : closeWindow(look)
  }

  private mutating func idleAtMark(_ look: WALLook) -> Action {
    guard quiet >= limits.markQuiet, !hasNoSlot else {
      hasNoSlot = false
      return .pause(limits.markPoll)
    }
    guard let locks = look.locks else { return .askLocks }
    // A checkpoint that waits for readers has both locks. A commit that waits for the disk has one.
    let isAwaited = locks.isCheckpointing && locks.isWriting
    let isPaused = !locks.isCheckpointing && !locks.isWriting && quiet >= limits.pauseQuiet
    return isAwaited || isPaused ? take(.pin(slot: 4, isLocked: false)) : .pause(limits.markPoll)
  }

  private mutating func idleAtPin(_ look: WALLook) -> Action {
    let isLong = look.head.frames >= limits.checkpointFrames && !didCheckpoint
    guard isLong else { return .sleep(limits.sleepMax) }
    guard quiet >= limits.checkpointQuiet else { return .sleep(limits.markQuiet) }
    guard let locks = look.locks else { return .askLocks }
    guard !locks.isCheckpointing, !locks.isWriting else { return .sleep(limits.markQuiet) }
    didCheckpoint = true
    return .checkpoint
  }
}
