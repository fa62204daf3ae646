/// The certificate that a client shows, and the authorities that it trusts. The files are read with each new
/// connection.
package struct ClientTLS: Sendable, Equatable {
  /// The path of the file with the certificate, in PEM; nil if the client shows none.
  package var certificate: String?
  package var key: String?
  /// The path of the file with the trusted authorities; nil: the authorities of the system.
  package var authorities: String?
  /// The name that the server's certificate must be for, instead of the URL's host.
  package var name: String?
  /// The server's public key: `sha256//` and the Base64 of its SHA-256. The client verifies the server by this key,
  /// instead of by an authority and a name.
  package var pin: String?

  package init(
    certificate: String? = nil, key: String? = nil, authorities: String? = nil, name: String? = nil, pin: String? = nil
  ) {
    (self.certificate, self.key, self.authorities) = (certificate, key, authorities)
    (self.name, self.pin) = (name, pin)
  }
}
