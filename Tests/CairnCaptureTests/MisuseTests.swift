import CairnCapture
import Capturing
import Foundation
import SQLiteKit
import TestServers
import Testing

/// Whatever a program does wrong, and whatever fails below it, is an error with its kind; nothing that was committed is lost.
@Suite struct MisuseTests {
  private let folder: TempFolder
  private let shop: CapturedDatabase

  init() throws {
    folder = try TempFolder()
    shop = try CapturedDatabase(path: folder("shop.db"), node: "till-7")
    try shop.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
    try shop.execute("INSERT INTO item VALUES (1, 'tea')")
  }

  private func kind(_ body: () throws -> Void) -> DatabaseError.Kind? {
    do { try body() } catch let error as DatabaseError { return error.kind } catch { Issue.record(error) }
    return nil
  }

  private var names: [String] {
    get throws { try shop.query(as: String.self, "SELECT name FROM item ORDER BY id") }
  }

  @Test func `a closed database says so`() throws {
    try shop.close()
    try shop.close()
    #expect(kind { try shop.execute("DELETE FROM item") } == .closed)
    #expect(kind { try shop.transaction { _ in } } == .closed)
    #expect(kind { _ = try shop.pending } == .closed)
    #expect(try CapturedDatabase(path: folder("shop.db"), node: "till-7").query("SELECT * FROM item").count == 1)
  }

  @Test func `it is not closed inside of its own transaction or query`() throws {
    try shop.transaction { db in
      #expect(kind { try shop.close() } == .openTransaction)
      try db.execute("INSERT INTO item VALUES (2, 'rum')")
    }
    try shop.forEach("SELECT * FROM item") { _ in #expect(kind { try shop.close() } == .openTransaction) }
    #expect(try names == ["tea", "rum"])
  }

  @Test func `a path that is empty, and a table under a name of Cairn's, are errors of their kind`() throws {
    #expect(kind { _ = try CapturedDatabase(path: "", node: "till-7") } == .cannotOpen)
    try Database(path: folder("other.db"), mode: .create).execute("CREATE TABLE cairn_journal(a)")
    #expect { try CapturedDatabase(path: folder("other.db"), node: "till-7") } throws: {
      ($0 as? DatabaseError)?.kind == .capture && "\($0)".contains("cairn_journal that is not Cairn's")
    }
    #expect(try Database(path: folder("other.db")).query("SELECT * FROM cairn_journal").isEmpty)
  }

  @Test func `a file from which Cairn was detached says so, and is captured when it is opened again`() throws {
    try Journal(Database(path: folder("shop.db"))).detach()
    #expect { try shop.execute("INSERT INTO item VALUES (2, 'rum')") } throws: {
      ($0 as? DatabaseError)?.kind == .capture && "\($0)".contains("open the database again")
    }
    #expect(kind { try shop.execute("CREATE TABLE more(a)") } == .capture)
    #expect(try names == ["tea"])
    let again = try CapturedDatabase(path: folder("shop.db"), node: "till-7")
    try again.execute("INSERT INTO item VALUES (2, 'rum')")
    #expect(try again.pending.transactions == 1)
  }

  @Test func `a statement that fails keeps what SQLite keeps`() throws {
    let plain = try Database(path: folder("plain.db"), mode: .create)
    try plain.executeScript(
      "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE); INSERT INTO item VALUES (1, 'tea')")
    var id = 10
    for clause in ["FAIL", "ABORT", "ROLLBACK", "FAIL", "IGNORE"] {
      let sql = "INSERT OR \(clause) INTO item VALUES (\(id), 'a\(id)'), (1, 'b'), (\(id + 1), 'c\(id)')"
      let refused = kind { try shop.execute(sql) }
      #expect(refused == (clause == "IGNORE" ? nil : .constraint))
      _ = try? plain.execute(sql)
      id += 10
      #expect(try names == plain.query("SELECT name FROM item ORDER BY id").map { $0[0].string }, "OR \(clause)")
    }
    #expect(try names.count == 5)
  }

  @Test func `a transaction in a transaction is refused, and the outer one goes on`() throws {
    try shop.transaction { db in
      try db.execute("INSERT INTO item VALUES (2, 'rum')")
      #expect(kind { try shop.transaction { _ in } } == .nestedTransaction)
      try db.execute("INSERT INTO item VALUES (3, 'gin')")
    }
    #expect(try names == ["tea", "rum", "gin"])
  }

  @Test func `a transaction that is over refuses everything`() throws {
    var kept: CapturedTransaction?
    try shop.transaction { kept = $0 }
    let over = try #require(kept)
    #expect(kind { try over.execute("DELETE FROM item") } == .transactionEnded)
    try shop.transaction { _ in
      #expect(kind { try over.execute("DELETE FROM item") } == .transactionEnded)
      #expect(kind { try over.savepoint { _ in } } == .transactionEnded)
    }
    #expect(try names == ["tea"])
  }

  @Test func `a transaction in the hands of another thread is over when that comes to it`() throws {
    struct Smuggled: @unchecked Sendable { let transaction: CapturedTransaction }
    let (shop, thread) = (shop, Box<Thread>())
    let result = Box<DatabaseError.Kind>()
    let done = DispatchSemaphore(value: 0)
    try shop.transaction { db in
      let smuggled = Smuggled(transaction: db)
      let other = Thread {
        do { try smuggled.transaction.execute("DELETE FROM item") } catch {
          result.value = (error as? DatabaseError)?.kind
        }
        done.signal()
      }
      thread.value = other
      other.start()
      try db.execute("INSERT INTO item VALUES (2, 'rum')")
    }
    done.wait()
    #expect(result.value == .transactionEnded)
    #expect(try names == ["tea", "rum"])
  }

  @Test func `statements that are none, several, or not for execute`() {
    #expect(kind { try shop.execute("") } == .emptyStatement)
    #expect(kind { try shop.execute(" -- nothing\n;") } == .emptyStatement)
    #expect(kind { try shop.execute("DELETE FROM item; DELETE FROM item") } == .severalStatements)
    #expect(kind { try shop.execute("DELETE FROM item\0 WHERE id = 2") } == .severalStatements)
    #expect(kind { try shop.execute("DELETE FROM item WHERE 0; -- and a comment") } == nil)
    for text in ["BEGIN", "commit", " /* x */ ROLLBACK", "SAVEPOINT a", "END", "RELEASE a", "\u{FEFF}BEGIN"] {
      #expect(kind { try shop.execute(text) } == .transactionStatement)
    }
    #expect(kind { try shop.execute("SELEC 1") } == .refused)
    #expect(kind { try shop.execute("SELECT * FROM nothing") } == .refused)
  }

  @Test func `as many values as parameters, and errors hold none of them`() throws {
    #expect(
      kind { try shop.execute("INSERT INTO item VALUES (?, ?)", 1) } == .parameterCount(expected: 2, given: 1))
    #expect(kind { _ = try shop.query("SELECT 1", 1) } == .parameterCount(expected: 0, given: 1))
    #expect(kind { _ = try shop.query("SELECT ?3", 1, 2) } == .parameterCount(expected: 3, given: 2))
    let error = #expect(throws: DatabaseError.self) {
      try shop.execute("INSERT INTO item VALUES (?, ?)", 5, "tea")
    }
    #expect(error?.kind == .constraint && error?.code == 2067 && error?.sql == "INSERT INTO item VALUES (?, ?)")
    #expect(error.map { "\($0)" }?.contains("tea") == false)
    #expect(try names == ["tea"])
  }

  @Test func `a database that another connection keeps locked is busy`() throws {
    var options = CapturedDatabase.Options()
    options.busyTimeout = .milliseconds(20)
    let second = try CapturedDatabase(path: folder("shop.db"), node: "till-7", options: options)
    try shop.transaction { db in
      try db.execute("INSERT INTO item VALUES (2, 'rum')")
      #expect(kind { try second.execute("INSERT INTO item VALUES (3, 'gin')") } == .busy)
      #expect(kind { try second.transaction { _ in } } == .busy)
      #expect(try second.query("SELECT * FROM item").count == 1)
    }
    try second.execute("INSERT INTO item VALUES (3, 'gin')")
    #expect(try names == ["tea", "rum", "gin"])
  }

  @Test func `a full disk loses what was not committed, and nothing else`() throws {
    let pages = try shop.query("PRAGMA page_count")[0].value("page_count", as: Int.self)
    try shop.execute("PRAGMA max_page_count = \(pages + 20)")
    let big = String(repeating: "x", count: 100_000)
    #expect(kind { try shop.execute("INSERT INTO item(name) VALUES (?)", big) } == .full)
    let filled = kind {
      try shop.transaction { db in
        try db.execute("INSERT INTO item VALUES (2, 'rum')")
        let error = #expect(throws: DatabaseError.self) {
          try db.execute("INSERT INTO item(name) VALUES (?)", big)
        }
        #expect(error?.kind == .full)
        try db.execute("INSERT INTO item VALUES (3, 'gin')")
      }
    }
    // SQLite may have rolled the transaction back by itself; then it says so, and all of it is gone.
    #expect(filled == nil || filled == .transactionEnded)
    #expect(try names == (filled == nil ? ["tea", "rum", "gin"] : ["tea"]))
    try shop.execute("PRAGMA max_page_count = 100000")
    try shop.execute("INSERT INTO item(name) VALUES (?)", big)
  }

  @Test func `ON CONFLICT ROLLBACK ends the transaction`() throws {
    let ended = kind {
      try shop.transaction { db in
        try db.execute("INSERT INTO item VALUES (2, 'rum')")
        #expect(kind { try db.execute("INSERT OR ROLLBACK INTO item VALUES (1, 'x')") } == .constraint)
        #expect(kind { try db.execute("INSERT INTO item VALUES (3, 'gin')") } == .transactionEnded)
        #expect(kind { try shop.execute("INSERT INTO item VALUES (4, 'gin')") } == .transactionEnded)
        #expect(kind { _ = try shop.query("INSERT INTO item VALUES (5, 'gin') RETURNING 1") } == .transactionEnded)
      }
    }
    #expect(ended == .transactionEnded)
    #expect(try names == ["tea"])
  }

  @Test func `files that cannot be opened`() throws {
    #expect(kind { _ = try CapturedDatabase(path: folder("no/such/folder.db"), node: "a") } == .cannotOpen)
    try Data("no database at all, but text that is long enough for one".utf8).write(
      to: URL(filePath: folder("text.db")))
    #expect(kind { _ = try CapturedDatabase(path: folder("text.db"), node: "a") } == .notADatabase)
    #expect(kind { _ = try CapturedDatabase(path: folder("x.db"), node: "no name") } == .nodeName)
  }
}

/// Carries a value out of a thread.
final class Box<T>: @unchecked Sendable { var value: T? }
