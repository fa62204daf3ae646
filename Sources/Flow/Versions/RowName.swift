import Changes

/// The name of a row in the version window: a 64-bit hash of its table and key. SQLite and PostgreSQL give the same
/// hash for a key. Two rows may share a name, so compare their keys too.
///
///     RowName(table: "item", key: [.integer(7)]) == RowName(table: "item", key: [.integer(7)])   // true
package struct RowName: Hashable, Sendable {
  package var hash: UInt64
  /// Whether the name is for foreign keys that refer to the row, and not for the row's own versions.
  package var isReference = false
  /// Whether the name comes from a change that deletes the row; not part of the hash.
  package private(set) var isEnd = false
  /// Whether other key values may have the same name, such as `'7'` and `'07'`; not part of the hash. Set only for
  /// foreign keys.
  package private(set) var isLoose = false

  package init(hash: UInt64) { self.hash = hash }

  /// The name under which the version window keeps foreign keys that refer to this row.
  package var reference: RowName {
    var name = self
    name.isReference = true
    return name
  }

  /// Returns the name for foreign keys to this row. `isLoose` states whether other key values may have the same name.
  package func reference(isLoose: Bool) -> RowName {
    var name = reference
    name.isLoose = isLoose
    return name
  }

  /// Returns this name for a change that deletes the row, or that does not if `isEnd` is false.
  package func ended(_ isEnd: Bool = true) -> RowName {
    var name = self
    name.isEnd = isEnd
    return name
  }

  package static func == (a: RowName, b: RowName) -> Bool { a.hash == b.hash && a.isReference == b.isReference }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(hash)
    hasher.combine(isReference)
  }

  /// The name under which the version window keeps deletes of rows that had a foreign key to this row.
  package var leavers: RowName { RowName(hash: (hash ^ hash >> 29) &* 0xbf58_476d_1ce4_e5b9) }

  /// The hash with ``isReference`` as its highest bit, by which the version window finds versions.
  var chain: UInt64 { isReference ? hash | 1 << 63 : hash & ~(1 << 63) }

  /// Creates the name of a row.
  /// - Parameter table: The name of the table at the target.
  /// - Parameter key: The key values in the order of the key's columns, as the target represents them.
  package init(table: String, key: [Value]) {
    var naming = RowNaming(table: table)
    for value in key { value.withView { naming.add($0) } }
    self = naming.name
  }
}

/// The names of the rows that a change writes: none, one, or two if it changes a key. Then come the names of the rows
/// to which its foreign keys refer.
///
///     let rows: ChangedRows = [RowName(table: "item", key: [.integer(7)])]
///     rows.count   // 1
package struct ChangedRows: RandomAccessCollection, ExpressibleByArrayLiteral, Sendable {
  package private(set) var count = 0
  private var first = RowName(hash: 0)
  private var second = RowName(hash: 0)
  private var others: [RowName] = []

  package init(_ name: RowName?) { if let name { append(name) } }
  package init(_ names: RowName?...) { for name in names { if let name { append(name) } } }
  package init(arrayLiteral names: RowName...) { for name in names { append(name) } }

  package mutating func append(_ name: RowName) {
    switch count {
    case 0: first = name
    case 1: second = name
    default: others.append(name)
    }
    count += 1
  }

  package var startIndex: Int { 0 }
  package var endIndex: Int { count }
  package subscript(index: Int) -> RowName { index == 0 ? first : index == 1 ? second : others[index - 2] }
}

/// A row, given by its name (a hash) and its key, because two rows may share a name.
///
///     KeyedRow(name, [.text("0123")]).isSame(as: KeyedRow(name, [.text("123")]))  // false
///     KeyedRow(name, [.text("t")]).isSame(as: KeyedRow(name, [.integer(1)]))      // true: PostgreSQL's boolean
package struct KeyedRow: Hashable, Sendable {
  package let name: RowName
  /// The values of the row's key, ordered by the lower-case names of their columns.
  package let key: [Value]

  package init(_ name: RowName, _ key: [Value]) { (self.name, self.key) = (name, key) }

  package func isSame(as other: KeyedRow) -> Bool { name == other.name && isSameKey(other.key) }

  /// Returns whether `other`, the key of a row of the same name, is the key of this row.
  package func isSameKey(_ other: [Value]) -> Bool {
    key.count == other.count && zip(key, other).allSatisfy { $0.isSameKey(as: $1) }
  }

  /// Whether another text in the key, such as `'07'` for `'7'`, would give the same row name.
  package var isLoose: Bool { key.contains(where: \.isLooseKey) }

  /// The texts of the row's key with their lengths, to sort rows of the same name.
  package var spelling: [UInt8] {
    var bytes: [UInt8] = []
    for case .text(let text) in key {
      bytes += withUnsafeBytes(of: UInt64(text.count).bigEndian, Array.init)
      bytes += text
    }
    return bytes
  }
}

extension Value {
  /// Returns whether two key values are equal. Texts are compared by bytes, and values of different types by their
  /// hash.
  package func isSameKey(as other: Value) -> Bool {
    if self == other { return true }
    if case .text = self, case .text = other { return false }
    return RowName(table: "", key: [self]) == RowName(table: "", key: [other])
  }

  fileprivate var isLooseKey: Bool {
    guard case .text(let bytes) = self else { return false }
    return bytes.withUnsafeBytes(RowNaming.isLoose)
  }
}

/// Computes the names (hashes) of a table's rows from their key values. Create it once for a table, and copy it for
/// each row.
///
///     var naming = RowNaming(table: "item")
///     naming.add(.integer(7))
///     naming.name
package struct RowNaming: Sendable {
  private var state: UInt64

  package init(table: String) {
    state = 0x9e37_79b9_7f4a_7c15
    var name = table.asciiLowercased
    name.withUTF8 { add(bytes: UnsafeRawBufferPointer($0), tag: .table) }
  }

  package var name: RowName { RowName(hash: state) }

  /// Adds the next key value to the hash. A number gives the same hash as integer, real or text. A blob has the hash of
  /// its text, and a boolean that of 1 or 0.
  package mutating func add(_ value: ColumnView) {
    switch value {
    case .unchanged, .null: mix(0, tag: .null)
    case .integer(let n): mix(UInt64(bitPattern: n), tag: .integer)
    case .real(let r): add(r)
    case .text(let bytes), .exact(let bytes): add(text: bytes)
    case .blob(let bytes): add(bytes: bytes, tag: .blob)
    }
  }

  // MARK: Parts

  private enum Tag: UInt64 {
    case table = 1
    case null, integer, number, text, blob
  }

  private mutating func add(text bytes: UnsafeRawBufferPointer) {
    if let number = PlainNumber(bytes) { return add(number) }
    if bytes.count == 1, bytes[0] == UInt8(ascii: "t") || bytes[0] == UInt8(ascii: "f") {
      return mix(bytes[0] == UInt8(ascii: "t") ? 1 : 0, tag: .integer)
    }
    if let blob = Self.blob(bytes) { return blob.withUnsafeBytes { add(bytes: $0, tag: .blob) } }
    add(bytes: bytes, tag: .text)
  }

  /// Returns whether a text is hashed by its meaning, such as a number, and not by its bytes.
  package static func isLoose(_ text: UnsafeRawBufferPointer) -> Bool {
    PlainNumber(text) != nil || blob(text) != nil
      || text.count == 1 && (text[0] == UInt8(ascii: "t") || text[0] == UInt8(ascii: "f"))
  }

  private static func blob(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
    guard text.count >= 2, text.count % 2 == 0, text[0] == UInt8(ascii: "\\"),
      text[1] == UInt8(ascii: "x")
    else {
      return nil
    }
    func digit(_ byte: UInt8) -> UInt8? {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
      case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
      default: nil
      }
    }
    var blob: [UInt8] = []
    for index in stride(from: 2, to: text.count, by: 2) {
      guard let high = digit(text[index]), let low = digit(text[index + 1]) else { return nil }
      blob.append(high << 4 | low)
    }
    return blob
  }

  private mutating func add(_ real: Double) {
    if let n = Int64(exactly: real) { return mix(UInt64(bitPattern: n), tag: .integer) }
    // PostgreSQL's output for values that are no numbers.
    var text =
      real.isNaN
      ? "NaN" : real.isInfinite ? (real < 0 ? "-Infinity" : "Infinity") : real.description
    text.withUTF8 { bytes in
      let bytes = UnsafeRawBufferPointer(bytes)
      if let number = PlainNumber(bytes) { add(number) } else { add(bytes: bytes, tag: .text) }
    }
  }

  private mutating func add(_ number: PlainNumber) {
    if let n = number.integer { return mix(UInt64(bitPattern: n), tag: .integer) }
    mix(UInt64(bitPattern: Int64(number.isNegative ? -1 : 1)), tag: .number)
    mix(UInt64(bitPattern: Int64(number.power)), tag: .number)
    var word: UInt64 = 0
    for (index, digit) in number.digits.enumerated() {
      word = word << 4 | UInt64(digit)
      if index % 16 == 15 {
        mix(word, tag: .number)
        word = 0
      }
    }
    mix(word, tag: .number)
  }

  private mutating func add(bytes: UnsafeRawBufferPointer, tag: Tag) {
    mix(UInt64(bytes.count), tag: tag)
    var offset = 0
    while offset + 8 <= bytes.count {
      mix(
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)), tag: tag
      )
      offset += 8
    }
    var rest: UInt64 = 0
    while offset < bytes.count {
      rest = rest << 8 | UInt64(bytes[offset])
      offset += 1
    }
    mix(rest, tag: tag)
  }

  private mutating func mix(_ word: UInt64, tag: Tag) {
    let a = state ^ 0xa076_1d64_78bd_642f
    let b = (word &+ tag.rawValue &* 0xe703_7ed1_a0b4_28db) ^ 0x8ebc_6af0_9c88_c6e3
    let first = a.multipliedFullWidth(by: b | 1)
    let folded = first.high ^ first.low ^ b
    let second = folded.multipliedFullWidth(by: 0x5895_60f8_2f3b_8dc5)
    state = second.high ^ second.low ^ a
  }
}
