import Changes
import CodecKit
import Foundation
import TestServers
import Testing

@testable import Trails

/// Trails of each version of the format, kept for ever: this program must read them as they were written.
@Suite struct GoldenTests {
  private let folder: String

  init() throws {
    let bundle = try #require(Bundle.module.resourcePath)
    folder = bundle + "/Golden/format-1/till-7.pos"
  }

  /// Writes the golden trail, once per format version, to a new folder:
  /// `CAIRN_GOLDEN_FOLDER=/tmp/golden/till-7.pos swift test --filter GoldenTests`. The files that are checked in are
  /// not touched.
  @Test(.enabled(if: ProcessInfo.processInfo.environment["CAIRN_GOLDEN_FOLDER"] != nil, "writes only when asked to"))
  func `write the golden trail to another folder`() throws {
    let folder = try #require(ProcessInfo.processInfo.environment["CAIRN_GOLDEN_FOLDER"])
    #expect(!FileManager.default.fileExists(atPath: folder))
    for part in GoldenTrail.parts { try part.write(folder) }
    #expect(try readAll(folder) == GoldenTrail.records)
    let statements = folder + "-statements"
    try GoldenTrail.writeStatements(statements)
    #expect(try readAll(statements) == GoldenTrail.statements)
    let waiting = folder + "-waiting"
    try GoldenTrail.writeWaiting(waiting)
    #expect(try readAll(waiting) == GoldenTrail.waiting)
  }

  @Test func `the trail of format 1 is read field by field`() throws {
    let seen = try readAll(folder)
    #expect(seen.count == GoldenTrail.records.count)
    for (record, expected) in zip(seen, GoldenTrail.records) { #expect(record == expected) }
  }

  @Test func `statements of format 1 are read field by field, and their digests are those of the page`() throws {
    let seen = try readAll(folder.replacing("till-7.pos", with: "statements/till-7.pos"))
    #expect(seen == GoldenTrail.statements)
    // Computed by another program from the page.
    #expect(GoldenTrail.insertDigest.hex == "37f4658621ee5d7c5879b87c8fac77e5")
    #expect(GoldenTrail.deleteDigest.hex == "96ba33178d3d5344b5ee9e653cd921a8")
  }

  @Test func `rows that wait in format 1 are read field by field`() throws {
    let seen = try readAll(folder.replacing("till-7.pos", with: "waiting/till-7.pos"))
    #expect(seen == GoldenTrail.waiting)
  }

  @Test func `the trail of format 1 is verified and can be written on`() throws {
    let summary = try Trail.verify(folder: folder)
    #expect(summary.transactions == 4 && summary.changes == 13 && summary.segments == 2)
    let info = try Trail.info(folder: folder)
    #expect(info.name == till && info.segments.map(\.created) == [1_700_000_000_000_000, 1_700_000_000_000_001])
    let temp = try TempFolder()
    try copyFolder(folder, temp("till-7.pos"))
    let script = Script(try openWriter(temp("till-7.pos")), committed: GoldenTrail.records)
    #expect(script.writer.recovery == nil && script.writer.lastHeader?.number == 4)
    try script.transaction()
    try script.writer.close()
    #expect(try readAll(temp("till-7.pos")) == script.committed)
  }

  /// The bytes against the page of the format, without the code that reads them.
  @Test func `the bytes of format 1 are those of the page`() throws {
    let bytes = try contents("\(folder)/00000001.seg")
    func number(_ at: Int, _ size: Int) -> UInt64 {
      bytes[at..<at + size].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
    #expect(Array(bytes[0..<8]) == Array("CAIRNTRL".utf8))
    #expect(number(8, 2) == 1)
    let header = Int(number(10, 2))
    #expect(number(12, 4) == 0)
    #expect(number(32, 8) == 1 && number(40, 8) == 1_700_000_000_000_000 && number(48, 8) == 1)
    #expect(Array(bytes[56..<88]) == [UInt8](repeating: 0, count: 32))
    #expect(number(88, 2) == 6 && Array(bytes[90..<96]) == Array("till-7".utf8))
    #expect(number(96, 2) == 3 && Array(bytes[98..<101]) == Array("pos".utf8))
    #expect(bytes[101..<header - 4].allSatisfy { $0 == 0 })
    #expect(number(header - 4, 4) == UInt64(CRC32C.of(Array(bytes[..<(header - 4)]))))

    let hasher = try SHA256()
    var at = header
    var content: UInt64 = 0
    var chain = [UInt8](repeating: 0, count: 32)
    var sealed = false
    while !sealed {
      #expect(Array(bytes[at..<at + 4]) == Array("CBLK".utf8))
      let stored = Int(number(at + 4, 4))
      let length = Int(number(at + 8, 4))
      sealed = bytes[at + 13] & 4 != 0
      #expect(number(at + 14, 2) == 0 && number(at + 64, 4) == 0)
      #expect(number(at + 16, 8) == content)
      #expect(number(at + 24, 8) <= UInt64(at))
      #expect(Array(bytes[at + 32..<at + 64]) == chain)
      let body = Array(bytes[at + 72..<at + 72 + stored])
      #expect(number(at + 68, 4) == UInt64(CRC32C.of(Array(bytes[at..<at + 68]) + body)))
      var plain = [UInt8](repeating: 0, count: length)
      if bytes[at + 12] == 1 {
        #expect(body.withUnsafeBytes { body in plain.withUnsafeMutableBytes { Zstd().decompress(body, into: $0) } })
      } else {
        plain = body
      }
      if content == 0 { #expect(plain[0] == 0x01 && plain[2] == 1) }
      if length > 0 {
        hasher.update(chain + plain)
        chain = hasher.finalize()
      }
      content += UInt64(length)
      at += 72 + stored
    }
    #expect(at == bytes.count)

    let mark = try contents("\(folder)/durable")
    let second = try contents("\(folder)/00000002.seg")
    #expect(Array(second[56..<88]) == chain && Array(second[16..<32]) == Array(bytes[16..<32]))
    for slot in [0, 512] {
      #expect(Array(mark[slot..<slot + 8]) == Array("CAIRNDUR".utf8))
      #expect(Array(mark[slot + 80..<slot + 96]) == Array(bytes[16..<32]))
      let sum = CRC32C.of(Array(mark[slot..<slot + 124]))
      #expect(withUnsafeBytes(of: sum.littleEndian) { Array($0) } == Array(mark[slot + 124..<slot + 128]))
    }
  }
}
