import Capturing
import Changes
import PostgresKit
import SystemKit

/// A source whose database only its own node can reach, by questions to that node.
///
///     let source = OriginSource { question in try link.question(trail, question) }
package struct OriginSource: Sendable {
  /// The longest time for which a question is repeated while the source's node is busy, in milliseconds.
  private static let patienceMilliseconds: Int64 = 60_000
  private static let pauseMilliseconds: Int32 = 250

  private static let tablesMax = 10_000
  private static let tableBytesMax = 64 << 20

  private let send: @Sendable ([UInt8]) throws -> [UInt8]
  private let stop: StopSignal

  /// Creates a source at another node.
  ///
  /// - Parameter send: Sends an encoded question, and returns the encoded answer.
  package init(stop: StopSignal = StopSignal(), send: @escaping @Sendable ([UInt8]) throws -> [UInt8]) {
    (self.stop, self.send) = (stop, send)
  }

  /// A question or an answer is larger than allowed.
  struct TooLarge: Error {}

  func ask<T>(_ question: OriginQuestion, _ read: (inout ByteReader) throws -> T) throws -> T {
    var writer = ByteWriter(capacity: 1024)
    writer.append(question)
    guard writer.count <= OriginQuestion.bytesMax else { throw TooLarge() }
    let answer = try patiently(Array(writer.bytes))
    return try answer.withUnsafeBytes { bytes in
      var reader = ByteReader(bytes)
      do {
        if try reader.readByte() == OriginAnswer.tooLarge { throw TooLarge() }
        return try read(&reader)
      } catch let error as DecodingError {
        throw CairnError(
          .unsupported, "the node of the source sent an answer that cannot be read: \(error)",
          hint: "bring both nodes to the same version of Cairn", remedy: .retry)
      }
    }
  }

  private func patiently(_ question: [UInt8]) throws -> [UInt8] {
    let limit = Clock.monotonicMilliseconds + Self.patienceMilliseconds
    while true {
      do { return try send(question) } catch let error as CairnError where error.code == .busy {
        guard Clock.monotonicMilliseconds < limit, !stop.wait(milliseconds: Self.pauseMilliseconds) else { throw error }
      }
    }
  }

  /// The current position of a source, its last captured journal row, and the last transaction of its trail.
  struct Standing {
    var moment: SourceMoment
    /// The last journal row that is durable in the trail; nil for PostgreSQL.
    var taken: SourceReach?
    var transaction: UInt64
  }

  func standing() throws -> Standing {
    try ask(.standing) { reader in
      let moment = try reader.readMoment()
      let taken = try reader.readByte() == 1 ? SourceReach.journal(try reader.readZigzag()) : nil
      return Standing(moment: moment, taken: taken, transaction: try reader.readNumber("transaction"))
    }
  }

  func tables() throws -> (engine: Engine, sortsByBytes: Bool, tables: [OriginTable]) {
    var found: [OriginTable] = []
    var names: Set<[NameKey]> = []
    var bytes = 0
    var known: Engine?
    while true {
      let (engine, sortsByBytes, isLast) = try ask(.tables(from: found.count)) { reader in
        guard let engine = Engine(rawValue: try reader.readByte()), engine == known ?? engine else {
          throw DecodingError(offset: 0, problem: "engine is unknown, or another one")
        }
        let flags = try reader.readByte()
        let count = try reader.readCount()
        guard count > 0 || flags & 2 != 0 else { throw DecodingError(offset: 0, problem: "no table comes") }
        guard count <= Self.tablesMax - found.count else {
          throw DecodingError(offset: 0, problem: "more than \(Self.tablesMax) tables come")
        }
        for _ in 0..<count {
          let table = try reader.readOriginTable()
          let (schema, name) = (table.schema, [table.schema.namespace, table.schema.name].map { $0.key(in: engine) })
          guard schema.engine == engine else { throw DecodingError(offset: 0, problem: "a table is of another engine") }
          guard names.insert(name).inserted else { throw DecodingError(offset: 0, problem: "a table comes twice") }
          bytes += table.bytesInMemory
          guard bytes <= Self.tableBytesMax else {
            throw DecodingError(offset: 0, problem: "tables take more than \(Self.tableBytesMax) bytes")
          }
          found.append(table)
        }
        return (engine, flags & 1 != 0, flags & 2 != 0)
      }
      if isLast { return (engine, sortsByBytes, found) }
      known = engine
    }
  }
}

/// The values of the first byte of an answer. 0: the result follows. 1: the result would be too large.
enum OriginAnswer {
  static let whole: UInt8 = 0
  static let tooLarge: UInt8 = 1
}

/// A captured table as the source's node describes it.
struct OriginTable {
  var name: String
  var schema: TableSchema
  var refusal: String?
  var rowidName: String?
  var isPartitioned = false
  var sortsBackwards = false

  fileprivate var bytesInMemory: Int { 512 + name.utf8.count + (refusal?.utf8.count ?? 0) + schema.bytesInMemory }
}

extension TableSchema {
  fileprivate var bytesInMemory: Int {
    var bytes = 512 + namespace.utf8.count + name.utf8.count + createText.utf8.count
    for column in columns {
      bytes += MemoryLayout<Column>.stride + column.name.utf8.count + column.declaredType.utf8.count
      bytes += column.collation.utf8.count + column.baseType.utf8.count
    }
    for unique in uniques { bytes += 64 + unique.count * 8 }
    return bytes + (original?.bytesInMemory ?? 0)
  }
}

extension ByteWriter {
  mutating func append(_ table: OriginTable) {
    appendString(table.name)
    append((table.isPartitioned ? 1 : 0) | (table.sortsBackwards ? 2 : 0) | (table.rowidName == nil ? 0 : 4))
    appendString(table.refusal ?? "")
    var schema = ByteWriter(capacity: 512)
    schema.append(table.schema.compared)
    appendCounted(schema.bytes)
  }

  mutating func append(_ moment: SourceMoment) {
    switch moment {
    case .journal(let seq):
      append(1)
      appendZigzag(seq)
    case .log(let snapshot, let end):
      append(2)
      appendString(snapshot.text)
      appendFixed(end.value)
    }
  }
}

extension ByteReader {
  mutating func readOriginTable() throws -> OriginTable {
    let name = try readString()
    let flags = try readByte()
    let refusal = try readString()
    var inner = ByteReader(try readCounted())
    return OriginTable(
      // Comparing needs no other parts of the schema.
      name: name, schema: try inner.readSchema().compared, refusal: refusal.isEmpty ? nil : refusal,
      // Only whether there is a rowid matters here; the name is never used.
      rowidName: flags & 4 != 0 ? "rowid" : nil, isPartitioned: flags & 1 != 0, sortsBackwards: flags & 2 != 0)
  }

  mutating func readMoment() throws -> SourceMoment {
    switch try readByte() {
    case 1: return .journal(try readZigzag())
    case 2:
      guard let snapshot = PostgresSnapshot(try readString()) else {
        throw DecodingError(offset: 0, problem: "a snapshot cannot be read")
      }
      return .log(snapshot, end: LSN(try readFixed(UInt64.self)))
    case let kind: throw DecodingError(offset: 0, problem: "moment \(kind) is unknown")
    }
  }
}
