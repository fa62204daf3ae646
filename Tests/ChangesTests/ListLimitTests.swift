import Testing

@testable import Changes

/// Lists of a peer that are short in the trail and would be large in memory: refused where they are decoded.
@Suite struct ListLimitTests {
  private func bytes(_ encode: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter()
    encode(&writer)
    return Array(writer.bytes)
  }

  private func decoded<T>(_ bytes: [UInt8], _ read: (inout ByteReader) throws -> T) throws -> T {
    try bytes.withUnsafeBytes {
      var reader = ByteReader($0)
      return try read(&reader)
    }
  }

  @Test func `a transaction knows at most ten thousand trails`() throws {
    func header(_ count: Int) -> TransactionHeader {
      TransactionHeader(
        number: 1, commitTime: 0, dependencies: (0..<count).map { .init(origin: "n\($0).x", number: 1) })
    }
    let most = header(TransactionHeader.dependenciesMax)
    #expect(try decoded(bytes { $0.append(most) }) { try $0.readHeader() } == most)
    let more = bytes { $0.append(header(TransactionHeader.dependenciesMax + 1)) }
    #expect(throws: DecodingError.self) { try decoded(more) { try $0.readHeader() } }
  }

  @Test func `a table has at most so many columns`() throws {
    func schema(_ count: Int) -> TableSchema {
      TableSchema(
        epoch: 0, engine: .sqlite, name: "t",
        columns: (0..<count).map { .init(name: "c\($0)", declaredType: "INTEGER") })
    }
    let most = schema(TableSchema.columnsMax)
    #expect(try decoded(bytes { $0.append(most) }) { try $0.readSchema() } == most)
    let more = bytes { $0.append(schema(TableSchema.columnsMax + 1)) }
    #expect(throws: DecodingError.self) { try decoded(more) { try $0.readSchema() } }
  }

  @Test func `a table with more keys than a reader accepts is written with the first ones`() throws {
    var schema = TableSchema(
      epoch: 0, engine: .sqlite, name: "t", columns: [.init(name: "id", declaredType: "INTEGER", keyOrdinal: 1)])
    schema.uniques = Array(repeating: [0], count: TableSchema.keysMax + 1)
    schema.foreignKeys = Array(
      repeating: .init(columns: [0], table: "p", references: ["id"], onUpdate: "", onDelete: ""),
      count: TableSchema.keysMax + 1)
    schema.objects = (0...TableSchema.objectsMax).map { .init(name: "i\($0)", text: "") }
    let read = try decoded(bytes { $0.append(schema) }) { try $0.readSchema() }
    #expect(read.uniques.count == TableSchema.keysMax && read.foreignKeys.count == TableSchema.keysMax)
    #expect(read.objects.count == TableSchema.objectsMax)
  }

  @Test func `a table is read if there is room for all of it`() throws {
    let long = String(repeating: "x", count: 40)
    func schema(_ name: String) -> TableSchema {
      TableSchema(
        epoch: 0, engine: .postgres, namespace: long, name: name,
        columns: [
          .init(name: "id", declaredType: long, keyOrdinal: 1, collation: long, defaultText: long, baseType: long),
          .init(name: "short"),
        ],
        uniques: [[0], [0, 1]],
        foreignKeys: [
          .init(columns: [1], namespace: long, table: long, references: [long], onUpdate: long, onDelete: "")
        ], createText: long, objects: [.init(name: "i", text: long)])
    }
    var table = schema("t")
    table.original = schema(long)
    let encoded = bytes { $0.append(table) }
    let room = table.memoryBytes
    #expect(room > 2 * 1024 + 2 * 12 * 88)
    #expect(try decoded(encoded) { try $0.readSchema(room: room) } == table)
    for less in [room - 1, room / 2, 1] {
      #expect(throws: DecodingError.self) { try decoded(encoded) { try $0.readSchema(room: less) } }
    }
  }

  @Test func `a forged table with more keys is refused`() throws {
    let schema = TableSchema(
      epoch: 0, engine: .sqlite, name: "t", columns: [.init(name: "id", declaredType: "INTEGER")], uniques: [[0]])
    let honest = bytes { $0.append(schema) }
    // The list of unique keys: one key, of one column, which is column 0.
    let place = try #require(honest.indices.dropLast(2).last { Array(honest[$0...($0 + 2)]) == [1, 1, 0] })
    func forged(_ count: Int) -> [UInt8] {
      let keys = bytes { writer in
        writer.appendVarint(UInt64(count))
        for _ in 0..<count { for byte in [1, 0] as [UInt8] { writer.append(byte) } }
      }
      return Array(honest[..<place]) + keys + Array(honest[(place + 3)...])
    }
    #expect(try decoded(forged(TableSchema.keysMax)) { try $0.readSchema() }.uniques.count == TableSchema.keysMax)
    #expect(throws: DecodingError.self) { try decoded(forged(TableSchema.keysMax + 1)) { try $0.readSchema() } }
  }
}
