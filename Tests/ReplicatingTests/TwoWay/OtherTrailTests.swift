import Applying
import Changes
import Endpoints
import Foundation
import Mapping
import Replicating
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

/// A trail that is damaged, or whose transactions the target refuses, keeps no other trail from being applied.
@Suite(
  .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), .timeLimit(.minutes(20)))
struct OtherTrailTests {
  private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)"

  /// Nodes 0 and 1 write to one row; their trails are applied to node 2, which refuses the name 'bad'.
  private static func mesh(_ engine: Character) throws -> Mesh {
    let mesh = try Mesh("ss", schema: schema)
    try mesh.add(engine) {
      try $0.execute(
        "DROP TABLE item; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, CONSTRAINT fine CHECK (name <> 'bad'))")
    }
    try mesh.nodes[1].execute("INSERT INTO item VALUES (1, 'tea'), (2, 'milk')")
    for _ in 0..<2 { try mesh.settle() }
    #expect(try mesh.nodes[2].rows("SELECT name FROM item ORDER BY id") == ["tea", "milk"])
    return mesh
  }

  private static func write(_ mesh: Mesh, _ node: Int, _ sql: String) throws {
    try mesh.nodes[node].execute(sql)
    try mesh.nodes[node].capturePending()
  }

  @Test("damage after a version of a row does not keep other versions from being resolved", arguments: ["s", "p"])
  func damage(engine: Character) throws {
    let mesh = try Self.mesh(engine)
    try Self.write(mesh, 0, "UPDATE item SET name = 'theirs' WHERE id = 1")
    try mesh.apply(0, to: 2)
    try Self.write(mesh, 0, "INSERT INTO item VALUES (9, 'more')")
    let segment = try #require(Trail.info(folder: mesh.nodes[0].folder).segments.last)
    let path = "\(mesh.nodes[0].folder)/\(segment.number.hex(8)).seg"
    let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
    try file.seek(toOffset: segment.bytes - 3)
    try file.write(contentsOf: Data([0xee, 0xee]))
    try file.close()
    try Self.write(mesh, 1, "UPDATE item SET name = 'ours' WHERE id = 1")
    #expect(try mesh.apply(1, to: 2) == 1)
    #expect(try mesh.nodes[2].rows("SELECT name FROM item WHERE id = 1") == ["ours"])
    let error = #expect(throws: CairnError.self) { try mesh.apply(0, to: 2) }
    #expect(error?.code == .trailDamaged)
    try mesh.close()
  }

  /// Both nodes write row 1. Node 2 puts the row of node 0, the later one by their clocks, into quarantine.
  private static func refuseRow(_ mesh: Mesh) throws {
    mesh.quarantines = true
    try write(mesh, 1, "UPDATE item SET name = 'ours' WHERE id = 1")
    try write(mesh, 0, "UPDATE item SET name = 'bad' WHERE id = 1")
    try mesh.apply(0, to: 2)
  }

  private static func log(_ mesh: Mesh) throws -> QuarantineLog {
    if let server = mesh.nodes[2].server { return QuarantineLog(server) }
    return QuarantineLog(try Database(path: "\(mesh.folder)/n2.db"))
  }

  @Test(
    "a transaction in quarantine makes no version of its rows, until it is applied", arguments: ["s", "p"],
    [false, true])
  func quarantine(engine: Character, restarts: Bool) throws {
    let mesh = try Self.mesh(engine)
    let hub = mesh.nodes[2]
    try Self.refuseRow(mesh)
    try Self.write(mesh, 0, "UPDATE item SET name = 'fresh milk' WHERE id = 2")
    try mesh.apply(0, to: 2)
    let log = try Self.log(mesh)
    #expect(try log.list().map(\.trail.origin) == ["n0"])
    if restarts { mesh.renew(hub) }
    try mesh.apply(1, to: 2)
    #expect(try hub.rows("SELECT name FROM item ORDER BY id") == ["ours", "fresh milk"])
    #expect(try log.list().map(\.trail.origin) == ["n0"])
    if hub.isPostgres {
      try hub.execute("ALTER TABLE item DROP CONSTRAINT fine")
      for one in try log.list() { #expect(try log.ask(one.id, for: .retry)) }
      for _ in 0..<3 { try mesh.settle() }
      for node in mesh.nodes { #expect(try node.rows("SELECT name FROM item WHERE id = 1") == ["bad"], "\(node.name)") }
    }
    #expect(try log.list().isEmpty == hub.isPostgres)
    try mesh.close()
  }

  @Test(
    "a transaction that was discarded from quarantine makes no version of its rows, also after a restart",
    arguments: ["s", "p"], [false, true])
  func discarded(engine: Character, restarts: Bool) throws {
    let mesh = try Self.mesh(engine)
    let hub = mesh.nodes[2]
    try Self.refuseRow(mesh)
    let log = try Self.log(mesh)
    for one in try log.list() { #expect(try log.ask(one.id, for: .discard)) }
    try mesh.apply(0, to: 2)
    #expect(try log.list().isEmpty)
    if restarts { mesh.renew(hub) }
    try mesh.apply(1, to: 2)
    #expect(try hub.rows("SELECT name FROM item WHERE id = 1") == ["ours"])
    #expect(try log.list().isEmpty)
    let stored = "SELECT trail FROM \(hub.isPostgres ? "cairn.discarded" : "cairn_discarded")"
    #expect(try hub.rows(stored) == ["\(mesh.nodes[0].trail)"])
    try TargetDatabase(hub.url).forgetCheckpoint(of: mesh.nodes[0].trail)
    #expect(try hub.rows(stored).isEmpty)
    try mesh.close()
  }

  @Test func `a copy that begins again at a later segment keeps no other trail from being applied`() throws {
    let mesh = try Mesh("sss", schema: Self.schema)
    let (node, other, hub) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    try other.execute("INSERT INTO item VALUES (1, 'tea'), (2, 'milk')")
    for _ in 0..<2 { try mesh.settle() }
    try Self.write(mesh, 0, "UPDATE item SET name = 'theirs' WHERE id = 1")
    let folder = "\(mesh.folder)/copy/\(node.trail)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let copy = try TrailCopy.open(folder: folder, name: node.trail)
    func bring(_ segment: UInt64, restartsBehind end: TrailPlace? = nil) throws {
      let source = try SegmentSource.open(folder: node.folder)
      let start = try #require(try source.start(of: segment))
      let piece = try #require(try source.piece(at: start, max: 1 << 20))
      var bytes = [UInt8](repeating: 0, count: piece.count)
      try bytes.withUnsafeMutableBytes { buffer throws in try source.read(piece, into: buffer) }
      let feed = CopyFeed(trail: source.id, at: start, from: node.name, restartsBehind: end)
      try bytes.withUnsafeBytes { buffer throws in try feed.take(buffer, for: copy) }
      try copy.sync()
    }
    func shared() -> TwoWay {
      let all = AdmittedTables(TargetScope())
      return TwoWay(
        own: (hub.trail, hub.folder), applied: [(node.trail, folder, all), (other.trail, other.folder, all)],
        captured: hub.tables, link: hub.link, rules: hub.rules)
    }
    func apply(_ from: Mesh.Node, _ folder: String, _ twoWay: TwoWay) throws {
      var options = ApplyOptions()
      options.twoWay = twoWay
      let drain = StopSignal()
      drain.set()
      try ApplyRun(hub.url, trail: from.trail, folder: folder, options: options)
        .run(stop: StopSignal(), drain: drain, progress: ApplyProgress())
    }
    func names() throws -> [String] { try hub.rows("SELECT name FROM item WHERE id < 3 ORDER BY id") }

    try bring(1)
    let twoWay = shared()
    try apply(node, folder, twoWay)
    #expect(try names() == ["theirs", "milk"])
    try Self.write(mesh, 1, "UPDATE item SET name = 'ours' WHERE id = 1")
    // The segment becomes so large that the next change comes into another one.
    for id in 10..<13 {
      try Self.write(mesh, 0, "INSERT INTO item VALUES (\(id), printf('%.*c', 12000000, 'x'))")
    }
    try Self.write(mesh, 0, "UPDATE item SET name = 'cream' WHERE id = 2")
    let last = try #require(Trail.info(folder: node.folder).segments.last?.number)
    #expect(last > 1)
    try bring(last, restartsBehind: copy.end)
    #expect(try Trail.info(folder: folder).segments.map(\.number) == [last])
    twoWay.window.noteRestarted(node.trail)
    let error = #expect(throws: CairnError.self) { try apply(other, other.folder, twoWay) }
    #expect(error?.code == .busy && error?.remedy == .retry && !twoWay.isSound)
    let again = shared()
    try apply(other, other.folder, again)
    #expect(try names() == ["ours", "milk"])
    // The trail itself has a gap.
    let gap = #expect(throws: CairnError.self) { try apply(node, folder, again) }
    #expect(gap?.code == .checkpointForeign, "\(String(describing: gap))")
    try Self.write(mesh, 1, "UPDATE item SET name = 'water' WHERE id = 2")
    try apply(other, other.folder, shared())
    #expect(try names() == ["ours", "water"])
    try copy.close()
    try mesh.close()
  }
}
