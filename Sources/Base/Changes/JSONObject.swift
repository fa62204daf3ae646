/// One JSON object on one line, with its keys in the order in which they were set.
///
///     JSONObject([("name", .text("till")), ("rows", .integer(3))]).line   // {"name":"till","rows":3}
package struct JSONObject: Sendable {
  package enum Value: Sendable {
    case null
    case text(String)
    case integer(Int64)
    case real(Double)
    case bool(Bool)
    case object(JSONObject)
    case list([Value])
  }
  package private(set) var members: [(key: String, value: Value)] = []

  package init() {}
  package init(_ members: [(String, Value)]) { self.members = members.map { (key: $0.0, value: $0.1) } }

  package subscript(key: String) -> Value? {
    get { members.first { $0.key == key }?.value }
    set {
      members.removeAll { $0.key == key }
      if let newValue { members.append((key, newValue)) }
    }
  }

  package var line: String { Self.render(.object(self)) }

  /// Returns a value as JSON on one line.
  package static func text(_ value: Value) -> String { render(value) }

  private static func render(_ value: Value) -> String {
    switch value {
    case .null: "null"
    case .text(let text): quote(text)
    case .integer(let n): String(n)
    case .real(let r): r.isFinite ? String(r) : quote(String(r))
    case .bool(let b): b ? "true" : "false"
    case .object(let object):
      "{" + object.members.map { quote($0.key) + ":" + render($0.value) }.joined(separator: ",") + "}"
    case .list(let values): "[" + values.map(render).joined(separator: ",") + "]"
    }
  }

  // Control characters are escaped too, so that a terminal does not obey them (RFC 8259, section 7).
  private static func quote(_ text: String) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += "\\\""
      case "\\": out += "\\\\"
      case "\n": out += "\\n"
      case "\r": out += "\\r"
      case "\t": out += "\\t"
      case _ where scalar.isObeyed:
        let digits = String(scalar.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }
}
