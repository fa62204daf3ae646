import CPostgres
import Glibc

// The identity of the server that answers.
extension PostgresConnection {
  /// The warning if the server of another host need not prove its identity; nil otherwise.
  ///
  /// The default of libpq, `prefer`, takes any server, and goes on without encryption if the server has none.
  /// Source: https://www.postgresql.org/docs/15/libpq-ssl.html
  package static func trustNotice(_ uri: String) -> String? {
    let given = options(of: uri)
    func setting(_ name: String, _ variable: String) -> String? {
      given[name] ?? getenv(variable).map { String(cString: $0) }
    }
    let mode = setting("sslmode", "PGSSLMODE") ?? "prefer"
    let hosts = setting("host", "PGHOST") ?? setting("hostaddr", "PGHOSTADDR") ?? ""
    let isOther = hosts.split(separator: ",").contains { !isLocal(String($0)) }
    guard mode != "verify-full", isOther else { return nil }
    return """
      \(place(of: uri)): the server does not prove which one it is (sslmode=\(mode)), so another machine may read and \
      change all rows; add sslmode=verify-full and sslrootcert=FILE to the url
      """
  }

  /// Whether a host is a Unix socket, or the loopback.
  private static func isLocal(_ host: String) -> Bool {
    if host.hasPrefix("/") || host.hasPrefix("@") || ["localhost", "::1"].contains(host) { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
  }
}
