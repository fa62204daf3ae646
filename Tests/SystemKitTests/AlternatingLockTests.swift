import SystemKit
import Testing

@Suite struct AlternatingLockTests {
  @Test func `one party has it at a time`() {
    let turns = AlternatingLock()
    #expect(turns.tryLock(.reader, now: 0))
    #expect(!turns.tryLock(.reader, now: 0))
    #expect(!turns.tryLock(.writer, now: 0))
    turns.unlock(.writer)
    #expect(!turns.tryLock(.writer, now: 0))
    turns.unlock(.reader)
    #expect(turns.tryLock(.writer, now: 0))
  }

  @Test func `who has asked goes first`() {
    let turns = AlternatingLock()
    #expect(turns.tryLock(.reader, now: 0))
    #expect(!turns.tryLock(.writer, now: 1))
    turns.unlock(.reader)
    #expect(!turns.tryLock(.reader, now: 2))
    #expect(turns.tryLock(.writer, now: 3))
    #expect(!turns.tryLock(.reader, now: 4))
    turns.unlock(.writer)
    #expect(!turns.tryLock(.writer, now: 5))
    #expect(turns.tryLock(.reader, now: 6))
  }

  @Test func `who asks no more loses the turn`() {
    let turns = AlternatingLock()
    #expect(turns.tryLock(.reader, now: 0))
    #expect(!turns.tryLock(.writer, now: 1))
    turns.unlock(.reader)
    #expect(!turns.tryLock(.reader, now: 100))
    #expect(turns.tryLock(.reader, now: 101))
  }

  @Test func `a party alone has it as often as it wants`() {
    let turns = AlternatingLock()
    for now in 0..<5 {
      #expect(turns.tryLock(.writer, now: Int64(now)))
      turns.unlock(.writer)
    }
  }
}
