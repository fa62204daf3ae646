import Changes
import PostgresKit
import Testing

@testable import Capturing

@Suite struct CatalogWatchTests {
  private func step(_ watch: inout CatalogWatch, _ now: Int64) -> String {
    switch watch.next(now: now) {
    case .nothing: "nothing"
    case .compare: "compare"
    case .read: "read"
    case .adopt(let catalog): "adopt \(catalog.fingerprint)"
    }
  }

  private func catalog(_ fingerprint: String) -> CatalogWatch.Catalog { .init(fingerprint: fingerprint, tables: []) }

  @Test func `a reading counts once the stream has reached its barrier`() {
    var watch = CatalogWatch()
    #expect(watch.isPending && step(&watch, 0) == "read")
    watch.wait(for: "b1", catalog("f"))
    #expect(!watch.isPending && step(&watch, 0) == "nothing")
    watch.reached("other")
    #expect(step(&watch, 0) == "nothing" && !watch.isDone)
    watch.reached("b1")
    #expect(watch.isPending && step(&watch, 0) == "adopt f")
    watch.adopted(now: 0)
    #expect(watch.isDone && !watch.isPending && step(&watch, 1999) == "nothing" && step(&watch, 2000) == "compare")
  }

  @Test func `a report in the stream makes a reading void`() {
    var watch = CatalogWatch()
    watch.wait(for: "b1", catalog("f"))
    watch.noteReport()
    watch.reached("b1")
    #expect(step(&watch, 0) == "read", "it is read again")
    var idle = CatalogWatch()
    idle.wait(for: "b1", catalog("f"))
    idle.reached("b1")
    idle.adopted(now: 0)
    idle.noteReport()
    #expect(step(&idle, 0) == "nothing", "the stream describes the change itself")
  }

  @Test func `a catalog that is another one is read, and compared less often if that takes long`() {
    var watch = CatalogWatch()
    watch.wait(for: "b1", catalog("f"))
    watch.reached("b1")
    watch.adopted(now: 0)
    watch.compare("f", now: 2000, took: 500)
    #expect(step(&watch, 11_999) == "nothing" && step(&watch, 12_000) == "compare")
    watch.compare("g", now: 12_000, took: 1)
    #expect(watch.isPending && step(&watch, 12_000) == "read")
  }

  @Test func `a look is postponed longer and longer while a session has a lock`() {
    var watch = CatalogWatch()
    watch.postpone(now: 0)
    #expect(!watch.isPending && step(&watch, 499) == "nothing" && step(&watch, 500) == "read")
    watch.postpone(now: 500)
    #expect(step(&watch, 1249) == "nothing" && step(&watch, 1250) == "read")
    for _ in 0..<9 { watch.postpone(now: 2000) }
    #expect(step(&watch, 6999) == "nothing" && step(&watch, 7000) == "read")
  }

  @Test func `a look that some tables were locked for is followed by another one`() {
    var watch = CatalogWatch()
    watch.wait(for: "b1", catalog("f"))
    watch.reached("b1")
    watch.adopted(now: 0, isWhole: false)
    #expect(!watch.isDone && !watch.isPending && step(&watch, 499) == "nothing" && step(&watch, 500) == "read")
    watch.wait(for: "b2", catalog("f"))
    watch.reached("b2")
    watch.adopted(now: 500, isWhole: false)
    #expect(step(&watch, 1249) == "nothing" && step(&watch, 1250) == "read")
    watch.wait(for: "b3", catalog("f"))
    watch.reached("b3")
    watch.adopted(now: 1250, looksAgain: true)
    #expect(watch.isDone && step(&watch, 2374) == "nothing" && step(&watch, 2375) == "read")
  }

  @Test func `a notice to the operator stays known on another connection`() {
    var watch = CatalogWatch()
    watch.note(hasTriggers: true)
    #expect(watch.isNews("view v") && !watch.isNews("view v"))
    watch.wait(for: "b1", catalog("f"))
    watch.reconnect()
    #expect(!watch.isNews("view v") && watch.hasTriggers && watch.isWanted && step(&watch, 0) == "read")
  }
}

@Suite struct SequenceWatchTests {
  private func state(_ name: String, _ last: Int64) -> SequenceState {
    .init(namespace: "public", name: name, last: last, increment: 1)
  }

  @Test func `values are read after changes, every five seconds and at the end`() {
    var watch = SequenceWatch()
    #expect(watch.isDue(isLast: false, now: 10_000) && !watch.isDue(isLast: true, now: 90_000))
    watch.noteChanges()
    #expect(!watch.isDue(isLast: false, now: 15_000) && watch.isDue(isLast: false, now: 15_001))
    watch.noteChanges()
    #expect(watch.isDue(isLast: true, now: 15_002) == true)
  }

  @Test func `only values of captured tables that moved go into the trail`() {
    var watch = SequenceWatch()
    let wanted: Set<NameKey> = ["public.a", "public.b"]
    #expect(watch.news([state("a", 1), state("b", 2), state("c", 3)], of: wanted).map(\.name) == ["a", "b"])
    #expect(watch.news([state("a", 1), state("b", 5)], of: wanted).map(\.last) == [5])
    #expect(watch.news([state("b", 2)], of: wanted).map(\.last) == [2], "it was set back")
  }
}

@Suite struct QuietWorkTests {
  @Test func `it is due every 50 ms while messages come, and not right after a silence`() {
    var work = QuietWork(now: 0)
    let due = stride(from: Int64(3), through: 300, by: 3).filter { work.isDue(now: $0) }
    #expect(due == [51, 102, 153, 204, 255])
    work.isSilent(now: 301)
    let after = [350, 351].map { work.isDue(now: $0) }
    #expect(after == [false, true])
  }
}

@Suite struct ServerSilenceTests {
  @Test func `a server is silent after nine seconds, until it sends something`() {
    var silence = ServerSilence(now: 0)
    #expect(!silence.heardNothing(now: 9000) && silence.heardNothing(now: 9001))
    #expect(silence.heardNothing(now: 20_000) == false, "it is reported once")
    #expect(silence.heard(now: 20_001) && !silence.heard(now: 20_002))
    #expect(!silence.heardNothing(now: 29_002) && silence.heardNothing(now: 29_003))
  }
}

@Suite struct MessageKeysTests {
  @Test func `without keys no message is authentic, and one refusal per minute is reported`() throws {
    var keys = try MessageKeys()
    var text = "content"
    let content = text.withUTF8 {
      keys.content(of: UnsafeRawBufferPointer($0), prefix: "cairn", transaction: 1, .own) != nil
    }
    #expect(!content && keys.since == nil)
    #expect(keys.mayBeNew(at: LSN(1)))
    keys.noteRead(at: LSN(70))
    #expect(!keys.mayBeNew(at: LSN(70)) && keys.mayBeNew(at: LSN(71)))
    keys.noteRead(at: LSN(60))
    #expect(!keys.mayBeNew(at: LSN(70)))
    #expect(keys.refuse(now: 5) && !keys.refuse(now: 60_004) && keys.refuse(now: 60_005))
  }
}
