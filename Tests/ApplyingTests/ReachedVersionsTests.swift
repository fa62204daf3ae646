import Changes
import Conflicts
import Mapping
import SystemKit
import TestServers
import Testing
import Trails
import Versions

@testable import Applying

/// The database has nothing of a group that was rolled back, whatever was noted of the group.
@Suite struct ReachedVersionsTests {
  private let own = TrailName(origin: "hub", name: "shop")
  private let peer = TrailName(origin: "till", name: "shop")
  private let row = RowName(table: "item", key: [.text(Array("tea".utf8))])

  private final class NoTable {}

  private func desk() throws -> TwoWaySession<NoTable> {
    let folder = try TempFolder()
    let shared = TwoWay(
      own: (own, folder.path + "/own"), applied: [(peer, folder.path + "/peer", AdmittedTables(TargetScope()))],
      captured: TablePatterns(),
      local: .journal { _, _, _ in true }, rules: { _, _, _ in ConflictRules() })
    return TwoWaySession(shared, peer, RowNames(to: .sqlite, ApplyOptions().names), .system)
  }

  private func header(_ number: UInt64) -> TransactionHeader {
    var header = TransactionHeader(commitTime: 0)
    (header.number, header.clock) = (number, 100 + number)
    return header
  }

  @Test func `a change that comes later is none of a row's versions`() throws {
    let desk = try desk()
    let local = VersionPlace(stamp: VersionStamp(clock: 50, origin: own.description, number: 7), begin: .start)
    try desk.shared.window.note(row, local)
    desk.beginGroup()
    for number in 1...4 as ClosedRange<UInt64> {
      try desk.begin(header(number), at: .start)
      try desk.shared.window.note(row, desk.place)
    }
    #expect(try desk.otherPlaces(row).map(\.stamp.number) == [7, 1, 2, 3])
    // It was rolled back, and comes again with fewer transactions.
    desk.beginGroup()
    try desk.begin(header(1), at: .start)
    #expect(try desk.otherPlaces(row).map(\.stamp.number) == [7])
    let first = try desk.fingerprint(row)
    try desk.begin(header(2), at: .start)
    #expect(try desk.otherPlaces(row).map(\.stamp.number) == [7, 1])
    #expect(try desk.fingerprint(row) != first)
    #expect(try desk.fingerprint(row, without: VersionStamp(clock: 101, origin: peer.description, number: 1)) == first)
    try desk.committed(2)
    // Another group begins: what is in the database is known whichever transaction is at hand.
    desk.beginGroup()
    try desk.begin(header(3), at: .start)
    #expect(try desk.otherPlaces(row).map(\.stamp.number) == [7, 1, 2])
  }
}
