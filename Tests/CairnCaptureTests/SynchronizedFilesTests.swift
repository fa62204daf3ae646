import CairnCapture
import Capturing
import Changes
import Foundation
import SQLiteKit
import TestServers
import Testing

/// A program's file and another one, without a server.
@Suite struct SynchronizedFilesTests {
  private let folder: TempFolder
  private let shop: CapturedDatabase
  private let peer: Database

  init() throws {
    folder = try TempFolder()
    shop = try CapturedDatabase(path: folder("shop.db"), node: "till-7")
    peer = try Database(path: folder("peer.db"), mode: .create)
    try peer.execute("PRAGMA journal_mode = WAL")
  }

  private func line(_ choose: (inout Synchronizer.Options) -> Void = { _ in }) throws -> Synchronizer {
    var options = Synchronizer.Options()
    choose(&options)
    return try Synchronizer(shop, with: "sqlite://" + folder("peer.db"), options: options)
  }

  private func error(_ body: () throws -> Void) -> SynchronizationError? {
    do { try body() } catch let error as SynchronizationError { return error } catch { Issue.record(error) }
    return nil
  }

  @Test func `the direction of the first copy is known without being said again`() throws {
    try shop.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER)")
    try shop.execute("INSERT INTO item VALUES (1, 5)")
    try peer.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER)")
    // A line that is refused before it begins binds no file.
    #expect(error { try line().initialize() }?.kind == .rowsInTheWay)
    try line { $0.firstCopy = .up }.initialize()
    try peer.execute("UPDATE item SET stock = 6")
    try shop.execute("INSERT INTO item VALUES (2, 7)")
    let outcome = try line().synchronize()
    #expect(outcome.sent == 1 && outcome.received == 1)
    try line { $0.firstCopy = .down }.initialize()
    #expect(try shop.query("SELECT stock FROM item ORDER BY id").map(\.values) == [[.integer(6)], [.integer(7)]])
  }

  @Test func `a rule for a column that is not there is reported`() throws {
    try peer.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER)")
    let wrong = error { try line { $0.columnConflicts = ["item.stok": "delta"] }.initialize() }
    #expect(wrong?.kind == .rule && wrong?.message.contains("stok") == true && wrong?.hint.contains("stock") == true)
    try line { $0.columnConflicts = ["Item.Stock": "delta", "later.stock": "delta"] }.initialize()
    #expect(error { try line { $0.columnConflicts = ["item.stok": "delta"] }.synchronize() }?.kind == .rule)
  }

  @Test func `hints speak of what the program can choose`() throws {
    try peer.executeScript("CREATE TABLE item(a); CREATE TABLE sale(id INTEGER PRIMARY KEY)")
    let keyless = try #require(error { try line().initialize() })
    #expect(keyless.kind == .table && keyless.hint.contains("Options.tables") && !keyless.hint.contains("--"))
    try line { $0.tables = ["*", "!item"] }.initialize()
    try Database(path: folder("other.db"), mode: .create).execute("CREATE TABLE sale(id INTEGER PRIMARY KEY)")
    let other = try Synchronizer(
      CapturedDatabase(path: folder("shop.db"), node: "till-7"), with: "sqlite://" + folder("other.db"))
    let foreign = try #require(error { try other.initialize() })
    #expect(foreign.kind == .wentBack && foreign.hint.contains("Options.overwrites") && !foreign.hint.contains("--"))
  }

  @Test func `a change that an end refuses, and a wrong clock, have hints of their own`() {
    for code in [ErrorCode.valueMisfit, .constraintFailed] {
      let refused = SynchronizationError(CairnError(code, "refused", hint: "use --misfit item.stock=null"))
      #expect(refused.kind == .refused && refused.hint.contains("Options.refusal") && !refused.hint.contains("--"))
    }
    #expect(SynchronizationError(CairnError(.clockAhead, "ahead", hint: "")).kind == .clock)
  }

  @Test func `a state folder without a name is refused`() throws {
    #expect(error { _ = try line { $0.state = "" } }?.kind == .rule)
  }

  @Test func `a program that lost the state folder begins again with a first copy`() throws {
    try peer.executeScript("CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER); INSERT INTO item VALUES (1, 5)")
    try line().initialize()
    try shop.execute("INSERT INTO item VALUES (2, 6)")
    try line().synchronize()
    try shop.close()
    try Journal(Database(path: folder("shop.db"))).detach()
    try FileManager.default.removeItem(atPath: folder("shop.db-cairn"))

    let again = try CapturedDatabase(path: folder("shop.db"), node: "till-7")
    let peerURL = "sqlite://" + folder("peer.db")
    #expect(error { try Synchronizer(again, with: peerURL).initialize() }?.kind == .wentBack)
    var options = Synchronizer.Options()
    options.overwrites = true
    let line = try Synchronizer(again, with: peerURL, options: options)
    try line.initialize()
    try again.execute("INSERT INTO item VALUES (3, 7)")
    try peer.execute("UPDATE item SET stock = 8 WHERE id = 2")
    try line.synchronize()
    let rows = try again.query("SELECT id, stock FROM item ORDER BY id").map { $0.values.map(\.description) }
    #expect(rows == [["1", "5"], ["2", "8"], ["3", "7"]])
    #expect(try peer.query("SELECT id, stock FROM item ORDER BY id").map { $0.map { "\(SQLValue($0))" } } == rows)
  }

  @Test func `executed statements can be read, whatever they end with, and how changes of tables go on`() throws {
    try peer.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER)")
    let line = try line()
    try line.initialize()
    try shop.execute("CREATE TABLE more(id INTEGER PRIMARY KEY) -- for later")
    try shop.execute("INSERT INTO item VALUES (1, 2) -- the first")
    try shop.execute("DELETE FROM item;")
    try line.synchronize()
    let child = try Child(
      ExampleTests.built + "/cairn",
      ["trail", "show", "--state", folder("shop.db-cairn"), "till-7.shop", "--statements", "--sql", "postgres"],
      folder: folder.path, environment: ProcessInfo.processInfo.environment, output: folder("out"),
      errors: folder("err"))
    child.wait(seconds: 60)
    let text = try String(contentsOfFile: folder("out"), encoding: .utf8)
    #expect(child.terminationStatus == 0)
    #expect(text.contains("INSERT INTO item VALUES (1, 2) -- the first\n;") && text.contains("DELETE FROM item;\n"))
    #expect(text.contains("\n-- create more\n--   CREATE TABLE"))
    #expect(text.contains("\n-- it changes the schema, which goes by its own record\n"))
  }
}
