import CTLS

/// A private key, for use by one thread.
///
///     let key = try PrivateKey()
///     try PrivateKey(pem: key.pem).digest == key.digest   // true
package final class PrivateKey {
  let handle: gnutls_x509_privkey_t

  private init(empty: Void) throws {
    var handle: gnutls_x509_privkey_t?
    try GnuTLSError.check(gnutls_x509_privkey_init(&handle))
    guard let handle else { throw GnuTLSError(code: GNUTLS_E_MEMORY_ERROR) }
    self.handle = handle
  }

  deinit { gnutls_x509_privkey_deinit(handle) }

  /// Generates an ECDSA key over P-256.
  package convenience init() throws {
    try self.init(empty: ())
    let bits = UInt32(1) << 31 | GNUTLS_ECC_CURVE_SECP256R1.rawValue
    try GnuTLSError.check(gnutls_x509_privkey_generate(handle, GNUTLS_PK_ECDSA, bits, 0))
  }

  package convenience init(pem: String) throws {
    try self.init(empty: ())
    try Array(pem.utf8).asDatum {
      try GnuTLSError.check(gnutls_x509_privkey_import2(handle, $0, GNUTLS_X509_FMT_PEM, nil, 0))
    }
  }

  /// The private key in PEM (PKCS #8), not encrypted.
  package var pem: String {
    get throws {
      var datum = gnutls_datum_t()
      try GnuTLSError.check(
        gnutls_x509_privkey_export2_pkcs8(handle, GNUTLS_X509_FMT_PEM, nil, GNUTLS_PKCS_PLAIN.rawValue, &datum))
      return String(decoding: take(datum), as: UTF8.self)
    }
  }

  /// The SHA-256 of the public key, 32 bytes.
  package var digest: [UInt8] {
    keyID { gnutls_x509_privkey_get_key_id(handle, GNUTLS_KEYID_USE_SHA256.rawValue, $0, $1) }
  }
}

/// Returns the SHA-256 of a public key.
///
/// - Parameter ask: Calls the GnuTLS function that writes the SHA-256 into a buffer.
func keyID(_ ask: (UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<Int>) -> Int32) -> [UInt8] {
  var bytes = [UInt8](repeating: 0, count: 64)
  var count = bytes.count
  let code = bytes.withUnsafeMutableBufferPointer { ask($0.baseAddress, &count) }
  return code >= 0 ? Array(bytes.prefix(count)) : []
}
