import CCurl

/// What comes back for one request, while it comes.
final class Transfer {
  private(set) var status = 0
  private(set) var headers: [String: String] = [:]
  private(set) var body: [UInt8] = []
  /// Bytes of the body that have come, wherever they went.
  private(set) var received = 0
  /// What the sink threw.
  private(set) var error: (any Error)?
  private let sink: ((UnsafeRawBufferPointer) throws -> Void)?
  private let bodyBytesMax: Int

  init(_ sink: ((UnsafeRawBufferPointer) throws -> Void)?, bodyBytesMax: Int) {
    (self.sink, self.bodyBytesMax) = (sink, bodyBytesMax)
  }

  func attach(to easy: UnsafeMutableRawPointer) {
    let this = Unmanaged.passUnretained(self).toOpaque()
    _ = cairn_curl_set_write(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, this in
      guard let bytes, let this else { return 0 }
      let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
      return Unmanaged<Transfer>.fromOpaque(this).takeUnretainedValue().take(piece) ? piece.count : 0
    }
    _ = cairn_curl_set_pointer(easy, CURLOPT_WRITEDATA, this)
    _ = cairn_curl_set_write(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, this in
      guard let bytes, let this else { return 0 }
      let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
      Unmanaged<Transfer>.fromOpaque(this).takeUnretainedValue().takeHeader(line)
      return line.count
    }
    _ = cairn_curl_set_pointer(easy, CURLOPT_HEADERDATA, this)
  }

  private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
    received += bytes.count
    if let sink, (200..<300).contains(status) {
      do { try sink(bytes) } catch {
        self.error = error
        return false
      }
      return true
    }
    guard body.count + bytes.count <= bodyBytesMax else { return false }
    body.append(contentsOf: bytes)
    return true
  }

  private func takeHeader(_ bytes: UnsafeRawBufferPointer) {
    let line = String(decoding: bytes, as: UTF8.self).filter { $0 != "\r\n" && $0 != "\n" && $0 != "\r" }
    if line.hasPrefix("HTTP/") {
      // Behind an interim answer comes another.
      let words = line.split(separator: " ")
      status = words.count > 1 ? Int(words[1]) ?? 0 : 0
      headers = [:]
    } else if let colon = line.firstIndex(of: ":") {
      let value = line[line.index(after: colon)...].drop { $0 == " " }
      headers[line[..<colon].lowercased()] = String(value)
    }
  }
}
