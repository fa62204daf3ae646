import Foundation
import Synchronization

/// A PostgreSQL server of the tests' own, in a temporary folder, reached through a Unix socket.
///
/// As root it runs as another user, since PostgreSQL refuses root. It ends with the process that started it, however
/// that process ends, and its folder goes with it. A server that is killed on purpose keeps what it has committed. Only
/// the machine's own end would lose it, since nothing is synced unless ``Settings/isDurable`` asks for it.
package final class PostgresServer: Sendable {
  package struct Settings: Sendable {
    package var walLevel = "logical"
    /// Whether commits are synced to disk.
    package var isDurable = false
    package var encoding = "UTF8"
    /// Also listens on 127.0.0.1, where every role needs a password.
    package var listens = false
    /// Further lines of `postgresql.conf`.
    package var more: [String: String] = [:]
    package init() {}
  }

  package enum Stop: String, Sendable { case smart, fast, immediate }

  /// The folder of the server's socket, log and data.
  package let folder: String
  /// On 127.0.0.1 where it listens there; of the socket's name in any case.
  package let port: Int
  private let tools: PostgresTools
  private let watchdog: Watchdog

  // MARK: The one of this process

  private static let started = Result { try PostgresServer() }

  /// The server that the tests of a process share: a database for each, see ``createDatabase(_:)``.
  package static var shared: PostgresServer { get throws { try started.get() } }

  /// Why there is no server to be had here; nil when there is one. For `.enabled(if:)` of tests.
  package static var problem: String? {
    do {
      _ = try started.get()
      return nil
    } catch {
      return "needs a PostgreSQL server: \(error)"
    }
  }

  package static var isAvailable: Bool { problem == nil }

  // MARK: Life

  /// Memory if there is plenty: each database that a test creates has some 300 files, and disks are slow at that.
  private static let place: String = {
    var memory = statvfs()
    let roomMin: UInt64 = 12 << 30
    guard
      statvfs("/dev/shm", &memory) == 0, UInt64(memory.f_bavail) * UInt64(memory.f_frsize) >= roomMin,
      access("/dev/shm", W_OK) == 0,
      let facts = try? String(contentsOfFile: "/proc/meminfo", encoding: .utf8),
      let available = facts.firstMatch(of: /MemAvailable: +(\d+) kB/).flatMap({ UInt64($0.output.1) }),
      available << 10 >= roomMin
    else { return "/tmp" }
    return "/dev/shm"
  }()

  /// Makes a server and starts it.
  package init(_ settings: Settings = Settings()) throws {
    tools = try PostgresTools.find()
    // Short, as the path of a socket has a limit of 107 bytes.
    let place = settings.isDurable ? "/tmp" : Self.place
    var name = Array("\(place)/cairn-pg-XXXXXX".utf8CString)
    guard mkdtemp(&name) != nil else { throw TestFailure("cannot make a folder below \(place): error \(errno)") }
    folder = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    port = settings.listens ? try Self.freePort() : 5432
    try tools.give(folder)
    watchdog = try Watchdog(
      of: folder, stop: tools.serverCommand("pg_ctl", ["stop", "-D", folder + "/data", "-m", "immediate"]))
    try tools.runAsServer(
      "initdb",
      [
        "-D", folder + "/data", "-U", "postgres", "--auth=trust", "--no-sync", "--no-instructions", "-E",
        settings.encoding, "--locale=\(settings.encoding == "UTF8" ? "C.UTF-8" : "C")",
      ], in: folder)
    try write(settings)
    try start()
  }

  deinit { watchdog.end() }

  private func write(_ settings: Settings) throws {
    var lines = [
      "listen_addresses": settings.listens ? "127.0.0.1" : "", "port": "\(port)", "unix_socket_directories": folder,
      "wal_level": settings.walLevel, "max_replication_slots": "60", "max_wal_senders": "20",
      "max_connections": "100", "shared_buffers": "64MB", "max_wal_size": "1GB", "autovacuum_naptime": "10s",
      "password_encryption": "scram-sha-256", "log_line_prefix": "%m [%p] %u@%d %a: ", "log_lock_waits": "on",
    ]
    if !settings.isDurable { lines.merge(["fsync": "off", "full_page_writes": "off"]) { $1 } }
    lines.merge(settings.more) { $1 }
    let text = lines.sorted { $0.key < $1.key }.map { "\($0.key) = '\($0.value)'\n" }.joined()
    try Data(text.utf8).write(to: URL(fileURLWithPath: folder + "/data/tests.conf"))
    let conf = try FileHandle(forWritingTo: URL(fileURLWithPath: folder + "/data/postgresql.conf"))
    try conf.seekToEnd()
    try conf.write(contentsOf: Data("include = 'tests.conf'\n".utf8))
    try conf.close()
    let access = """
      local all,replication all trust
      host all,replication all 127.0.0.1/32 scram-sha-256

      """
    try Data(access.utf8).write(to: URL(fileURLWithPath: folder + "/data/pg_hba.conf"))
    for file in ["tests.conf", "pg_hba.conf"] { try tools.give(folder + "/data/" + file) }
  }

  /// Returns a port that no program listens on at this moment.
  private static func freePort() throws -> Int {
    let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(socket) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(socket, $0, size) == 0 ? getsockname(socket, $0, &size) : -1
      }
    }
    guard code == 0 else { throw TestFailure("no port is free on 127.0.0.1") }
    return Int(UInt16(bigEndian: address.sin_port))
  }

  /// Starts it after a ``stop(_:)`` and waits until it takes connections.
  package func start() throws {
    try tools.runAsServer(
      "pg_ctl", ["start", "-w", "-t", "60", "-D", folder + "/data", "-l", folder + "/log"], in: folder,
      log: folder + "/log")
  }

  /// Ends it and waits until it is gone. `.immediate` is a crash: the next start recovers.
  package func stop(_ mode: Stop = .fast) throws {
    try tools.runAsServer(
      "pg_ctl", ["stop", "-w", "-t", "60", "-D", folder + "/data", "-m", mode.rawValue], in: folder)
  }

  package func restart(_ mode: Stop = .fast) throws {
    try stop(mode)
    try start()
  }

  // MARK: Use

  /// Returns the URL for libpq; over TCP with the password if one is given.
  package func url(_ database: String = "postgres", user: String = "postgres", password: String? = nil) -> String {
    if let password { return "postgresql://\(user):\(password)@127.0.0.1:\(port)/\(database)" }
    return "postgresql:///\(database)?host=\(folder)&port=\(port)&user=\(user)"
  }

  /// Makes an empty database, in place of one of the same name, and returns its URL.
  @discardableResult package func createDatabase(_ name: String) throws -> String {
    try psql(statements: Self.dropping(name) + ["CREATE DATABASE \"\(name)\" TEMPLATE template0"])
    return url(name)
  }

  /// Drops a database with its slots, and ends its connections.
  package func dropDatabase(_ name: String) throws { try psql(statements: Self.dropping(name)) }

  private static func dropping(_ name: String) -> [String] {
    [
      """
      SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots
        WHERE database = '\(name)' AND active_pid IS NOT NULL;
      SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '\(name)'
      """, "DROP DATABASE IF EXISTS \"\(name)\" WITH (FORCE)",
    ]
  }

  /// Runs each string in a transaction of its own.
  private func psql(statements: [String]) throws {
    try tools.run(
      "psql", ["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url("postgres")] + statements.flatMap { ["-c", $0] }, in: folder)
  }

  /// Runs SQL, all of it in one session; several statements are one transaction unless they say otherwise. Returns the
  /// output of `psql -XAt`, without the last line break. An error is a ``TestFailure`` with what psql says.
  @discardableResult package func psql(
    _ sql: String, _ database: String = "postgres", user: String = "postgres"
  ) throws -> String {
    let arguments = ["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url(database, user: user), "-c", sql]
    // Sessions of any database that change the rights on one parameter at once collide in a catalog that all share.
    // Such an error has undone the whole transaction.
    if ["ON PARAMETER", "DROP OWNED"].contains(where: { sql.contains($0) }) {
      for _ in 1..<20 {
        do { return try tools.run("psql", arguments, in: folder) } catch
          where "\(error)".contains(
            "tuple concurrently updated")
        { usleep(50_000) }
      }
    }
    return try tools.run("psql", arguments, in: folder)
  }

  /// Runs a file of SQL, each statement in a transaction of its own unless it says otherwise.
  @discardableResult package func psql(file: String, _ database: String) throws -> String {
    try tools.run("psql", ["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url(database), "-f", file], in: folder)
  }

  /// The database's schema as `pg_dump -s` prints it.
  package func schema(_ database: String) throws -> String {
    let dump = try tools.run("pg_dump", ["-s", "-d", url(database)], in: folder)
    // These lines carry a new key each time.
    return dump.split(separator: "\n").filter { !$0.contains("restrict ") }.joined(separator: "\n")
  }

  /// Ends the connections of programs whose `application_name` is like this pattern; returns how many there were.
  @discardableResult package func terminateConnections(like pattern: String) throws -> Int {
    let answer = try psql(
      """
      SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
      WHERE pid <> pg_backend_pid() AND application_name LIKE '\(pattern)'
      """)
    return Int(answer) ?? 0
  }

  /// The text that the server has logged.
  package var log: String {
    String(decoding: FileManager.default.contents(atPath: folder + "/log") ?? Data(), as: UTF8.self)
  }

  /// Runs another of PostgreSQL's programs, such as `pg_dump`, as the tests' own user, and returns its output.
  @discardableResult package func run(_ program: String, _ arguments: [String]) throws -> String {
    try tools.run(program, arguments, in: folder)
  }

  /// Returns the path of one of PostgreSQL's programs.
  package func path(of program: String) -> String { "\(tools.programs)/\(program)" }
}
