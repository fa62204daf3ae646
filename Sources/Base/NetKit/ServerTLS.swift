/// The certificate that a listener shows, and the authorities that it trusts. The files are read when the listener
/// starts.
///
///     let tls = ServerTLS(certificate: "node.crt", key: "node.key", authorities: "ca.crt")
package struct ServerTLS: Sendable {
  /// The path of the file with the certificate, in PEM.
  package var certificate: String
  package var key: String
  /// The path of the file with the authorities that sign the certificates of clients.
  package var authorities: String
  /// Returns whether a certificate is revoked. The listener calls this for each request.
  package var revoked: @Sendable (PeerCertificate) -> Bool

  package init(
    certificate: String, key: String, authorities: String,
    revoked: @escaping @Sendable (PeerCertificate) -> Bool = { _ in false }
  ) {
    (self.certificate, self.key, self.authorities) = (certificate, key, authorities)
    self.revoked = revoked
  }

  static let priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3"
}
