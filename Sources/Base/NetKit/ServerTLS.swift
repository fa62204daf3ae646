/// The certificate that a listener shows, and the authorities that it trusts. The files are read when it starts.
package struct ServerTLS: Sendable {
  /// The path of the file with the certificate, in PEM.
  package var certificate: String
  package var key: String
  /// The path of the file with the authorities that must have signed the certificates of peers.
  package var authorities: String
  /// Returns whether a certificate is revoked; called for each request.
  package var revoked: @Sendable (PeerCertificate) -> Bool

  package init(
    certificate: String, key: String, authorities: String,
    revoked: @escaping @Sendable (PeerCertificate) -> Bool = { _ in false }
  ) {
    (self.certificate, self.key, self.authorities) = (certificate, key, authorities)
    self.revoked = revoked
  }

  /// The GnuTLS priority string that allows TLS 1.3 only.
  static let priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3"
}
