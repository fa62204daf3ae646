import CCairn
import CairnC
import SQLiteKit
import SystemKit
import TestServers
import Testing

/// The functions of `cairn.h`, as a program in C calls them.
@Suite struct LibraryTests {
  private final class Shop {
    let folder: TempFolder
    private(set) var handle: OpaquePointer?

    init() throws {
      folder = try TempFolder()
      try #require(
        cairn_open(folder("shop.db"), "till-7", nil, &handle) == CAIRN_OK, "\(String(cString: cairn_error_message()))")
    }

    deinit { _ = cairn_close(handle) }

    func execute(_ sql: String, _ values: [cairn_value] = []) -> cairn_code {
      cairn_execute(handle, sql, values, values.count, nil)
    }

    func count(_ table: String) -> Int64 {
      var rows: OpaquePointer?
      guard cairn_query(handle, "SELECT count(*) FROM \(table)", nil, 0, &rows) == CAIRN_OK else { return -1 }
      defer { cairn_rows_close(rows) }
      return cairn_rows_next(rows) == 1 ? cairn_rows_value(rows, 0).integer : -1
    }
  }

  private var message: String { String(cString: cairn_error_message()) }

  @Test func `values of every type come back as they went in`() throws {
    let shop = try Shop()
    #expect(shop.execute("CREATE TABLE t(a, b, c, d, e)") == CAIRN_OK)
    let (text, blob) = ("häuser", [UInt8](0...9))
    var changed: Int64 = 0
    let code = text.withCString { text in
      blob.withUnsafeBytes { blob in
        let values = [
          cairn_integer(.min), cairn_real(0.1), cairn_text(text), cairn_blob(blob.baseAddress, blob.count),
          cairn_null(),
        ]
        return cairn_execute(shop.handle, "INSERT INTO t VALUES (?, ?, ?, ?, ?)", values, values.count, &changed)
      }
    }
    #expect(code == CAIRN_OK && changed == 1 && cairn_last_insert_rowid(shop.handle) == 1)
    var rows: OpaquePointer?
    #expect(cairn_query(shop.handle, "SELECT *, '' AS f FROM t", nil, 0, &rows) == CAIRN_OK)
    defer { cairn_rows_close(rows) }
    #expect(cairn_rows_value(rows, 0).type == CAIRN_NULL)
    #expect(cairn_rows_next(rows) == 1)
    #expect(cairn_rows_column_count(rows) == 6)
    #expect(cairn_rows_column_name(rows, 5).map { String(cString: $0) } == "f")
    #expect(cairn_rows_column_name(rows, 6) == nil && cairn_rows_value(rows, 6).type == CAIRN_NULL)
    #expect(cairn_rows_value(rows, 0).integer == .min && cairn_rows_value(rows, 1).real == 0.1)
    let (third, fourth, last) = (cairn_rows_value(rows, 2), cairn_rows_value(rows, 3), cairn_rows_value(rows, 5))
    #expect(third.type == CAIRN_TEXT && third.size == 7)
    #expect(String(cString: try #require(third.bytes).assumingMemoryBound(to: CChar.self)) == text)
    #expect(fourth.type == CAIRN_BLOB && Array(UnsafeRawBufferPointer(start: fourth.bytes, count: fourth.size)) == blob)
    #expect(cairn_rows_value(rows, 4).type == CAIRN_NULL)
    #expect(last.type == CAIRN_TEXT && last.size == 0 && last.bytes != nil)
    #expect(cairn_rows_next(rows) == 0 && cairn_rows_next(rows) == 0)
  }

  @Test func `transactions and savepoints commit and roll back by what their function returns`() throws {
    let shop = try Shop()
    #expect(shop.execute("CREATE TABLE t(a)") == CAIRN_OK)
    var token: Int64 = 0
    let code = cairn_transaction(
      shop.handle,
      { shop, _ in
        guard cairn_execute(shop, "INSERT INTO t VALUES (1)", nil, 0, nil) == CAIRN_OK else { return 1 }
        let kept = cairn_savepoint(
          shop, { shop, _ in Int32(cairn_execute(shop, "INSERT INTO t VALUES (2)", nil, 0, nil).rawValue) }, nil)
        let lost = cairn_savepoint(
          shop,
          { shop, _ in
            _ = cairn_execute(shop, "INSERT INTO t VALUES (3)", nil, 0, nil)
            return 7
          }, nil)
        let nested = cairn_transaction(shop, { _, _ in 0 }, nil, nil)
        let closed = cairn_close(shop)
        return kept == CAIRN_OK && lost == CAIRN_ROLLED_BACK && nested == CAIRN_TRANSACTION
          && closed == CAIRN_TRANSACTION
          ? 0 : 2
      }, nil, &token)
    #expect(code == CAIRN_OK && token > 0, "\(message)")
    #expect(shop.count("t") == 2)
    let rolledBack = cairn_transaction(
      shop.handle,
      { shop, context in
        _ = cairn_execute(shop, "DELETE FROM t", nil, 0, nil)
        return context?.load(as: Int32.self) ?? 0
      }, [Int32(5)].withUnsafeBytes { UnsafeMutableRawPointer(mutating: $0.baseAddress) }, nil)
    #expect(rolledBack == CAIRN_ROLLED_BACK && message.contains("5"))
    #expect(shop.count("t") == 2)
    var pending = cairn_pending()
    #expect(cairn_database_pending(shop.handle, &pending) == CAIRN_OK && pending.transactions == 2)
  }

  @Test func `names and values of a query stay together when its table changes`() throws {
    let shop = try Shop()
    func columns() throws -> [String] {
      var rows: OpaquePointer?
      try #require(cairn_query(shop.handle, "SELECT * FROM t", nil, 0, &rows) == CAIRN_OK)
      defer { cairn_rows_close(rows) }
      #expect(cairn_rows_next(rows) == 1)
      return (0..<cairn_rows_column_count(rows)).map { column in
        let name = cairn_rows_column_name(rows, column).map { String(cString: $0) } ?? ""
        return "\(name) \(cairn_rows_value(rows, column).integer)"
      }
    }
    #expect(shop.execute("CREATE TABLE t(a, b, c)") == CAIRN_OK)
    #expect(shop.execute("INSERT INTO t VALUES (1, 2, 3)") == CAIRN_OK)
    #expect(try columns() == ["a 1", "b 2", "c 3"])
    #expect(shop.execute("ALTER TABLE t DROP COLUMN a") == CAIRN_OK)
    #expect(try columns() == ["b 2", "c 3"])
    #expect(shop.execute("ALTER TABLE t ADD COLUMN d DEFAULT 4") == CAIRN_OK)
    #expect(try columns() == ["b 2", "c 3", "d 4"])
  }

  @Test func `misuse is a code and a message, never a trap`() throws {
    let shop = try Shop()
    #expect(shop.execute("CREATE TABLE t(a CHECK (a > 0))") == CAIRN_OK)
    #expect(shop.execute("INSERT INTO t VALUES (?)") == CAIRN_PARAMETERS)
    #expect(shop.execute("INSERT INTO t VALUES (?)", [cairn_integer(-77)]) == CAIRN_CONSTRAINT)
    #expect(cairn_error_sqlite_code() == 275 && !message.contains("77"))
    #expect(shop.execute("INSERT INTO nothing VALUES (1)") == CAIRN_REFUSED)
    #expect(shop.execute("") == CAIRN_MISUSE)
    #expect(shop.execute("COMMIT") == CAIRN_TRANSACTION)
    var strange = cairn_null()
    strange.type = cairn_type(rawValue: 9)
    #expect(shop.execute("INSERT INTO t VALUES (?)", [strange]) == CAIRN_MISUSE)
    let broken: [UInt8] = [0xff, 0xfe, 0x80, 0]
    broken.withUnsafeBytes { bytes in
      var text = cairn_blob(bytes.baseAddress, 3)
      #expect(shop.execute("INSERT INTO t VALUES (length(?))", [text]) == CAIRN_OK)
      text.type = CAIRN_TEXT
      #expect(shop.execute("INSERT INTO t VALUES (?)", [text]) == CAIRN_MISUSE, "it would come to be another text")
      for size in [Int.min, -1, .max] {
        (text.type, text.size) = (size == -1 ? CAIRN_TEXT : CAIRN_BLOB, size)
        #expect(shop.execute("INSERT INTO t VALUES (?)", [text]) == CAIRN_MISUSE && message.contains("size"))
        // Nothing of a number but the number counts.
        text.type = CAIRN_INTEGER
        #expect(shop.execute("SELECT ?", [text]) == CAIRN_OK)
        #expect(cairn_execute(shop.handle, "SELECT ?", &text, size, nil) == CAIRN_MISUSE)
      }
      (text.type, text.size, text.bytes) = (CAIRN_TEXT, 3, nil)
      #expect(shop.execute("INSERT INTO t VALUES (?)", [text]) == CAIRN_MISUSE)
      #expect(
        cairn_execute(shop.handle, bytes.bindMemory(to: CChar.self).baseAddress, nil, 0, nil) == CAIRN_MISUSE
          && message.contains("UTF-8"))
    }
    #expect(cairn_execute(shop.handle, "INSERT INTO t VALUES (?)", nil, 1, nil) == CAIRN_MISUSE)
    #expect(cairn_execute(nil, "SELECT 1", nil, 0, nil) == CAIRN_MISUSE)
    #expect(cairn_execute(shop.handle, nil, nil, 0, nil) == CAIRN_MISUSE)
    #expect(cairn_query(shop.handle, "SELECT 1", nil, 0, nil) == CAIRN_MISUSE)
    #expect(cairn_savepoint(shop.handle, { _, _ in 0 }, nil) == CAIRN_TRANSACTION)
    #expect(cairn_transaction(shop.handle, nil, nil, nil) == CAIRN_MISUSE)
    #expect(cairn_open(nil, "till", nil, nil) == CAIRN_MISUSE)
    var other: OpaquePointer?
    #expect(cairn_open(shop.folder("shop.db"), "a b", nil, &other) == CAIRN_MISUSE && other == nil)
    #expect(cairn_open("/nowhere/shop.db", "till", nil, &other) == CAIRN_CANNOT_OPEN && other == nil)
    var options = cairn_options()
    #expect(
      cairn_open(shop.folder("shop.db"), "till-7", &options, &other) == CAIRN_MISUSE
        && message.contains("cairn_options"))
    options = cairn_options(
      size: MemoryLayout<cairn_options>.size, busy_timeout_milliseconds: 0, captures: 1, keeps_statements: 1)
    #expect(cairn_open(shop.folder("shop.db"), "till-7", &options, &other) == CAIRN_OK)
    #expect(cairn_close(other) == CAIRN_OK && cairn_close(nil) == CAIRN_OK)
    #expect(cairn_close(other) == CAIRN_MISUSE && message.contains("closed"))
    #expect(cairn_execute(other, "SELECT 1", nil, 0, nil) == CAIRN_MISUSE && cairn_last_insert_rowid(other) == 0)
    var rows: OpaquePointer?
    #expect(cairn_query(shop.handle, "SELECT 1", nil, 0, &rows) == CAIRN_OK)
    #expect(cairn_execute(rows, "SELECT 1", nil, 0, nil) == CAIRN_MISUSE, "it is no database")
    for _ in 0..<2 { cairn_rows_close(rows) }
    #expect(cairn_rows_next(rows) == 0 && cairn_rows_column_name(rows, 0) == nil)
    #expect(cairn_rows_value(rows, 0).type == CAIRN_NULL)
    #expect(cairn_rows_next(nil) == 0 && cairn_rows_column_count(nil) == 0)
    cairn_rows_close(nil)

    var line: OpaquePointer?
    #expect(cairn_sync_open(shop.handle, "mysql://x", nil, &line) == CAIRN_ADDRESS && line == nil)
    #expect(String(cString: cairn_error_hint()).contains("postgresql://"))
    #expect(cairn_sync_open(shop.handle, "sqlite:" + shop.folder("peer.db"), nil, &line) == CAIRN_OK)
    #expect(cairn_sync_run(line, nil, nil, nil) == CAIRN_NOT_INITIALIZED)
    #expect(cairn_sync_run(nil, nil, nil, nil) == CAIRN_MISUSE)
    cairn_sync_cancel(line)
    for _ in 0..<2 { cairn_sync_close(line) }
    cairn_sync_cancel(line)
    #expect(cairn_sync_run(line, nil, nil, nil) == CAIRN_MISUSE)
    cairn_sync_close(nil)
    #expect(String(cString: cairn_version()).split(separator: ".").count == 3)
  }

  @Test func `each thread has an error of its own`() throws {
    let shop = try Shop()
    #expect(shop.execute("nonsense") == CAIRN_REFUSED)
    let other = try WorkerThread<String> { String(cString: cairn_error_message()) }
    #expect(other.join() == "")
    #expect(message.contains("nonsense"))
  }

  @Test func `two files synchronise, with rules and a watcher`() throws {
    let shop = try Shop()
    let peer = try Database(path: shop.folder("peer.db"), mode: .create)
    try peer.executeScript(
      "PRAGMA journal_mode = WAL; CREATE TABLE t(id TEXT PRIMARY KEY, n INTEGER); INSERT INTO t VALUES ('a', 10)")
    var line: OpaquePointer?
    let code = "t.n=delta".withCString { rules in
      var options = cairn_sync_options()
      (options.size, options.column_conflicts, options.folds) = (MemoryLayout<cairn_sync_options>.size, rules, 1)
      return cairn_sync_open(shop.handle, "sqlite:" + shop.folder("peer.db"), &options, &line)
    }
    #expect(code == CAIRN_OK, "\(message)")
    defer { cairn_sync_close(line) }
    var seen: UInt64 = 0
    let first = withUnsafeMutablePointer(to: &seen) { seen in
      cairn_sync_initialize(
        line, { progress, context in context?.storeBytes(of: progress?.pointee.rows_received ?? 0, as: UInt64.self) },
        seen, nil)
    }
    #expect(first == CAIRN_OK && seen == 1, "\(message)")
    try peer.execute("UPDATE t SET n = n + 5")
    var token: Int64 = 0
    let sold = cairn_transaction(
      shop.handle, { shop, _ in Int32(cairn_execute(shop, "UPDATE t SET n = n - 3", nil, 0, nil).rawValue) }, nil,
      &token)
    #expect(sold == CAIRN_OK)
    var outcome = cairn_sync_outcome()
    #expect(cairn_sync_run(line, nil, nil, &outcome) == CAIRN_OK, "\(message)")
    #expect(outcome.conflicts >= 1 && outcome.refused == 0)
    #expect(try peer.query("SELECT n FROM t") == [[.integer(12)]])
    #expect(shop.count("t WHERE n = 12") == 1)
    var (applied, pending) = (Int32(0), cairn_pending())
    #expect(cairn_sync_wait(line, token, 1000, &applied) == CAIRN_OK && applied == 1)
    #expect(cairn_sync_pending(line, &pending) == CAIRN_OK && pending.unsent == 0 && pending.rows == 0)
  }
}
