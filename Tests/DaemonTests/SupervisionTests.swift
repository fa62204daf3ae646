import Changes
import Testing

@testable import Daemon

@Suite struct SupervisionTests {
  private let lost = CairnError(.databaseUnreachable, "no server", hint: "", remedy: .retry)
  private let differs = CairnError(.rowDiffers, "row 7 differs", hint: "compare")

  private func running(since now: Int64 = 0) -> Supervision {
    var supervision = Supervision(startAt: now)
    supervision.started(now: now)
    return supervision
  }

  @Test func `a worker is due at once`() {
    #expect(Supervision(startAt: 5).isDue(now: 5))
    #expect(!Supervision(startAt: 5).isDue(now: 4))
  }

  @Test func `an error that may pass is tried again, each time later, up to a minute`() {
    var supervision = running()
    var delays: [Int64] = []
    for _ in 0..<12 {
      supervision.ended(lost, now: 100, jitter: 1)
      guard case .due(let at) = supervision.state else { return #expect(Bool(false), "\(supervision.state)") }
      delays.append(at - 100)
      supervision.started(now: 100)
    }
    #expect(delays.prefix(4) == [500, 1000, 2000, 4000])
    #expect(delays.last == 60_000)
    #expect(supervision.failure?.times == 12)
    #expect(supervision.restarts == 12)
  }

  @Test func `jitter draws half of the delay`() {
    #expect(RestartPolicy.delay(failures: 1, jitter: 0, of: .brief) == 250)
    #expect(RestartPolicy.delay(failures: 1, jitter: 1, of: .brief) == 500)
    #expect(RestartPolicy.delay(failures: 99, jitter: 0, of: .patient) == 30_000)
    #expect(RestartPolicy.delay(failures: 99, jitter: 7, of: .patient) == 60_000)
  }

  @Test func `a long run makes the next error the first again`() {
    var supervision = running()
    for _ in 0..<5 {
      supervision.ended(lost, now: 0, jitter: 1)
      supervision.started(now: 0)
    }
    supervision.ended(lost, now: RestartPolicy.steadyMilliseconds, jitter: 1)
    #expect(supervision.state == .due(at: RestartPolicy.steadyMilliseconds + 500))
  }

  @Test func `an error of the data stops until a person says so`() {
    var supervision = running()
    supervision.ended(differs, now: 10, jitter: 0)
    #expect(supervision.rest == .failed)
    #expect(!supervision.isDue(now: .max))
    _ = supervision.start(now: 20)
    #expect(supervision.isDue(now: 20))
  }

  @Test(
    arguments: [
      (ErrorCode.diskFull, true), (.databaseMissing, true), (.loginRefused, true), (.stateUnwritable, true),
      (.databaseUnreachable, true), (.sourceWentBack, false), (.slotLost, false), (.rowMissing, false),
      (.checkpointForeign, false), (.usage, false), (.trailDamaged, false),
    ])
  func `an outside fault is tried again, a fault of the data is not`(_ code: ErrorCode, _ isTried: Bool) {
    let judgement = RestartPolicy.judge(CairnError(code, "x", hint: ""), failures: 1)
    #expect((judgement != .never) == isTried)
  }

  @Test func `a fault of our own is tried three times`() {
    let bug = CairnError(.bug, "x", hint: "", remedy: .bug)
    #expect(RestartPolicy.judge(bug, failures: 3) != .never)
    #expect(RestartPolicy.judge(bug, failures: 4) == .never)
  }

  @Test func `stop ends the thread and then rests`() {
    var supervision = running()
    let isTold = supervision.stop(.ordered, now: 1)
    #expect(isTold)
    #expect(supervision.isAlive)
    supervision.ended(nil, now: 2, jitter: 0)
    #expect(supervision.rest == .ordered)
    #expect(!supervision.isDue(now: .max))
  }

  @Test func `restart while it ends starts it once more`() {
    var supervision = running()
    let isTold = [supervision.restart(now: 1), supervision.restart(now: 2)]
    #expect(isTold == [true, false])
    supervision.ended(nil, now: 3, jitter: 0)
    #expect(supervision.isDue(now: 3))
  }

  @Test func `an error at the end that was ordered is reported, and changes nothing`() {
    var supervision = running()
    _ = supervision.stop(.ordered, now: 1)
    supervision.ended(lost, now: 2, jitter: 0)
    #expect(supervision.rest == .ordered)
    #expect(supervision.failure?.code == .databaseUnreachable)
  }

  @Test func `tables that wait at the end that was ordered are no error`() {
    var supervision = running()
    _ = supervision.stop(.ordered, now: 1)
    supervision.ended(CairnError(.schemaStopped, "table x waits", hint: ""), now: 2, jitter: 0)
    #expect(supervision.failure == nil)
  }

  @Test func `a disk with room does not start what a person stopped`() {
    var supervision = running()
    _ = supervision.stop(.ordered, now: 1)
    supervision.ended(nil, now: 2, jitter: 0)
    _ = supervision.stop(.paused, now: 3)
    #expect(supervision.rest == .ordered)
  }

  @Test func `other words are another error`() {
    var supervision = running()
    supervision.ended(lost, now: 0, jitter: 0)
    supervision.started(now: 0)
    supervision.ended(CairnError(.databaseUnreachable, "no route", hint: "", remedy: .retry), now: 0, jitter: 0)
    #expect(supervision.failure?.times == 1)
  }

  @Test func `a worker that fails again and again after short runs waits longer and longer`() {
    var supervision = running()
    var now: Int64 = 0
    var pauses: [Int64] = []
    for _ in 0..<6 {
      now += 20_000
      supervision.isWell(now: now - 1_000)
      supervision.ended(lost, now: now, jitter: 1)
      guard case .due(let at) = supervision.state else {
        Issue.record("\(supervision.state)")
        return
      }
      pauses.append(at - now)
      now = at
      supervision.started(now: now)
    }
    #expect(pauses == [500, 1_000, 2_000, 4_000, 8_000, 16_000])
  }

  @Test func `an error that has passed is shown apart, for a day`() {
    var supervision = running()
    supervision.ended(lost, now: 10, jitter: 0)
    supervision.started(now: 20)
    #expect(supervision.hasPresentFailure)
    supervision.isWell(now: 30)
    #expect(!supervision.hasPresentFailure)
    #expect(supervision.failure?.at == 10 && supervision.failure?.code == .databaseUnreachable)
    supervision.ended(lost, now: 40, jitter: 0)
    #expect(supervision.hasPresentFailure && supervision.failure?.times == 1)
    supervision.isWell(now: 41 + Supervision.pastMilliseconds)
    #expect(supervision.failure == nil)
  }

  @Test func `a journal that fills is reported once, and again when it was emptied`() {
    var alarm = JournalAlarm()
    func note(_ rows: Int64, isFull: Bool = false) -> JournalAlarm.Level? {
      alarm.note(rows: rows, cap: 100, isFull: isFull)
    }
    #expect([note(79), note(80), note(90), note(70), note(85)] == [nil, .filling, nil, nil, nil])
    #expect([note(100, isFull: true), note(128, isFull: true), note(3), note(90)] == [.full, nil, nil, .filling])
  }

  @Test func `a journal of any number of rows has a fill level`() {
    var alarm = JournalAlarm()
    #expect(alarm.note(rows: 1 << 61, cap: 1, isFull: false) == .filling)
    #expect(alarm.note(rows: .max, cap: .max, isFull: false) == nil)
    #expect(alarm.note(rows: 0, cap: .max, isFull: false) == nil)
    #expect(alarm.note(rows: .max / 10 * 9, cap: .max, isFull: false) == .filling)
    var small = JournalAlarm()
    #expect([1, 3, 4].map { small.note(rows: $0, cap: 5, isFull: false) } == [nil, nil, .filling])
  }

  @Test func `the lag of a capture that does not see its source grows`() {
    var sight = Sight(now: 100)
    #expect(sight.blindMicroseconds(isConnected: true, now: 130) == 30)
    sight.isOpen = true
    #expect(sight.blindMicroseconds(isConnected: true, now: 200) == nil)
    #expect(sight.blindMicroseconds(isConnected: false, now: 250) == 50)
    sight.isOpen = false
    #expect(sight.blindMicroseconds(isConnected: true, now: 900) == 700)
    sight.isOpen = true
    #expect(sight.blindMicroseconds(isConnected: true, now: 901) == nil)
  }

  @Test func `a backlog is as old as the last moment without one`() {
    var backlog = Backlog(since: 50)
    #expect(backlog.since(lastCommitTime: 0) == 50)
    // The last transaction applied may be much older than the daemon.
    #expect(backlog.since(lastCommitTime: 7) == 7)
    backlog.noteNone(now: 100)
    #expect(backlog.since(lastCommitTime: 7) == 100)
    #expect(backlog.since(lastCommitTime: 120) == 120)
  }

  @Test(
    arguments: [
      // Committed and taken at once; taken late, a moment ago; taken late, long ago; not taken; a clock that was set back.
      (1_000_000, 4_000, false, 1_500_000, 4.0), (1_000_000, 60_000_000, false, 62_000_000, 60_000),
      (1_000_000, 60_000_000, false, 99_000_000, 0), (1_000_000, 4_000, true, 61_000_000, 60_000),
      (9_000_000, -5_000, true, 1_000_000, 0),
    ] as [(Int64, Int64, Bool, Int64, Double)])
  func `the lag is that of now`(_ commit: Int64, _ took: Int64, _ isBehind: Bool, _ now: Int64, _ lag: Double) {
    #expect(
      CurrentLag.milliseconds(commitTime: commit, tookMicroseconds: took, isBehind: isBehind, now: now) == lag)
  }
}
