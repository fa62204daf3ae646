import CShims
import Changes
import Glibc
import SystemKit
import Synchronization

/// The connection of one client to a listener, from accept to close.
final class HTTPConnection: Sendable {
  enum Excess: Sendable { case none, total, address }

  private let descriptor: Int32
  let remote: String
  /// The limit on connections that this connection exceeds; none if it is accepted.
  let excess: Excess
  private let patience: Mutex<ConnectionPatience>
  private let verdict = Mutex<PeerVerdict?>(nil)
  private let stranger = Atomic<Bool>(true)
  private let request = Mutex<HTTPRequest?>(nil)
  private let ended = Atomic<Bool>(false)
  private let counted = Mutex<Set<NameKey>>([])

  init(_ descriptor: Int32, remote: String, excess: Excess) {
    (self.descriptor, self.remote, self.excess) = (descriptor, remote, excess)
    patience = Mutex(ConnectionPatience(now: Clock.monotonicMilliseconds))
  }

  func enter(_ phase: ConnectionPatience.Phase) {
    let now = Clock.monotonicMilliseconds
    patience.withLock { $0.enter(phase, now: now) }
  }

  /// Returns the verdict on the certificate that the client showed. The first call gets it from `judge`; later calls
  /// return the same verdict.
  func peer(_ judge: () -> PeerVerdict) -> PeerVerdict {
    verdict.withLock { known in
      let verdict = known ?? judge()
      known = verdict
      return verdict
    }
  }

  /// The request that is being answered; nil between two requests and while a request is refused.
  var underWay: HTTPRequest? {
    get { request.withLock { $0 } }
    set { request.withLock { $0 = newValue } }
  }

  /// Whether the client has not shown a valid certificate yet; without TLS, whether it has sent no request yet.
  var isStranger: Bool {
    get { stranger.load(ordering: .relaxed) }
    set { stranger.store(newValue, ordering: .relaxed) }
  }
  /// The certificate names, usually one, under which the limit of connections per name counts this connection.
  var names: Set<NameKey> { counted.withLock { $0 } }
  func countsFor(_ name: String) { _ = counted.withLock { $0.insert(name) } }
  var isEnded: Bool { ended.load(ordering: .relaxed) }

  /// Shuts the socket down, so that the thread that serves it stops. The descriptor must still be open.
  func end() {
    ended.store(true, ordering: .relaxed)
    shutdown(descriptor, Int32(SHUT_RDWR))
  }

  func endWhenOver(now: Int64, _ limits: HTTPLimits) {
    let moved = cairn_tcp_moved(descriptor)
    if patience.withLock({ $0.isOver(now: now, moved: moved, limits) }) { end() }
  }

  /// Returns a socket address as numeric text, without the port.
  static func text(_ address: UnsafePointer<sockaddr>?) -> String {
    guard let address else { return "" }
    let length =
      address.pointee.sa_family == UInt16(AF_INET6) ? MemoryLayout<sockaddr_in6>.size : MemoryLayout<sockaddr_in>.size
    var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    guard getnameinfo(address, socklen_t(length), &host, socklen_t(host.count), nil, 0, NI_NUMERICHOST) == 0 else {
      return ""
    }
    let text = host.withUnsafeBufferPointer { buffer in buffer.baseAddress.map { String(cString: $0) } ?? "" }
    // An IPv4 address on a socket for both families.
    return text.hasPrefix("::ffff:") ? String(text.dropFirst(7)) : text
  }
}
