/// What is known of one who has shown a certificate.
package struct PeerCertificate: Equatable, Sendable {
  package let commonName: String
  /// SHA-256 of the certificate, in lower-case hexadecimal.
  package let fingerprint: String
  /// In lower-case hexadecimal.
  package let serial: String
  /// µs since 1970 UTC.
  package let notAfter: Int64

  package init(commonName: String, fingerprint: String, serial: String, notAfter: Int64) {
    (self.commonName, self.fingerprint) = (commonName, fingerprint)
    (self.serial, self.notAfter) = (serial, notAfter)
  }
}
