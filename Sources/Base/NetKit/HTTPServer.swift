import CHTTP
import CShims
import Changes
import Glibc
import Synchronization
import SystemKit

/// An HTTP/1.1 server on one address, with a thread for each connection, over libmicrohttpd(3). Slow and silent
/// connections are ended (``HTTPLimits``).
///
///     let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: desk)
///     server.port   // the port that the system chose
///     server.stop()
package final class HTTPServer: Sendable {
  final class Core: Sendable {
    let handler: any HTTPHandler
    let tls: ServerTLS?
    let connections: HTTPConnections
    var limits: HTTPLimits { connections.limits }

    init(_ handler: any HTTPHandler, _ tls: ServerTLS?, _ limits: HTTPLimits) {
      (self.handler, self.tls, connections) = (handler, tls, HTTPConnections(limits))
    }
  }

  private struct Running: @unchecked Sendable {
    let daemon: OpaquePointer
    let reaper: WorkerThread<Void>
    let core: Unmanaged<Core>
  }

  // The number of connections above the limit that the listener accepts only to send them a refusal.
  private static let spareConnections = 16
  private static let connectionBytes = 65536
  // A revoked certificate or grant ends a request in progress within this time.
  private static let lookMilliseconds: Int32 = 250
  private static let stackBytes = 512 << 10

  /// The port on which the server listens. If the caller passed 0, the kernel has chosen it.
  package let port: UInt16
  private let stopping = StopSignal()
  private let running: Mutex<Running?>

  /// Creates a server, which accepts connections when the call returns.
  ///
  /// - Throws: `usage` if `host` is not an address; `io-failed` if the address cannot be bound or no thread can be
  ///   started; `conf-value` if the certificate and the key cannot be used.
  package init(
    host: String, port: UInt16, tls: ServerTLS? = nil, limits: HTTPLimits = HTTPLimits(), handler: any HTTPHandler
  ) throws {
    let texts = try tls.map { try TLSFiles($0) }
    let socket = try ListeningSocket(host: host, port: port)
    let core = Unmanaged.passRetained(Core(handler, tls, limits))
    guard let daemon = Self.start(socket.descriptor, texts, limits, core.toOpaque()) else {
      // libmicrohttpd has closed the socket already.
      core.release()
      throw CairnError(
        .ioFailed, "cannot serve HTTP on \(host):\(socket.port): a thread or TLS could not be started",
        hint: "check the limits of this service (threads, memory), and the certificate and key", remedy: .retry)
    }
    self.port = socket.port
    let (shared, stopping) = (core.takeUnretainedValue(), self.stopping)
    do throws(CairnError) {
      let reaper = try WorkerThread<Void> {
        while !stopping.wait(milliseconds: Self.lookMilliseconds) {
          shared.connections.endOverdue()
          shared.endUnwelcome()
        }
      }
      running = Mutex(Running(daemon: daemon, reaper: reaper, core: core))
    } catch {
      MHD_stop_daemon(daemon)
      core.release()
      throw error
    }
  }

  deinit { stop() }

  /// Stops the server, and returns when all handlers have ended. Later calls do nothing.
  package func stop() {
    stopping.set()
    guard let running = running.withLock({ $0.take() }) else { return }
    _ = running.reaper.join()
    MHD_stop_daemon(running.daemon)
    running.core.release()
  }

  private static func start(
    _ socket: Int32, _ tls: TLSFiles?, _ limits: HTTPLimits, _ core: UnsafeMutableRawPointer
  ) -> OpaquePointer? {
    var options = cairn_http_options()
    options.listening = socket
    options.connections = UInt32(clamping: limits.connections + spareConnections)
    (options.connection_bytes, options.stack_bytes) = (connectionBytes, stackBytes)
    options.context = core
    options.connection = { Core.connectionChanged($0, $1, $2, $3) }
    options.target = { Core.targetArrived($0, $1, $2) }
    options.handle = { Core.arrived($0, $1, $3, $4, $5, $6, $7) }
    options.completed = { _, _, place, _ in Core.completed(place) }
    guard let tls else { return cairn_http_start(&options) }
    return tls.certificate.withCString { certificate in
      tls.key.withCString { key in
        tls.authorities.withCString { authorities in
          ServerTLS.priorities.withCString { priorities in
            (options.certificate, options.key) = (certificate, key)
            (options.authorities, options.priorities) = (authorities, priorities)
            return cairn_http_start(&options)
          }
        }
      }
    }
  }
}

// MARK: - What libmicrohttpd calls

extension HTTPServer.Core {
  fileprivate static func connectionChanged(
    _ context: UnsafeMutableRawPointer?, _ handle: OpaquePointer?,
    _ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ code: MHD_ConnectionNotificationCode
  ) {
    guard let context, let handle, let place else { return }
    let connections = Unmanaged<HTTPServer.Core>.fromOpaque(context).takeUnretainedValue().connections
    if code == .CONNECTION_NOTIFY_STARTED {
      let descriptor = cairn_http_descriptor(handle)
      cairn_tcp_watch(descriptor, Int32(HTTPLimits.linkSeconds))
      let connection = connections.open(descriptor, remote: HTTPConnection.text(cairn_http_address(handle)))
      place.pointee = Unmanaged.passRetained(connection).toOpaque()
    } else if let known = place.pointee {
      connections.close(Unmanaged<HTTPConnection>.fromOpaque(known).takeRetainedValue())
      place.pointee = nil
    }
  }

  fileprivate static func targetArrived(
    _ context: UnsafeMutableRawPointer?, _ text: UnsafePointer<CChar>?, _ handle: OpaquePointer?
  ) -> UnsafeMutableRawPointer? {
    guard let context, let text, let handle, let known = cairn_http_socket_context(handle) else { return nil }
    let core = Unmanaged<HTTPServer.Core>.fromOpaque(context).takeUnretainedValue()
    let connection = Unmanaged<HTTPConnection>.fromOpaque(known).takeUnretainedValue()
    return Unmanaged.passRetained(HTTPExchange(target: String(cString: text), core, connection)).toOpaque()
  }

  fileprivate static func arrived(
    _ context: UnsafeMutableRawPointer?, _ handle: OpaquePointer?, _ method: UnsafePointer<CChar>?,
    _ version: UnsafePointer<CChar>?, _ bytes: UnsafePointer<CChar>?, _ count: UnsafeMutablePointer<Int>?,
    _ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
  ) -> MHD_Result {
    guard let handle, let method, let version, let count, let known = place?.pointee else { return MHD_Result.NO }
    let exchange = Unmanaged<HTTPExchange>.fromOpaque(known).takeUnretainedValue()
    var body: UnsafeMutableRawBufferPointer?
    if let bytes, count.pointee > 0 {
      body = UnsafeMutableRawBufferPointer(
        start: UnsafeMutableRawPointer(mutating: UnsafeRawPointer(bytes)), count: count.pointee)
      count.pointee = 0
    }
    return exchange.step(handle, method: String(cString: method), version: String(cString: version), body: body)
  }

  fileprivate static func completed(_ place: UnsafeMutablePointer<UnsafeMutableRawPointer?>?) {
    guard let place, let known = place.pointee else { return }
    Unmanaged<HTTPExchange>.fromOpaque(known).takeRetainedValue().end()
    place.pointee = nil
  }

  fileprivate func endUnwelcome() {
    let now = Clock.system.microseconds()
    connections.endUnwelcome(
      counts: { peer in tls.map { peer.notAfter >= now && !$0.revoked(peer) } ?? true },
      mayGoOn: { handler.mayGoOn($0) })
  }

  func verdict(_ handle: OpaquePointer, _ connection: HTTPConnection) -> PeerVerdict {
    guard let tls else {
      connection.isStranger = false
      return .none
    }
    let verdict = connection.peer { PeerVerdict.judge(cairn_http_tls_session(handle)) }
      .now(Clock.system.microseconds(), revoked: tls.revoked)
    connection.isStranger = verdict.peer == nil
    return verdict
  }
}
