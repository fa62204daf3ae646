import Changes
import NetKit
import SystemKit
import Testing
import Trails

@testable import Pumping

/// The messages of another node are bounded when they are read.
@Suite struct ToldTests {
  private func report(_ node: String, requests: Int, patterns: [String] = []) -> JSONObject {
    let request = { (id: Int) in
      JSONObject([("id", .text("r\(id)")), ("tables", .list(patterns.map { .text($0) }))])
    }
    return JSONObject([
      ("node", .text(node)), ("trail", .text("till.pos")), ("id", .text(String(repeating: "ab", count: 16))),
      ("oldest", .integer(1)),
      (
        "end",
        .object(
          JSONObject([
            ("segment", .integer(1)), ("offset", .integer(0)), ("chain", .text(String(repeating: "0", count: 64))),
          ]))
      ),
      ("requests", .list((0..<requests).map { .object(request($0)) })),
    ])
  }

  @Test func `requests of a report are bounded`() throws {
    #expect(try #require(TrailReport(report("hub", requests: 3, patterns: ["a"]))).requests.count == 3)
    #expect(try #require(TrailReport(report("hub", requests: 100_000))).requests.count == CopyRequest.countMax)
    let long = [String(repeating: "a", count: 40_000), String(repeating: "b", count: 40_000)]
    #expect(try #require(TrailReport(report("hub", requests: 2, patterns: long))).requests.isEmpty)
    let many = (0..<20_000).map { "\($0)" }
    #expect(try #require(TrailReport(report("hub", requests: 2, patterns: many))).requests.isEmpty)
  }

  @Test(arguments: ["", "a b", "\u{1b}[2J", String(repeating: "a", count: 1000), "../etc"])
  func `a name that no node has is none`(name: String) throws {
    #expect(try #require(TrailReport(report(name, requests: 0))).node.isEmpty)
    #expect(try #require(TrailReport(report("hub", requests: 0))).node == "hub")
  }

  @Test func `an error repeats no more than some lines of the message`() throws {
    let text = String(repeating: "é", count: 1 << 20)
    let body = JSONObject([("code", .text("busy")), ("message", .text(text)), ("hint", .text(text))]).line
    let fault = PumpFault(status: 503, body: Array(body.utf8), from: "hub")
    #expect(fault.error.message.utf8.count < 5_000 && fault.error.hint.utf8.count < 5_000)
    let error = #expect(throws: CairnError.self) { try OpenQuestions.opened([1] + Array(body.utf8)) }
    #expect(error.map { $0.code == .busy && $0.message.utf8.count < 5_000 } == true)
  }

  @Test func `a question is not handed back to the name at the address that asks`() throws {
    let trail = try #require(TrailName("till.pos"))
    let book = OpenQuestions(takenMilliseconds: 600, answeredMilliseconds: 600)
    book.note("hub", at: "https://hub:7420")
    let asking = try WorkerThread<Bool> { (try? book.ask(trail, [1], of: "https://hub:7420") { false }) != nil }
    for _ in 0..<40 {
      #expect(book.take(for: "hub") { _, _ in true } == nil)
      #expect(book.take(for: "https://hub:7420") { _, _ in true } == nil)
      Clock.sleep(milliseconds: 5)
    }
    let question = try #require(book.take(for: "till") { _, _ in true })
    #expect(book.answer(question.id, by: "till", [0]))
    #expect(asking.join() == true)
  }
}
