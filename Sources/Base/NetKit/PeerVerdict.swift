import CTLS

/// The decision whether a listener accepts a client's certificate; also for a client without one.
struct PeerVerdict: Sendable, Equatable {
  private(set) var peer: PeerCertificate?
  /// The reason why the certificate is not accepted; nil if it is accepted or missing.
  private(set) var problem: String?

  static let none = PeerVerdict(peer: nil, problem: nil)

  static func judge(_ session: UnsafeMutableRawPointer?) -> PeerVerdict {
    guard let session else { return .none }
    let handle = OpaquePointer(session)
    var count: UInt32 = 0
    guard let first = gnutls_certificate_get_peers(handle, &count), count > 0 else { return .none }
    guard let facts = try? Certificate(der: first).facts else {
      return PeerVerdict(peer: nil, problem: "the certificate cannot be read")
    }
    var status: UInt32 = 0
    // id-kp-clientAuth: a certificate that lists its purposes must have this one.
    var purpose = Array("1.3.6.1.5.5.7.3.2".utf8) + [0]
    let code = purpose.withUnsafeMutableBufferPointer { bytes in
      var data = gnutls_typed_vdata_st(type: GNUTLS_DT_KEY_PURPOSE_OID, data: bytes.baseAddress, size: 0)
      return gnutls_certificate_verify_peers(handle, &data, 1, &status)
    }
    if code < 0 { return PeerVerdict(peer: nil, problem: "\(named(facts)): \(GnuTLSError(code: code))") }
    if status != 0 { return PeerVerdict(peer: nil, problem: "\(named(facts)) \(words(status))") }
    if facts.commonName.isEmpty { return PeerVerdict(peer: nil, problem: "\(named(facts)) has no common name") }
    return PeerVerdict(peer: facts, problem: nil)
  }

  /// Returns the verdict at the time `now`, in µs since 1970 UTC. The certificate may have expired or been revoked
  /// after the handshake.
  func now(_ now: Int64, revoked: (PeerCertificate) -> Bool) -> PeerVerdict {
    guard let peer else { return self }
    if peer.notAfter < now { return PeerVerdict(peer: nil, problem: "\(Self.named(peer)) has expired") }
    if revoked(peer) { return PeerVerdict(peer: nil, problem: "\(Self.named(peer)) was revoked") }
    return self
  }

  private static func named(_ facts: PeerCertificate) -> String {
    "the certificate \(facts.fingerprint.prefix(16))… of '\(facts.commonName)'"
  }

  static func words(_ status: UInt32) -> String {
    let bits: [(gnutls_certificate_status_t, String)] = [
      (GNUTLS_CERT_REVOKED, "was revoked"), (GNUTLS_CERT_EXPIRED, "has expired"),
      (GNUTLS_CERT_NOT_ACTIVATED, "is not valid yet: look at the clocks"),
      (GNUTLS_CERT_SIGNER_NOT_FOUND, "comes from another authority"),
      (GNUTLS_CERT_SIGNER_NOT_CA, "is signed by a certificate that is not an authority"),
      (GNUTLS_CERT_SIGNATURE_FAILURE, "has a signature that is wrong"),
      (GNUTLS_CERT_INSECURE_ALGORITHM, "uses an algorithm that is not safe"),
      (GNUTLS_CERT_PURPOSE_MISMATCH, "is for another purpose"),
      (GNUTLS_CERT_UNEXPECTED_OWNER, "is for another name"),
    ]
    return bits.first { status & UInt32($0.0.rawValue) != 0 }?.1 ?? "is not valid"
  }
}
