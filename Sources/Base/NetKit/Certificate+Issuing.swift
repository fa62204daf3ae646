import CTLS
import Glibc
import SystemKit

/// The content of a new certificate.
///
///     let year: Int64 = 365 * 86_400_000_000
///     let terms = CertificateTerms(commonName: "till", purpose: .client, notBefore: now, notAfter: now + year)
package struct CertificateTerms: Sendable {
  package enum Purpose: Sendable {
    case authority
    /// A certificate of a node that listens under these host names and addresses.
    case server(names: [String])
    case client
  }

  package var commonName: String
  package var purpose: Purpose
  package var notBefore: Int64
  package var notAfter: Int64

  package init(commonName: String, purpose: Purpose, notBefore: Int64, notAfter: Int64) {
    (self.commonName, self.purpose) = (commonName, purpose)
    (self.notBefore, self.notAfter) = (notBefore, notAfter)
  }
}

extension Certificate {
  package static func selfSigned(_ terms: CertificateTerms, key: PrivateKey) throws -> Certificate {
    let certificate = try Certificate()
    try GnuTLSError.check(gnutls_x509_crt_set_key(certificate.handle, key.handle))
    try certificate.fill(terms)
    return try certificate.sign(by: certificate, key: key)
  }

  /// Returns a certificate for the public key in a request, signed by an authority. Nothing else of the request is
  /// used.
  package static func issue(
    _ terms: CertificateTerms, for request: CertificateRequest, by authority: Certificate, key: PrivateKey
  ) throws -> Certificate {
    let certificate = try Certificate()
    // Only the key is taken from the request, because the certificate would otherwise get its name too.
    var publicKey: gnutls_pubkey_t?
    try GnuTLSError.check(gnutls_pubkey_init(&publicKey))
    defer { gnutls_pubkey_deinit(publicKey) }
    try GnuTLSError.check(gnutls_pubkey_import_x509_crq(publicKey, request.handle, 0))
    try GnuTLSError.check(gnutls_x509_crt_set_pubkey(certificate.handle, publicKey))
    try certificate.fill(terms)
    return try certificate.sign(by: authority, key: key)
  }

  private func fill(_ terms: CertificateTerms) throws {
    try GnuTLSError.check(gnutls_x509_crt_set_version(handle, 3))
    var serial = [UInt8](repeating: 0, count: 16)
    try GnuTLSError.check(gnutls_rnd(GNUTLS_RND_NONCE, &serial, serial.count))
    // The serial number must be positive, and all its bytes must count.
    serial[0] = serial[0] & 0x7f | 0x40
    try GnuTLSError.check(gnutls_x509_crt_set_serial(handle, serial, serial.count))
    try GnuTLSError.check(gnutls_x509_crt_set_activation_time(handle, time_t(terms.notBefore / 1_000_000)))
    try GnuTLSError.check(gnutls_x509_crt_set_expiration_time(handle, time_t(terms.notAfter / 1_000_000)))
    let name = Array(terms.commonName.utf8)
    try GnuTLSError.check(
      gnutls_x509_crt_set_dn_by_oid(handle, GNUTLS_OID_X520_COMMON_NAME, 0, name, UInt32(name.count)))
    let digest = keyDigest
    try GnuTLSError.check(gnutls_x509_crt_set_subject_key_id(handle, digest, 20))
    switch terms.purpose {
    case .authority:
      try GnuTLSError.check(gnutls_x509_crt_set_basic_constraints(handle, 1, 0))
      try GnuTLSError.check(gnutls_x509_crt_set_key_usage(handle, UInt32(GNUTLS_KEY_KEY_CERT_SIGN)))
    case .server(let names):
      try fillEnd(purposes: ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"])
      for name in names { try addName(name) }
    case .client: try fillEnd(purposes: ["1.3.6.1.5.5.7.3.2"])
    }
  }

  private func fillEnd(purposes: [String]) throws {
    try GnuTLSError.check(gnutls_x509_crt_set_basic_constraints(handle, 0, -1))
    try GnuTLSError.check(gnutls_x509_crt_set_key_usage(handle, UInt32(GNUTLS_KEY_DIGITAL_SIGNATURE)))
    for purpose in purposes {
      try GnuTLSError.check(gnutls_x509_crt_set_key_purpose_oid(handle, purpose, 0))
    }
  }

  private func addName(_ name: String) throws {
    var bytes = [UInt8](repeating: 0, count: 16)
    let type: gnutls_x509_subject_alt_name_t
    if inet_pton(AF_INET, name, &bytes) == 1 {
      (type, bytes) = (GNUTLS_SAN_IPADDRESS, Array(bytes.prefix(4)))
    } else if inet_pton(AF_INET6, name, &bytes) == 1 {
      type = GNUTLS_SAN_IPADDRESS
    } else {
      (type, bytes) = (GNUTLS_SAN_DNSNAME, Array(name.utf8))
    }
    try GnuTLSError.check(
      gnutls_x509_crt_set_subject_alt_name(
        handle, type, bytes, UInt32(bytes.count), UInt32(GNUTLS_FSAN_APPEND)))
  }

  private func sign(by authority: Certificate, key: PrivateKey) throws -> Certificate {
    let digest = authority.keyDigest
    if authority !== self {
      try GnuTLSError.check(gnutls_x509_crt_set_authority_key_id(handle, digest, 20))
    }
    try GnuTLSError.check(gnutls_x509_crt_sign2(handle, authority.handle, key.handle, GNUTLS_DIG_SHA256, 0))
    return self
  }
}
