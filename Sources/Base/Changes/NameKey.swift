/// A name as a database compares it, by its bytes, for use as a key of dictionaries and sets.
///
///     var tables: [NameKey: Table] = [:]
///     tables["Items".sqliteKey] = table
///     tables["ITEMS".sqliteKey]     // table
///     tables[schema.name.nameKey]   // nil: PostgreSQL distinguishes upper and lower case
package struct NameKey: Hashable, Comparable, Sendable {
  /// The name; for SQLite, the name in lower case.
  package let text: String

  package init(_ text: some StringProtocol) { self.text = String(text) }

  package static func == (a: Self, b: Self) -> Bool { a.text.hasSameBytes(as: b.text) }

  /// Returns whether a name comes before another one in the order of their bytes.
  package static func < (a: Self, b: Self) -> Bool { a.text.utf8.lexicographicallyPrecedes(b.text.utf8) }

  package func hash(into hasher: inout Hasher) {
    var text = text
    text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    hasher.combine(UInt8(0xff))
  }
}

extension NameKey: ExpressibleByStringLiteral, CustomStringConvertible {
  package init(stringLiteral text: String) { self.init(text) }
  package var description: String { text }
}

extension StringProtocol {
  /// The name as PostgreSQL compares it: unchanged.
  package var nameKey: NameKey { NameKey(self) }

  /// The name as SQLite compares it: ASCII letters in lower case, all other characters unchanged.
  package var sqliteKey: NameKey { NameKey(String(self).asciiLowercased) }

  /// Returns the name in the form in which an engine compares it.
  package func key(in engine: Engine) -> NameKey { engine == .sqlite ? sqliteKey : nameKey }
}

extension Dictionary where Key == NameKey {
  /// The value whose key has the same bytes as `name`; nil if there is none.
  package subscript(name: String) -> Value? {
    get { self[NameKey(name)] }
    set { self[NameKey(name)] = newValue }
  }

  package subscript(name: String, default value: @autoclosure () -> Value) -> Value {
    get { self[NameKey(name), default: value()] }
    set { self[NameKey(name), default: value()] = newValue }
  }
}

extension Set<NameKey> {
  package func contains(_ name: String) -> Bool { contains(NameKey(name)) }

  @discardableResult package mutating func insert(_ name: String) -> (inserted: Bool, memberAfterInsert: NameKey) {
    insert(NameKey(name))
  }

  @discardableResult package mutating func remove(_ name: String) -> NameKey? { remove(NameKey(name)) }
}
