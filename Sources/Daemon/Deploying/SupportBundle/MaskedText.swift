import Changes

/// Hides what may be a value of a row in the text of a message: texts in quotes and parentheses, and digits.
///
/// Commands in quotes, such as `'cairn copy pos'`, stay.
///
/// ```swift
/// MaskedText.masked("row id='b2' (id 7): run 'cairn copy pos'")   // row id='…' (…): run 'cairn copy pos'
/// ```
package enum MaskedText {
  private static let commands = [
    "check", "compare", "config", "conflicts", "copy", "detach", "explain", "identity", "pause", "peer", "quarantine",
    "rehook", "reload", "replicate", "restart", "resume", "start", "status", "stop", "trail", "unhook",
  ].map { "cairn \($0)" }

  /// Returns the text with its values hidden. A quote or parenthesis that nothing closes hides the rest of the line.
  package static func masked(_ text: String) -> String {
    var shown = String.UnicodeScalarView()
    var rest = Array(text.unicodeScalars)[...]
    while let scalar = rest.popFirst() {
      switch scalar {
      case "'", "\"", "`": shown += hidden(&rest, from: scalar, to: scalar)
      case "(": shown += hidden(&rest, from: scalar, to: ")")
      case "0"..."9":
        shown.append("#")
        rest = rest.drop { ("0"..."9").contains($0) }
      default: shown.append(scalar)
      }
    }
    return String(shown)
  }

  private static func hidden(
    _ rest: inout ArraySlice<Unicode.Scalar>, from first: Unicode.Scalar, to last: Unicode.Scalar
  ) -> [Unicode.Scalar] {
    var depth = 1
    var end = rest.startIndex
    while end < rest.endIndex, rest[end] != "\n" {
      if rest[end] == last { depth -= 1 } else if rest[end] == first, first != last { depth += 1 }
      if depth == 0 { break }
      end += 1
    }
    let inner = rest[..<end]
    let isClosed = end < rest.endIndex && rest[end] == last
    rest = isClosed ? rest[(end + 1)...] : rest[end...]
    var text = String.UnicodeScalarView()
    text.append(contentsOf: inner)
    // A command may name a table, and no value: its words are letters, digits and marks of options.
    let words = String(text) + " "
    let isCommand =
      isClosed && first == "'" && commands.contains { words.hasPrefix($0 + " ") }
      && inner.allSatisfy { $0.properties.isAlphabetic || " .-_/*,".unicodeScalars.contains($0) || $0.isASCIIDigit }
    return [first] + (isCommand ? Array(inner) : ["…"]) + (isClosed ? [last] : [])
  }

  /// The members of a status whose texts may have values of rows.
  private static let members = ["message", "hint", "detail", "reason"]

  /// Returns the JSON with the texts of messages masked.
  package static func masked(_ object: JSONObject) -> JSONObject {
    JSONObject(
      object.members.map { name, value in
        if case .text(let text) = value, members.contains(where: { $0.hasSameBytes(as: name) }) {
          return (name, .text(masked(text)))
        }
        return (name, masked(value))
      })
  }

  private static func masked(_ value: JSONObject.Value) -> JSONObject.Value {
    switch value {
    case .object(let object): .object(masked(object))
    case .list(let list): .list(list.map(masked))
    default: value
    }
  }
}

extension Unicode.Scalar {
  fileprivate var isASCIIDigit: Bool { ("0"..."9").contains(self) }
}
