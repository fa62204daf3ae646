import Changes

/// The key of a row as text, by which a search finds the row (`docs/reference/trail-index.md`, Entries).
///
///     RowKey.parse("7")   // one candidate, for the key 7
package struct RowKey: Hashable, Sendable {
  /// The texts of the values, each followed by a zero byte.
  package let bytes: [UInt8]

  init(bytes: [UInt8]) { self.bytes = bytes }

  package init(_ parts: [[UInt8]]) { bytes = parts.flatMap { $0 + [0] } }

  package func hash(of table: UInt64) -> UInt64 { bytes.withUnsafeBytes { XXHash64.of($0, seed: table) } }

  /// Returns the keys that an operator may mean by a text. The first one is the whole text, for a key of one column.
  /// The second one, if the text has commas, has the values between them; a value may be in single quotes.
  package static func parse(_ text: String) -> [RowKey] {
    let whole = RowKey([Array(text.utf8)])
    let parts = parts(text)
    let split = RowKey(parts)
    return split == whole ? [whole] : [whole, split]
  }

  /// Returns the values of a composite key, which are separated by commas.
  package static func parts(_ text: String) -> [[UInt8]] {
    let quote = UInt8(ascii: "'")
    var parts: [[UInt8]] = [[]]
    var isQuoted = false
    var bytes = Array(text.utf8)[...]
    while let byte = bytes.popFirst() {
      if byte == quote, isQuoted, bytes.first == quote {
        parts[parts.count - 1].append(quote)
        bytes.removeFirst()
      } else if byte == quote, isQuoted || parts[parts.count - 1].isEmpty {
        isQuoted.toggle()
      } else if byte == UInt8(ascii: ","), !isQuoted {
        parts.append([])
      } else {
        parts[parts.count - 1].append(byte)
      }
    }
    return parts
  }

  /// Returns the hash of the name of a table.
  ///
  /// - Parameter name: The name of the table as ``TableSchema/plainName`` gives it.
  package static func table(_ name: String) -> UInt64 {
    var name = name
    return name.withUTF8 { XXHash64.of(UnsafeRawBufferPointer($0)) }
  }

  /// The hash of the presence of a table.
  static func presence(_ table: UInt64) -> UInt64 {
    XXHash64.of(UnsafeRawBufferPointer(start: nil, count: 0), seed: table &+ 1)
  }

  /// The hash of what may concern every row of a table.
  static func events(_ table: UInt64) -> UInt64 {
    XXHash64.of(UnsafeRawBufferPointer(start: nil, count: 0), seed: table &+ 2)
  }
}

/// The columns of a table that identify a row, for reading keys from images.
struct KeyColumns {
  /// The place in the key of each column; -1 for a column outside of it.
  private let places: [Int]
  let count: Int
  private let isInOrder: Bool

  init(_ schema: TableSchema) {
    let key = schema.key.isEmpty ? Array(schema.columns.indices) : schema.key
    var places = [Int](repeating: -1, count: schema.columns.count)
    for (place, column) in key.enumerated() { places[column] = place }
    (self.places, count) = (places, key.count)
    isInOrder = key == key.sorted()
  }

  /// Writes the key of an image to `out`, which is emptied first. Takes the columns that the image does not give from
  /// `other`. Returns false if a value is in neither.
  func read(_ image: ImageView, else other: ImageView?, into out: inout ByteWriter) throws -> Bool {
    out.removeAll()
    if isInOrder, try readInOrder(image, into: &out) { return true }
    out.removeAll()
    var parts = [[UInt8]?](repeating: nil, count: count)
    for view in [image, other].compactMap(\.self) {
      var reader = ByteReader(view.bytes)
      for place in places {
        guard !reader.isAtEnd else { break }
        let value = try reader.readColumn()
        guard place >= 0, parts[place] == nil, !value.isUnchanged else { continue }
        var part = ByteWriter(capacity: 32)
        Self.append(value, to: &part)
        parts[place] = Array(part.bytes)
      }
    }
    for part in parts {
      guard let part else { return false }
      out.append(part)
    }
    return true
  }

  private func readInOrder(_ image: ImageView, into out: inout ByteWriter) throws -> Bool {
    var reader = ByteReader(image.bytes)
    var left = count
    for place in places {
      guard left > 0 else { return true }
      guard !reader.isAtEnd else { return false }
      let value = try reader.readColumn()
      guard place >= 0 else { continue }
      if value.isUnchanged { return false }
      Self.append(value, to: &out)
      left -= 1
    }
    return left == 0
  }

  private static func append(_ value: ColumnView, to out: inout ByteWriter) {
    switch value {
    case .unchanged: break
    case .null: append("NULL", to: &out)
    case .integer(let n): append(String(n), to: &out)
    case .real(let r):
      if let whole = Int64(exactly: r), whole.magnitude <= 1 << 53 {
        append(String(whole), to: &out)
      } else {
        append(r.description, to: &out)
      }
    case .text(let bytes), .exact(let bytes): out.append(bytes)
    case .blob(let bytes): append("x'\(Array(bytes).hex)'", to: &out)
    }
    out.append(0)
  }

  private static func append(_ text: String, to out: inout ByteWriter) {
    var text = text
    text.withUTF8 { out.append(UnsafeRawBufferPointer($0)) }
  }
}
