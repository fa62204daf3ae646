import Changes

/// The facts in a certificate that a client has shown.
package struct PeerCertificate: Equatable, Sendable {
  @ByBytes package private(set) var commonName: String
  /// SHA-256 of the certificate, in lower-case hexadecimal.
  package let fingerprint: String
  /// The serial number, in lower-case hexadecimal.
  package let serial: String
  /// The start of the validity, in µs since 1970 UTC, rounded to seconds.
  package let notBefore: Int64
  package let notAfter: Int64

  package init(commonName: String, fingerprint: String, serial: String, notBefore: Int64 = 0, notAfter: Int64) {
    self.commonName = commonName
    (self.fingerprint, self.serial, self.notBefore, self.notAfter) = (fingerprint, serial, notBefore, notAfter)
  }
}
