/// The text for user, server and database by which messages and logs name a database.
package enum PostgresPlace {
  /// Returns a URI without a password, from the text for user, server and database that
  /// ``PostgresConnection/place(of:)`` returned.
  package static func uri(of place: String) -> String {
    let scheme = "postgresql://"
    guard place.hasPrefix(scheme), let slash = place.lastIndex(of: "/") else { return place }
    let name = place[place.index(after: slash)...]
    var server = place[..<slash].dropFirst(scheme.count)
    var user = ""
    if let at = server.firstIndex(of: "@") {
      user = encoded(server[..<at]) + "@"
      server = server[server.index(after: at)...]
    }
    var port = Substring()
    if let colon = server.lastIndex(of: ":"), server[colon...].dropFirst().allSatisfy(\.isNumber) {
      (server, port) = (server[..<colon], server[colon...].dropFirst())
    }
    var options = ""
    if server.hasPrefix("service ") {
      options = "?service=\(encoded(server.dropFirst(8)))"
      server = ""
    } else if server.contains("/") {
      // A URI has no part for the folder of a socket.
      options = "?host=\(encoded(server))" + (port.isEmpty ? "" : "&port=\(port)")
      (server, port) = ("", "")
    } else if server == "local" {
      server = ""
    }
    return "\(scheme)\(user)\(server)\(port.isEmpty ? "" : ":\(port)")/\(encoded(name))\(options)"
  }

  private static func encoded(_ text: Substring) -> String {
    text.utf8.map { byte in
      let scalar = UnicodeScalar(byte)
      let isPlain =
        byte < 0x80 && (Character(scalar).isLetter || Character(scalar).isNumber || "-._~".contains(Character(scalar)))
      return isPlain ? String(scalar) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
  }
}
