// Cairn's texts are names, SQL and row data, which the databases compare by their bytes. Swift's own comparisons treat
// canonically equivalent texts as equal, even if one side is ASCII: to Swift, the Kelvin sign is the letter K.
//
// So every comparison of texts that is written out in Cairn's modules compares bytes. These declarations take
// precedence over those of the standard library, except when an optional is compared with a literal. Comparisons that
// Swift derives still use Swift's rules. So the keys of sets and dictionaries of names are ``NameKey``, and the stored
// texts of comparable types are marked with ``ByBytes``. Tests look for both.

extension String {
  /// Returns whether two texts have the same bytes. Swift's own `==` takes canonically equivalent texts as equal.
  ///
  ///     "caf\u{e9}" == "cafe\u{301}"   // false
  package static func == (a: String, b: String) -> Bool { a.hasSameBytes(as: b) }
  package static func != (a: String, b: String) -> Bool { !a.hasSameBytes(as: b) }

  /// Returns whether a text comes before another one in the order of their bytes (UTF-8).
  package static func < (a: String, b: String) -> Bool { a.utf8.lexicographicallyPrecedes(b.utf8) }
  package static func > (a: String, b: String) -> Bool { b < a }

  /// Returns whether a text has the same bytes as the string in a `case` of a `switch`.
  package static func ~= (pattern: String, text: String) -> Bool { text.hasSameBytes(as: pattern) }

  package func hasPrefix(_ prefix: String) -> Bool { utf8.starts(with: prefix.utf8) }
  package func hasSuffix(_ suffix: String) -> Bool { utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) }
}

// One declaration for each type: with a generic one for all of them, the compiler would choose the standard library's.

extension Optional<String> {
  package static func == (a: String?, b: String?) -> Bool { areSame(a, b) }
  package static func != (a: String?, b: String?) -> Bool { !areSame(a, b) }
  package static func ~= (pattern: String, text: String?) -> Bool { areSame(text, pattern) }
}

extension [String] {
  package static func == (a: [String], b: [String]) -> Bool { areSame(a, b) }
  package static func != (a: [String], b: [String]) -> Bool { !areSame(a, b) }
}

extension Optional<[String]> {
  package static func == (a: [String]?, b: [String]?) -> Bool { areSame(a, b) }
  package static func != (a: [String]?, b: [String]?) -> Bool { !areSame(a, b) }
  package static func == (a: [String]?, b: [String]) -> Bool { areSame(a, b) }
  package static func != (a: [String]?, b: [String]) -> Bool { !areSame(a, b) }
}

extension [String?] {
  package static func == (a: [String?], b: [String?]) -> Bool { areSame(a, b) }
  package static func != (a: [String?], b: [String?]) -> Bool { !areSame(a, b) }
}

extension [[String]] {
  package static func == (a: [[String]], b: [[String]]) -> Bool { areSame(a, b) }
  package static func != (a: [[String]], b: [[String]]) -> Bool { !areSame(a, b) }
}

// Pairs, such as the schema and the name of a table.
package func == (a: (String, String), b: (String, String)) -> Bool { a.0 == b.0 && a.1 == b.1 }
package func != (a: (String, String), b: (String, String)) -> Bool { !(a == b) }
package func < (a: (String, String), b: (String, String)) -> Bool { a.0 != b.0 ? a.0 < b.0 : a.1 < b.1 }

extension Sequence<String> {
  package func contains(_ text: String) -> Bool { contains { $0.hasSameBytes(as: text) } }

  package func sorted() -> [String] { sorted { $0 < $1 } }
}

extension Collection<String> {
  package func firstIndex(of text: String) -> Index? { firstIndex { $0.hasSameBytes(as: text) } }
}

/// A text, or an optional, array or dictionary of texts, that ``ByBytes`` can compare.
package protocol ByteComparable: Hashable {
  static func areSame(_ a: Self, _ b: Self) -> Bool
  func hashBytes(into hasher: inout Hasher)
}

/// A property wrapper for a text. An `==` that Swift derives for the enclosing type then compares this property by its
/// bytes.
///
///     struct Table: Equatable {
///       @ByBytes var name: String
///     }
///     Table(name: "caf\u{e9}") == Table(name: "cafe\u{301}")  // false
@propertyWrapper package struct ByBytes<Value: ByteComparable>: Hashable {
  package var wrappedValue: Value
  package init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
  package static func == (a: Self, b: Self) -> Bool { Value.areSame(a.wrappedValue, b.wrappedValue) }
  package func hash(into hasher: inout Hasher) { wrappedValue.hashBytes(into: &hasher) }
}

extension ByBytes: Sendable where Value: Sendable {}

extension String: ByteComparable {
  package static func areSame(_ a: String, _ b: String) -> Bool { a.hasSameBytes(as: b) }
  package func hashBytes(into hasher: inout Hasher) { nameKey.hash(into: &hasher) }
}

extension Value: ByteComparable {
  package static func areSame(_ a: Value, _ b: Value) -> Bool { a == b }
  package func hashBytes(into hasher: inout Hasher) { hash(into: &hasher) }
}

extension Optional: ByteComparable where Wrapped: ByteComparable {
  package static func areSame(_ a: Self, _ b: Self) -> Bool {
    switch (a, b) {
    case (let a?, let b?): Wrapped.areSame(a, b)
    case (nil, nil): true
    default: false
    }
  }

  package func hashBytes(into hasher: inout Hasher) {
    hasher.combine(self != nil)
    self?.hashBytes(into: &hasher)
  }
}

extension Array: ByteComparable where Element: ByteComparable {
  package static func areSame(_ a: Self, _ b: Self) -> Bool { a.elementsEqual(b, by: Element.areSame) }

  package func hashBytes(into hasher: inout Hasher) {
    hasher.combine(count)
    for element in self { element.hashBytes(into: &hasher) }
  }
}

extension Dictionary: ByteComparable where Value: ByteComparable {
  package static func areSame(_ a: Self, _ b: Self) -> Bool {
    a.count == b.count && a.allSatisfy { key, value in b[key].map { Value.areSame(value, $0) } ?? false }
  }

  package func hashBytes(into hasher: inout Hasher) { hasher.combine(count) }
}
