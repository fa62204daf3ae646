import PostgresKit
import Testing

@testable import Applying

/// When two-way apply need not wait for capture: no transaction has ended that is not its own.
struct QuietServerTests {
  private func moment(_ text: String) throws -> ServerMoment { try #require(ServerMoment(text)) }

  @Test(
    "what has ended since is told",
    arguments: [
      ("10:10:", "10:10:", []), ("10:10:", "10:13:", [10, 11, 12]), ("10:10:", "10:13:11", [10, 12]),
      ("8:12:8,10", "10:14:10,13", [8, 12]), ("8:12:8", "8:12:8", []),
    ] as [(String, String, [UInt64])])
  func ended(earlier: String, later: String, ended: [UInt64]) throws {
    #expect(try moment(later).ended(since: moment(earlier)) == ended)
  }

  @Test("a server that has gone back, or far ahead, tells nothing", arguments: ["5:5:", "10:900000:"])
  func far(later: String) throws { #expect(try moment(later).ended(since: moment("10:10:")) == nil) }

  @Test("what is no moment is not taken for one", arguments: ["", "10", "10:20", "10:x:", "10:20:x", "1:2:3:4"])
  func malformed(text: String) { #expect(ServerMoment(text) == nil) }

  @Test("only transactions of ours leave the server quiet") func quiet() throws {
    var server = QuietServer()
    #expect(try !server.isQuiet(at: moment("10:11:"), own: 10), "capture has passed nothing yet")
    server.pass(try moment("10:10:"), message: 11, own: 10)
    #expect(try server.isQuiet(at: moment("12:12:"), own: 12), "12 runs, and is not in its own snapshot")
    #expect(try server.isQuiet(at: moment("13:13:"), own: 13), "12 has ended")
    server.note(ours: 14)
    #expect(try server.isQuiet(at: moment("16:16:"), own: 15))
    #expect(try !server.isQuiet(at: moment("18:18:"), own: 17), "16 was a program's")
    #expect(try !server.isQuiet(at: moment("19:19:"), own: 18), "and still is not known")
    server.pass(try moment("20:20:"), message: 21, own: 20)
    #expect(try server.isQuiet(at: moment("22:22:"), own: 22))
    server.forget()
    #expect(try !server.isQuiet(at: moment("23:23:"), own: 22))
  }

  @Test("a program that began long before counts when it ends") func late() throws {
    var server = QuietServer()
    server.pass(try moment("5:11:5"), message: 11, own: 10)
    #expect(try server.isQuiet(at: moment("5:13:5"), own: 12), "13 has ended before the one that asks")
    #expect(try !server.isQuiet(at: moment("14:14:"), own: 14))
  }
}
