import Changes
import SystemKit
import Synchronization

/// Limits how many request bodies of each peer are in memory.
final class BodyPermits: Sendable {
  /// The maximum number of request bodies of one peer in memory.
  static let ofPeerMax = 4

  /// The permission to hold one request body in memory, until this object is released.
  final class Permit {
    private let book: BodyPermits
    private let peer: String

    fileprivate init(_ book: BodyPermits, _ peer: String) { (self.book, self.peer) = (book, peer) }

    deinit { book.giveBack(peer) }
  }

  private let counts = Mutex<[String: Int]>([:])

  /// Returns the permission to hold one more request body of a peer in memory.
  ///
  /// - Throws: `busy` if the peer already has ``ofPeerMax`` bodies in memory.
  func permit(_ peer: String) throws -> Permit {
    let isFree = counts.withLock { counts in
      guard counts[peer, default: 0] < Self.ofPeerMax else { return false }
      counts[peer, default: 0] += 1
      return true
    }
    guard isFree else {
      throw CairnError(
        .busy, "peer '\(peer)' has \(Self.ofPeerMax) questions or answers under way",
        hint: "it is tried again by itself", remedy: .retry, context: ["peer": peer])
    }
    return Permit(self, peer)
  }

  private func giveBack(_ peer: String) {
    counts.withLock { counts in
      let left = counts[peer, default: 1] - 1
      counts[peer] = left > 0 ? left : nil
    }
  }
}
