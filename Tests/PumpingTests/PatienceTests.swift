import Changes
import Testing
import Trails

@testable import Pumping

@Suite struct PatienceTests {
  @Test func `the applied place is reported soon after something has moved, then ever more seldom`() {
    var idle = IdleWait()
    #expect(idle.seconds(isApplyBehind: false) == 10)
    #expect((0..<6).map { _ in idle.seconds(isApplyBehind: true) } == [1, 2, 4, 8, 10, 10])
    idle.begin()
    #expect(idle.seconds(isApplyBehind: true) == 1 && idle.seconds(isApplyBehind: false) == 10)
  }

  private func error(_ code: ErrorCode, _ remedy: CairnError.Remedy = .retry) -> CairnError {
    CairnError(code, "it failed", hint: "try again", remedy: remedy)
  }

  @Test func `a transfer waits longer each time, up to a limit, and never all at once`() {
    var patience = TransferPatience()
    var last = 0
    for _ in 0..<8 {
      let next = patience.next(error(.peerUnreachable), chance: 1) ?? 0
      #expect(next > last)
      last = next
    }
    for _ in 0..<20 { #expect(patience.next(error(.peerUnreachable), chance: 1) ?? 0 <= 30_000) }
    #expect(patience.next(error(.peerUnreachable), chance: 0) == 15_000)
    patience.calm()
    #expect(patience.next(error(.peerUnreachable), chance: 1) == 200)
  }

  @Test func `a transfer stops where trying again cannot help`() {
    var patience = TransferPatience()
    #expect(patience.next(error(.trailForked, .stop), chance: 1) == nil)
    #expect(patience.next(error(.badURL, .badInput), chance: 1) == nil)
    #expect(patience.next(error(.trailDamaged), chance: 1) != nil)
    #expect(patience.next(error(.trailDamaged), chance: 1) != nil)
    #expect(patience.next(error(.trailDamaged), chance: 1) == nil)
  }

  @Test func `a trail that is not granted is refused`() {
    let pos = TrailName(origin: "till-7", name: "pos")
    let grants = Grants([
      "till-7": .init(push: TrailPatterns(["till-7.*"]), pull: TrailPatterns(["*", "!hq.secret"])),
      "nobody": .init(push: TrailPatterns([]), pull: TrailPatterns(["!hq.*"])),
    ])
    #expect(grants.allow("till-7", .push, pos))
    #expect(!grants.allow("till-7", .push, TrailName(origin: "till-70", name: "pos")))
    #expect(!grants.allow("till-7", .push, TrailName(origin: "TILL-7", name: "pos")))
    #expect(grants.allow("till-7", .pull, pos))
    #expect(!grants.allow("till-7", .pull, TrailName(origin: "hq", name: "secret")))
    #expect(!grants.allow("nobody", .push, pos))
    #expect(grants.allow("nobody", .pull, pos))
    #expect(!grants.allow("stranger", .pull, pos))
  }

  @Test func `a report is read as it was written`() throws {
    let report = TrailReport(
      node: "hq",
      standing: TrailStanding(
        name: TrailName(origin: "a", name: "b"), id: try #require(TrailID(Array(repeating: 9, count: 16))), oldest: 2,
        end: TrailPlace(segment: 3, offset: 99, chain: try #require(ChainHash(Array(repeating: 5, count: 32)))),
        position: Position(segment: 3, offset: 77), lastTransaction: 12),
      applied: Position(segment: 2, offset: 1), requests: [CopyRequest(id: "x", tables: ["t", "u"])])
    guard case .object(let object) = try JSONReader.read(report.json.line) else { return }
    #expect(TrailReport(object) == report)
    #expect(TrailReport(JSONObject()) == nil)
  }

  @Test(
    arguments: [
      (nil, .all), ("bytes=0-", .part(0..<10)), ("bytes=3-5", .part(3..<6)), ("bytes=3-99", .part(3..<10)),
      ("bytes=-4", .part(6..<10)), ("bytes=-40", .part(0..<10)), ("bytes=10-", .none), ("bytes=-0", .none),
      ("bytes=0-1,3-4", .all), ("lines=1-2", .all), ("bytes=x", .all), ("bytes=5-2", .all),
      ("bytes=0-18446744073709551615", .part(0..<10)),
    ] as [(String?, ByteRange)])
  func `ranges are read`(header: String?, range: ByteRange) { #expect(ByteRange(header, count: 10) == range) }
}
