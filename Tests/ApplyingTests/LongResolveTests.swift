import Testing

@testable import Applying

@Suite struct LongResolveTests {
  @Test func `a transaction that is resolved for a second is reported once`() {
    func reports(after milliseconds: Int64, rows: Int) -> Int {
      var watch = LongResolve(now: 5)
      return (0..<rows).filter { _ in watch.isDue(now: 5 + milliseconds) }.count
    }
    #expect(reports(after: 1000, rows: 2000) == 1)
    #expect(reports(after: 999, rows: 2000) == 0)
    #expect(reports(after: 1000, rows: 255) == 0)
  }
}
