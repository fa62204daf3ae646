import Changes
import Foundation
import SystemKit
import TestServers
import Testing

@testable import SQLiteKit

/// Companions and headers of a database that a user has prepared against the whole process that opens it.
@Suite struct HostileCompanionTests {
  private let folder = FileManager.default.temporaryDirectory.path + "/cairn-companion-\(UUID().uuidString)"
  private var path: String { folder + "/pos.db" }

  private func prepared<T>(mode: String, _ body: () throws -> T) throws -> T {
    Database.surviveHostileFiles()
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try Database(ofProgram: path).executeScript(
      "PRAGMA journal_mode = \(mode); CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1)")
    return try body()
  }

  /// Returns the refusal that reading the database ends with; nil if there is none.
  private func refusal(_ open: () throws -> Database) throws -> FileRefusal? {
    do {
      _ = try open().query("SELECT * FROM item")
      return nil
    } catch let error as SQLiteError {
      #expect(error.asCairnError.code == .databaseUnsafe, "\(error)")
      return error.refusal
    }
  }

  // A descriptor of this process would drop the locks of SQLite when it is closed.
  private func forgeIndex(frames: Int) throws {
    let script = """
      import struct, sys
      with open(sys.argv[1], 'r+b', buffering=0) as f:
          header, frames = bytearray(f.read(48)), int(sys.argv[2])
          struct.pack_into('=I', header, 8, (struct.unpack_from('=I', header, 8)[0] + 1) & 0xffffffff)
          struct.pack_into('=I', header, 16, frames)
          a = b = 0
          for x, y in struct.iter_unpack('=2I', header[:40]):
              a = (a + x + b) & 0xffffffff
              b = (b + y + a) & 0xffffffff
          struct.pack_into('=2I', header, 40, a, b)
          if frames: f.truncate(2 << 30)
          f.seek(0)
          f.write(bytes(header) * 2 if frames else bytes(96))
      """
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    process.arguments = ["-c", script, path + "-shm", String(frames)]
    try process.run()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0)
  }

  /// The number of mapped regions of `-shm`, 32 KiB each. The kernel may join neighbours.
  private func mapped() throws -> Int {
    try String(contentsOfFile: "/proc/self/maps", encoding: .utf8).split(separator: "\n")
      .filter { $0.hasSuffix(FileIdentity.canonical(path) + "-shm") }
      .reduce(0) { count, line in
        let ends = line.prefix { $0 != " " }.split(separator: "-").compactMap { Int($0, radix: 16) }
        return count + (ends.count == 2 ? (ends[1] - ends[0]) / 32_768 : 0)
      }
  }

  @Test(.timeLimit(.minutes(20)))
  func `a forged index of the log takes a bounded part of the process's mappings`() throws {
    try prepared(mode: "WAL") {
      let (database, frames) = (try Database(path: path), 4096)
      try database.execute("INSERT INTO item VALUES (2)")
      let place = FileIdentity.canonical(path) + "-shm"
      for regions in [65_000, 4097] {
        try forgeIndex(frames: regions * frames)
        #expect(try refusal { database } == .index(place))
        #expect(try mapped() < 10)
      }
      try forgeIndex(frames: 4095 * frames)
      #expect(try refusal { database } == nil)
      #expect(try mapped() <= 4096)
      // The other files have their own share, and this one continues when the index is in order.
      let other = folder + "/other.db"
      try Database(ofProgram: other).executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id)")
      #expect(try Database(path: other).integer("SELECT count(*) FROM item") == 0)
      try forgeIndex(frames: 0)
      try database.execute("INSERT INTO item VALUES (3)")
      #expect(try database.integer("SELECT count(*) FROM item") == 3)
    }
  }

  @Test(.timeLimit(.minutes(20)), arguments: ["", "-wal", "-journal", "-shm"], [F_WRLCK, F_RDLCK])
  func `a file with a lease is refused at once`(suffix: String, kind: Int32) throws {
    try prepared(mode: suffix == "-journal" ? "DELETE" : "WAL") {
      let place = path + suffix
      if suffix == "-journal" {
        try ForgedJournal.write(for: path, naming: "")
      } else if !suffix.isEmpty {
        try Data().write(to: URL(fileURLWithPath: place))
      }
      // The kernel sends the holder a signal when another process opens the file.
      signal(SIGIO, SIG_IGN)
      let descriptor = open(place, (kind == F_RDLCK ? O_RDONLY : O_RDWR) | O_CLOEXEC)
      try #require(descriptor >= 0)
      defer { close(descriptor) }
      // F_SETLEASE
      try #require(fcntl(descriptor, 1024, kind) == 0)
      let start = ContinuousClock.now
      // Who only reads need not wait for a lease on reading.
      for mode in kind == F_RDLCK ? [Database.Mode.readWrite] : [.readOnly, .readWrite] {
        #expect(try refusal { try Database(path: path, mode: mode) } == .lease(FileIdentity.canonical(path) + suffix))
      }
      // The kernel takes the lease away after 45 seconds.
      #expect(ContinuousClock.now - start < .seconds(20))
      #expect(fcntl(descriptor, 1024, F_UNLCK) == 0)
      #expect(try refusal { try Database(path: path) } == nil)
    }
  }

  @Test func `a file does not set the size of the page cache`() throws {
    try prepared(mode: "DELETE") {
      let program = try Database(ofProgram: path)
      try program.execute("PRAGMA default_cache_size = 100000")
      try #require(try Database(ofProgram: path).integer("PRAGMA cache_size") == 100_000)
      for isForbidding in [false, true] {
        let database = try Database(path: path)
        if isForbidding { database.forbidForeignCode() }
        #expect(try database.integer("SELECT count(*) FROM item") == 1)
        #expect(try database.integer("PRAGMA cache_size") == -2000)
        try program.executeScript("DROP TABLE IF EXISTS more; CREATE TABLE more(a); PRAGMA default_cache_size = 200000")
        #expect(try database.integer("SELECT count(*) FROM more") == 0)
        #expect(try database.integer("PRAGMA cache_size") == -2000)
      }
      // A size that Cairn itself sets stays.
      let target = try Database(path: path)
      try target.executeScript("PRAGMA cache_size = -16384")
      #expect(try target.integer("PRAGMA cache_size") == -16384)
    }
  }
}
