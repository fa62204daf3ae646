import Changes
import Glibc

/// A TCP socket that listens. The caller closes its descriptor.
struct ListeningSocket {
  let descriptor: Int32
  let port: UInt16

  /// Opens the socket. The host `::` listens on IPv4 too. Port 0 selects a free port.
  ///
  /// - Throws: `usage` if `host` is no address, `io-failed` if it cannot be bound.
  init(host: String, port: UInt16) throws {
    let addresses = try Self.addresses(host, port)
    defer { freeaddrinfo(addresses) }
    let entry = addresses.pointee
    let descriptor = socket(entry.ai_family, entry.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), entry.ai_protocol)
    guard descriptor >= 0 else { throw Self.failure(host, port, errno) }
    var (one, zero): (Int32, Int32) = (1, 0)
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, 4)
    if entry.ai_family == AF_INET6 {
      setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &zero, 4)
    }
    guard bind(descriptor, entry.ai_addr, entry.ai_addrlen) == 0, listen(descriptor, SOMAXCONN) == 0 else {
      let code = errno
      close(descriptor)
      throw Self.failure(host, port, code)
    }
    self.descriptor = descriptor
    self.port = Self.port(of: descriptor) ?? port
  }

  private static func port(of descriptor: Int32) -> UInt16? {
    var address = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutablePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { general in
        guard getsockname(descriptor, general, &length) == 0 else { return nil }
        // The port is at the same place in both families.
        return general.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { UInt16(bigEndian: $0.pointee.sin_port) }
      }
    }
  }

  private static func addresses(_ host: String, _ port: UInt16) throws -> UnsafeMutablePointer<addrinfo> {
    var hints = addrinfo()
    hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, String(port), &hints, &found)
    guard code == 0, let found else {
      throw CairnError(
        .usage, "'\(host)' is not an address to listen on: \(String(cString: gai_strerror(code)))",
        hint: "write an address of this machine, such as 127.0.0.1:\(port)", remedy: .badInput)
    }
    return found
  }

  private static func failure(_ host: String, _ port: UInt16, _ code: Int32) -> CairnError {
    let shown = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
    return CairnError(
      .ioFailed, "cannot listen on \(shown):\(port): \(String(cString: strerror(code)))",
      hint: "see which process has the port ('ss -ltnp'), or choose another port in the conf", remedy: .retry)
  }
}
