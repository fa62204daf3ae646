import Changes
import PostgresKit
import Testing

@testable import Capturing

@Suite struct SlotProgressTests {
  private func transaction(_ commit: UInt64, time: Int64 = 0) -> PostgresPosition.Transaction {
    .init(commit: LSN(commit), xid: UInt32(commit), time: time)
  }

  private func progress(at start: UInt64 = 100) -> SlotProgress {
    var slot = SlotProgress(PostgresPosition(system: 7, timeline: 1, reached: LSN(0)))
    slot.begin(at: LSN(start), system: 7, timeline: 1, notes: [])
    return slot
  }

  private func note(_ number: UInt64, clock: UInt64 = 1) -> AppliedNote {
    AppliedNote(
      trail: "far.shop", id: TrailID(hex: String(repeating: "ab", count: 16)), number: number, clock: clock,
      position: .start)
  }

  @Test func `a transaction is confirmed only once it is durable in the trail`() {
    var slot = progress()
    #expect(slot.begin(transaction(110)) == .isNew)
    slot.commit(transaction(110), end: LSN(120), isInTrail: true, at: 55)
    #expect(slot.report(now: 0) == (LSN(100), LSN(0)))
    let position = slot.record(refresh: nil, isQuiet: true)
    #expect(position.reached == LSN(120) && position.last == transaction(110) && position.witness == transaction(110))
    slot.noteRecorded()
    slot.reach(LSN(120))
    #expect(slot.hasUnsynced && slot.report(now: 0) == (LSN(120), LSN(0)))
    #expect(slot.noteSynced(now: 5) == 55)
    #expect(!slot.hasUnsynced && slot.report(now: 0) == (LSN(120), LSN(120)))
    #expect(slot.noteSynced(now: 6) == nil, "no transaction became durable since")
  }

  @Test func `a transaction that was left out is confirmed by a position that passes it`() {
    var slot = progress()
    slot.commit(transaction(110), end: LSN(120), isInTrail: false, at: 55)
    slot.reach(LSN(130))
    #expect(slot.hasUnrecorded && slot.isBeyondTrail)
    let position = slot.record(refresh: nil, isQuiet: true)
    #expect(position.reached == LSN(120) && position.quiet == LSN(130) && position.last == nil)
    #expect(position.witness == transaction(110))
    slot.noteRecorded()
    #expect(slot.noteSynced(now: 1) == nil && slot.confirmed == LSN(130))
  }

  @Test func `a position within an open transaction does not pass what was received`() {
    var slot = progress()
    slot.reach(LSN(150))
    #expect(slot.record(refresh: nil, isQuiet: false).quiet == LSN(100))
    #expect(slot.record(refresh: nil, isQuiet: true).quiet == LSN(150))
  }

  @Test func `the state of a refresh is part of the recorded position only`() {
    var slot = progress()
    let refresh = PostgresPosition.RefreshState(relation: 3, epoch: 1, rows: 9, cursor: ["a"], isDone: false)
    #expect(slot.record(refresh: refresh, isQuiet: true).refresh == refresh)
    #expect(slot.position.refresh == nil && slot.record(refresh: nil, isQuiet: true).refresh == nil)
  }

  @Test func `a transaction of the trail is recognized when the server sends it again`() {
    var slot = progress()
    slot.commit(transaction(110), end: LSN(120), isInTrail: true, at: 0)
    _ = slot.record(refresh: nil, isQuiet: true)
    slot.resume(confirmed: LSN(100))
    #expect(slot.begin(transaction(110)) == .isRecorded)
    #expect(slot.begin(transaction(130)) == .isNew)
  }

  @Test func `a server that sends another transaction in place of the last one is not the trail's`() {
    var slot = progress()
    slot.commit(transaction(110, time: 1), end: LSN(120), isInTrail: true, at: 0)
    var again = slot
    again.resume(confirmed: LSN(100))
    #expect(again.begin(transaction(105)) == .isRecorded, "an older one may come first")
    #expect(again.begin(transaction(110, time: 2)) == .isForeign(expected: LSN(110)))
    again = slot
    again.resume(confirmed: LSN(100))
    #expect(again.begin(transaction(130)) == .isForeign(expected: LSN(110)))
    again = slot
    again.resume(confirmed: LSN(115))
    #expect(again.begin(transaction(130)) == .isNew, "the slot no longer sends it")
  }

  @Test func `a position is recorded if asked for, for much log, for notes or after ten seconds`() {
    var slot = progress()
    _ = slot.noteSynced(now: 1000)
    #expect(!slot.isRecordDue(isWanted: true, now: 90_000), "nothing was received")
    slot.reach(LSN(101))
    #expect(slot.isRecordDue(isWanted: true, now: 1000))
    #expect(!slot.isRecordDue(isWanted: false, now: 10_999) && slot.isRecordDue(isWanted: false, now: 11_000))
    #expect(slot.untilNotesAreRecorded(now: 1000) == nil)
    var noted = slot
    noted.note([note(4)])
    #expect(!noted.isRecordDue(isWanted: false, now: 1999) && noted.isRecordDue(isWanted: false, now: 2000))
    #expect(noted.untilNotesAreRecorded(now: 1400) == 600 && noted.untilNotesAreRecorded(now: 5000) == 1)
    slot.reach(LSN(101 + (16 << 20)))
    #expect(slot.isRecordDue(isWanted: false, now: 1000))
  }

  @Test func `notes that the trail does not have are forgotten with the connection`() {
    var slot = progress()
    slot.note([note(4)])
    _ = slot.record(refresh: nil, isQuiet: true)
    slot.noteRecorded()
    slot.note([note(5)])
    slot.disconnect()
    #expect(slot.position.knowledge.number(of: "far.shop") == 4)
    #expect(slot.untilNotesAreRecorded(now: 0) == nil)
  }

  @Test func `a new slot keeps the knowledge and forgets the rest`() {
    var slot = progress()
    slot.note([note(4)])
    slot.commit(transaction(110), end: LSN(120), isInTrail: true, at: 0)
    slot.begin(at: LSN(500), system: 8, timeline: 2, notes: [note(6)])
    #expect(slot.position.system == 8 && slot.position.timeline == 2 && slot.position.reached == LSN(500))
    #expect(slot.position.witness == nil && slot.position.last == nil && slot.received == LSN(500))
    #expect(slot.position.knowledge.number(of: "far.shop") == 6)
  }

  @Test func `a stream is synced within, and a backlog less often`() {
    var slot = progress()
    #expect(slot.syncDelayMilliseconds == 0 && !slot.isSyncDue(now: 1000))
    for _ in 0..<16 { slot.noteRecorded() }
    #expect(slot.syncDelayMilliseconds == 0)
    slot.noteRecorded()
    #expect(slot.syncDelayMilliseconds == 2)
    for _ in 17..<129 { slot.noteRecorded() }
    #expect(slot.syncDelayMilliseconds == 10)
    #expect(!slot.isSyncDue(now: 50) && slot.isSyncDue(now: 51))
    _ = slot.noteSynced(now: 51)
    #expect(slot.syncDelayMilliseconds == 0 && !slot.isSyncDue(now: 1000))
  }

  @Test func `a report is due every five seconds`() {
    var slot = progress()
    _ = slot.report(now: 100)
    #expect(!slot.isReportDue(now: 5100) && slot.isReportDue(now: 5101))
  }

  @Test func `the server must be the trail's cluster, on a timeline that has all of the trail`() {
    let slot = progress()
    #expect(slot.departure(system: 7, timeline: 1, history: [:]) == nil)
    #expect(slot.departure(system: 8, timeline: 1, history: [:]) == "it is another cluster, 8")
    #expect(slot.departure(system: 7, timeline: 2, history: [1: LSN(100)]) == nil)
    #expect(slot.departure(system: 7, timeline: 2, history: [1: LSN(99)])?.contains("left timeline 1") == true)
    #expect(slot.departure(system: 7, timeline: 3, history: [2: LSN(500)])?.contains("does not follow") == true)
  }

  @Test func `a slot is lost if it is gone, invalid, foreign, unpublished or moved on`() {
    let slot = progress()
    func found(_ confirmed: UInt64 = 100, isLost: Bool = false, plugin: String = "pgoutput") -> PostgresSource.Slot {
      .init(
        isActive: false, activePID: 0, confirmed: LSN(confirmed), isLost: isLost, database: "shop", plugin: plugin)
    }
    func loss(_ found: PostgresSource.Slot?, _ hasPublication: Bool = true) -> SlotProgress.Loss? {
      slot.loss(of: found, hasPublication: hasPublication, database: "shop")
    }
    #expect(loss(found()) == nil)
    if case .missing? = loss(nil) {} else { Issue.record("a slot that is gone") }
    if case .invalidated? = loss(found(isLost: true)) {} else { Issue.record("a slot that is invalid") }
    if case .withoutPublication? = loss(found(), false) {} else { Issue.record("no publication") }
    if case .movedOn(LSN(101))? = loss(found(101)) {} else { Issue.record("a slot that was moved on") }
    let foreign = loss(found(plugin: "test_decoding"))
    #expect(foreign?.canBeReplaced == false && loss(nil)?.canBeReplaced == true)
  }

  /// The model: the server sends each transaction that ends after the position that was confirmed. After a crash the
  /// trail keeps the synced part.
  @Test(arguments: 0..<60) func `whatever happens, no transaction is lost, doubled or confirmed too early`(
    _ seed: Int
  ) {
    var random = SeededRandom(UInt64(seed))
    struct Commit: Equatable {
      var transaction: PostgresPosition.Transaction
      var end: LSN
      var isLeftOut: Bool
    }
    var log: [Commit] = []
    var written: [UInt64] = []
    var (durable, durablePosition) = (written, PostgresPosition(system: 7, timeline: 1, reached: LSN(0)))
    var (slot, flushed, next, now, logEnd) = (progress(), LSN(100), 0, Int64(0), UInt64(100))
    var early: [UInt64] = []
    durablePosition = slot.position
    var unsynced = durablePosition
    for _ in 0..<200 {
      now += Int64.random(in: 0..<800, using: &random)
      switch Int.random(in: 0..<12, using: &random) {
      case 0..<3:
        let place = logEnd + UInt64.random(in: 0..<40, using: &random)
        logEnd = place + 10
        log.append(
          .init(
            transaction: transaction(place), end: LSN(place + 10),
            isLeftOut: Bool.random(using: &random)))
      case 3..<8 where next < log.count:
        let commit = log[next]
        next += 1
        let begin = slot.begin(commit.transaction)
        if case .isForeign = begin { Issue.record("\(commit) is another one than before") }
        let isInTrail = begin == .isNew && !commit.isLeftOut
        if isInTrail { written.append(commit.transaction.commit.value) }
        slot.commit(commit.transaction, end: commit.end, isInTrail: isInTrail, at: 1)
        if isInTrail {
          unsynced = slot.record(refresh: nil, isQuiet: true)
          slot.noteRecorded()
        }
        slot.reach(commit.end)
      case 8 where next == log.count:
        logEnd += UInt64.random(in: 0..<10, using: &random)
        slot.reach(LSN(logEnd))
        if slot.isRecordDue(isWanted: Bool.random(using: &random), now: now) {
          unsynced = slot.record(refresh: nil, isQuiet: true)
          slot.noteRecorded()
        }
      case 9:
        (durable, durablePosition) = (written, unsynced)
        _ = slot.noteSynced(now: now)
      case 10: flushed = max(flushed, slot.report(now: now).flushed)
      case 11:
        // Half of the times only the connection ends; else the whole machine, with what was not synced.
        if Bool.random(using: &random) {
          (durable, durablePosition) = (written, unsynced)
          _ = slot.noteSynced(now: now)
          slot.disconnect()
        } else {
          written = durable
          unsynced = durablePosition
          slot = SlotProgress(durablePosition)
        }
        slot.resume(confirmed: flushed)
        next = log.firstIndex { $0.transaction.commit >= flushed } ?? log.count
      default: break
      }
      let confirmed = log.filter { !$0.isLeftOut && $0.end <= flushed }.map(\.transaction.commit.value)
      early += Set(confirmed).subtracting(durable)
    }
    #expect(early.isEmpty, "the server forgot what the trail lacks")
    while next < log.count {
      let commit = log[next]
      next += 1
      if slot.begin(commit.transaction) == .isNew, !commit.isLeftOut {
        written.append(commit.transaction.commit.value)
        slot.commit(commit.transaction, end: commit.end, isInTrail: true, at: 1)
        _ = slot.record(refresh: nil, isQuiet: true)
      } else {
        slot.commit(commit.transaction, end: commit.end, isInTrail: false, at: 1)
      }
      slot.reach(commit.end)
    }
    #expect(written == log.filter { !$0.isLeftOut }.map(\.transaction.commit.value), "lost or doubled")
  }
}
