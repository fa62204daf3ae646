import Changes
import Configuring
import Endpoints

extension Configuration.Database {
  /// Returns the URL with the password from the conf, if there is one. Pass it to libpq only.
  package func location() throws -> DatabaseURL {
    guard let secret, url.hasPrefix("postgres") else { return try DatabaseURL(url) }
    let escaped = secret.utf8.map { byte -> String in
      let isPlain =
        (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
      return isPlain ? String(UnicodeScalar(byte)) : "%" + UInt64(byte).hex(2)
    }
    return try DatabaseURL(url + (url.contains("?") ? "&" : "?") + "password=" + escaped.joined())
  }
}
