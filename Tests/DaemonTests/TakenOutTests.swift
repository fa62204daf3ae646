import Configuring
import SQLiteKit
import Testing

@testable import Daemon

/// A conf that takes tables out of a capture.
@Suite struct TakenOutTests {
  private static func conf(_ folder: String) -> Configuration {
    var conf = Configuration(node: .init(name: "store-042", state: folder + "/state"))
    conf.databases = [.init(name: "pos", url: "sqlite://\(folder)/pos.db")]
    conf.captures = [.init(name: "pos", database: "pos")]
    return conf
  }

  @Test func `tables that are taken no more are named, with what becomes of their rows`() throws {
    let node = try TestNode(Self.conf)
    let old = node.context.configuration
    func notices(_ tables: [String], _ more: (inout Configuration) -> Void = { _ in }) -> [String] {
      var new = old
      new.captures[0].tables = tables
      more(&new)
      return TakenOut.notices(from: old, to: new)
    }
    #expect(notices(["item"]).first?.contains("which cannot be listed: ") == true)
    try node.database("pos.db").executeScript(
      "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE note(id INTEGER PRIMARY KEY); CREATE TABLE sale(id)")
    let stays = "their rows at targets stay"
    #expect(notices(["*", "!note"]) == ["capture.pos no longer includes: note; \(stays)"])
    #expect(notices(["ITEM"]) == ["capture.pos no longer includes: note, sale; \(stays)"])
    #expect(notices(["*", "!gone"]).isEmpty && notices(["*"]).isEmpty)
    #expect(notices(["item"]) { $0.captures = [] }.isEmpty)
  }
}
