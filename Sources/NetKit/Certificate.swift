import CTLS

/// One X.509 certificate. Not Sendable: it belongs to one thread.
package final class Certificate {
  let handle: gnutls_x509_crt_t

  init() throws {
    var handle: gnutls_x509_crt_t?
    try GnuTLSError.check(gnutls_x509_crt_init(&handle))
    guard let handle else { throw GnuTLSError(code: GNUTLS_E_MEMORY_ERROR) }
    self.handle = handle
  }

  deinit { gnutls_x509_crt_deinit(handle) }

  convenience init(der: UnsafePointer<gnutls_datum_t>) throws {
    try self.init()
    try GnuTLSError.check(gnutls_x509_crt_import(handle, der, GNUTLS_X509_FMT_DER))
  }

  /// The first certificate of a text.
  package convenience init(pem: String) throws {
    try self.init()
    try Array(pem.utf8).asDatum { try GnuTLSError.check(gnutls_x509_crt_import(handle, $0, GNUTLS_X509_FMT_PEM)) }
  }

  package var pem: String {
    var datum = gnutls_datum_t()
    guard gnutls_x509_crt_export2(handle, GNUTLS_X509_FMT_PEM, &datum) >= 0 else { return "" }
    return String(decoding: take(datum), as: UTF8.self)
  }

  /// Empty where there is none.
  package var commonName: String {
    var bytes = [UInt8](repeating: 0, count: 512)
    var count = bytes.count
    let code = bytes.withUnsafeMutableBytes {
      gnutls_x509_crt_get_dn_by_oid(handle, GNUTLS_OID_X520_COMMON_NAME, 0, 0, $0.baseAddress, &count)
    }
    return code >= 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : ""
  }

  /// SHA-256 of the certificate, in lower-case hexadecimal.
  package var fingerprint: String {
    var bytes = [UInt8](repeating: 0, count: 64)
    var count = bytes.count
    let code = bytes.withUnsafeMutableBytes {
      gnutls_x509_crt_get_fingerprint(handle, GNUTLS_DIG_SHA256, $0.baseAddress, &count)
    }
    return code >= 0 ? hexadecimal(bytes.prefix(count)) : ""
  }

  /// In lower-case hexadecimal.
  package var serial: String {
    var bytes = [UInt8](repeating: 0, count: 64)
    var count = bytes.count
    let code = bytes.withUnsafeMutableBytes { gnutls_x509_crt_get_serial(handle, $0.baseAddress, &count) }
    return code >= 0 ? hexadecimal(bytes.prefix(count)) : ""
  }

  /// SHA-256 of the public key, by which a client knows a server without an authority: as ``ClientTLS/pin``, without its
  /// `sha256//`, 32 bytes.
  package var keyDigest: [UInt8] {
    keyID { gnutls_x509_crt_get_key_id(handle, GNUTLS_KEYID_USE_SHA256.rawValue, $0, $1) }
  }

  /// µs since 1970 UTC.
  package var notBefore: Int64 { Int64(gnutls_x509_crt_get_activation_time(handle)) * 1_000_000 }
  package var notAfter: Int64 { Int64(gnutls_x509_crt_get_expiration_time(handle)) * 1_000_000 }

  /// Whether it is for this host name or address.
  package func isFor(_ host: String) -> Bool { gnutls_x509_crt_check_hostname(handle, host) != 0 }

  package var facts: PeerCertificate {
    PeerCertificate(commonName: commonName, fingerprint: fingerprint, serial: serial, notAfter: notAfter)
  }
}
