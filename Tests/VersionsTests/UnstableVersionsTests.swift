import Changes
import Conflicts
import TestServers
import Testing
import Trails

@testable import Versions

@Suite struct UnstableVersionsTests {
  private let temp: TempFolder
  private let own = TrailName(origin: "a", name: "db")
  private let peer = TrailName(origin: "b", name: "db")

  init() throws { temp = try TempFolder() }

  private func writer(_ name: TrailName) throws -> TrailWriter {
    var options = TrailOptions()
    (options.segmentBytes, options.blockBytes, options.allocateBytes) = (3000, 300, 4096)
    return try TrailWriter.open(folder: temp(name.description), name: name, options: options) { 0 }
  }

  private func window() throws -> UnstableVersions {
    let window = UnstableVersions(own: own, ownFolder: temp(own.description))
    window.addPeer(peer, folder: temp(peer.description))
    for trail in [own, peer] where Trail.exists(folder: temp(trail.description)) {
      if let id = try Trail.id(folder: temp(trail.description)) { try window.identify(trail, id) }
    }
    return window
  }

  /// Commits a transaction that knows the other trail through `knowing`; returns its header and the place of its begin.
  @discardableResult private func commit(
    _ writer: TrailWriter, knowing: UInt64 = 0, _ body: () throws -> Void
  ) throws -> (header: TransactionHeader, begin: Position) {
    let begin = try writer.sync().position
    let other = writer.name == own ? peer : own
    var told = TransactionHeader(
      commitTime: 0, sourcePosition: [9],
      dependencies: try knowing > 0
        ? [.init(origin: other.description, number: knowing, id: Trail.info(folder: temp(other.description)).id)] : [])
    // The clocks of these trails count with their numbers; an author's clock is later than all that it knew.
    if knowing > 0 { told.clock = knowing + 1 }
    let header = try writer.begin(told)
    try body()
    try writer.commit()
    try writer.sync()
    return (header, begin)
  }

  @Test func `more of the own trail than there is counts as unknown to all`() throws {
    let (window, writer) = (try window(), try writer(own))
    try commit(writer) { try writer.change(nil, item(1, "tea", 1)) }
    func header(_ number: UInt64, _ id: TrailID?) -> TransactionHeader {
      TransactionHeader(commitTime: 0, dependencies: [.init(origin: own.description, number: number, id: id)])
    }
    // An earlier version names no id, and may mean a trail that was begun again.
    for (number, id) in [(1, writer.id), (1, nil), (9, TrailID([UInt8](repeating: 7, count: 16)))]
      as [(UInt64, TrailID?)]
    {
      #expect(try window.believed(header(number, id), of: peer) == header(number, id))
    }
    #expect(try window.believed(header(2, nil), of: peer).dependencies == [])
    let error = #expect(throws: CairnError.self) { try window.believed(header(2, writer.id), of: peer) }
    #expect(error?.code == .trailForked && error?.remedy == .retry)
    // A transaction that was applied before is known no better.
    #expect(try window.believed(header(2, writer.id), of: peer, isApplied: true).dependencies == [])
    try commit(writer) { try writer.change(item(1, "tea", 1), nil) }
    #expect(try window.believed(header(2, writer.id), of: peer) == header(2, writer.id))
  }

  @Test func `a trail whose clocks do not ascend is refused`() throws {
    let (window, theirs) = (try window(), try writer(peer))
    for number in UInt64(1)...3 {
      let (header, begin) = try commit(theirs) { try theirs.change(nil, item(Int64(number), "tea", 1)) }
      _ = try window.believed(header, of: peer)
      window.meet(header, of: peer, at: begin)
    }
    // With a late clock it claimed to know others' rows; with an early one it would now replace them.
    let back = TransactionHeader(number: 4, commitTime: 0, clock: 3)
    let error = #expect(throws: CairnError.self) { try window.believed(back, of: peer) }
    #expect(error?.code == .trailDamaged && error?.hint.contains("do not trust node b") == true)
    // A transaction that was applied before stays, and one that is met again after a rollback is not refused.
    _ = try window.believed(back, of: peer, isApplied: true)
    _ = try window.believed(TransactionHeader(number: 2, commitTime: 0, clock: 2), of: peer)
    window.rollback(peer)
    _ = try window.believed(TransactionHeader(number: 1, commitTime: 0, clock: 1), of: peer)
    _ = try window.believed(TransactionHeader(number: 4, commitTime: 0, clock: 9), of: peer)
  }

  @Test func `the own trail is read on`() throws {
    let window = try window()
    #expect(try window.catchUp(rowNames: rowNames) == 0, "there is none yet")
    #expect(window.ownReach.number == 0 && window.ownReach.sourcePosition.isEmpty)
    let writer = try writer(own)
    try commit(writer) { try writer.change(nil, item(1, "tea", 1)) }
    try commit(writer) {
      try writer.change(nil, item(2, "tea", 1))
      try writer.change(item(2, "tea", 1), item(3, "tea", 1))
      try writer.progress([1, 2, 3])
    }
    #expect(try window.catchUp(rowNames: rowNames) == 2)
    #expect(window.ownReach.number == 2 && window.ownReach.sourcePosition == [1, 2, 3])
    #expect(window.count == 3)
    try commit(writer) { try writer.change(item(1, "tea", 1), nil) }
    #expect(try window.catchUp(rowNames: rowNames) == 1)
    #expect(window.ownReach.number == 3 && window.ownReach.sourcePosition == [9])
    #expect(try window.versions(rowName(1)).map(\.stamp.number) == [1, 3])
    #expect(try window.catchUp(rowNames: rowNames) == 0)
  }

  @Test func `a part that an error cut off is read again`() throws {
    let window = try window()
    let writer = try writer(own)
    for number in Int64(0)..<4 {
      try commit(writer) { for row in 0..<Int64(5) { try writer.change(nil, item(number * 5 + row, "tea", 1)) } }
    }
    struct Broken: Error {}
    var faults = 0
    // First before all has been read once, then after that.
    for _ in 0..<2 {
      for fault in 1...12 {
        var left = fault
        do {
          try window.catchUp { schema, change in
            left -= 1
            if left == 0 { throw Broken() }
            return try rowNames(schema, change)
          }
        } catch is Broken { faults += 1 }
      }
      _ = try window.catchUp(rowNames: rowNames)
      let count = Int64(window.ownReach.number)
      #expect(window.count == Int(count) * 5)
      for row in 0..<count * 5 { #expect(try window.versions(rowName(row)).count == 1) }
      for number in count..<8 where count < 8 {
        try commit(writer) { for row in 0..<Int64(5) { try writer.change(nil, item(number * 5 + row, "tea", 1)) } }
      }
    }
    #expect(window.ownReach.number == 8)
    #expect(faults > 15)
  }

  @Test func `copied rows differ from versions, and truncates are none`() throws {
    let writer = try writer(own)
    try commit(writer) {
      let id = try writer.schemaID(items, token: 1)
      var payload = ByteWriter()
      payload.appendVarint(id)
      payload.appendImage(item(1, "tea", 1))
      try writer.append(kind: RecordKind.refreshRow, payload.bytes)
      try writer.change(nil, nil, .truncate)
    }
    let window = try window()
    try window.catchUp(rowNames: { _, change in [rowName(change.treatment.contains(.copied) ? 2 : 1)] })
    #expect(try window.versions(rowName(1)).isEmpty && window.versions(rowName(2)).count == 1)
  }

  @Test func `the needed part starts where the oldest version begins`() throws {
    let (ours, theirs) = (try writer(own), try writer(peer))
    let window = try window()
    #expect(try window.needs() == [own: .start, peer: .start], "nothing has been read")
    try window.read(peer, through: 0, rowNames: rowNames)
    var begins: [Position] = []
    for number in Int64(1)...40 {
      begins.append(try commit(ours) { try ours.change(nil, item(number, "tea", 1)) }.begin)
    }
    try window.catchUp(rowNames: rowNames)
    #expect(try window.needs() == [own: begins[0]])
    // The peer has seen some, and writes one of its own.
    let (header, begin) = try commit(theirs, knowing: 30) {
      try theirs.change(nil, item(99, "mate", 1))
    }
    let stamp = VersionStamp(clock: header.clock, origin: peer.description, number: 1)
    window.meet(header, of: peer)
    #expect(try window.concurrent(rowName(30), with: stamp, seen: [own.description: 30]).isEmpty)
    #expect(
      try window.concurrent(rowName(31), with: stamp, seen: [own.description: 30]).map(\.begin) == [
        begins[30]
      ])
    try window.note(rowName(99), VersionPlace(stamp: stamp, begin: begin))
    #expect(try window.needs()[own] == begins[0], "not committed yet")
    try window.commit(peer)
    #expect(try window.needs() == [own: begins[30], peer: begin])
    // A purge up to there leaves what a new window needs.
    #expect(try !Trail.purge(folder: temp(own.description), below: begins[30]).isEmpty)
    let next = try self.window()
    #expect(try next.needs() == [own: .start, peer: .start])
    try next.read(peer, through: 1, rowNames: rowNames)
    try next.catchUp(rowNames: rowNames)
    #expect(try next.needs() == [own: begins[30], peer: begin])
    #expect(next.count == window.count)
    #expect(next.ownReach == window.ownReach)
    // The own trail knows it, and the peer all.
    try commit(ours, knowing: 1) {}
    try window.catchUp(rowNames: rowNames)
    #expect(try window.needs() == [own: begins[30]])
    window.meet(
      TransactionHeader(
        number: 2, commitTime: 0, clock: 42, dependencies: [.init(origin: "a.db", number: 41, id: ours.id)]), of: peer)
    try window.commit(peer)
    #expect(window.count == 0)
    #expect(try window.needs() == [own: ours.end.position])
  }

  @Test func `the known part of the own trail is not read if nothing of others is here`() throws {
    let (ours, theirs) = (try writer(own), try writer(peer))
    let window = try window()
    try window.read(peer, through: 0, rowNames: rowNames)
    #expect(window.isOwnOnly)
    try window.putOffCatchUp()
    #expect(window.isComplete)
    var begins: [Position] = []
    for number in Int64(1)...40 {
      begins.append(try commit(ours) { try ours.change(nil, item(number, "tea", 1)) }.begin)
    }
    #expect(try window.needs() == [own: .start], "what nobody is known to have")
    // The peer has seen some, and changes nothing.
    window.meet(try commit(theirs, knowing: 30) {}.header, of: peer)
    #expect(try window.needs() == [own: .start], "not committed yet")
    try window.commit(peer)
    #expect(window.count == 0)
    let needed = try #require(try window.needs()[own])
    #expect(needed.segment == begins[29].segment && needed.segment > 1)
    #expect(try !Trail.purge(folder: temp(own.description), below: needed).isEmpty)
    // Now it writes a row that was written here, and does not know of that.
    let (header, begin) = try commit(theirs, knowing: 30) { try theirs.change(nil, item(35, "mate", 1)) }
    let met = window.meet(header, of: peer, at: begin)
    var named = 0
    try window.catchUp { schema, change in
      named += 1
      return try rowNames(schema, change)
    }
    #expect(named == 10 && window.count == 10)
    #expect(try !window.follow([rowName(35)], met))
    #expect(try window.follow([rowName(30)], met))
    #expect(window.count == 11 && !window.isOwnOnly)
    #expect(try window.needs()[own] == begins[30])
    #expect(window.ownReach.number == 40 && window.ownReach.sourcePosition == [9])
  }

  @Test func `a false claim to know the own trail does not keep it from being read`() throws {
    let (ours, theirs) = (try writer(own), try writer(peer))
    let window = try window()
    try window.read(peer, through: 0, rowNames: rowNames)
    try window.putOffCatchUp()
    for number in Int64(1)...40 { try commit(ours) { try ours.change(nil, item(number, "tea", 1)) } }
    // With clock 1, the peer claims to know transactions 1 to 30, which have the clocks 1 to 30.
    let claim = [TransactionHeader.Dependency(origin: own.description, number: 30, id: ours.id)]
    let header = try theirs.begin(TransactionHeader(commitTime: 0, dependencies: claim))
    try theirs.commit()
    try theirs.sync()
    window.meet(header, of: peer)
    try window.commit(peer)
    let lie = window.meet(TransactionHeader(number: 2, commitTime: 0, clock: 2, dependencies: claim), of: peer)
    try window.catchUp(rowNames: rowNames)
    #expect(window.count == 40)
    try #expect(!window.follow([rowName(20)], lie))
    try #expect(window.follow([rowName(1)], lie))
  }

  @Test func `several threads share a window`() async throws {
    let ours = try writer(own)
    for number in Int64(1)...30 {
      try commit(ours) { try ours.change(nil, item(number, "tea", 1)) }
    }
    let window = try window()
    try window.read(peer, through: 0, rowNames: rowNames)
    try await withThrowingTaskGroup(of: Int.self) { group in
      for thread in UInt64(0)..<4 {
        group.addTask {
          for number in UInt64(1)...200 {
            let stamp = VersionStamp(clock: number, origin: "b.db", number: number * 4 + thread)
            _ = try window.concurrent(rowName(Int64(number)), with: stamp, seen: [:])
            try window.note(
              rowName(Int64(number + 1000)), VersionPlace(stamp: stamp, begin: .start))
          }
          return try window.catchUp(rowNames: rowNames)
        }
      }
      var count = 0
      for try await more in group { count += more }
      #expect(count == 30, "each transaction is read once")
    }
    #expect(window.count == 830)
  }
}
