import Configuring
import Deploying
import Mapping
import SQLiteKit
import Testing

@testable import Daemon

/// Tables that applies of this node may bring to a database, over several databases.
@Suite struct TablesToComeTests {
  /// A chain: `a` is captured into trail hq.a, which is applied to `b`, which is captured into hq.b, and so on to `c`.
  private static func conf(_ folder: String) -> Configuration {
    var conf = Configuration(node: .init(name: "hq", state: folder + "/state"))
    conf.databases = ["a", "b", "c"].map { .init(name: $0, url: "sqlite://\(folder)/\($0).db") }
    conf.captures = ["a", "b"].map { .init(name: $0, database: $0) }
    conf.applies = [
      .init(name: "to-b", trail: "hq.a", database: "b"), .init(name: "to-c", trail: "hq.b", database: "c"),
    ]
    return conf
  }

  private func chain() throws -> (conf: Configuration, node: TestNode) {
    let node = try TestNode(Self.conf)
    try node.database("a.db").executeScript("CREATE TABLE item(id INTEGER PRIMARY KEY)")
    try node.database("b.db").executeScript("CREATE TABLE sale(id INTEGER PRIMARY KEY)")
    try node.database("c.db").executeScript("CREATE TABLE note(id INTEGER PRIMARY KEY)")
    return (node.context.configuration, node)
  }

  private func coming(_ names: [String], _ conf: Configuration, in database: String) -> [String] {
    let tables = TablesToCome(conf, in: database)
    return names.filter { tables.mayHave($0) }
  }

  private static let names = ["item", "sale", "note", "itme"]

  @Test func `a table of the first of three databases comes to the third`() throws {
    var (conf, node) = try chain()
    defer { withExtendedLifetime(node) {} }
    #expect(coming(Self.names, conf, in: "a") == [])
    #expect(coming(Self.names, conf, in: "b") == ["item"])
    #expect(coming(Self.names, conf, in: "c") == ["item", "sale"])
    // In a ring, each database may get the tables of the other two.
    conf.captures.append(.init(name: "c", database: "c"))
    conf.applies.append(.init(name: "to-a", trail: "hq.c", database: "a"))
    #expect(coming(Self.names, conf, in: "a") == ["sale", "note"])
    #expect(coming(Self.names, conf, in: "b") == ["item", "note"])
    #expect(coming(Self.names, conf, in: "c") == ["item", "sale"])
  }

  @Test func `a table that a capture or an apply leaves out on the way does not come`() throws {
    var (conf, node) = try chain()
    defer { withExtendedLifetime(node) {} }
    conf.captures[0].tables = ["*", "!item"]
    #expect(coming(Self.names, conf, in: "c") == ["sale"])
    conf.captures[0].tables = ["*"]
    conf.captures[1].tables = ["sale"]
    #expect(coming(Self.names, conf, in: "c") == ["sale"])
    conf.captures[1].tables = ["*"]
    conf.applies[0].tables = ["other"]
    #expect(coming(Self.names, conf, in: "b") == [])
    #expect(coming(Self.names, conf, in: "c") == ["sale"])
  }

  @Test(arguments: ["postgresql:///shop?host=/nonexistent", "sqlite:///nonexistent/shop.db"])
  func `if a source cannot be reached, any table may come, but not by an apply beside it`(_ url: String) throws {
    var (conf, node) = try chain()
    defer { withExtendedLifetime(node) {} }
    conf.databases[0].url = url
    #expect(coming(Self.names, conf, in: "b") == Self.names)
    #expect(coming(Self.names, conf, in: "c") == Self.names)
    #expect(coming(Self.names, conf, in: "a") == [])
  }

  @Test func `if a rule gives another name, or a trail comes from another node, any table may come`() throws {
    var (conf, node) = try chain()
    defer { withExtendedLifetime(node) {} }
    var rule = TableRule(from: "item")
    rule.to = "goods"
    conf.applies[0].rules = [rule]
    #expect(coming(Self.names, conf, in: "c") == Self.names)
    conf.applies[0].rules = []
    conf.applies.append(.init(name: "more", trail: "till.pos", database: "b"))
    #expect(coming(Self.names, conf, in: "c") == Self.names)
  }

  @Test func `a name in the list of an apply may come over two databases, and not without a chain`() throws {
    var (conf, node) = try chain()
    defer { withExtendedLifetime(node) {} }
    let last = conf.applies[1]
    #expect(Self.names.filter { conf.mayCome($0, to: last) } == ["item", "sale"])
    #expect(Self.names.filter { conf.mayCome($0, to: conf.applies[0]) } == [])
    conf.databases[0].url = "sqlite:///nonexistent/shop.db"
    #expect(Self.names.filter { conf.mayCome($0, to: last) } == Self.names)
  }
}
