import Foundation

/// A peer that sends what it likes, over TCP on this machine.
package final class RawPeer {
  package let descriptor: Int32

  package init?(_ port: UInt16) {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, length) }
    }
    if code != 0 { return nil }
    var patience = timeval(tv_sec: 20, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit { close(descriptor) }

  /// False when the other side has closed.
  @discardableResult package func send(_ text: String) -> Bool { send(Array(text.utf8)) }

  @discardableResult package func send(_ bytes: [UInt8]) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      if count <= 0 { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Returns the bytes that come until the other side closes, or the time is over.
  package func all() -> [UInt8] {
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = recv(descriptor, &buffer, buffer.count, 0)
      if count <= 0 { return answer }
      answer += buffer.prefix(count)
    }
  }

  /// The status of the one answer that comes; nil where none does.
  package func status() -> Int? {
    let words = String(decoding: all(), as: UTF8.self).split(separator: " ", maxSplits: 2)
    return words.count > 1 && words[0].hasPrefix("HTTP/1.") ? Int(words[1]) : nil
  }
}
