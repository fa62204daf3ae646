/// The search for passwords in libpq URIs and connection strings, to hide them in texts.
///
/// Source: https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
package enum URLPassword {
  private static let options = ["password", "sslpassword"]

  /// Returns whether a URI has a password before the host or after the question mark.
  package static func isIn(_ uri: String) -> Bool {
    let bytes = Array(uri.utf8)
    guard end(of: "://", in: bytes) != nil else { return false }
    if secret(in: bytes) != nil { return true }
    return uri.drop { $0 != "?" }.dropFirst().split(separator: "&").contains { option in
      options.contains(decoded(option.prefix { $0 != "=" }))
    }
  }

  /// Returns the text with `…` in place of every password in a URI or in libpq's `key=value` form. Text that may be a
  /// password is hidden too.
  ///
  ///     URLPassword.hidden(in: "postgresql://ann:a/b@c@db.example/shop")  // postgresql://ann:…@db.example/shop
  package static func hidden(in text: String) -> String {
    var shown = Array(text.utf8)
    if let range = secret(in: shown) { shown.replaceSubrange(range, with: "…".utf8) }
    return withoutOptions(String(decoding: withoutUnknown(shown), as: UTF8.self))
  }

  /// Returns whether a file path ends with options such as `?password=x`, which only the URI of a server has.
  package static func hasOptions(path: String) -> Bool {
    guard let (_, query) = path.cut(atLast: "?"), let (name, _) = query.cut(at: "=") else { return false }
    return !name.isEmpty && !name.has("/")
  }

  /// Returns the error in the user, password or port of a URI; nil if there is none.
  ///
  /// For example, a password must not contain an unescaped `@` or `/`.
  package static func fault(in uri: String) -> String? {
    let bytes = Array(uri.utf8)
    guard let start = end(of: "://", in: bytes) else { return nil }
    let (at, slash, question) = (UInt8(ascii: "@"), UInt8(ascii: "/"), UInt8(ascii: "?"))
    var rest = bytes[start...]
    let head = rest.prefix { $0 != at && $0 != slash }
    if head.endIndex < rest.endIndex, rest[head.endIndex] == at { rest = rest[(head.endIndex + 1)...] }
    let hosts = rest.prefix { $0 != slash && $0 != question }
    if hosts.contains(at) { return "an @ in a user name or password is written %40" }
    let path = rest[hosts.endIndex...].prefix { $0 != question }
    if path.contains(at) { return "a / in a user name or password is written %2F, an @ elsewhere %40" }
    return hosts.split(separator: UInt8(ascii: ",")).allSatisfy { isPort(Array($0)) } ? nil : "its port is not a number"
  }

  private static func isPort(_ host: [UInt8]) -> Bool {
    // The colons of an IPv6 address are in brackets.
    let name = host.first == UInt8(ascii: "[") ? host.firstIndex(of: UInt8(ascii: "]")) ?? 0 : 0
    guard let colon = host[name...].firstIndex(of: UInt8(ascii: ":")) else { return true }
    return host[(colon + 1)...].allSatisfy { (0x30...0x39).contains($0) }
  }

  /// Returns the range of bytes before the host that may be a password; nil if there is none.
  private static func secret(in bytes: [UInt8]) -> Range<Int>? {
    guard let start = end(of: "://", in: bytes) ?? userStart(in: bytes) else { return nil }
    var last = bytes.endIndex
    // If options contain an @, the question mark is not their start but part of a password.
    if let question = bytes.lastIndex(of: UInt8(ascii: "?")), !bytes[question...].contains(UInt8(ascii: "@")),
      isOptions(bytes[(question + 1)...])
    {
      last = question
    }
    let colon = UInt8(ascii: ":")
    if let at = bytes[..<last].lastIndex(of: UInt8(ascii: "@")), start < at {
      guard let first = bytes[start..<at].firstIndex(of: colon), first + 1 < at else { return nil }
      return first + 1..<at
    }
    // Without an @, a port that is not a number may be a password whose host is missing.
    let hosts = bytes[start..<last].prefix { ![UInt8(ascii: "/"), UInt8(ascii: "?")].contains($0) && $0 > 0x20 }
    guard end(of: "://", in: bytes) != nil, let first = hosts.firstIndex(of: colon),
      !hosts.split(separator: UInt8(ascii: ",")).allSatisfy({ isPort(Array($0)) })
    else { return nil }
    return first + 1..<hosts.endIndex
  }

  /// Returns the index at which the word with the last `@` begins, for a URI without `://`, such as
  /// `ann:secret@db.example/shop`. Nil without an `@`, or for an SQLite URL.
  private static func userStart(in bytes: [UInt8]) -> Int? {
    guard let at = bytes.lastIndex(of: UInt8(ascii: "@")), !bytes.starts(with: "sqlite:".utf8) else { return nil }
    return bytes[..<at].lastIndex { $0 <= 0x20 || $0 == UInt8(ascii: "'") }.map { $0 + 1 } ?? 0
  }

  private static func isOptions(_ bytes: ArraySlice<UInt8>) -> Bool {
    bytes.split(separator: UInt8(ascii: "&")).allSatisfy { option in
      guard let equals = option.firstIndex(of: UInt8(ascii: "=")) else { return false }
      return option[..<equals].allSatisfy { (0x61...0x7a).contains($0) || $0 == UInt8(ascii: "_") }
    }
  }

  /// Returns the text without the values of password options: `?password=…` and `password = '…'`.
  private static func withoutOptions(_ text: String) -> String {
    let bytes = Array(text.utf8)
    var shown: [UInt8] = []
    var at = 0
    while at < bytes.count {
      guard let value = secretValue(in: bytes, at: at) else {
        shown.append(bytes[at])
        at += 1
        continue
      }
      shown += bytes[at..<value.lowerBound] + Array("…".utf8)
      at = value.upperBound
    }
    return String(decoding: shown, as: UTF8.self)
  }

  /// Returns the range of a password's value, if a password option begins at index `start`; nil otherwise.
  private static func secretValue(in bytes: [UInt8], at start: Int) -> Range<Int>? {
    func isName(_ byte: UInt8) -> Bool {
      (0x61...0x7a).contains(byte | 0x20) || (0x30...0x39).contains(byte) || byte == UInt8(ascii: "_")
        || byte == UInt8(ascii: "%")
    }
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0d).contains(byte) }
    guard start == 0 || !isName(bytes[start - 1]) else { return nil }
    let name = bytes[start...].prefix(while: isName)
    let word = decoded(String(decoding: name, as: UTF8.self)).asciiLowercased
    guard options.contains(word) || word == "pgpassword" else { return nil }
    var at = name.endIndex
    while at < bytes.count, isSpace(bytes[at]) { at += 1 }
    guard at < bytes.count, bytes[at] == UInt8(ascii: "=") else { return nil }
    at += 1
    while at < bytes.count, isSpace(bytes[at]) { at += 1 }
    let first = at
    if at < bytes.count, bytes[at] == UInt8(ascii: "'") {
      at += 1
      while at < bytes.count, bytes[at] != UInt8(ascii: "'") { at += bytes[at] == UInt8(ascii: "\\") ? 2 : 1 }
      return first..<min(at + 1, bytes.count)
    }
    while at < bytes.count, !isNextOption(bytes, at) { at += 1 }
    return first..<at
  }

  /// Returns a URL with `…` as the value of each unknown option, which may be a misspelled `password`.
  private static func withoutUnknown(_ bytes: [UInt8]) -> [UInt8] {
    let (server, file) = (end(of: "://", in: bytes), end(of: "sqlite:", in: bytes))
    guard let start = server ?? file else { return bytes }
    let isFile = file.map { $0 <= start } ?? false
    let path = bytes[start...].prefix { $0 > 0x20 && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "'") }
    guard path.endIndex < bytes.endIndex, bytes[path.endIndex] == UInt8(ascii: "?") else { return bytes }
    let query = bytes[(path.endIndex + 1)...]
    // In a message, the URL is in quotes.
    let isQuoted = bytes[..<start].contains(UInt8(ascii: "'"))
    let quote = isQuoted ? query.lastIndex(of: UInt8(ascii: "'")) : nil
    let options = query[..<(quote ?? query.endIndex)]
    let shown = options.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false).map { option -> [UInt8] in
      guard let equals = option.firstIndex(of: UInt8(ascii: "=")) else {
        return option.isEmpty || isFile ? Array(option) : Array("…".utf8)
      }
      let name = decoded(String(decoding: option[..<equals], as: UTF8.self)).asciiLowercased
      return known.contains(name) ? Array(option) : Array(option[...equals]) + Array("…".utf8)
    }
    return Array(bytes[...path.endIndex]) + Array(shown.joined(separator: [UInt8(ascii: "&")]))
      + Array(bytes[options.endIndex...])
  }

  /// The options of libpq whose values are not passwords.
  ///
  /// Source: https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
  private static let known: Set<String> = [
    "host", "hostaddr", "port", "dbname", "user", "passfile", "require_auth", "channel_binding", "connect_timeout",
    "client_encoding", "options", "application_name", "fallback_application_name", "keepalives", "keepalives_idle",
    "keepalives_interval", "keepalives_count", "tcp_user_timeout", "replication", "gssencmode", "sslmode", "requiressl",
    "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslcertmode", "sslrootcert", "sslcrl", "sslcrldir",
    "sslsni", "requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version", "min_protocol_version",
    "max_protocol_version", "krbsrvname", "gsslib", "gssdelegation", "service", "target_session_attrs",
    "load_balance_hosts",
  ]

  private static func isNextOption(_ bytes: [UInt8], _ at: Int) -> Bool {
    guard bytes[at] == UInt8(ascii: "&") || bytes[at] <= 0x20 else { return false }
    let rest = bytes[(at + 1)...]
    let name = rest.prefix { (0x61...0x7a).contains($0) || $0 == UInt8(ascii: "_") }
    let behind = rest[name.endIndex...].drop { $0 == 0x20 }
    let word = String(decoding: name, as: UTF8.self)
    return (known.contains(word) || Self.options.contains(word)) && behind.first == UInt8(ascii: "=")
  }

  private static func end(of mark: String, in bytes: [UInt8]) -> Int? {
    let mark = Array(mark.utf8)
    return (0...max(0, bytes.count - mark.count)).first { bytes[$0...].starts(with: mark) }.map { $0 + mark.count }
  }

  private static func decoded(_ name: some StringProtocol) -> String {
    var bytes: [UInt8] = []
    var rest = Array(name.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "%"), rest.count >= 2,
        let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
      {
        bytes.append(value)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
