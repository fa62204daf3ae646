import Changes

/// A message of the output plugin `pgoutput`, protocol version 1, valid only as long as its bytes.
///
/// Source: https://www.postgresql.org/docs/15/protocol-logicalrep-message-formats.html
///
///     if case .insert(let relation, let new) = try PgOutput(bytes) { print(relation, new) }
package enum PgOutput {
  /// The begin of a transaction. `commit` is the LSN of its commit record; `time` is in µs since 1970 UTC.
  case begin(commit: LSN, time: Int64, xid: UInt32)
  case commit(commit: LSN, end: LSN, time: Int64)
  case origin(name: String)
  case relation(Relation)
  /// A data type that is not built in. Cairn reads it from the catalog instead.
  case type
  case insert(relation: UInt32, new: Tuple)
  case update(relation: UInt32, old: OldTuple?, new: Tuple)
  case delete(relation: UInt32, old: OldTuple)
  case truncate(relations: [UInt32])
  case message(isTransactional: Bool, prefix: String, content: UnsafeRawBufferPointer)

  package struct Relation: Equatable, Sendable {
    package struct Column: Equatable, Sendable {
      package var isKey: Bool
      @ByBytes package var name: String
      package var type: UInt32
      package var modifier: Int32
    }
    package var id: UInt32
    @ByBytes package var namespace: String
    @ByBytes package var name: String
    /// The replica identity of the table: `d` default, `n` nothing, `f` full, `i` index.
    package var identity: UInt8
    package var columns: [Column]
  }

  /// The values of a row, as the server sent them (`TupleData`).
  package struct Tuple {
    package let count: Int
    package let bytes: UnsafeRawBufferPointer
  }

  package enum OldTuple {
    /// An old row that has values only in the columns of the replica identity.
    case key(Tuple)
    case full(Tuple)

    package var tuple: Tuple {
      switch self {
      case .key(let tuple), .full(let tuple): tuple
      }
    }
  }

  /// Decodes a message of `pgoutput`. Throws ``DecodingError`` for other bytes.
  package init(_ bytes: UnsafeRawBufferPointer) throws {
    var r = PgReader(bytes)
    switch try r.byte() {
    case UInt8(ascii: "I"):
      let relation: UInt32 = try r.integer()
      guard try r.byte() == UInt8(ascii: "N") else { throw r.problem("an insert without a new row") }
      self = .insert(relation: relation, new: try r.tuple())
    case UInt8(ascii: "U"):
      let relation: UInt32 = try r.integer()
      var old: OldTuple?
      var kind = try r.byte()
      if kind != UInt8(ascii: "N") {
        old = try r.oldTuple(kind)
        kind = try r.byte()
      }
      guard kind == UInt8(ascii: "N") else { throw r.problem("an update without a new row") }
      self = .update(relation: relation, old: old, new: try r.tuple())
    case UInt8(ascii: "D"):
      let relation: UInt32 = try r.integer()
      self = .delete(relation: relation, old: try r.oldTuple(r.byte()))
    case UInt8(ascii: "B"):
      self = .begin(
        commit: LSN(try r.integer()), time: PostgresTime.toUnix(try r.integer()), xid: try r.integer())
    case UInt8(ascii: "C"):
      _ = try r.byte()
      self = .commit(
        commit: LSN(try r.integer()), end: LSN(try r.integer()), time: PostgresTime.toUnix(try r.integer()))
    case UInt8(ascii: "O"):
      _ = try r.integer(UInt64.self)
      self = .origin(name: try r.string())
    case UInt8(ascii: "R"): self = .relation(try r.relation())
    case UInt8(ascii: "Y"): self = .type
    case UInt8(ascii: "T"):
      let count: UInt32 = try r.integer()
      _ = try r.byte()
      var relations: [UInt32] = []
      for _ in 0..<count { relations.append(try r.integer()) }
      self = .truncate(relations: relations)
    case UInt8(ascii: "M"):
      let flags = try r.byte()
      _ = try r.integer(UInt64.self)
      let prefix = try r.string()
      let length: UInt32 = try r.integer()
      self = .message(isTransactional: flags & 1 != 0, prefix: prefix, content: try r.read(Int(length)))
    case let kind: throw DecodingError(offset: 0, problem: "message of kind \(kind) is unknown")
    }
  }
}

extension PgOutput.Tuple {
  /// Appends the row as an image. A value that the server did not send (TOAST) is marked as unchanged.
  ///
  /// - Parameter given: For each column, whether its value is used; nil: all are used. Unused values become unchanged.
  package func appendImage(to writer: inout ByteWriter, scratch: inout ByteWriter, given: [Bool]? = nil) throws {
    scratch.removeAll()
    var r = PgReader(bytes)
    for index in 0..<count {
      let kind = try r.byte()
      let isGiven = given.map { index < $0.count && $0[index] } ?? true
      switch kind {
      case UInt8(ascii: "n"): isGiven ? scratch.appendNull() : scratch.appendUnchanged()
      case UInt8(ascii: "u"): scratch.appendUnchanged()
      case UInt8(ascii: "t"):
        let length: UInt32 = try r.integer()
        let text = try r.read(Int(length))
        if isGiven { scratch.appendExact(text) } else { scratch.appendUnchanged() }
      default: throw r.problem("column of kind \(kind) is unknown")
      }
    }
    writer.appendCounted(scratch.bytes)
  }

  /// Returns whether a value of the row was not sent, because it did not change and is stored out of line (TOAST).
  package func hasUnchanged() throws -> Bool {
    var r = PgReader(bytes)
    for _ in 0..<count {
      switch try r.byte() {
      case UInt8(ascii: "u"): return true
      case UInt8(ascii: "t"): _ = try r.read(Int(try r.integer(UInt32.self)))
      default: break
      }
    }
    return false
  }

  /// Returns whether the row has NULL in a column for which `columns` is true.
  package func hasNull(among columns: [Bool]) throws -> Bool {
    var r = PgReader(bytes)
    for index in 0..<count {
      switch try r.byte() {
      case UInt8(ascii: "n") where index < columns.count && columns[index]: return true
      case UInt8(ascii: "t"): _ = try r.read(Int(try r.integer(UInt32.self)))
      default: break
      }
    }
    return false
  }

  /// Returns the values of the row as text; nil for NULL and for a value that was not sent.
  package func texts() throws -> [String?] {
    var r = PgReader(bytes)
    return try (0..<count).map { _ in
      guard try r.byte() == UInt8(ascii: "t") else { return nil }
      return String(decoding: try r.read(Int(try r.integer(UInt32.self))), as: UTF8.self)
    }
  }
}

private struct PgReader {
  private var reader: ByteReader
  init(_ bytes: UnsafeRawBufferPointer) { reader = ByteReader(bytes) }

  func problem(_ text: String) -> DecodingError { DecodingError(offset: reader.offset, problem: text) }

  mutating func byte() throws -> UInt8 { try reader.readByte() }
  mutating func read(_ count: Int) throws -> UnsafeRawBufferPointer { try reader.read(count) }
  mutating func integer<T: FixedWidthInteger>(_ type: T.Type = T.self) throws -> T {
    try reader.readFixed(T.self).byteSwapped
  }

  mutating func string() throws -> String {
    var bytes: [UInt8] = []
    while true {
      let byte = try reader.readByte()
      if byte == 0 { return String(decoding: bytes, as: UTF8.self) }
      bytes.append(byte)
    }
  }

  mutating func tuple() throws -> PgOutput.Tuple {
    let count: UInt16 = try integer()
    let begin = reader
    var length = 0
    for _ in 0..<count {
      let kind = try byte()
      length += 1
      if kind == UInt8(ascii: "t") || kind == UInt8(ascii: "b") {
        let size: UInt32 = try integer()
        _ = try read(Int(size))
        length += 4 + Int(size)
      }
    }
    var start = begin
    return PgOutput.Tuple(count: Int(count), bytes: try start.read(length))
  }

  mutating func oldTuple(_ kind: UInt8) throws -> PgOutput.OldTuple {
    switch kind {
    case UInt8(ascii: "K"): return .key(try tuple())
    case UInt8(ascii: "O"): return .full(try tuple())
    default: throw problem("old row of kind \(kind) is unknown")
    }
  }

  mutating func relation() throws -> PgOutput.Relation {
    var relation = PgOutput.Relation(
      id: try integer(), namespace: try string(), name: try string(), identity: try byte(), columns: [])
    // An empty name means pg_catalog.
    if relation.namespace.isEmpty { relation.namespace = "pg_catalog" }
    let count: UInt16 = try integer()
    for _ in 0..<count {
      relation.columns.append(
        .init(isKey: try byte() & 1 != 0, name: try string(), type: try integer(), modifier: try integer()))
    }
    return relation
  }
}
