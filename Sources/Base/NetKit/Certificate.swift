import CTLS
import Glibc

/// An X.509 certificate, for use by one thread.
///
///     let certificate = try Certificate(pem: try File.text("ca.crt"))
///     certificate.isFor("hq.example")   // true if the certificate names this host
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

  /// Reads the first certificate of a text in PEM.
  package convenience init(pem: String) throws {
    try self.init()
    try Array(pem.utf8).asDatum { try GnuTLSError.check(gnutls_x509_crt_import(handle, $0, GNUTLS_X509_FMT_PEM)) }
  }

  package var pem: String {
    var datum = gnutls_datum_t()
    guard gnutls_x509_crt_export2(handle, GNUTLS_X509_FMT_PEM, &datum) >= 0 else { return "" }
    return String(decoding: take(datum), as: UTF8.self)
  }

  /// The common name; empty if there is none.
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

  /// The serial number, in lower-case hexadecimal.
  package var serial: String {
    var bytes = [UInt8](repeating: 0, count: 64)
    var count = bytes.count
    let code = bytes.withUnsafeMutableBytes { gnutls_x509_crt_get_serial(handle, $0.baseAddress, &count) }
    return code >= 0 ? hexadecimal(bytes.prefix(count)) : ""
  }

  /// The SHA-256 of the public key, 32 bytes.
  package var keyDigest: [UInt8] {
    keyID { gnutls_x509_crt_get_key_id(handle, GNUTLS_KEYID_USE_SHA256.rawValue, $0, $1) }
  }

  package var notBefore: Int64 { Int64(gnutls_x509_crt_get_activation_time(handle)) * 1_000_000 }
  package var notAfter: Int64 { Int64(gnutls_x509_crt_get_expiration_time(handle)) * 1_000_000 }

  /// Returns whether the certificate is for this host name or address.
  package func isFor(_ host: String) -> Bool { gnutls_x509_crt_check_hostname(handle, host) != 0 }

  package var facts: PeerCertificate {
    PeerCertificate(
      commonName: commonName, fingerprint: fingerprint, serial: serial, notBefore: notBefore, notAfter: notAfter)
  }

  /// Returns whether this certificate names `authority` as its issuer. The signature is not verified.
  package func isIssued(by authority: Certificate) -> Bool {
    gnutls_x509_crt_check_issuer(handle, authority.handle) == 1
  }

  package var isAuthority: Bool {
    var (critical, isAuthority, length): (UInt32, UInt32, Int32) = (0, 0, 0)
    return gnutls_x509_crt_get_basic_constraints(handle, &critical, &isAuthority, &length) >= 0 && isAuthority != 0
  }

  /// The host names and addresses that the certificate is for, as text.
  package var names: [String] {
    var names: [String] = []
    for index in 0..<UInt32(64) {
      var bytes = [UInt8](repeating: 0, count: 512)
      var (count, type) = (bytes.count, UInt32(0))
      let code = bytes.withUnsafeMutableBytes {
        gnutls_x509_crt_get_subject_alt_name2(handle, index, $0.baseAddress, &count, &type, nil)
      }
      guard code >= 0 else { break }
      switch gnutls_x509_subject_alt_name_t(type) {
      case GNUTLS_SAN_DNSNAME: names.append(String(decoding: bytes.prefix(count), as: UTF8.self))
      case GNUTLS_SAN_IPADDRESS: names.append(Self.address(Array(bytes.prefix(count))))
      default: continue
      }
    }
    return names
  }

  private static func address(_ bytes: [UInt8]) -> String {
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    let family = bytes.count == 4 ? AF_INET : AF_INET6
    guard bytes.count == 4 || bytes.count == 16, inet_ntop(family, bytes, &text, socklen_t(text.count)) != nil else {
      return ""
    }
    return text.withUnsafeBufferPointer { buffer in buffer.baseAddress.map { String(cString: $0) } ?? "" }
  }

  /// Returns all certificates of a text in PEM, in their order.
  ///
  /// - Throws: If one of them cannot be read, or there is none.
  package static func all(pem: String) throws -> [Certificate] {
    let (begin, end) = (Array("-----BEGIN CERTIFICATE-----".utf8), Array("-----END CERTIFICATE-----".utf8))
    var blocks: [String] = []
    var block: [Substring]?
    for line in pem.split(whereSeparator: \.isNewline) {
      let bytes = Array(line.utf8)
      if bytes.starts(with: begin) { block = [] }
      block?.append(line)
      if bytes.starts(with: end), let lines = block {
        blocks.append(lines.joined(separator: "\n") + "\n")
        block = nil
      }
    }
    guard block == nil, !blocks.isEmpty else { throw GnuTLSError(code: GNUTLS_E_BASE64_DECODING_ERROR) }
    return try blocks.map { try Certificate(pem: $0) }
  }
}
