import Changes
import SQLiteKit

/// The bytes of the values bound to a statement. SQLite reads them in place until other values are bound.
struct BoundParameters: ~Copyable {
  /// The capacity, in bytes, up to which the buffer is kept for the next statement.
  private static let keptBytes = 1 << 20
  private var writer = ByteWriter(capacity: 1024)

  /// The bound values in the journal's encoding. Valid only after a `bind` with `asImage: true`.
  var image: UnsafeRawBufferPointer { writer.bytes }

  /// Binds values to the parameters of a statement.
  /// - Parameter asImage: Whether to also encode the values for the journal.
  mutating func bind(_ values: [any SQLConvertible], to statement: Statement, asImage: Bool) throws {
    writer.removeAll()
    writer.shrink(above: Self.keptBytes)
    var start: UnsafeRawPointer?
    repeat {
      writer.removeAll()
      start = writer.bytes.baseAddress
      for index in values.indices { try bind(values[index].sqlValue, at: index + 1, to: statement, asImage: asImage) }
      // If the buffer moved while it grew, earlier pointers are invalid: bind all values again in the larger buffer.
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
  /// Binds copies of the values, so that the originals need not outlive the call.
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
  /// Calls `body` with the UTF-8 bytes of the text, without a copy if possible.
  @inline(__always)
  fileprivate func withBytes(_ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
    if try utf8.withContiguousStorageIfAvailable({ try body(UnsafeRawBufferPointer($0)) }) != nil { return }
    try Array(utf8).withUnsafeBytes(body)
  }
}
