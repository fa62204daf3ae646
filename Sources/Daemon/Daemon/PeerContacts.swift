import Changes
import ControlAPI
import Synchronization

/// Counts the requests of peers that push or pull trails, by peer, trail and direction. The entries of one peer are
/// bounded, and leave the room of other peers alone.
///
///     contacts.begin("till", trail, .received, now: now)
///     contacts.end("till", trail, .received, bytes: 512, problem: nil, isHere: true, now: now)
final class PeerContacts: Sendable {
  private struct Key: Hashable {
    var trail: TrailName
    var way: NodeStatus.Path.Direction
  }

  private struct Visits {
    var bytes: UInt64 = 0
    var seenAt: Int64 = 0
    var underWay = 0
    var problem: NodeStatus.Problem?
    // Whether this node had the trail when the last request ended. A peer may invent the names of other trails.
    var isHere = true

    func isThere(_ now: Int64) -> Bool {
      now - seenAt < (underWay > 0 ? PeerContacts.patientMicroseconds : PeerContacts.freshMicroseconds)
    }

    // Whether the peer no longer tries to begin a trail that this node refused.
    func isOver(_ now: Int64) -> Bool {
      !isHere && underWay == 0 && now - seenAt >= PeerContacts.refusedMicroseconds
    }
  }

  // In µs: nodes send something every ten seconds, so a peer that is silent for longer is not connected.
  private static let freshMicroseconds: Int64 = 25_000_000
  private static let patientMicroseconds: Int64 = 70_000_000
  // In µs: a node tries again within a minute.
  private static let refusedMicroseconds: Int64 = 600_000_000
  /// The most trails and directions of one peer that are counted.
  static let entriesMax = 5_000
  /// The most trails of one peer that are reported as refused, and that this node does not have.
  static let refusedMax = 10

  private let book = Mutex<[NameKey: [Key: Visits]]>([:])

  func begin(_ peer: String, _ trail: TrailName, _ way: NodeStatus.Path.Direction, now: Int64) {
    book.withLock { book in
      let (peer, key) = (NameKey(peer), Key(trail: trail, way: way))
      guard book[peer]?[key] != nil || book[peer]?.count ?? 0 < Self.entriesMax else { return }
      book[peer, default: [:]][key, default: Visits()].seenAt = now
      book[peer]?[key]?.underWay += 1
    }
  }

  /// Counts the end of a request.
  ///
  /// - Parameter isHere: Whether this node has the trail. Without it, the entry stays only for a problem, for ten trails
  ///   of a peer at most. It ends ten minutes after the last request.
  func end(
    _ peer: String, _ trail: TrailName, _ way: NodeStatus.Path.Direction, bytes: UInt64, problem: NodeStatus.Problem?,
    isHere: Bool, now: Int64
  ) {
    change(peer, trail, way, now: now) { visits in
      visits.underWay -= 1
      visits.bytes += bytes
      // The end of a request proves that the peer is alive only if the peer pushed bytes.
      if way == .received { visits.seenAt = now }
      (visits.problem, visits.isHere) = (problem, isHere)
    }
  }

  /// Counts a request whose connection broke before the response. A problem of an earlier request stays in the status.
  func abandon(
    _ peer: String, _ trail: TrailName, _ way: NodeStatus.Path.Direction, bytes: UInt64, isHere: Bool, now: Int64
  ) {
    change(peer, trail, way, now: now) { visits in
      visits.underWay -= 1
      visits.bytes += bytes
      visits.isHere = isHere
    }
  }

  private func change(
    _ peer: String, _ trail: TrailName, _ way: NodeStatus.Path.Direction, now: Int64, _ body: (inout Visits) -> Void
  ) {
    book.withLock { book in
      let (peer, key) = (NameKey(peer), Key(trail: trail, way: way))
      guard var entries = book.removeValue(forKey: peer) else { return }
      if var visits = entries[key] {
        body(&visits)
        entries[key] = visits
        if !visits.isHere, visits.underWay == 0, visits.problem == nil || !Self.hasRoom(&entries, now) {
          entries[key] = nil
        }
      }
      if !entries.isEmpty { book[peer] = entries }
    }
  }

  // Whether no more trails of a peer are refused than are reported. Removes those that the peer no longer tries.
  private static func hasRoom(_ entries: inout [Key: Visits], _ now: Int64) -> Bool {
    let refused = entries.filter { !$0.value.isHere && $0.value.problem != nil }
    guard refused.count > refusedMax else { return true }
    let over = refused.filter { $0.value.isOver(now) }
    for key in over.keys { entries[key] = nil }
    return refused.count - over.count <= refusedMax
  }

  /// Returns the problems with peers that an operator must solve, as errors to log, by peer. The inner keys are texts
  /// such as `till.pos from till`.
  func problems(now: Int64) -> [NameKey: [String: CairnError]] {
    book.withLock { book in
      var found: [NameKey: [String: CairnError]] = [:]
      for (peer, entries) in book {
        var problems: [String: CairnError] = [:]
        for (key, visits) in entries where !visits.isOver(now) {
          guard let problem = visits.problem, let code = ErrorCode(rawValue: problem.code) else { continue }
          problems["\(key.trail) \(key.way == .received ? "from" : "to") \(peer)"] =
            CairnError(code, problem.message, hint: problem.hint, remedy: .retry)
        }
        if !problems.isEmpty { found[peer] = problems }
      }
      return found
    }
  }

  func peersNow(now: Int64) -> Int {
    book.withLock { book in book.count { $0.value.values.contains { $0.isThere(now) } } }
  }

  func paths(now: Int64) -> [NodeStatus.Path] {
    book.withLock { book in
      book.flatMap { peer, entries in
        entries.filter { !$0.value.isOver(now) }.map { key, visits in
          let state: NodeStatus.Path.State =
            visits.problem != nil ? .failed : visits.isThere(now) ? .connected : .waiting
          var path = NodeStatus.Path(key.trail.description, peer.text, key.way, state)
          (path.bytes, path.seenAt, path.problem) = (visits.bytes, visits.seenAt, visits.problem)
          return path
        }
      }
    }
  }
}
