import CShims
import Glibc

/// A connected Unix socket that sends and receives lines, each within limits of size and time.
package final class LocalSocket {
  package let path: String
  private let descriptor: Int32
  private var buffer: [UInt8] = []

  /// Creates a socket that owns the descriptor. A read or write fails if it takes longer than `seconds`.
  package init(_ descriptor: Int32, path: String, seconds: Int) {
    (self.descriptor, self.path) = (descriptor, path)
    var limit = timeval(tv_sec: seconds, tv_usec: 0)
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
      setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
    }
  }

  deinit { Glibc.close(descriptor) }

  package static func connect(_ path: String, seconds: Int) throws(FileError) -> LocalSocket {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw FileError(code: errno, operation: "socket", path: path) }
    let made = LocalSocket(descriptor, path: path, seconds: seconds)
    let code = try Self.withAddress(path) { Glibc.connect(descriptor, $0, $1) < 0 ? errno : 0 }
    if code != 0 { throw FileError(code: code, operation: "connect", path: path) }
    return made
  }

  // Throws ENAMETOOLONG for a path of more than 107 bytes.
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

  /// The user and the process at the other end; nil if the kernel does not report them.
  package var peer: (user: UInt32, process: Int32)? {
    var (user, process): (UInt32, Int32) = (0, 0)
    return cairn_peer_user(descriptor, &user, &process) == 0 ? (user, process) : nil
  }

  /// Ends the connection in both directions, so that waiting reads and writes end at once. Any thread may call it.
  package func cut() { shutdown(descriptor, Int32(SHUT_RDWR)) }

  /// Returns the next line without its end; nil if the peer has closed.
  ///
  /// - Parameter seconds: The limit for the whole line, even if its bytes come slowly. Nil: the limit of the
  ///   initializer, for each single read.
  /// - Throws: EMSGSIZE for a line of more than `bytesMax`, EAGAIN if the peer takes too long.
  package func readLine(bytesMax: Int, seconds: Int? = nil) throws(FileError) -> [UInt8]? {
    let deadline = seconds.map { Clock.monotonicMilliseconds + Int64($0) * 1000 }
    var searched = 0
    while true {
      if let deadline, Clock.monotonicMilliseconds >= deadline {
        throw FileError(code: EAGAIN, operation: "read", path: path)
      }
      if let end = buffer[searched...].firstIndex(of: 0x0a) {
        let line = Array(buffer[..<end])
        buffer.removeSubrange(...end)
        return line
      }
      searched = buffer.count
      guard buffer.count <= bytesMax else { throw FileError(code: EMSGSIZE, operation: "read", path: path) }
      if let deadline { try wait(Int16(POLLIN), until: deadline) }
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

  private func wait(_ events: Int16, until deadline: Int64) throws(FileError) {
    var entry = pollfd(fd: descriptor, events: events, revents: 0)
    let left = Int32(clamping: max(0, deadline - Clock.monotonicMilliseconds))
    if poll(&entry, 1, left) == 0 { throw FileError(code: EAGAIN, operation: "poll", path: path) }
  }

  /// Writes a line and its end: send(2), without SIGPIPE.
  ///
  /// - Parameter seconds: The limit for the whole line, even if the peer reads slowly. Nil: the limit of the
  ///   initializer, for each single write.
  /// - Throws: EAGAIN if the peer takes too long.
  package func writeLine(_ line: String, seconds: Int? = nil) throws(FileError) {
    let deadline = seconds.map { Clock.monotonicMilliseconds + Int64($0) * 1000 }
    let bytes = Array((line + "\n").utf8)
    var rest = bytes[...]
    while !rest.isEmpty {
      var flags = Int32(MSG_NOSIGNAL)
      if let deadline {
        guard Clock.monotonicMilliseconds < deadline else {
          throw FileError(code: EAGAIN, operation: "send", path: path)
        }
        try wait(Int16(POLLOUT), until: deadline)
        flags |= Int32(MSG_DONTWAIT)
      }
      let n = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, flags) }
      if n < 0 {
        if errno == EINTR || errno == EAGAIN && deadline != nil { continue }
        throw FileError(code: errno, operation: "send", path: path)
      }
      rest = rest.dropFirst(n)
    }
  }
}
