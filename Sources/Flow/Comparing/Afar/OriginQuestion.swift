import Changes
import Mapping

/// A question of a comparison about rows, sent to the node of the source (`docs/reference/protocol.md`, Questions about
/// rows).
enum OriginQuestion {
  static let version: UInt8 = 1
  /// The largest size of an encoded question, in bytes.
  static let bytesMax = 1 << 20
  /// The largest size of an encoded answer, in bytes.
  static let answerBytesMax = 3 << 20
  /// The highest number of keys in one ``repair(_:)`` question.
  static let keysMax = 1000

  /// Requests the list of captured tables, from this index on.
  case tables(from: Int)
  /// Requests the current position of the source, and the last transaction of its trail.
  case standing
  /// Makes capture of a PostgreSQL source write its progress into the trail.
  case progress
  /// Requests the parts, such as partitions, in which a whole table can be read.
  case parts(QuestionedTable)
  /// Requests the hashes, size and key of each row in a slice. If `naming` is false, requests only the number of rows,
  /// and the sum of their hashes.
  case scan(QuestionedTable, Slice, naming: Bool)
  case rows(QuestionedTable, keys: [[Value]])
  /// For each hash of a whole row, requests the number of rows with this hash, and one such row. The hashes are in
  /// ascending order.
  case counts(QuestionedTable, hashes: [UInt64])
  /// Makes the source send the rows with these keys again through the trail.
  case repair(QuestionedTable, keys: [[Value]])
  /// Makes the source send all rows of the table again through the trail.
  case copy(QuestionedTable)
}

/// A table of the source in a question, with the columns and types of its counterpart at the target.
struct QuestionedTable {
  var namespace: String
  var name: String
  /// A hash of the source table's definition as the asking node knows it.
  var shape: UInt64
  /// The indexes of the compared columns of the source table.
  var columns: [Int]
  var target: TableSchema
  var targetColumns: [Int]
  var seed: UInt64

  init(_ table: ComparedTable, seed: UInt64) {
    let schema = table.source.schema
    (namespace, name, shape) = (schema.namespace, schema.name, schema.comparedShape)
    columns = table.source.columns
    (target, targetColumns) = (table.target.schema.compared, table.target.columns)
    target.original = nil
    self.seed = seed
  }
}

extension TableSchema {
  /// The table's definition without parts that do not matter for a comparison, such as defaults and references.
  var compared: TableSchema {
    var schema = self
    (schema.epoch, schema.createText) = (0, "")
    (schema.foreignKeys, schema.objects) = ([], [])
    for index in schema.columns.indices { schema.columns[index].defaultText = nil }
    return schema
  }

  var comparedShape: UInt64 {
    var writer = ByteWriter(capacity: 512)
    writer.append(compared)
    return XXHash64.of(writer.bytes)
  }
}

// MARK: - Encoding

extension ByteWriter {
  mutating func append(_ question: OriginQuestion) {
    append(OriginQuestion.version)
    switch question {
    case .tables(let from):
      append(1)
      appendVarint(UInt64(from))
    case .standing: append(2)
    case .progress: append(3)
    case .parts(let table):
      append(4)
      append(table)
    case .scan(let table, let slice, let naming):
      append(5)
      append(table)
      append(naming ? 1 : 0)
      append(slice)
    case .rows(let table, let keys):
      append(6)
      append(table)
      append(keys: keys)
    case .counts(let table, let hashes):
      append(7)
      append(table)
      appendVarint(UInt64(hashes.count))
      for hash in hashes { appendFixed(hash) }
    case .repair(let table, let keys):
      append(8)
      append(table)
      append(keys: keys)
    case .copy(let table):
      append(9)
      append(table)
    }
  }

  private mutating func append(_ table: QuestionedTable) {
    appendString(table.namespace)
    appendString(table.name)
    appendFixed(table.shape)
    append(indexes: table.columns)
    var schema = ByteWriter(capacity: 512)
    schema.append(table.target)
    appendCounted(schema.bytes)
    append(indexes: table.targetColumns)
    appendFixed(table.seed)
  }

  private mutating func append(indexes: [Int]) {
    appendVarint(UInt64(indexes.count))
    for index in indexes { appendVarint(UInt64(index)) }
  }

  private mutating func append(_ slice: Slice) {
    switch slice {
    case .range(let after, let through, let limit):
      append(1)
      append(key: after)
      append(key: through)
      append(limit: limit)
    case .nullKeys: append(2)
    case .behind(let after, let limit):
      append(3)
      append(key: after)
      append(limit: limit)
    case .pages(let part, let from, let below):
      append(4)
      // Send only the index among the parts that the origin has listed: the origin accepts no table name from another
      // node.
      appendVarint(UInt64(part) ?? 0)
      appendVarint(UInt64(from))
      append(limit: below.map { Int($0) })
    case .all: append(5)
    }
  }

  private mutating func append(limit: Int?) { appendVarint(limit.map { UInt64($0) + 1 } ?? 0) }

  mutating func append(key: [Value]?) {
    append(key == nil ? 0 : 1)
    if let key { appendImage(key) }
  }

  private mutating func append(keys: [[Value]]) {
    appendVarint(UInt64(keys.count))
    for key in keys { appendImage(key) }
  }
}

extension ByteReader {
  mutating func readQuestion() throws -> OriginQuestion {
    let version = try readByte()
    guard version == OriginQuestion.version else {
      throw DecodingError(offset: 0, problem: "version \(version) of a question is unknown")
    }
    let question: OriginQuestion
    switch try readByte() {
    case 1: question = .tables(from: Int(clamping: try readNumber("place in a list")))
    case 2: question = .standing
    case 3: question = .progress
    case 4: question = .parts(try readQuestionedTable())
    case 5:
      let table = try readQuestionedTable()
      let naming = try readByte() == 1
      question = .scan(table, try readSlice(), naming: naming)
    case 6:
      let table = try readQuestionedTable()
      question = .rows(table, keys: try readKeys())
    case 7:
      let table = try readQuestionedTable()
      let count = try readCount()
      question = .counts(table, hashes: try (0..<count).map { _ in try readFixed(UInt64.self) })
    case 8:
      let table = try readQuestionedTable()
      question = .repair(table, keys: try readKeys())
    case 9: question = .copy(try readQuestionedTable())
    case let kind: throw DecodingError(offset: 1, problem: "kind \(kind) of a question is unknown")
    }
    return question
  }

  private mutating func readQuestionedTable() throws -> QuestionedTable {
    let (namespace, name) = (try readString(), try readString())
    let shape = try readFixed(UInt64.self)
    let columns = try readColumnIndexes()
    var inner = ByteReader(try readCounted())
    let target = try inner.readSchema()
    let targetColumns = try readColumnIndexes()
    return QuestionedTable(
      namespace: namespace, name: name, shape: shape, columns: columns, target: target, targetColumns: targetColumns,
      seed: try readFixed(UInt64.self))
  }

  private mutating func readColumnIndexes() throws -> [Int] {
    let count = try readCount()
    return try (0..<count).map { _ in Int(clamping: try readNumber("column")) }
  }

  private mutating func readSlice() throws -> Slice {
    switch try readByte() {
    case 1:
      let (after, through) = (try readKey(), try readKey())
      return .range(after: after, through: through, limit: try readLimit())
    case 2: return .nullKeys
    case 3:
      let after = try readKey()
      return .behind(after, limit: try readLimit() ?? 0)
    case 4:
      let part = try readNumber("part of a table")
      let from = UInt32(clamping: try readNumber("page"))
      return .pages(table: String(part), from: from, below: try readLimit().map { UInt32(clamping: $0) })
    case 5: return .all
    case let kind: throw DecodingError(offset: 0, problem: "slice \(kind) is unknown")
    }
  }

  private mutating func readLimit() throws -> Int? {
    let number = try readNumber("limit")
    return number == 0 ? nil : Int(clamping: number - 1)
  }

  mutating func readKey() throws -> [Value]? { try readByte() == 1 ? try readRow() : nil }

  private mutating func readKeys() throws -> [[Value]] {
    let count = try readCount()
    return try (0..<count).map { _ in try readRow() }
  }

  mutating func readRow() throws -> [Value] {
    let values = try readImage().values()
    guard !values.contains(nil) else { throw DecodingError(offset: 0, problem: "a value is missing") }
    return values.compactMap { $0 }
  }
}

extension QuestionedTable {
  fileprivate init(
    namespace: String, name: String, shape: UInt64, columns: [Int], target: TableSchema, targetColumns: [Int],
    seed: UInt64
  ) {
    (self.namespace, self.name, self.shape, self.columns) = (namespace, name, shape, columns)
    (self.target, self.targetColumns, self.seed) = (target, targetColumns, seed)
  }
}
