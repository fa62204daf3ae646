import Changes
import Foundation
import TestServers
import Testing

@testable import Trails

@Suite struct LargeTransactionTests {
  /// Memory of this process that is not of a file, in bytes.
  static func anonymousBytes() throws -> Int {
    let status = String(decoding: try contents("/proc/self/status"), as: UTF8.self)
    let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") } ?? ""
    return (Int(line.split(separator: " ").dropFirst().first ?? "") ?? 0) * 1024
  }

  /// In a process of its own, so that other tests do not count.
  @Test func `a transaction of 300,000 changes is written and read with bounded memory`() async throws {
    let temp = try TempFolder()
    await #expect(processExitsWith: .success) { [folder = temp("till-7.pos") as String] in
      let count = 300_000
      let writer = try TrailWriter.open(folder: folder, name: till, now: { 0 })
      let before = try Self.anonymousBytes()
      var highest = before
      _ = try writer.begin(TransactionHeader(commitTime: 0))
      let id = try writer.schemaID(items, token: 1)
      var row = ByteWriter()
      var random = Seeded(5)
      for number in 0..<count {
        row.removeAll()
        row.append(Operation.insert.rawValue)
        row.append(ChangeFlags.after.rawValue)
        row.appendVarint(id)
        let noise = Int64(bitPattern: random.next())
        row.appendImage([.integer(Int64(number)), .text("\(noise) some words of a row")])
        try writer.append(kind: RecordKind.change, row.bytes)
        if number % 10_000 == 0 { highest = max(highest, try Self.anonymousBytes()) }
      }
      try writer.commit()
      try writer.sync()
      highest = max(highest, try Self.anonymousBytes())
      print("large transaction: writer grew by \((highest - before) >> 10) KiB")
      guard highest - before < 32 << 20 else { exit(2) }

      let start = try Self.anonymousBytes()
      let reader = try TrailReader.open(folder: folder, at: nil)
      var next: Int64 = 0
      while let record = try reader.next() {
        guard case .change(let change) = record, let image = change.after else { continue }
        var values = ByteReader(image.bytes)
        guard case .integer(next) = try values.readColumn() else { exit(3) }
        next += 1
        if next % 10_000 == 0 { highest = max(highest, try Self.anonymousBytes()) }
      }
      print("large transaction: reader grew by \((highest - start) >> 10) KiB")
      guard next == count, highest - start < 32 << 20 else { exit(4) }
      try writer.close()
      exit(0)
    }
  }
}
