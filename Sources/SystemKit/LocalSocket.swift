import Glibc

/// A Unix socket that is connected: lines go back and forth, each within limits of size and time.
package final class LocalSocket {
  package let path: String
  private let descriptor: Int32
  private var buffer: [UInt8] = []

  /// Takes over a descriptor. Each read and write ends after `seconds`.
  package init(_ descriptor: Int32, path: String, seconds: Int) {
    (self.descriptor, self.path) = (descriptor, path)
    var limit = timeval(tv_sec: seconds, tv_usec: 0)
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
      setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
    }
  }

  deinit { Glibc.close(descriptor) }

  /// connect(2) to a listener.
  package static func connect(_ path: String, seconds: Int) throws(FileError) -> LocalSocket {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw FileError(code: errno, operation: "socket", path: path) }
    let made = LocalSocket(descriptor, path: path, seconds: seconds)
    let code = try Self.withAddress(path) { Glibc.connect(descriptor, $0, $1) < 0 ? errno : 0 }
    if code != 0 { throw FileError(code: code, operation: "connect", path: path) }
    return made
  }

  /// Calls `body` with the address of a path. Errors: ENAMETOOLONG for one of more than 107 bytes.
  static func withAddress<T>(
    _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> T
  ) throws(FileError) -> T {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
      throw FileError(code: ENAMETOOLONG, operation: "socket", path: path)
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
    }
  }

  /// The next line without its end; nil when the peer has closed. Errors: EMSGSIZE for a line of more than `bytesMax`,
  /// EAGAIN when the peer takes too long.
  package func readLine(bytesMax: Int) throws(FileError) -> [UInt8]? {
    while true {
      if let end = buffer.firstIndex(of: 0x0a) {
        let line = Array(buffer[..<end])
        buffer.removeSubrange(...end)
        return line
      }
      guard buffer.count <= bytesMax else { throw FileError(code: EMSGSIZE, operation: "read", path: path) }
      var chunk = [UInt8](repeating: 0, count: 8192)
      let n = read(descriptor, &chunk, chunk.count)
      if n < 0 {
        if errno == EINTR { continue }
        throw FileError(code: errno, operation: "read", path: path)
      }
      if n == 0 { return nil }
      buffer += chunk[..<n]
    }
  }

  /// Writes a line and its end: send(2), without SIGPIPE.
  package func writeLine(_ line: String) throws(FileError) {
    let bytes = Array((line + "\n").utf8)
    var rest = bytes[...]
    while !rest.isEmpty {
      let n = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if n < 0 {
        if errno == EINTR { continue }
        throw FileError(code: errno, operation: "send", path: path)
      }
      rest = rest.dropFirst(n)
    }
  }
}
