import Changes
import SQLiteKit

/// Values that are bound to a statement where they stand, so that SQLite makes no copies: they stay until the next ones are
/// bound.
struct BoundParameters: ~Copyable {
  /// Memory that is kept for the next values.
  private static let keptBytes = 1 << 20
  private var writer = ByteWriter(capacity: 1024)

  /// The values as images have them, where they were bound so.
  var image: UnsafeRawBufferPointer { writer.bytes }

  /// `asImage`: they will be kept with the statement.
  mutating func bind(_ values: [any SQLConvertible], to statement: Statement, asImage: Bool) throws {
    writer.removeAll()
    writer.shrink(above: Self.keptBytes)
    var start: UnsafeRawPointer?
    repeat {
      writer.removeAll()
      start = writer.bytes.baseAddress
      for index in values.indices { try bind(values[index].sqlValue, at: index + 1, to: statement, asImage: asImage) }
      // Once they have moved to where there is room for all of them, they are bound there.
    } while writer.bytes.baseAddress != start
  }

  @inline(__always)
  private mutating func bind(_ value: SQLValue, at index: Int, to statement: Statement, asImage: Bool) throws {
    switch value {
    case .null:
      if asImage { writer.appendNull() }
      try statement.bindNull(at: index)
    case .integer(let number):
      if asImage { writer.appendInteger(number) }
      try statement.bind(number, at: index)
    case .real(let number):
      if asImage { writer.appendReal(number) }
      try statement.bind(number, at: index)
    case .text(let text):
      try text.withBytes {
        if asImage { writer.appendText($0) } else { writer.append($0) }
        try statement.bind(.text(latest($0.count)), at: index)
      }
    case .blob(let blob):
      try blob.withUnsafeBytes {
        if asImage { writer.appendBlob($0) } else { writer.append($0) }
        try statement.bind(.blob(latest($0.count)), at: index)
      }
    }
  }

  private func latest(_ count: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: writer.bytes[(writer.count - count)...])
  }
}

extension Statement {
  /// Binds copies: other values may be bound while it gives rows.
  func bindCopies(of values: [any SQLConvertible]) throws {
    for index in values.indices {
      switch values[index].sqlValue {
      case .null: try bindNull(at: index + 1)
      case .integer(let number): try bind(number, at: index + 1)
      case .real(let number): try bind(number, at: index + 1)
      case .text(let text): try text.withBytes { try bind(.text($0), at: index + 1, copies: true) }
      case .blob(let blob): try blob.withUnsafeBytes { try bind(.blob($0), at: index + 1, copies: true) }
      }
    }
  }
}

extension String {
  /// Its bytes in place, which all strings have here that the program did not take over from elsewhere.
  @inline(__always)
  fileprivate func withBytes(_ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
    if try utf8.withContiguousStorageIfAvailable({ try body(UnsafeRawBufferPointer($0)) }) != nil { return }
    try Array(utf8).withUnsafeBytes(body)
  }
}
