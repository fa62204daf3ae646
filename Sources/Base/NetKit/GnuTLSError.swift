import CTLS

struct GnuTLSError: Error, CustomStringConvertible {
  let code: Int32
  var description: String { gnutls_strerror(code).map { String(cString: $0) } ?? "error \(code)" }

  static func check(_ code: Int32) throws(GnuTLSError) {
    if code < 0 { throw GnuTLSError(code: code) }
  }
}

extension [UInt8] {
  func asDatum<T>(_ body: (UnsafePointer<gnutls_datum_t>) throws -> T) rethrows -> T {
    try withUnsafeBufferPointer { bytes in
      var datum = gnutls_datum_t(
        data: UnsafeMutablePointer(mutating: bytes.baseAddress), size: UInt32(clamping: bytes.count))
      return try body(&datum)
    }
  }
}

/// Returns a copy of bytes that GnuTLS has allocated, and frees them.
func take(_ datum: gnutls_datum_t) -> [UInt8] {
  defer { cairn_tls_free(datum.data) }
  return Array(UnsafeBufferPointer(start: datum.data, count: Int(datum.size)))
}

package func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
  bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

/// Returns bytes in Base64 (RFC 4648, section 4).
package func base64(_ bytes: [UInt8]) -> String {
  bytes.asDatum { datum in
    var text = gnutls_datum_t()
    guard gnutls_base64_encode2(datum, &text) >= 0 else { return "" }
    return String(decoding: take(text), as: UTF8.self)
  }
}
