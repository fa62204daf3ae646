import Changes
import SystemKit

/// What a listener shows, read from its files: texts in PEM.
struct TLSFiles {
  let certificate: String
  let key: String
  let authorities: String

  /// Errors: `conf-value` when a file cannot be read or certificate and key are not of use.
  init(_ tls: ServerTLS) throws {
    certificate = try Self.text(tls.certificate, "certificate")
    key = try Self.text(tls.key, "key")
    authorities = try Self.text(tls.authorities, "certificates of authorities")
  }

  private static func text(_ path: String, _ what: String) throws -> String {
    do {
      let file = try File(path, .read)
      var bytes = [UInt8](repeating: 0, count: Int(clamping: min(try file.size, 1 << 20)))
      let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
      return String(decoding: bytes.prefix(count), as: UTF8.self)
    } catch let error as FileError {
      throw CairnError(
        .confValue, "cannot read the \(what) for TLS: \(error)",
        hint: "see who may read the file ('ls -l'); 'cairn peer invite' makes what a listener needs", remedy: .badInput)
    }
  }
}
