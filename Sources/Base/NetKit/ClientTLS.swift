/// The files with a client's certificate and with its trusted authorities. Each new connection reads the files again.
///
///     let tls = ClientTLS(certificate: "till.crt", key: "till.key", authorities: "ca.crt", name: "hq.example")
package struct ClientTLS: Sendable, Equatable {
  /// The path of the file with the certificate, in PEM; nil if the client shows none.
  package var certificate: String?
  package var key: String?
  /// The path of the file with the trusted authorities; nil for those of the system.
  package var authorities: String?
  /// The host name that the server's certificate must have; nil for the URL's host.
  package var name: String?
  /// The server's public key, as `sha256//` and the Base64 of its SHA-256, by which the client verifies the server
  /// without an authority.
  package var pin: String?

  package init(
    certificate: String? = nil, key: String? = nil, authorities: String? = nil, name: String? = nil, pin: String? = nil
  ) {
    (self.certificate, self.key, self.authorities) = (certificate, key, authorities)
    (self.name, self.pin) = (name, pin)
  }
}
