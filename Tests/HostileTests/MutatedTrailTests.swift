import Foundation
import HostilePeer
import SystemKit
import TestServers
import Testing
import Trails

/// The seed of a random test, printed so that the run can be repeated with CAIRN_SEED.
func seed(_ test: String) -> UInt64 {
  let given = ProcessInfo.processInfo.environment["CAIRN_SEED"].flatMap { UInt64($0) }
  let seed = given ?? UInt64.random(in: 0...9_999_999)
  print("\(test): CAIRN_SEED=\(seed)")
  return seed
}

/// How often a random test is repeated; CAIRN_COUNT sets it.
func count(_ usual: Int, soak: Int) -> Int {
  ProcessInfo.processInfo.environment["CAIRN_COUNT"].flatMap { Int($0) } ?? (isSoak ? soak : usual)
}

/// One after the other: each looks at the memory of the process.
@Suite(.serialized) enum Hostile {}

extension Hostile {
  /// Trails of a hostile peer: valid by checksum and chain, hostile in every record. Nothing may stop the process, and
  /// nothing outside of the allow-list may change. `make hostile` runs it at full size under a sanitizer.
  @Suite struct MutatedTrailTests {
    @Test func `headers with right checksums and an extreme number in any field stop nothing`() throws {
      let taken = try MutatedTrails(seed: 1, server: nil).headers()
      print("\(HostileHeaders.count) headers with extreme numbers: \(taken) taken")
      // Fields that a reader does not use may have any number.
      #expect((100..<HostileHeaders.count * 3 / 4).contains(taken))
    }

    @Test func `mutated trails of every kind of record stop nothing, and write only to listed tables`() throws {
      let count = count(600, soak: 20_000)
      var trails = try MutatedTrails(
        seed: seed("mutated trails, \(count)"), server: PostgresServer.isAvailable ? PostgresServer() : nil)
      try trails.run(count)
      let report = trails.report
      print(report, report.errors)
      #expect(report.wrong.isEmpty, "\(report.wrong.prefix(5))")
      if count >= 600 {
        #expect(report.taken > count / 10)
        #expect(report.finished > count / 20)
      }
      // Other tests of the process share the budget.
      for _ in 0..<600 where BlockMemory.shared.used > 0 { Clock.sleep(milliseconds: 100) }
      #expect(BlockMemory.shared.used == 0)
    }
  }
}
