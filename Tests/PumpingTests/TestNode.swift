import Changes
import Foundation
import NetKit
import Synchronization
import SystemKit
import TestServers
import Testing
import Trails

@testable import Pumping

/// The calls that the hooks of a node got.
struct Heard: Sendable {
  var acknowledged: [String: TrailPlace] = [:]
  var places: [TrailPlace] = []
  var peerApplied: [String: Position] = [:]
  var asked: [String: [CopyRequest]] = [:]
  var restarted: [TrailName] = []
}

/// A node in this process: trails in a folder, a listener, and pumps.
final class TestNode: Sendable {
  let name: String
  let state: String
  let heard = Mutex(Heard())
  let grants = Mutex(Grants([:]))
  let applied = Mutex<[TrailName: Position]>([:])
  let wanted = Mutex<[TrailName: [CopyRequest]]>([:])
  /// Trails that begin here and whose writers have not opened them yet.
  let unopened = Mutex<Set<TrailName>>([])
  /// The snapshots that the node publishes: which peers may fetch them, and the files, the newest first.
  let snapshots = Mutex<[String: (peers: [String], files: [PublishedSnapshot])]>([:])
  typealias Answer = @Sendable (_ asker: String, TrailName, _ question: [UInt8]) throws -> [UInt8]
  /// Answers questions about rows.
  let answering: Mutex<Answer>
  let shared: PumpShared
  private let listener = Mutex<(server: HTTPServer, desk: PumpHandler)?>(nil)
  private let pumps = Mutex<[(pump: Pump, stop: StopSignal, thread: WorkerThread<Void>)]>([])

  init(
    _ name: String, _ temp: TempFolder, answering: @escaping Answer = { _, _, _ in throw PumpHandler.nothing }
  ) throws {
    self.name = name
    self.answering = Mutex(answering)
    state = "\(temp.path)/\(name)"
    try Folder.create(state)
    var hooks = PumpHooks()
    let relay = Relay()
    hooks.applied = { trail in relay.node?.applied.withLock { $0[trail] } }
    hooks.answer = { asker, trail, question, _ in
      guard let answer = relay.node?.answering.withLock({ $0 }) else { throw PumpHandler.nothing }
      return try answer(asker, trail, question)
    }
    hooks.isOpen = { trail in relay.node?.unopened.withLock { $0.contains(trail) } == false }
    hooks.requests = { trail in relay.node?.wanted.withLock { $0[trail] } ?? [] }
    hooks.allRequests = { relay.node?.wanted.withLock { $0 } ?? [:] }
    hooks.acknowledged = { peer, trail, place in
      relay.node?.heard.withLock {
        $0.acknowledged["\(peer) \(trail)"] = place
        $0.places.append(place)
      }
    }
    hooks.peerApplied = { peer, trail, place in
      relay.node?.heard.withLock { $0.peerApplied["\(peer) \(trail)"] = place }
    }
    hooks.asked = { peer, trail, requests in
      relay.node?.heard.withLock { $0.asked["\(peer) \(trail)"] = Array(requests.prefix(64)) }
      return max(0, requests.count - 64)
    }
    hooks.snapshots = { peer in
      let all = relay.node?.snapshots.withLock { $0 } ?? [:]
      return all.filter { $0.value.peers.contains { $0.hasSameBytes(as: peer) } }.keys.sorted()
    }
    hooks.snapshotFiles = { name in relay.node?.snapshots.withLock { $0[name]?.files } ?? [] }
    hooks.restarted = { trail in relay.node?.heard.withLock { $0.restarted.append(trail) } }
    shared = PumpShared(copies: TrailCopies(state: state), hooks: hooks)
    relay.set(self)
  }

  deinit { end() }

  private final class Relay: @unchecked Sendable {
    private let lock = Mutex<Void>(())
    private weak var target: TestNode?
    var node: TestNode? { lock.withLock { _ in target } }
    func set(_ node: TestNode) { lock.withLock { _ in target = node } }
  }

  var port: UInt16 { listener.withLock { $0?.server.port ?? 0 } }
  var url: String { "http://127.0.0.1:\(port)" }

  /// Listens, with the grants `peer: (push, pull)`.
  func listen(_ granted: [String: ([String], [String])], port: UInt16 = 0, tls: ServerTLS? = nil) throws {
    grants.withLock {
      $0 = Grants(granted.mapValues { .init(push: TrailPatterns($0.0), pull: TrailPatterns($0.1)) })
    }
    let relay = Relay()
    relay.set(self)
    let desk = PumpHandler(
      .init(
        node: name, grants: { relay.node?.grants.withLock { $0 } ?? Grants([:]) }, hooks: shared.hooks,
        join: { _ in .answer(HTTPResponse(status: 404)) }), copies: shared.copies)
    let server = try HTTPServer(host: "127.0.0.1", port: port, tls: tls, handler: desk)
    listener.withLock { $0 = (server, desk) }
  }

  /// Ends the waits of clients because the node is ending; it listens still.
  func endWaits() { listener.withLock { $0?.desk.end() } }

  func stopListening() {
    guard
      let (server, desk) = listener.withLock({ pair in
        defer { pair = nil }; return pair
      })
    else { return }
    desk.end()
    server.stop()
  }

  @discardableResult
  func pump(
    _ direction: TransferProgress.Direction, _ peer: TestNode, _ trails: String..., tls: ClientTLS? = nil
  ) -> Pump {
    let url = tls == nil ? peer.url : "https://127.0.0.1:\(peer.port)"
    let pump = Pump(
      PumpPlan(direction, url: url, trails: TrailPatterns(trails), node: name, tls: tls), shared)
    let stop = StopSignal()
    guard let thread = try? WorkerThread<Void>({ try? pump.run(stop: stop) }) else {
      preconditionFailure("no thread for a pump")
    }
    pumps.withLock { $0.append((pump, stop, thread)) }
    return pump
  }

  func stopPumps() {
    let all = pumps.withLock { pumps in
      defer { pumps = [] }
      return pumps
    }
    for one in all { one.stop.set() }
    for one in all { _ = one.thread.join() }
  }

  func end() {
    stopPumps()
    stopListening()
    shared.copies.close()
  }

  func folder(_ trail: String) -> String { "\(state)/\(trail)" }

  /// Appends transactions to a trail that begins here.
  @discardableResult
  func write(
    _ trail: String, transactions: Int = 20, bytes: Int = 2000, segment: Int = 16 << 10, block: Int = 2048
  ) throws -> Checkpoint {
    let name = try #require(TrailName(trail))
    var options = TrailOptions()
    (options.segmentBytes, options.blockBytes, options.allocateBytes) = (segment, block, 4096)
    let writer = try TrailWriter.open(
      folder: folder(trail), name: name, options: options, now: { Clock.system.microseconds() })
    for _ in 0..<transactions {
      _ = try writer.begin(TransactionHeader(commitTime: Clock.system.microseconds()))
      for _ in 0..<max(1, bytes / 500) {
        var payload = ByteWriter()
        payload.append(1)
        let words = (0...min(bytes, 500) / 10).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }
        payload.appendString(String(words.joined().prefix(min(bytes, 500))))
        try writer.append(kind: RecordKind.marker, payload.bytes)
      }
      try writer.commit()
      try writer.sync()
    }
    let end = writer.end
    try writer.close()
    return end
  }

  func end(of trail: String) -> Checkpoint? { try? Trail.info(folder: folder(trail)).end }

  /// Every segment that is here is that of the other node, byte for byte.
  func expectEqual(_ trail: String, _ other: TestNode, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let (a, b) = (try Trail.info(folder: other.folder(trail)), try Trail.info(folder: folder(trail)))
    #expect(a.end == b.end, sourceLocation: sourceLocation)
    for segment in b.segments {
      let name = "/" + segment.number.hex(8) + ".seg"
      func bytes(_ folder: String) throws -> Data {
        try Data(contentsOf: URL(fileURLWithPath: folder + name)).prefix(Int(segment.bytes))
      }
      #expect(try bytes(other.folder(trail)) == bytes(folder(trail)), sourceLocation: sourceLocation)
    }
    let sum = try Trail.verify(folder: folder(trail))
    #expect(sum.bytes == b.bytes, sourceLocation: sourceLocation)
  }
}

/// Waits until something is so.
func eventually(
  _ what: String, seconds: Double = 20, sourceLocation: SourceLocation = #_sourceLocation, _ isSo: () throws -> Bool
) throws {
  let deadline = Clock.monotonicMilliseconds + Int64(seconds * 1000)
  while try !isSo() {
    guard Clock.monotonicMilliseconds < deadline else {
      Issue.record("not within \(seconds) s: \(what)", sourceLocation: sourceLocation)
      return
    }
    Clock.sleep(milliseconds: 5)
  }
}
