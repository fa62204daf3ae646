import CCurl
import Changes
import Glibc

/// The state of one HTTP request while libcurl performs it.
final class Transfer {
  private(set) var status = 0
  private(set) var headers: [String: String] = [:]
  private(set) var body: [UInt8] = []
  private(set) var received = 0
  /// The error that the sink of the answer or the source of the request's body threw; nil if there is none.
  private(set) var error: (any Error)?
  private let sink: ((UnsafeRawBufferPointer) throws -> Void)?
  private let bodyBytesMax: Int
  private let source: (any HTTPBodySource)?
  private(set) var read = 0

  init(
    _ sink: ((UnsafeRawBufferPointer) throws -> Void)?, bodyBytesMax: Int, source: (any HTTPBodySource)? = nil
  ) {
    (self.sink, self.bodyBytesMax, self.source) = (sink, bodyBytesMax, source)
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
    let reading = source == nil ? nil : this
    _ = cairn_curl_set_pointer(easy, CURLOPT_READDATA, reading)
    _ = cairn_curl_set_pointer(easy, CURLOPT_SEEKDATA, reading)
    guard source != nil else { return }
    _ = cairn_curl_set_write(easy, CURLOPT_READFUNCTION) { room, size, count, this in
      guard let room, let this else { return Int(CURL_READFUNC_ABORT) }
      let memory = UnsafeMutableRawBufferPointer(start: room, count: size * count)
      return Unmanaged<Transfer>.fromOpaque(this).takeUnretainedValue().fill(memory)
    }
    _ = cairn_curl_set_seek(easy) { this, offset, origin in
      guard let this, origin == SEEK_SET else { return CURL_SEEKFUNC_FAIL }
      Unmanaged<Transfer>.fromOpaque(this).takeUnretainedValue().read = Int(offset)
      return CURL_SEEKFUNC_OK
    }
  }

  private func fill(_ room: UnsafeMutableRawBufferPointer) -> Int {
    guard let source else { return Int(CURL_READFUNC_ABORT) }
    let piece = UnsafeMutableRawBufferPointer(rebasing: room[..<min(room.count, source.count - read)])
    do { try source.read(from: read, into: piece) } catch {
      self.error = error
      return Int(CURL_READFUNC_ABORT)
    }
    read += piece.count
    return piece.count
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
      // After an interim answer, another answer follows.
      let words = line.split(at: " ")
      status = words.count > 1 ? Int(words[1]) ?? 0 : 0
      headers = [:]
    } else if let (name, value) = line.cut(at: ":") {
      headers[name.asciiLowercased] = String(decoding: value.utf8.drop { $0 == 0x20 }, as: UTF8.self)
    }
  }
}

/// A request body that is produced while it is sent.
package protocol HTTPBodySource: AnyObject {
  var count: Int { get }
  /// Fills `buffer` with the bytes of the body at `offset`. The client may ask for the same bytes twice.
  func read(from offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws
}
