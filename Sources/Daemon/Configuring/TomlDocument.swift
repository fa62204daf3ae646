import CToml

/// A value of a configuration file, with its place.
struct TomlNode: Equatable, Sendable {
  var value: TomlValue
  var place: ConfPlace
}

indirect enum TomlValue: Equatable, Sendable {
  case table([TomlEntry])
  case array([TomlNode])
  case string(String)
  case integer(Int64)
  case float(Double)
  case boolean(Bool)
  case date
}

struct TomlEntry: Equatable, Sendable {
  var key: String
  var keyPlace: ConfPlace
  var node: TomlNode
}

/// A TOML file as a tree of nodes.
struct TomlDocument {
  struct Failure: Error, Equatable {
    var place: ConfPlace
    var reason: String
  }

  let root: TomlNode

  /// Parses a text. Throws if the text is not TOML.
  init(_ text: String, file: String) throws(Failure) {
    var text = text
    var error = cairn_toml_error()
    let parsed = text.withUTF8 { bytes in
      bytes.withMemoryRebound(to: CChar.self) { cairn_toml_parse($0.baseAddress, $0.count, &error) }
    }
    guard let parsed else { throw Self.failure(error, file) }
    defer { cairn_toml_free(parsed) }
    var count = 0
    guard let items = cairn_toml_items(parsed, &count) else { throw Self.failure(error, file) }
    var rest = UnsafeBufferPointer(start: items, count: count)[...]
    root = Self.node(&rest, file).node
  }

  private static func failure(_ error: cairn_toml_error, _ file: String) -> Failure {
    let reason = withUnsafeBytes(of: error.text) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    return Failure(
      place: ConfPlace(file: file, line: max(1, Int(error.place.line)), column: max(1, Int(error.place.column))),
      reason: reason)
  }

  // Takes the first item, with all items below it, from the parser's list.
  private static func node(
    _ rest: inout Slice<UnsafeBufferPointer<cairn_toml_item>>, _ file: String
  ) -> (key: String, keyPlace: ConfPlace, node: TomlNode) {
    let item = rest.removeFirst()
    func place(_ place: cairn_toml_place) -> ConfPlace {
      ConfPlace(file: file, line: Int(place.line), column: Int(place.column))
    }
    let value: TomlValue
    switch item.kind {
    case CAIRN_TOML_TABLE:
      let entries = (0..<item.children).map { _ in
        let child = node(&rest, file)
        return TomlEntry(key: child.key, keyPlace: child.keyPlace, node: child.node)
      }
      value = .table(entries.sorted { $0.keyPlace < $1.keyPlace })
    case CAIRN_TOML_ARRAY: value = .array((0..<item.children).map { _ in node(&rest, file).node })
    case CAIRN_TOML_STRING: value = .string(text(item.text, item.text_length))
    case CAIRN_TOML_INTEGER: value = .integer(item.integer)
    case CAIRN_TOML_FLOAT: value = .float(item.real)
    case CAIRN_TOML_BOOLEAN: value = .boolean(item.boolean != 0)
    default: value = .date
    }
    return (
      text(item.key, item.key_length), place(item.key_place), TomlNode(value: value, place: place(item.place))
    )
  }

  private static func text(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
    String(decoding: UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count), as: UTF8.self)
  }
}

extension TomlValue {
  var description: String {
    switch self {
    case .table: "a table"
    case .array: "a list"
    case .string(let text): "the text \"\(text.count > 60 ? text.prefix(60) + "…" : text)\""
    case .integer(let number): "the number \(number)"
    case .float(let number): "the number \(number)"
    case .boolean(let value): "\(value)"
    case .date: "a date or time"
    }
  }
}
