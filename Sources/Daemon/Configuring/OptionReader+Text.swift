import Changes
import Glibc

extension OptionReader {
  /// Returns the string of a value, with environment variables replaced. Adds a problem and returns nil if the value is
  /// no string, or a variable is unknown.
  mutating func string(_ node: TomlNode, _ option: OptionTable.Option) -> String? {
    guard case .string(let raw) = node.value else {
      wrongType(node, option)
      return nil
    }
    return expand(raw, node.place)
  }

  mutating func string(_ node: TomlNode, _ option: OptionTable.Option, as name: String, example: String) -> String? {
    guard case .string(let raw) = node.value else {
      refuse(node.place, "\(name) is \(node.value.description), not text", "write \(example)")
      return nil
    }
    return expand(raw, node.place)
  }

  mutating func nonEmpty(_ text: String, _ place: ConfPlace, _ name: String) -> String? {
    if text.contains(where: { $0 != " " && $0 != "\n" && $0 != "\t" }) { return text }
    refuse(place, "\(name) is empty", "write something, or leave it out")
    return nil
  }

  /// Returns whether a text is valid as the expression of a column rule; adds a problem if not. For the column `*`, any
  /// text is valid.
  mutating func isExpression(_ text: String, _ place: ConfPlace, column: String) -> Bool {
    column == "*" || isExpression(text, place, "column \(column)", .ofColumn)
  }

  mutating func isExpression(
    _ text: String, _ place: ConfPlace, _ name: String, _ use: LoadedConfiguration.ExpressionUse = .ofRow
  ) -> Bool {
    guard let reason = expressionFault(text, use) else { return true }
    refuse(
      place, "\(name) is refused by SQLite: \(text): \(reason)",
      "expressions are SQLite's, over \(use.operands): no subqueries, aggregates, random() or 'now'")
    return false
  }

  // `${NAME}` becomes the value of the environment variable, and `$$` a dollar sign. Any other dollar sign stays.
  private mutating func expand(_ raw: String, _ place: ConfPlace) -> String? {
    guard raw.contains("$") else { return raw }
    var out = ""
    var rest = raw[...]
    while let dollar = rest.firstIndex(of: "$") {
      out += rest[..<dollar]
      rest = rest[rest.index(after: dollar)...]
      guard let next = rest.first, next == "$" || next == "{" else {
        out += "$"
        continue
      }
      rest = rest.dropFirst()
      guard next == "{" else {
        out += "$"
        continue
      }
      let name = String(rest.prefix { $0 != "}" })
      guard name.utf8.count < rest.utf8.count, Self.isVariable(name) else {
        refuse(place, "'${\(name)' is not a valid name of a variable", "write ${NAME}; write $$ for a dollar")
        return nil
      }
      guard let value = environment(name) else {
        add(
          .confMissing, place, "variable \(name) is not set",
          "set \(name) where the daemon is started (in a unit: Environment=\(name)=...); write $$ for a dollar")
        return nil
      }
      out += value
      rest = rest.dropFirst(name.count + 1)
    }
    return out + rest
  }

  private static func isVariable(_ name: String) -> Bool {
    !name.isEmpty && name.first?.isNumber == false
      && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
  }

  /// Returns the text if it is valid for the option. Otherwise adds a problem and returns nil.
  mutating func text(of text: String, _ place: ConfPlace, _ option: OptionTable.Option) -> String? {
    if let (message, hint) = Self.fault(text, option) {
      let code: ErrorCode =
        if case .url = option.kind, URLPassword.isIn(text) {
          .confSecret
        } else if case .choice(_, let later) = option.kind, later.contains(text) {
          .confUnsupported
        } else { .confValue }
      add(code, place, message, hint)
      return nil
    }
    if case .sql = option.kind, !isExpression(text, place, option.key) { return nil }
    if case .path = option.kind, text.count > 1, text.hasSuffix("/") { return String(text.dropLast()) }
    return text
  }

  // The message and the hint of an invalid text; nil if the text is valid.
  private static func fault(_ text: String, _ option: OptionTable.Option) -> (String, String)? {
    let key = option.key
    switch option.kind {
    case .name, .database:
      if isName(text) { return nil }
      let mended = String(text.lowercased().map { isName(String($0)) ? $0 : "-" }.prefix(63))
      return (
        "\(key) is \"\(text)\"; a name is made of a-z, 0-9, _ and -, 63 at most",
        mended.isEmpty ? write(option) : "write \(key) = \"\(mended)\""
      )
    case .trail:
      guard let name = TrailName(text), isName(name.origin), isName(name.name) else {
        return (
          "\(key) is \"\(text)\"; a trail is named NODE.NAME",
          "write \(write(option).dropFirst(6)), with the names of a node and a capture"
        )
      }
      return nil
    case .url: return urlFault(text, key)
    case .path(let bytesMax):
      if !text.hasPrefix("/") {
        return (
          "\(key) is \"\(text)\", which is not an absolute path",
          "write \(key) = \"/\(text.drop { $0 == "." || $0 == "/" })\" or another path from the root"
        )
      }
      if text.utf8.count > bytesMax {
        return ("\(key) has \(text.utf8.count) bytes; the system takes \(bytesMax)", "choose a shorter path")
      }
      return nil
    case .account:
      let isAccount =
        isName(text.lowercased().replacing(".", with: "_")) && text.first?.isNumber == false && text.first != "-"
      return isAccount ? nil : ("\(key) is \"\(text)\", which is not the name of a group", write(option))
    case .address:
      return ListenAddress(text) == nil
        ? ("\(key) is \"\(text)\"; it takes \(option.kind.description)", "write \(key) = \(option.example)") : nil
    case .rate(let mayBeOff):
      return ByteRate(text) == nil && !(mayBeOff && text == "off")
        ? (
          "\(key) is \"\(text)\", which is not a rate",
          "write \(key) = \(option.example); units are \(OptionKind.byteUnits), a second"
        ) : nil
    case .choice(let words, let later):
      if words.contains(text) { return nil }
      let allowed = "allowed: \(words.joined(separator: ", "))"
      if later.contains(text) {
        return (
          "\(key) = \"\(text)\" is not part of this version",
          "write \(key) = \"\(words[0])\", or leave it out; \(allowed)"
        )
      }
      let near = words.first { $0.hasPrefix(text.lowercased()) } ?? text.lowercased().nearest(in: words) ?? words[0]
      return ("\(key) is \"\(text)\", which is not known", "write \(key) = \"\(near)\"; \(allowed)")
    case .peerURL: return peerURLFault(text, option)
    case .host:
      return PeerURL.isHost(text)
        ? nil : ("\(key) is \"\(text)\", which is not a name of a certificate", write(option))
    case .table(let isPattern):
      if text.isEmpty { return ("\(key) is empty", write(option)) }
      return !isPattern && (text.contains("*") || text.contains("?"))
        ? ("\(key) is \"\(text)\"; it names one table, not a pattern", "write the name of a table, or leave it out")
        : nil
    case .sql:
      return text.contains { $0 != " " && $0 != "\n" }
        ? nil : ("\(key) is empty", "write an expression, or leave it out")
    case .origin:
      return isOrigin(text)
        ? nil
        : (
          "\(key) is \"\(text)\"; it takes \(option.kind.description)",
          "write the name of a node, a-z, 0-9, _ and -, or of a trail, NODE.NAME"
        )
    case .delete:
      if ["apply", "keep"].contains(text) || (text.hasPrefix("mark:") && text.count > 5) { return nil }
      let near =
        text.hasPrefix("mark") ? "mark:deleted_at" : text.lowercased().nearest(in: ["apply", "keep"]) ?? "apply"
      return ("\(key) is \"\(text)\"; it takes \(option.kind.description)", "write \(key) = \"\(near)\"")
    case .flag, .count, .duration, .size, .history, .patterns, .trails, .peers, .files, .grants, .misfits, .columns,
      .rule, .rules, .anything:
      return nil
    }
  }

  static func isName(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= 63
      && text.utf8.allSatisfy {
        (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
      }
  }

  private static func urlFault(_ text: String, _ key: String) -> (String, String)? {
    let kinds = "write sqlite:///absolute.db or postgresql://user@host/db"
    if text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") {
      if URLPassword.isIn(text) {
        return (
          "\(key) contains a password, and conf files must not contain secrets",
          "remove it from the \(key), and put it into the systemd credential database.NAME, a passfile or a service file"
        )
      }
      if text.contains(where: \.isWhitespace) {
        return ("\(key) is \"\(URLPassword.hidden(in: text))\", with a space in it", "write %20 for a space")
      }
      return nil
    }
    guard text.hasPrefix("sqlite:") else {
      let scheme = text.prefix { $0 != ":" }
      let why =
        scheme.count < text.count
        ? "there is no kind of database '\(scheme)'" : "it has no scheme, such as sqlite: or postgresql:"
      return (
        "\(key) is \"\(URLPassword.hidden(in: text))\": \(why)",
        text.hasPrefix("/") ? "write \(key) = \"sqlite://\(text)\"" : kinds
      )
    }
    let path = text.dropFirst("sqlite:".count)
    if path.hasPrefix("//"), !path.hasPrefix("///") {
      return (
        "\(key) is \"\(text)\": a host has no meaning for a file", "write \(key) = \"sqlite:///\(path.dropFirst(2))\""
      )
    }
    if !path.hasPrefix("/") {
      return (
        "\(key) is \"\(text)\": the path is relative, and a daemon has no folder of its own",
        "write \(key) = \"sqlite:///\(path)\" or another path from the root"
      )
    }
    return path.hasSuffix("/") ? ("\(key) is \"\(text)\", which is a folder", "name the database file") : nil
  }
}

/// An address to listen on: `127.0.0.1:7421`, `[::1]:7421` or `localhost:7421`.
struct ListenAddress {
  let host: String
  let port: UInt16

  init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
      return nil
    }
    var host = String(text[..<colon])
    var address = [UInt8](repeating: 0, count: 16)
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = String(host.dropFirst().dropLast())
      guard inet_pton(AF_INET6, host, &address) == 1 else { return nil }
    } else {
      guard host == "localhost" || inet_pton(AF_INET, host, &address) == 1 else { return nil }
    }
    (self.host, self.port) = (host, port)
  }
}

extension LoadedConfiguration.ExpressionUse {
  fileprivate var operands: String {
    switch self {
    case .ofRow, .ofColumn: "the columns of the row"
    case .ofConflict(true): "local_COLUMN, incoming_COLUMN and before_COLUMN"
    case .ofConflict(false): "local, incoming and before, and local_COLUMN and so on for other columns of the rows"
    }
  }
}
