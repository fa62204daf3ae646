import CairnCapture
import Capturing
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing

@Suite(.enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"), .serialized)
struct SynchronizerTests {
  @Test func `schema and rows come down once; then what either end writes goes to the other`() throws {
    let till = try SyncedTill()
    var seen: [SynchronizationProgress] = []
    let first = try till.sync.initialize { seen.append($0) }
    #expect(first.received == 3 && first.sent == 0 && first.conflicts == 0 && first.refused == 0)
    #expect(seen.last?.received == 3)
    #expect(try till.both("item") == (till.both("item").there, till.both("item").there))
    let pending = try till.sync.pending
    // On a busy machine capture may not have read the note that apply left in the journal. Capture may also report it
    // last, as a transaction without a row of the program.
    #expect(pending.inFile.transactions == 0 && pending.inFile.rows <= 1 && pending.unsent <= 1, "\(pending)")

    try till.shop.transaction { db in
      try db.execute("INSERT INTO sale VALUES (?, ?, ?)", "a", 1, 2)
      try db.execute("UPDATE item SET stock = stock - 2 WHERE id = 1")
    }
    try till.server.connection.execute("UPDATE item SET stock = 60 WHERE id = 2")
    #expect(try till.sync.pending.inFile.transactions == 1)
    let second = try till.sync.synchronize()
    #expect(second.sent == 2 && second.received == 1 && second.conflicts == 0)
    #expect(try till.sync.pending.isEmpty)
    for table in ["item", "sale"] { #expect(try till.both(table).here == till.both(table).there) }
    #expect(try till.rows("SELECT stock FROM item ORDER BY id") == ["98", "60", "20"])

    // Another start of the program goes on; nothing comes back.
    let third = try till.again().synchronize()
    #expect(third.sent == 0 && third.received == 0)
  }

  @Test(arguments: [false, true]) func `the later of two writes to one row wins at both ends`(isOurs: Bool) throws {
    let till = try SyncedTill()
    try till.sync.initialize()
    func write(_ isHere: Bool) throws {
      let sql = "UPDATE item SET stock = \(isHere ? 2 : 1) WHERE id = 3"
      if isHere { try till.shop.execute(sql) } else { try till.server.connection.execute(sql) }
    }
    try write(!isOurs)
    try write(isOurs)
    let outcome = try till.sync.synchronize()
    #expect(outcome.conflicts >= 1)
    #expect(try till.both("item").here == till.both("item").there)
    #expect(try till.rows("SELECT stock FROM item WHERE id = 3") == [isOurs ? "2" : "1"])
  }

  @Test func `a database that has rows is not overwritten unless it is said`() throws {
    let till = try SyncedTill(setup: [
      "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, stock INTEGER NOT NULL)",
      "INSERT INTO item VALUES (9, 'salt', 1)",
    ])
    #expect { try till.sync.initialize() } throws: { ($0 as? SynchronizationError)?.kind == .rowsInTheWay }
    #expect(try till.rows("SELECT name FROM item") == ["salt"])
    #expect(try till.server.rows("SELECT count(*) FROM item") == ["3"])
    try till.again { $0.overwrites = true }.initialize()
    #expect(try till.rows("SELECT name FROM item ORDER BY id") == ["tea", "milk", "bread"])
    #expect(try till.both("item").here == till.both("item").there)
  }

  @Test func `the first copy may go up`() throws {
    let server = try SyncedTill.Server()
    let till = try SyncedTill(
      with: server,
      setup: [
        "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT NOT NULL, stock INTEGER)",
        "INSERT INTO item VALUES (1, 'tea', 5), (2, 'milk', 6)",
      ]
    ) { $0.firstCopy = .up }
    let first = try till.sync.initialize()
    #expect(first.sent == 2 && first.received == 0)
    #expect(try till.both("item").here == till.both("item").there)
    try server.connection.execute("UPDATE item SET stock = 7 WHERE id = 1")
    try till.shop.execute("DELETE FROM item WHERE id = 2")
    try till.sync.synchronize()
    #expect(try till.both("item") == (["1|tea|7"], ["1|tea|7"]))
  }

  @Test func `two programs with one server see each other's rows`() throws {
    let one = try SyncedTill("till-1")
    let two = try SyncedTill("till-2", with: one.server)
    try one.sync.initialize()
    try two.sync.initialize()
    try one.shop.execute("INSERT INTO sale VALUES ('one', 1, 1)")
    try two.shop.execute("INSERT INTO sale VALUES ('two', 2, 2)")
    try one.shop.execute("UPDATE item SET stock = 11 WHERE id = 1")
    try one.sync.synchronize()
    try two.shop.execute("UPDATE item SET stock = 12 WHERE id = 1")
    try two.sync.synchronize()
    try one.sync.synchronize()
    for table in ["item", "sale"] {
      #expect(try one.both(table).here == one.both(table).there)
      #expect(try two.both(table).here == one.both(table).there)
    }
    #expect(try one.rows("SELECT id FROM sale ORDER BY id") == ["one", "two"])
    // Nothing goes to and fro.
    let last = try [one.sync.synchronize(), two.sync.synchronize(), one.sync.synchronize()]
    #expect(last.allSatisfy { $0.sent == 0 && $0.received == 0 })
  }

  @Test func `a commit can be waited for until the server has it`() throws {
    let till = try SyncedTill()
    try till.sync.initialize()
    let token = try till.shop.transaction { try $0.execute("INSERT INTO sale VALUES ('a', 1, 1)") }
    #expect(try !till.sync.isApplied(token))
    #expect(try till.sync.waitUntilApplied(token))
    #expect(try till.server.rows("SELECT id FROM sale") == ["a"])
    #expect(try till.again().isApplied(token))
    // One that had nothing to do takes nothing back.
    try till.sync.synchronize()
    #expect(try till.sync.isApplied(token) && till.sync.pending.isEmpty)
    let next = try till.shop.transaction { try $0.execute("INSERT INTO sale VALUES ('b', 1, 1)") }
    #expect(try !till.sync.isApplied(next))
    #expect(try !till.sync.waitUntilApplied(next, timeout: .zero))
  }

  @Test func `a transaction that the server refuses stops, or is put aside`() throws {
    let till = try SyncedTill()
    try till.sync.initialize()
    try till.server.connection.execute("ALTER TABLE sale ADD CONSTRAINT few CHECK (pieces < 10) NOT VALID")
    try till.sync.synchronize()
    try till.shop.execute("INSERT INTO sale VALUES ('a', 1, 50)")
    try till.shop.execute("INSERT INTO sale VALUES ('b', 1, 5)")
    #expect { try till.sync.synchronize() } throws: {
      guard let error = $0 as? SynchronizationError, error.kind == .refused else { return false }
      // The constraint and the row's key, not the whole row.
      return error.message.contains("few") && !error.message.contains("Failing row") && error.hint.contains("setAside")
    }
    #expect(try !till.sync.pending.isEmpty)
    let outcome = try till.again { $0.refusal = .setAside }.synchronize()
    #expect(outcome.refused == 1)
    #expect(try till.server.rows("SELECT id FROM sale") == ["b"])
  }

  @Test func `a commit that is put aside is never said to be at the server`() throws {
    let till = try SyncedTill { $0.refusal = .setAside }
    try till.sync.initialize()
    try till.server.connection.execute("ALTER TABLE sale ADD CONSTRAINT few CHECK (pieces < 10) NOT VALID")
    try till.sync.synchronize()
    func commit(_ sql: String) throws -> CommitToken { try till.shop.transaction { try $0.execute(sql) } }
    let before = try commit("INSERT INTO sale VALUES ('a', 1, 5)")
    let refused = try commit("INSERT INTO sale VALUES ('b', 1, 50)")
    let held = try commit("UPDATE sale SET item = 2 WHERE id = 'b'")
    let after = try commit("INSERT INTO sale VALUES ('c', 1, 5)")
    for sync in try [till.sync, till.again { $0.refusal = .setAside }] {
      for token in [refused, held] {
        #expect { try sync.waitUntilApplied(token) } throws: { ($0 as? SynchronizationError)?.kind == .refused }
        #expect(try !sync.isApplied(token))
      }
      #expect(try sync.waitUntilApplied(before) && sync.isApplied(after))
    }
    try till.shop.execute("UPDATE sale SET item = 3 WHERE id = 'b'")
    #expect(try till.sync.synchronize().sent == 0)
    try till.server.connection.executeScript(
      "ALTER TABLE sale DROP CONSTRAINT few; UPDATE cairn.quarantine SET wanted = 'retry'")
    #expect(try till.sync.waitUntilApplied(held) && till.sync.isApplied(refused))
    #expect(try till.both("sale").here == till.both("sale").there)
    // A synchronisation that does not get there takes nothing back.
    try till.server.connection.execute("ALTER TABLE sale ADD CONSTRAINT few CHECK (pieces < 10) NOT VALID")
    let last = try commit("INSERT INTO sale VALUES ('d', 1, 50)")
    #expect { try till.sync.waitUntilApplied(last) } throws: { ($0 as? SynchronizationError)?.kind == .refused }
    _ = try till.server.rows(
      "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
    for _ in 0..<3 {
      #expect { try till.sync.synchronize() } throws: { ($0 as? SynchronizationError)?.kind == .wentBack }
      #expect(try !till.sync.isApplied(last))
    }
  }

  @Test func `the program goes on meanwhile, and all that it committed arrives`() async throws {
    let till = try SyncedTill()
    try await till.sync.initialize()
    let shop = till.shop
    let stop = StopSignal()
    let writer = try WorkerThread<Int> {
      var (count, tries) = (0, 0)
      while !stop.isSet {
        tries += 1
        // On a loaded machine, the file may be locked for too long.
        do { _ = try shop.execute("INSERT INTO sale VALUES (?, 1, 1)", "s\(tries)") } catch { continue }
        count += 1
      }
      return count
    }
    for _ in 0..<2 { try await till.sync.synchronize() }
    stop.set()
    let count = writer.join() ?? 0
    #expect(count > 0)
    #expect(try !till.sync.pending.isEmpty || till.server.rows("SELECT count(*) FROM sale") == ["\(count)"])
    try await till.sync.synchronize()
    #expect(try till.server.rows("SELECT count(*) FROM sale") == ["\(count)"])
    #expect(try till.both("sale").here == till.both("sale").there)
  }

  @Test func `a slot that is gone is mended by a first copy with a new state folder`() throws {
    let till = try SyncedTill()
    try till.sync.initialize()
    try till.shop.execute("UPDATE item SET stock = 1 WHERE id = 1")
    try till.sync.synchronize()
    _ = try till.server.rows(
      "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
    #expect { try till.sync.synchronize() } throws: { ($0 as? SynchronizationError)?.kind == .wentBack }
    try till.shop.close()
    try Journal(Database(path: till.folder("shop.db"))).detach()
    try FileManager.default.removeItem(atPath: till.folder("shop.db-cairn"))
    try till.server.connection.execute("DELETE FROM item WHERE id = 2")

    let shop = try CapturedDatabase(path: till.folder("shop.db"), node: "till-7")
    var options = Synchronizer.Options()
    options.overwrites = true
    let line = try Synchronizer(shop, with: till.server.url, options: options)
    try line.initialize()
    try shop.execute("UPDATE item SET stock = 2 WHERE id = 3")
    try line.synchronize()
    let rows = try shop.query("SELECT id, name, stock FROM item ORDER BY id").map {
      $0.values.map(\.description).joined(separator: "|")
    }
    #expect(rows == ["1|tea|1", "3|bread|2"])
    #expect(try till.server.rows("SELECT * FROM item ORDER BY id") == rows)
  }

  private func cancelFirstCopy(_ sync: Synchronizer) throws {
    #expect { try sync.initialize { _ in sync.cancel() } } throws: {
      ($0 as? SynchronizationError)?.kind == .cancelled
    }
    #expect { try sync.synchronize() } throws: { ($0 as? SynchronizationError)?.kind == .notInitialized }
  }

  @Test func `it can be cancelled from another thread, and by its task; the next one goes on`() async throws {
    let till = try SyncedTill()
    try till.server.connection.execute(
      "INSERT INTO sale SELECT 'x' || n, 1, 1 FROM generate_series(1, 20000) n")
    let sync = till.sync
    try cancelFirstCopy(sync)
    let task = Task { try await sync.initialize() }
    task.cancel()
    await #expect { try await task.value } throws: { ($0 as? SynchronizationError)?.kind == .cancelled }
    try await sync.initialize()
    #expect(try till.both("sale").here == till.both("sale").there)
  }

  @Test func `misuse and what is missing are errors of a kind`() throws {
    let till = try SyncedTill()
    func kind(_ body: () throws -> Void) -> SynchronizationError.Kind? {
      do {
        try body()
        return nil
      } catch { return (error as? SynchronizationError)?.kind }
    }
    #expect(kind { try till.sync.synchronize() } == .notInitialized)
    #expect(kind { _ = try Synchronizer(till.shop, with: "mysql://x") } == .address)
    #expect(kind { try Synchronizer(till.shop, with: "sqlite:" + till.folder("shop.db")).initialize() } == .address)
    #expect(
      kind { try Synchronizer(till.shop, with: "postgresql://nobody@/x?host=/nowhere").initialize() } == .unreachable)
    try till.shop.transaction { _ in
      #expect { try till.sync.initialize() } throws: { ($0 as? DatabaseError)?.kind == .openTransaction }
    }
    try till.sync.initialize { _ in #expect(kind { try till.sync.synchronize() } == .alreadyRunning) }
    // Another one with the same state, as of another process.
    let other = try till.again()
    try till.sync.synchronize { _ in #expect(kind { try other.synchronize() } == .alreadyRunning) }
    try till.shop.close()
    #expect { try till.sync.synchronize() } throws: { ($0 as? DatabaseError)?.kind == .closed }
  }
}
