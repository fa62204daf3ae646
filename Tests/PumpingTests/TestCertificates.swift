import Foundation
import NetKit

/// An authority of a test, and certificates by it, in files of a folder.
struct TestCertificates {
  let folder: String
  private let authority: Certificate
  private let key: PrivateKey

  init(_ folder: String) throws {
    self.folder = folder
    key = try PrivateKey()
    authority = try Certificate.selfSigned(Self.terms("authority", .authority), key: key)
    try authority.pem.write(toFile: authorities, atomically: true, encoding: .utf8)
    try issue("node", .server(names: ["127.0.0.1"]))
  }

  var authorities: String { folder + "/ca.crt" }

  var server: ServerTLS {
    ServerTLS(certificate: folder + "/node.crt", key: folder + "/node.key", authorities: authorities)
  }

  func client(_ name: String) throws -> ClientTLS {
    try issue(name, .client)
    return ClientTLS(
      certificate: folder + "/\(name).crt", key: folder + "/\(name).key", authorities: authorities)
  }

  private func issue(_ name: String, _ purpose: CertificateTerms.Purpose) throws {
    let own = try PrivateKey()
    let request = try CertificateRequest(commonName: name, key: own)
    let issued = try Certificate.issue(Self.terms(name, purpose), for: request, by: authority, key: key)
    try issued.pem.write(toFile: folder + "/\(name).crt", atomically: true, encoding: .utf8)
    try own.pem.write(toFile: folder + "/\(name).key", atomically: true, encoding: .utf8)
  }

  private static func terms(_ name: String, _ purpose: CertificateTerms.Purpose) -> CertificateTerms {
    let now = Int64(Date().timeIntervalSince1970) * 1_000_000
    return CertificateTerms(
      commonName: name, purpose: purpose, notBefore: now - 3_600_000_000, notAfter: now + 3_600_000_000)
  }
}
