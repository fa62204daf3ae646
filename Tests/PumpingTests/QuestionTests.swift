import Changes
import Foundation
import NetKit
import Synchronization
import SystemKit
import TestServers
import Testing
import Trails

@testable import Pumping

/// Questions about the rows of sources, from node to node.
@Suite struct QuestionTests {
  private let temp: TempFolder
  private let hub: TestNode
  private let stop = StopSignal()
  private let trail = TrailName("till.pos")
  private let own = TrailName("hub.erp")

  init() throws {
    temp = try TempFolder()
    hub = try TestNode("hub", temp)
    try hub.write("hub.erp", transactions: 2)
    try hub.listen([
      "till": (["till.*"], ["hub.*"]), "lab": (["lab.*"], ["till.*", "hub.*"]), "mesh": (["*"], ["*"]),
    ])
  }

  private func ask(
    _ method: String, _ target: String, as peer: String, body: [UInt8]? = nil
  ) throws -> HTTPReply {
    let client = try HTTPClient(base: hub.url, options: .init(node: peer), stop: stop)
    guard let body else { return try client.perform(method, target) }
    return try body.withUnsafeBytes { try client.perform(method, target, body: $0) }
  }

  @Test func `only a peer that may pull a trail asks about its rows, and no more than fits`() throws {
    let address = "/cairn/1/trails/till.pos/questions"
    #expect(try ask("POST", address, as: "till", body: [1]).status == 403)
    #expect(try ask("POST", address, as: "stranger", body: [1]).status == 403)
    #expect(try ask("GET", address, as: "lab").status == 405)
    // Its own rows a node has at hand.
    #expect(try ask("POST", "/cairn/1/trails/mesh.x/questions", as: "mesh", body: [1]).status == 400)
    let large = [UInt8](repeating: 1, count: OpenQuestions.questionBytesMax + 1)
    #expect(try ask("POST", "/cairn/1/trails/hub.erp/questions", as: "till", body: large).status == 413)
    // This node of the test has no source.
    let answer = try ask("POST", "/cairn/1/trails/hub.erp/questions", as: "till", body: [1])
    #expect(answer.status == 200 && answer.body.first == 1)
    #expect(throws: CairnError.self) { try OpenQuestions.opened(answer.body) }
  }

  @Test func `a question goes to who may push the trail, and only who took it answers`() throws {
    let trail = try #require(trail)
    let book = hub.shared.hooks.questions
    let asking = try WorkerThread<[UInt8]?> { try? book.ask(trail, [7], of: "lab") { false } }
    // The origin comes first; who asks gets its own question never.
    #expect(try ask("GET", "/cairn/1/questions?wait=0", as: "mesh").status == 204)
    #expect(try ask("GET", "/cairn/1/questions?wait=1", as: "lab").status == 204)
    let requests = try ask("GET", "/cairn/1/requests", as: "till")
    #expect(String(decoding: requests.body, as: UTF8.self).contains("\"questions\""))
    let taken = try ask("GET", "/cairn/1/questions?wait=5", as: "till")
    #expect(taken.status == 200 && taken.body == [7] && taken.headers["cairn-trail"] == "till.pos")
    let id = try #require(taken.headers["cairn-question"])
    #expect(try ask("GET", "/cairn/1/questions?wait=0", as: "till").status == 204)
    #expect(try ask("POST", "/cairn/1/questions/\(id)", as: "mesh", body: [0, 9]).status == 404)
    let large = [UInt8](repeating: 0, count: OpenQuestions.answerBytesMax + 1)
    #expect(try ask("POST", "/cairn/1/questions/\(id)", as: "till", body: large).status == 413)
    #expect(try ask("POST", "/cairn/1/questions/\(id)", as: "till", body: [0, 9]).status == 200)
    #expect(asking.join() == [9])
    #expect(try ask("POST", "/cairn/1/questions/\(id)", as: "till", body: [0, 9]).status == 404)
  }

  @Test func `the fifth question of a peer at one time is refused, and the first four are answered`() throws {
    let begun = Mutex(0)
    let go = StopSignal()
    hub.answering.withLock { answer in
      answer = { asker, _, question in
        begun.withLock { $0 += 1 }
        if asker == "till" { _ = go.wait(milliseconds: 20_000) }
        return [UInt8(asker.utf8.count)] + question
      }
    }
    let address = "/cairn/1/trails/hub.erp/questions"
    let four = try (1...4).map { number in
      try WorkerThread<HTTPReply?> { try? ask("POST", address, as: "till", body: [UInt8(number)]) }
    }
    let limit = Clock.monotonicMilliseconds + 10_000
    while begun.withLock({ $0 }) < 4, Clock.monotonicMilliseconds < limit { Clock.sleep(milliseconds: 5) }
    #expect(begun.withLock { $0 } == 4)
    let fifth = try ask("POST", address, as: "till", body: [5])
    #expect(fifth.status == 503 && String(decoding: fifth.body, as: UTF8.self).contains("\"busy\""))
    // Another peer has room of its own.
    let other = try ask("POST", address, as: "mesh", body: [6])
    #expect(try OpenQuestions.opened(other.body) == [4, 6])
    go.set()
    for (number, thread) in zip(1..., four) {
      let reply = try #require(thread.join() ?? nil)
      #expect(try OpenQuestions.opened(reply.body) == [4, UInt8(number)])
    }
    let next = try ask("POST", address, as: "till", body: [5])
    #expect(try OpenQuestions.opened(next.body) == [4, 5])
  }

  @Test func `questions that wait are bounded for each asker`() throws {
    let trail = try #require(trail)
    let book = OpenQuestions(takenMilliseconds: 1_500, answeredMilliseconds: 1_500)
    let codes = Mutex<[ErrorCode]>([])
    let threads = try (0..<20).map { _ in
      try WorkerThread<Void> {
        do { _ = try book.ask(trail, [1], of: "evil") { false } } catch {
          let code = (error as? CairnError)?.code
          codes.withLock { $0.append(code ?? .bug) }
        }
      }
    }
    Clock.sleep(milliseconds: 300)
    // Another one still has room.
    let other = try WorkerThread<[UInt8]?> { try? book.ask(trail, [2], of: "lab") { false } }
    let limit = Clock.monotonicMilliseconds + 1_000
    var answered = false
    while !answered, Clock.monotonicMilliseconds < limit {
      if let question = book.take(for: "till", { _, _ in true }) {
        answered = question.bytes == [2] && book.answer(question.id, by: "till", [0, 5])
      }
    }
    #expect(other.join() == [5])
    for thread in threads { _ = thread.join() }
    codes.withLock { codes in
      #expect(codes.count == 20)
      #expect(codes.count { $0 == .busy } >= 12 && codes.allSatisfy { [.busy, .peerUnreachable].contains($0) })
    }
  }

  @Test func `pumps carry questions in both directions, and over a node in between`() throws {
    let (trail, own) = (try #require(trail), try #require(own))
    let till = try TestNode("till", temp) { asker, trail, question in [UInt8(asker.utf8.count)] + question }
    try till.write("till.pos", transactions: 2)
    _ = till.pump(.push, hub, "till.*")
    // The hub asks the node that dialled it, which knows it by its address.
    let address = UInt8(hub.url.utf8.count)
    #expect(try hub.shared.hooks.questions.ask(trail, [1, 2], of: "apply.pos") { false } == [address, 1, 2])
    // Another node asks over the hub.
    let between = hub.shared.hooks.questions
    hub.answering.withLock { hub in
      hub = { asker, trail, question in
        trail.origin == "hub" ? [42] : try between.ask(trail, question, of: asker) { false }
      }
    }
    let lab = try TestNode("lab", temp)
    _ = lab.pump(.pull, hub, "till.*", "hub.*")
    let questions = lab.shared.hooks.questions
    #expect(try questions.ask(own, [8], of: "apply.erp") { false } == [42])
    #expect(try questions.ask(trail, [8], of: "apply.pos") { false } == [address, 8])
    // Errors travel too; what ails a database is not shown.
    till.answering.withLock { till in
      till = { _, _, _ in
        throw CairnError(.databaseFailed, "cannot open /secret/place", hint: "look at /secret", remedy: .retry)
      }
    }
    let error = #expect(throws: CairnError.self) { try questions.ask(trail, [8], of: "apply.pos") { false } }
    #expect(error?.code == .databaseFailed && error?.message.contains("secret") == false)
    for node in [till, lab] { node.end() }
  }
}
