import Changes
import Configuring
import Testing

@testable import Daemon

@Suite struct OppositeCopyTests {
  private static func conf() -> Configuration {
    var conf = Configuration(node: .init(name: "hq", state: "/state"))
    conf.databases = [.init(name: "a", url: "sqlite:///a.db"), .init(name: "b", url: "sqlite:///b.db")]
    conf.captures = [.init(name: "from-a", database: "a"), .init(name: "from-b", database: "b")]
    conf.applies = [
      .init(name: "to-b", trail: "hq.from-a", database: "b"), .init(name: "to-a", trail: "hq.from-b", database: "a"),
    ]
    return conf
  }

  @Test func `no copy begins while the other end is copied`() throws {
    let conf = Self.conf()
    let opposite = try #require(OppositeCopy(conf.applies[0], conf))
    #expect(opposite.refusal(.init()) == nil)
    #expect(opposite.refusal(.init(captures: ["from-a"], applies: ["to-b"])) == nil, "its own copy is no reason")
    let applied = try #require(opposite.refusal(.init(applies: ["to-a"])))
    #expect(applied.code == .busy && applied.message.contains("apply.to-a"))
    let captured = try #require(opposite.refusal(.init(captures: ["from-b"])))
    #expect(captured.code == .busy && captured.hint.contains("cairn copy to-b"))
  }

  @Test func `an apply that goes one way is copied at any time`() {
    var conf = Self.conf()
    conf.applies.removeLast()
    #expect(OppositeCopy(conf.applies[0], conf) == nil)
  }

  @Test func `a hint names the copy that brings the rows of the other end`() {
    var conf = Self.conf()
    #expect(conf.copyBack(into: conf.captures[0]) == "'cairn copy to-a'")
    #expect(conf.copyBack(of: conf.applies[0]) == "'cairn copy to-a'")
    #expect(conf.copyBack(of: conf.applies[1]) == "'cairn copy to-b'")
    // The other end is at another node, which receives this node's trail.
    conf.captures.removeLast()
    conf.applies = [.init(name: "to-a", trail: "till.b", database: "a")]
    conf.peers = [.init(name: "till", push: TrailPatterns([]), pull: TrailPatterns(["hq.from-a"]))]
    #expect(conf.copyBack(of: conf.applies[0]) == "'cairn copy' at node till for its apply of trail hq.from-a")
    conf.peers = []
    #expect(conf.copyBack(of: conf.applies[0]) == nil)
    #expect(conf.copyBack(into: conf.captures[0]) == nil)
  }
}
