import NetKit
import SystemKit

/// An authority for one run, and certificates by it, in files of a folder.
struct BenchCertificates {
  private let folder: String
  private let authority: Certificate
  private let key: PrivateKey

  init(_ folder: String) throws {
    self.folder = folder
    key = try PrivateKey()
    authority = try Certificate.selfSigned(Self.terms("authority", .authority), key: key)
    try File.replace("\(folder)/ca.crt", text: authority.pem, permissions: 0o644)
    try issue("server", .server(names: ["127.0.0.1"]))
  }

  var server: ServerTLS {
    ServerTLS(certificate: "\(folder)/server.crt", key: "\(folder)/server.key", authorities: "\(folder)/ca.crt")
  }

  func client(_ name: String) throws -> ClientTLS {
    try issue(name, .client)
    return ClientTLS(
      certificate: "\(folder)/\(name).crt", key: "\(folder)/\(name).key", authorities: "\(folder)/ca.crt")
  }

  private func issue(_ name: String, _ purpose: CertificateTerms.Purpose) throws {
    let own = try PrivateKey()
    let request = try CertificateRequest(commonName: name, key: own)
    let issued = try Certificate.issue(Self.terms(name, purpose), for: request, by: authority, key: key)
    try File.replace("\(folder)/\(name).crt", text: issued.pem, permissions: 0o644)
    try File.replace("\(folder)/\(name).key", text: own.pem, permissions: 0o600)
  }

  private static func terms(_ name: String, _ purpose: CertificateTerms.Purpose) -> CertificateTerms {
    let (now, day) = (Clock.system.microseconds(), Int64(86_400_000_000))
    return CertificateTerms(commonName: name, purpose: purpose, notBefore: now - day, notAfter: now + day)
  }
}
