import CTLS

/// A request for a certificate: a name and a public key, signed with the private key (RFC 2986).
///
///     let key = try PrivateKey()
///     let pem = try CertificateRequest(commonName: "till", key: key).pem
package final class CertificateRequest {
  let handle: gnutls_x509_crq_t

  private init(empty: Void) throws {
    var handle: gnutls_x509_crq_t?
    try GnuTLSError.check(gnutls_x509_crq_init(&handle))
    guard let handle else { throw GnuTLSError(code: GNUTLS_E_MEMORY_ERROR) }
    self.handle = handle
  }

  deinit { gnutls_x509_crq_deinit(handle) }

  package convenience init(commonName: String, key: PrivateKey) throws {
    try self.init(empty: ())
    let name = Array(commonName.utf8)
    try GnuTLSError.check(gnutls_x509_crq_set_version(handle, 1))
    try name.withUnsafeBytes {
      try GnuTLSError.check(
        gnutls_x509_crq_set_dn_by_oid(handle, GNUTLS_OID_X520_COMMON_NAME, 0, $0.baseAddress, UInt32($0.count)))
    }
    try GnuTLSError.check(gnutls_x509_crq_set_key(handle, key.handle))
    try GnuTLSError.check(gnutls_x509_crq_sign2(handle, key.handle, GNUTLS_DIG_SHA256, 0))
  }

  /// Reads a request from a text in PEM. Throws if the text is no request, or if its signature does not match its
  /// public key.
  package convenience init(pem: String) throws {
    try self.init(empty: ())
    try Array(pem.utf8).asDatum { try GnuTLSError.check(gnutls_x509_crq_import(handle, $0, GNUTLS_X509_FMT_PEM)) }
    try GnuTLSError.check(gnutls_x509_crq_verify(handle, 0))
  }

  package var pem: String {
    get throws {
      var datum = gnutls_datum_t()
      try GnuTLSError.check(gnutls_x509_crq_export2(handle, GNUTLS_X509_FMT_PEM, &datum))
      return String(decoding: take(datum), as: UTF8.self)
    }
  }

  /// The SHA-256 of the public key, 32 bytes.
  package var keyDigest: [UInt8] {
    keyID { gnutls_x509_crq_get_key_id(handle, GNUTLS_KEYID_USE_SHA256.rawValue, $0, $1) }
  }

  /// The reason why a public key of this kind gets no certificate. Nil for ECDSA from 256 bits, Ed25519, and RSA of
  /// 2048 to 8192 bits.
  package var keyProblem: String? {
    var bits: UInt32 = 0
    let code = gnutls_x509_crq_get_pk_algorithm(handle, &bits)
    guard code >= 0 else { return "the type of the key is unknown" }
    let kind = gnutls_pk_algorithm_t(UInt32(code))
    switch kind {
    case GNUTLS_PK_EDDSA_ED25519: return nil
    case GNUTLS_PK_ECDSA where bits >= 256: return nil
    case GNUTLS_PK_RSA where (2048...8192).contains(bits): return nil
    default:
      let name = gnutls_pk_algorithm_get_name(kind).map { String(cString: $0) } ?? "unknown"
      return "the key is \(name) of \(bits) bits"
    }
  }

  /// The common name; empty if there is none.
  package var commonName: String {
    var bytes = [UInt8](repeating: 0, count: 512)
    var count = bytes.count
    let code = bytes.withUnsafeMutableBytes {
      gnutls_x509_crq_get_dn_by_oid(handle, GNUTLS_OID_X520_COMMON_NAME, 0, 0, $0.baseAddress, &count)
    }
    return code >= 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : ""
  }
}
