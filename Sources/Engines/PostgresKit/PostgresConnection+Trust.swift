import CPostgres
import Glibc

// The check that the server proves its identity.
extension PostgresConnection {
  /// Returns the warning that libpq would accept any server for this URI. Nil if the URI makes libpq verify the
  /// server's identity, or if the server is local.
  package static func trustNotice(_ uri: String) -> String? {
    let mode = sslMode(of: uri)
    guard mode != "verify-full", !remoteHosts(of: uri).isEmpty else { return nil }
    return """
      \(place(of: uri)): the server does not prove which one it is (sslmode=\(mode)), so another machine may read and \
      change all rows; add sslmode=verify-full and sslrootcert=FILE to the url
      """
  }

  /// Returns the `sslmode` that libpq would use for a URI.
  package static func sslMode(of uri: String) -> String { applied(to: uri)["sslmode"] ?? "prefer" }

  /// Returns the hosts of a URI that are not the local machine.
  package static func remoteHosts(of uri: String) -> [String] {
    let settings = applied(to: uri)
    // If both are given, libpq connects to the address and checks the name in the certificate.
    let places = [settings["hostaddr"], settings["host"]].compactMap { $0 }
    return places.flatMap { $0.split(separator: ",").map(String.init) }.filter { !isLocal($0) }
  }

  // Only libpq can resolve a service of the URI. This connection reaches no server, because libpq refuses one of its
  // options first.
  private static func applied(to uri: String) -> [String: String] {
    let given: [String] = ["dbname", "channel_binding", uri, "refused"]
    let texts = given.map { strdup($0) }
    defer { for text in texts { free(text) } }
    let keys = texts.prefix(2).map { UnsafePointer($0) } + [nil]
    let words = texts.suffix(2).map { UnsafePointer($0) } + [nil]
    let connection = PQconnectStartParams(keys, words, 1)
    defer { PQfinish(connection) }
    guard let connection, let list = PQconninfo(connection) else { return options(of: uri) }
    defer { PQconninfoFree(list) }
    let found = Self.values(list)
    // If the service cannot be found, nothing is known; then no connection is possible either.
    return found["sslmode"] == nil ? options(of: uri) : found
  }

  // A Unix socket or the loopback address.
  private static func isLocal(_ host: String) -> Bool {
    if host.hasPrefix("/") || host.hasPrefix("@") || ["localhost", "::1"].contains(host) { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
  }
}
