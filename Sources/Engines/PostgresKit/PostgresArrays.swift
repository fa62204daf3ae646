import Changes

/// The array parameters of one statement, in the binary form of `text[]`.
///
/// Source: `array_send` and `array_recv` of PostgreSQL 15, src/backend/utils/adt/arrayfuncs.c
///
///     var arrays = PostgresArrays()
///     arrays.begin(count: 1)
///     arrays.appendNull()   // {NULL}
package struct PostgresArrays: ~Copyable {
  static let textType: UInt32 = 25
  static let textArrayType: UInt32 = 1009

  private var bytes = ByteWriter(capacity: 1 << 12)
  private var starts: [Int] = []

  package init() {}

  package var byteCount: Int { bytes.count }
  var count: Int { starts.count }

  package mutating func removeAll() {
    bytes.removeAll()
    bytes.shrink(above: 4 << 20)
    starts.removeAll(keepingCapacity: true)
  }

  /// Begins the next array parameter. Exactly `count` values must then be appended.
  package mutating func begin(count: Int) {
    starts.append(bytes.count)
    // Dimensions, whether there may be NULLs, type of the elements, their count, the index of the first element.
    for number in [1, 1, Self.textType, UInt32(count), 1] { bytes.appendFixed(number.bigEndian) }
  }

  package mutating func append(_ text: UnsafeRawBufferPointer) {
    bytes.appendFixed(UInt32(text.count).bigEndian)
    bytes.append(text)
  }

  package mutating func appendNull() { bytes.appendFixed(UInt32.max) }

  /// Returns an array of texts as one text, for a parameter that the statement casts to `text[]`.
  ///
  ///     PostgresArrays.text(["a", "b\"c"])   // {"a","b\\"c"}
  package static func text(_ values: [String]) -> String {
    var bytes = Array("{".utf8)
    for value in values {
      bytes += Array((bytes.count > 1 ? ",\"" : "\"").utf8)
      for byte in value.utf8 {
        if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { bytes.append(UInt8(ascii: "\\")) }
        bytes.append(byte)
      }
      bytes.append(UInt8(ascii: "\""))
    }
    return String(decoding: bytes + Array("}".utf8), as: UTF8.self)
  }

  func withParameters<T>(_ body: ([UnsafePointer<CChar>?], [Int32]) -> T) -> T {
    let base = bytes.bytes.baseAddress
    let values = starts.map { start in base.map { ($0 + start).assumingMemoryBound(to: CChar.self) } }
    let ends = starts.dropFirst() + [bytes.count]
    return body(values, zip(starts, ends).map { Int32($1 - $0) })
  }
}
