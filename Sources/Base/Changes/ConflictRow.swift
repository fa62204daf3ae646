/// The known values of a row by column name, in the order of the table's columns.
///
///     let row = ConflictRow(["id", "name"], [.integer(1), .text("tea")])
///     row["name"]   // .text("tea")
package struct ConflictRow: Equatable, Sendable {
  /// The value of one column.
  ///
  ///     ConflictRow.Column("id", .integer(1))
  package struct Column: Equatable, Sendable {
    @ByBytes package var name: String
    package var value: Value
    package init(_ name: String, _ value: Value) { (self.name, self.value) = (name, value) }
  }
  package var columns: [Column]

  package init(_ columns: [Column]) { self.columns = columns }

  /// Creates a row from the names and values of columns. A column whose value is nil is left out.
  package init(_ names: [String], _ values: [Value?]) {
    columns = zip(names, values).compactMap { name, value in value.map { Column(name, $0) } }
  }

  package subscript(name: String) -> Value? { columns.first { $0.name.hasSameBytes(as: name) }?.value }
}

// JSON from which the row can be read back exactly. Numbers, texts and null are written as they are. Other values are
// objects with one member that names their kind.
extension ConflictRow {
  package var json: String { JSONObject.text(.object(object)) }
  package var object: JSONObject { JSONObject(columns.map { ($0.name, $0.value.json) }) }

  /// Reads a row from its JSON in the table `cairn_conflict`; nil for any other text.
  package init?(json: String) {
    guard case .object(let object)? = try? JSONReader.read(json) else { return nil }
    var columns: [Column] = []
    for (name, member) in object.members {
      guard let value = Value(json: member) else { return nil }
      columns.append(Column(name, value))
    }
    self.init(columns)
  }
}

extension Value {
  fileprivate var json: JSONObject.Value {
    func tagged(_ tag: String, _ text: String) -> JSONObject.Value { .object(JSONObject([(tag, .text(text))])) }
    switch self {
    case .null: return .null
    case .integer(let n): return .integer(n)
    case .real(let r): return r.isFinite ? .real(r) : tagged("real", String(r))
    case .blob(let bytes): return tagged("blob", bytes.hex)
    case .text(let bytes):
      let text = String(decoding: bytes, as: UTF8.self)
      return text.utf8.elementsEqual(bytes) ? .text(text) : tagged("text", bytes.hex)
    case .exact(let bytes): return tagged("exact", String(decoding: bytes, as: UTF8.self))
    }
  }

  fileprivate init?(json: JSONObject.Value) {
    switch json {
    case .null: self = .null
    case .integer(let n): self = .integer(n)
    case .real(let r): self = .real(r)
    case .text(let text): self = .text(text)
    case .object(let object):
      guard let (tag, member) = object.members.first, case .text(let text) = member else { return nil }
      switch tag {
      case "real":
        guard let real = Double(text) else { return nil }
        self = .real(real)
      case "exact": self = .exact(Array(text.utf8))
      case "blob", "text":
        guard let bytes = [UInt8](hex: text) else { return nil }
        self = tag == "blob" ? .blob(bytes) : .text(bytes)
      default: return nil
      }
    case .bool, .list: return nil
    }
  }
}
