import Foundation
import NetKit

/// An authority of a test, with its files in a folder of its own.
final class TestAuthority {
  let folder: String
  private let certificate: Certificate
  private let key: PrivateKey
  static let now = Int64(Date().timeIntervalSince1970) * 1_000_000
  static let day: Int64 = 86_400_000_000

  init(_ name: String = "test authority") throws {
    folder = NSTemporaryDirectory() + "cairn-tls-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    key = try PrivateKey()
    certificate = try Certificate.selfSigned(
      CertificateTerms(
        commonName: name, purpose: .authority, notBefore: Self.now - 9 * Self.day, notAfter: Self.now + 9 * Self.day),
      key: key)
    try certificate.pem.write(toFile: path("ca.crt"), atomically: true, encoding: .utf8)
  }

  deinit { try? FileManager.default.removeItem(atPath: folder) }

  func path(_ name: String) -> String { "\(folder)/\(name)" }
  var authorities: String { path("ca.crt") }

  /// Writes `NAME.crt` and `NAME.key`.
  @discardableResult func issue(
    _ name: String, _ purpose: CertificateTerms.Purpose = .client, from: Int64 = -1, to: Int64 = 1
  ) throws -> Certificate {
    let key = try PrivateKey()
    let request = try CertificateRequest(pem: try CertificateRequest(commonName: "ignored", key: key).pem)
    let issued = try Certificate.issue(
      CertificateTerms(
        commonName: name, purpose: purpose, notBefore: Self.now + from * Self.day, notAfter: Self.now + to * Self.day),
      for: request, by: certificate, key: self.key)
    try issued.pem.write(toFile: path("\(name).crt"), atomically: true, encoding: .utf8)
    try key.pem.write(toFile: path("\(name).key"), atomically: true, encoding: .utf8)
    return issued
  }

  func server(_ name: String = "hq", revoked: @escaping @Sendable (PeerCertificate) -> Bool = { _ in false })
    -> ServerTLS
  {
    ServerTLS(
      certificate: path("\(name).crt"), key: path("\(name).key"), authorities: authorities, revoked: revoked)
  }

  func client(_ name: String? = "till", peer: String? = nil, pin: String? = nil) -> ClientTLS {
    ClientTLS(
      certificate: name.map { path("\($0).crt") }, key: name.map { path("\($0).key") },
      authorities: pin == nil ? authorities : nil, name: peer, pin: pin)
  }
}
