import Testing

@testable import Daemon

@Suite struct ClockWatchTests {
  @Test func `a clock that is set is seen once, with its direction`() {
    var watch = ClockWatch(wall: 5_000_000, steady: 1_000)
    #expect(watch.jump(wall: 5_250_000, steady: 251_000) == nil)
    #expect(watch.jump(wall: 65_500_000, steady: 501_000) == 60_000_000)
    #expect(watch.jump(wall: 65_750_000, steady: 751_000) == nil)
    #expect(watch.jump(wall: 1_000_000, steady: 1_001_000) == -65_000_000)
  }

  @Test func `a clock that is adjusted, and a loop that was late, are none that was set`() {
    var watch = ClockWatch(wall: 0, steady: 0)
    #expect(watch.jump(wall: 250_900, steady: 250_000) == nil)
    #expect(watch.jump(wall: 90_000_000, steady: 90_000_000) == nil)
  }
}
