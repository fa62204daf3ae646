import Changes
import CodecKit
import ServiceKit

/// Decides who may read a page of the metrics listener.
///
/// ```swift
/// let access = PageAccess(token: nil, isLoopback: true, isTLS: false)
/// access.verdict(on: "/status", authorization: nil, hasCertificate: false)   // .allowed
/// ```
struct PageAccess: Equatable, Sendable {
  enum Verdict: Equatable, Sendable {
    case allowed
    /// The client must send the token.
    case needsToken
    /// The client must show a certificate.
    case needsCertificate
    /// Nothing protects the page: the listener is open to other machines.
    case closed
  }

  /// The token that the conf asks for; nil for none.
  @ByBytes var token: String?
  /// Whether only programs of this machine can connect.
  var isLoopback: Bool
  /// Whether the listener uses TLS, so that clients can show certificates.
  var isTLS: Bool

  /// The pages with figures. Without a token and TLS, they are open to every client that reaches the listener.
  private static let figures = ["/metrics", "/readyz"]

  /// Returns whether a client may read a page.
  ///
  /// - Parameter authorization: The header `Authorization` of the request.
  /// - Parameter hasCertificate: Whether the client has shown a certificate of a trusted authority.
  func verdict(on path: String, authorization: String?, hasCertificate: Bool) -> Verdict {
    if path == "/healthz" || (isTLS && hasCertificate) { return .allowed }
    if let token { return Self.isSame(Self.secret(in: authorization), token) ? .allowed : .needsToken }
    if isTLS { return .needsCertificate }
    return isLoopback || Self.figures.contains(path) ? .allowed : .closed
  }

  /// Compares in constant time: the time depends neither on the token nor on the first byte that differs.
  static func isSame(_ given: String?, _ token: String) -> Bool {
    guard let given, let hash = try? SHA256() else { return false }
    hash.update(Array(given.utf8))
    let first = hash.finalize()
    hash.update(Array(token.utf8))
    return zip(first, hash.finalize()).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }

  /// Returns the token of `Bearer TOKEN`, or the password of `Basic`; nil without one.
  ///
  /// Source: RFC 6750, section 2.1; RFC 7617, section 2.
  static func secret(in authorization: String?) -> String? {
    guard let authorization else { return nil }
    let words = authorization.split(at: " ", maxSplits: 1)
    guard words.count == 2 else { return nil }
    switch words[0].asciiLowercased {
    case "bearer": return words[1]
    case "basic":
      guard let bytes = decoded(base64: words[1]), let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else {
        return nil
      }
      return String(validating: bytes[(colon + 1)...], as: UTF8.self)
    default: return nil
    }
  }

  /// Returns the bytes of a text in Base64 (RFC 4648, section 4); nil for any other text.
  static func decoded(base64 text: String) -> [UInt8]? {
    let digits = text.utf8.reversed().drop { $0 == UInt8(ascii: "=") }.reversed()
    let padding = text.utf8.count - digits.count
    guard text.utf8.count % 4 == 0, padding <= 2 else { return nil }
    var bytes: [UInt8] = []
    var (bits, count) = (UInt32(0), 0)
    for digit in digits {
      let value: UInt8
      switch digit {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = digit - UInt8(ascii: "A")
      case UInt8(ascii: "a")...UInt8(ascii: "z"): value = digit - UInt8(ascii: "a") + 26
      case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0") + 52
      case UInt8(ascii: "+"): value = 62
      case UInt8(ascii: "/"): value = 63
      default: return nil
      }
      (bits, count) = (bits << 6 | UInt32(value), count + 6)
      if count >= 8 {
        count -= 8
        bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
      }
    }
    return bytes
  }
}

extension PageAccess.Verdict {
  /// The refusal as an answer; nil if the client may read the page.
  var refusal: HTTPListener.Response? {
    switch self {
    case .allowed: nil
    case .needsToken:
      .init(
        status: 401, body: "send the token of this node as the password, or as 'Authorization: Bearer TOKEN'\n",
        headers: [("WWW-Authenticate", "Basic realm=\"cairn\", charset=\"UTF-8\"")])
    case .needsCertificate: .init(status: 403, body: "show a certificate that an authority of this node signed\n")
    case .closed:
      .init(
        status: 403,
        body: "the status is closed to other machines: put a token into credentials/metrics.token beside the conf\n")
    }
  }
}
