import Changes
import Steering
import Synchronization

/// Counts the requests of peers that push or pull trails, by peer, trail and direction.
final class PeerContacts: Sendable {
  private struct Key: Hashable {
    var peer: String
    var trail: TrailName
    var way: NodeStatus.Path.Direction
  }

  fileprivate struct Visits {
    var bytes: UInt64 = 0
    var seenAt: Int64 = 0
    var underWay = 0
    var problem: NodeStatus.Problem?
  }

  // In µs: nodes send something every ten seconds, so a peer that is silent for longer is not connected.
  fileprivate static let freshMicroseconds: Int64 = 25_000_000
  fileprivate static let patientMicroseconds: Int64 = 70_000_000
  private static let entriesMax = 20_000

  private let book = Mutex<[Key: Visits]>([:])

  func begin(_ peer: String, _ trail: TrailName, _ way: NodeStatus.Path.Direction, now: Int64) {
    book.withLock { book in
      let key = Key(peer: peer, trail: trail, way: way)
      guard book[key] != nil || book.count < Self.entriesMax else { return }
      book[key, default: Visits()].seenAt = now
      book[key]?.underWay += 1
    }
  }

  func end(
    _ peer: String, _ trail: TrailName, _ way: NodeStatus.Path.Direction, bytes: UInt64, problem: NodeStatus.Problem?,
    now: Int64
  ) {
    book.withLock { book in
      let key = Key(peer: peer, trail: trail, way: way)
      guard var visits = book[key] else { return }
      visits.underWay -= 1
      visits.bytes += bytes
      // The end of a request proves that the peer is alive only if the peer pushed bytes.
      if way == .received { visits.seenAt = now }
      visits.problem = problem
      book[key] = visits
    }
  }

  /// Counts a request whose connection broke before the response. A problem of an earlier request stays in the status.
  func abandon(_ peer: String, _ trail: TrailName, _ way: NodeStatus.Path.Direction, bytes: UInt64) {
    book.withLock { book in
      let key = Key(peer: peer, trail: trail, way: way)
      book[key]?.underWay -= 1
      book[key]?.bytes += bytes
    }
  }

  /// Removes the entry for a peer and a trail, unless another request is in progress or the entry has a problem.
  func forget(_ peer: String, _ trail: TrailName, _ way: NodeStatus.Path.Direction) {
    book.withLock { book in
      let key = Key(peer: peer, trail: trail, way: way)
      guard let visits = book[key], visits.underWay == 0, visits.problem == nil else { return }
      book[key] = nil
    }
  }

  /// The problems with peers that an operator must solve, as errors to log. The keys are texts such as `till.pos from
  /// till`.
  var problems: [String: CairnError] {
    book.withLock { book in
      var problems: [String: CairnError] = [:]
      for (key, visits) in book {
        guard let problem = visits.problem, let code = ErrorCode(rawValue: problem.code) else { continue }
        problems["\(key.trail) \(key.way == .received ? "from" : "to") \(key.peer)"] =
          CairnError(code, problem.message, hint: problem.hint, remedy: .retry)
      }
      return problems
    }
  }

  func peersNow(now: Int64) -> Int {
    book.withLock { book in Set(book.filter { $0.value.isThere(now) }.map(\.key.peer)).count }
  }

  func paths(now: Int64) -> [NodeStatus.Path] {
    book.withLock { book in
      book.map { key, visits in
        let state: NodeStatus.Path.State =
          visits.problem != nil ? .failed : visits.isThere(now) ? .connected : .waiting
        var path = NodeStatus.Path(key.trail.description, key.peer, key.way, state)
        (path.bytes, path.seenAt, path.problem) = (visits.bytes, visits.seenAt, visits.problem)
        return path
      }
    }
  }
}

extension PeerContacts.Visits {
  fileprivate func isThere(_ now: Int64) -> Bool {
    now - seenAt < (underWay > 0 ? PeerContacts.patientMicroseconds : PeerContacts.freshMicroseconds)
  }
}
