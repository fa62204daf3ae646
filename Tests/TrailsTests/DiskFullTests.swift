import Changes
import Foundation
import TestServers
import Testing

@testable import Trails

/// A file system of a few pages in memory: mounting needs root.
private final class SmallDisk {
  let path: String

  init?(_ path: String, pages: Int) {
    self.path = path
    try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    guard mount("cairn-test", path, "tmpfs", 0, "size=\(pages * 4096)") == 0 else { return nil }
  }

  /// Files in it may still be open.
  deinit { umount2(path, Int32(MNT_DETACH)) }

  func grow(pages: Int) -> Bool { mount("cairn-test", path, "tmpfs", UInt(MS_REMOUNT), "size=\(pages * 4096)") == 0 }

  static func isPossible() -> Bool {
    guard let temp = try? TempFolder() else { return false }
    return SmallDisk(temp("disk"), pages: 4) != nil
  }
}

@Suite(.enabled(if: SmallDisk.isPossible(), "mounting a tmpfs needs root and CAP_SYS_ADMIN"))
struct DiskFullTests {
  /// One page more at each run, until the disk is large enough: the disk is full at every write in turn.
  @Test func `a full disk is an error wherever it comes, and loses nothing that was synced`() throws {
    let temp = try TempFolder()
    let options = TrailOptions.small(block: 500, segment: 9000)
    var failures = 0
    for pages in 2...200 {
      let disk = try #require(SmallDisk(temp("disk\(pages)"), pages: pages))
      defer { withExtendedLifetime(disk) {} }
      let folder = disk.path + "/state/till-7.pos"
      var committed: [Seen] = []
      var synced = 0
      do {
        let script = Script(try openWriter(folder, options))
        for _ in 0..<30 {
          defer { committed = script.committed }
          try script.transaction(rows: 20, bytes: 150)
          try script.writer.sync()
          synced = script.committed.count
        }
        try script.writer.close()
        #expect(failures > 20)
        return
      } catch let error as CairnError {
        #expect(error.code == .diskFull, "\(error)")
        failures += 1
      }
      // Still full: opening recovers, or says the same.
      do { _ = try openWriter(folder, options) } catch let error as CairnError { #expect(error.code == .diskFull) }
      #expect(disk.grow(pages: 1000))
      let writer = try openWriter(folder, options)
      let seen = try readAll(folder)
      #expect(seen.count >= synced && Array(committed.prefix(seen.count)) == seen, "\(pages) pages")
      let script = Script(writer, committed: seen)
      try script.transaction(rows: 50)
      try script.writer.close()
      #expect(try readAll(folder) == script.committed)
    }
    Issue.record("the disk never was large enough")
  }
}

@Suite(.enabled(if: SmallDisk.isPossible(), "mounting a tmpfs needs root and CAP_SYS_ADMIN"))
struct CopyDiskFullTests {
  @Test func `a full disk stops a copy wherever it comes, and it goes on afterwards`() throws {
    let pair = try CopyPair()
    try pair.write(transactions: 30, rows: 30, bytes: 150, .small(block: 500, segment: 9000))
    var failures = 0
    for pages in 2...400 {
      let disk = try #require(SmallDisk(pair.temp("copy"), pages: pages))
      defer { withExtendedLifetime(disk) {} }
      do {
        let copy = try pair.open()
        try pair.bring(copy, max: 2000)
        try copy.close()
        #expect(failures > 20)
        return
      } catch let error as CairnError {
        #expect(error.code == .diskFull, "\(error)")
        failures += 1
      }
      do { _ = try pair.open() } catch let error as CairnError { #expect(error.code == .diskFull) }
      #expect(disk.grow(pages: 1000))
      let copy = try pair.open()
      try pair.bring(copy)
      try copy.close()
      try pair.expectEqual()
    }
    Issue.record("the disk never was large enough")
  }
}
