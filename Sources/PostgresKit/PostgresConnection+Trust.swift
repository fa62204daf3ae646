import CPostgres
import Glibc

// The identity of the server that answers.
extension PostgresConnection {
  /// The warning if the server of another host need not prove its identity; nil otherwise.
  ///
  /// The default of libpq, `prefer`, takes any server, and goes on without encryption if the server has none.
  /// Source: https://www.postgresql.org/docs/15/libpq-ssl.html
  package static func trustNotice(_ uri: String) -> String? {
    let mode = sslMode(of: uri) ?? "prefer"
    guard mode != "verify-full", !remoteHosts(of: uri).isEmpty else { return nil }
    return """
      \(place(of: uri)): the server does not prove which one it is (sslmode=\(mode)), so another machine may read and \
      change all rows; add sslmode=verify-full and sslrootcert=FILE to the url
      """
  }

  /// The `sslmode` of a URI, or of the environment; nil: that of libpq.
  package static func sslMode(of uri: String) -> String? { setting("sslmode", "PGSSLMODE", uri) }

  /// The hosts of a URI that are other machines. A URI may name several.
  package static func remoteHosts(of uri: String) -> [String] {
    // With both, libpq connects to the address and takes the name for the certificate.
    let places = [setting("hostaddr", "PGHOSTADDR", uri), setting("host", "PGHOST", uri)].compactMap { $0 }
    return places.flatMap { $0.split(separator: ",").map(String.init) }.filter { !isLocal($0) }
  }

  private static func setting(_ name: String, _ variable: String, _ uri: String) -> String? {
    options(of: uri)[name] ?? getenv(variable).map { String(cString: $0) }
  }

  /// Whether a host is a Unix socket, or the loopback.
  private static func isLocal(_ host: String) -> Bool {
    if host.hasPrefix("/") || host.hasPrefix("@") || ["localhost", "::1"].contains(host) { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
  }
}
