import Changes
import SQLiteFormat
import TestServers
import Testing

@testable import SQLiteKit

/// The frames of a log, read by the decoder, give the file that SQLite shows.
@Suite struct LogTests {
  /// Returns the database up to the last commit of its log.
  private func replayed(_ file: RandomDatabase) throws -> (database: DecodedDatabase, commits: Int, pages: Int) {
    let log = try file.bytes("-wal")
    var (overlay, open): ([UInt32: [UInt8]], [UInt32: [UInt8]]) = ([:], [:])
    var (commits, pageCount, size): (Int, UInt32?, Int) = (0, nil, 0)
    try log.withUnsafeBytes { bytes in
      guard bytes.count >= WALHeader.size else { return }
      var frames = try WALFrames(bytes)
      size = frames.header.pageSize
      while let (frame, page) = try frames.next() {
        open[frame.page] = Array(page.bytes)
        guard frame.isCommit else { continue }
        overlay.merge(open) { $1 }
        open = [:]
        commits += 1
        pageCount = frame.commitPages
      }
    }
    let database = try DecodedDatabase(try file.bytes(), overlay: overlay, pageCount: pageCount)
    if size > 0 { #expect(size == database.layout.pageSize) }
    return (database, commits, overlay.count)
  }

  @Test(arguments: Seeds.range(from: 100, reduced: 16))
  func `after each commit, file and frames have the rows that SQLite returns`(seed: UInt64) throws {
    var kind = RandomDatabase.Kind(seed)
    kind.isWAL = true
    let file = try RandomDatabase(kind)
    try file.database.execute("PRAGMA wal_autocheckpoint = \([0, 20, 200][Int(seed % 3)])")
    var most = 0
    for step in 0..<12 {
      switch file.below(5) {
      case 0:
        try file.database.transaction { for _ in 0..<8 { try file.write() } }
      case 1:
        // The frames of a cache that overflowed are in the log, and belong to no commit.
        try file.database.executeScript("PRAGMA cache_size = 5; BEGIN")
        for _ in 0..<6 { try file.write() }
        try file.database.executeScript("ROLLBACK; PRAGMA cache_size = 500")
      default: try file.write()
      }
      if file.below(6) == 0 {
        let kind = ["PASSIVE", "RESTART", "TRUNCATE"][file.below(3)]
        _ = try file.database.query("PRAGMA wal_checkpoint(\(kind))")
      }
      let (decoded, commits, _) = try replayed(file)
      most = max(most, commits)
      try file.compare(decoded, at: "step \(step)")
    }
    #expect(most > 0)
  }

  @Test func `a log whose header is damaged is an error, and a damaged frame ends it`() throws {
    var kind = RandomDatabase.Kind(3)
    kind.isWAL = true
    let file = try RandomDatabase(kind)
    for _ in 0..<5 { try file.write() }
    let log = try file.bytes("-wal")
    func count(_ log: [UInt8]) throws -> Int {
      try log.withUnsafeBytes { bytes in
        var frames = try WALFrames(bytes)
        var count = 0
        while try frames.next() != nil { count += 1 }
        return count
      }
    }
    let all = try count(log)
    #expect(all > 5)
    for offset in 0..<WALHeader.size {
      var damaged = log
      damaged[offset] ^= 1
      #expect(throws: FormatError.self, "\(offset)") { try count(damaged) }
    }
    let size = kind.pageSize
    for frame in [1, 3, all] {
      let start = Int(WALFrame.offset(ofFrame: UInt32(frame), pageSize: size))
      for offset in [0, 4, 8, 16, 23, 24, 100, WALFrame.size + size - 1] {
        var damaged = log
        damaged[start + offset] ^= 0x10
        #expect(try count(damaged) == frame - 1)
      }
    }
    #expect(try count(Array(log.dropLast())) == all - 1)
  }
}
