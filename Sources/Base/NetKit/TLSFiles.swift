import Changes
import SystemKit

/// The certificate, key and authorities of a listener, as texts in PEM.
struct TLSFiles {
  let certificate: String
  let key: String
  let authorities: String

  /// Reads the files.
  ///
  /// - Throws: `conf-value` if a file cannot be read, or if the certificate and the key are invalid or do not belong
  ///   together.
  init(_ tls: ServerTLS) throws {
    certificate = try Self.text(tls.certificate)
    key = try Self.text(tls.key)
    authorities = try Self.text(tls.authorities)
    guard let shown = try? Certificate(pem: certificate) else {
      throw Self.unfit("\(tls.certificate) holds no certificate")
    }
    guard let own = try? PrivateKey(pem: key) else { throw Self.unfit("\(tls.key) holds no private key") }
    guard shown.keyDigest == own.digest else {
      throw Self.unfit("\(tls.key) is not the key of the certificate in \(tls.certificate)")
    }
    guard (try? Certificate(pem: authorities)) != nil else {
      throw Self.unfit("\(tls.authorities) holds no certificate of an authority")
    }
  }

  private static func text(_ path: String) throws -> String {
    do throws(FileError) { return try File.text(path) } catch { throw unfit("\(error)") }
  }

  private static func unfit(_ problem: String) -> CairnError {
    CairnError(
      .confValue, "TLS cannot be served: \(problem)",
      hint: "check tls in [receive]; without it, 'cairn peer invite' creates the files of a listener", remedy: .badInput
    )
  }
}
