import Changes
import TestServers
import Testing

@testable import Trails

/// The last writers of the columns of a row.
@Suite struct BlameTests {
  private static let item = TableSchema(
    epoch: 1, engine: .sqlite, name: "item",
    columns: [.init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "label"), .init(name: "price")])

  /// A row of the model, with the transaction that wrote each value last.
  private struct Row {
    var values: [Int64]
    var writers: [UInt64]
  }

  /// A trail that a test writes.
  private final class Pen {
    let writer: TrailWriter
    private(set) var number: UInt64 = 0

    init(_ folder: String, segment: Int = 3000) throws {
      writer = try openWriter(folder, .small(block: 512, segment: segment))
    }

    func begin() throws {
      number = try writer.begin(TransactionHeader(commitTime: 1_700_000_000_000_000 + Int64(number) * 1_000_000)).number
    }

    func commit() throws { try writer.commit() }

    func write(_ kind: UInt8, _ encode: (inout ByteWriter) throws -> Void) throws {
      var payload = ByteWriter()
      try encode(&payload)
      try writer.append(kind: kind, payload.bytes)
    }

    func change(_ operation: Operation, _ before: [Value?]?, _ after: [Value?]?, _ schema: TableSchema = item) throws {
      let id = try id(schema)
      try write(RecordKind.change) {
        $0.append(operation.rawValue)
        $0.append((before == nil ? 0 : 1) | (after == nil ? 0 : 2))
        $0.appendVarint(id)
        if let before { $0.appendImage(before) }
        if let after { $0.appendImage(after) }
      }
    }

    func id(_ schema: TableSchema) throws -> UInt64 { try writer.schemaID(schema, token: schema.epoch) }

    func refresh(_ event: Refresh.Event, _ schema: TableSchema = item) throws {
      let id = try id(schema)
      try write(RecordKind.refresh) { $0.append(Refresh(schemaID: id, event: event)) }
    }

    func row(_ values: [Value?], _ schema: TableSchema = item) throws {
      let id = try id(schema)
      try write(RecordKind.refreshRow) {
        $0.appendVarint(id)
        $0.appendImage(values)
      }
    }

    func ddl(_ action: DDL.Action, _ before: TableSchema?, _ after: TableSchema?, origins: [Int?]? = nil) throws {
      let ids = (try before.map(id) ?? 0, try after.map(id) ?? 0)
      try write(RecordKind.ddl) {
        $0.append(DDL(action: action, before: ids.0, after: ids.1, isRefreshed: origins != nil, origins: origins))
      }
    }
  }

  private func blame(_ folder: String, _ table: String, _ key: String) throws -> Blame {
    let filter = RowFilter(table: table, key: key)
    let schema = try #require(try TrailSearch(folder: folder, filter: filter).newestSchema().schema)
    return try Blame.read(folder: folder, schema: schema, key: try #require(filter.key(in: schema)))
  }

  private func images(_ row: Row) -> [Value?] { row.values.map { .integer($0) } }

  @Test(arguments: 0..<6) func `blame agrees with a model of random changes`(seed: UInt64) throws {
    let folder = try TempFolder()
    var random = Seeded(seed)
    let pen = try Pen(folder("t"))
    var rows: [Int64: Row] = [:]
    var gone: [Int64: (transaction: UInt64, kind: Blame.Kind)] = [:]
    for _ in 0..<400 {
      try pen.begin()
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        let key = Int64.random(in: 1...12, using: &random)
        guard var row = rows[key] else {
          let row = Row(
            values: [key, .random(in: 0...2, using: &random), .random(in: 0...2, using: &random)],
            writers: Array(repeating: pen.number, count: 3))
          try pen.change(.insert, nil, images(row))
          (rows[key], gone[key]) = (row, nil)
          continue
        }
        let old = row
        switch Int.random(in: 0..<10, using: &random) {
        case 0:
          try pen.change(.delete, images(row), nil)
          (rows[key], gone[key]) = (nil, (pen.number, .delete))
          continue
        case 1:
          // A repair of the row, which changes nothing.
          try pen.refresh(.start(.repair, .rows, estimatedRows: 1))
          try pen.refresh(.chunk(.row([.integer(key), nil, nil])))
          try pen.row(images(row))
          try pen.refresh(.end(rows: 1))
          continue
        case 2, 3:
          let other = Int64.random(in: 1...12, using: &random)
          if rows[other] == nil { row.values[0] = other }
        default: break
        }
        for column in 1...2 where Bool.random(using: &random) {
          row.values[column] = .random(in: 0...2, using: &random)
        }
        let changed = row.values.indices.filter { row.values[$0] != old.values[$0] }
        for column in changed { row.writers[column] = pen.number }
        switch Int.random(in: 0..<3, using: &random) {
        case 0 where !changed.contains(0):
          // As PostgreSQL without REPLICA IDENTITY FULL.
          try pen.change(.update, nil, images(row))
        case 1:
          try pen.change(
            .update, images(old), row.values.indices.map { changed.contains($0) ? .integer(row.values[$0]) : nil })
        default: try pen.change(.update, images(old), images(row))
        }
        if row.values[0] != key { (rows[key], gone[key]) = (nil, (pen.number, .move)) }
        (rows[row.values[0]], gone[row.values[0]]) = (row, nil)
      }
      try pen.commit()
    }
    _ = try pen.writer.sync()
    for key in Int64(1)...12 {
      let blame = try blame(folder("t"), "Item", "\(key)")
      let writes = ["id", "LABEL", "price"].map { blame[column: $0] }
      if let row = rows[key] {
        #expect(writes.map { $0?.transaction } == row.writers, "seed \(seed), key \(key)")
        #expect(writes.map { $0?.value } == images(row), "seed \(seed), key \(key)")
        #expect(writes.allSatisfy { $0?.mayBeOlder == false && $0?.node == "till-7" })
      } else if let gone = gone[key] {
        #expect(writes.allSatisfy { $0?.transaction == gone.transaction && $0?.kind == gone.kind }, "key \(key)")
      } else {
        #expect(blame.isEmpty)
      }
    }
  }

  @Test func `renamed tables and columns are followed, and other tables of the name are not`() throws {
    let folder = try TempFolder()
    let pen = try Pen(folder("t"), segment: 1)
    var goods = Self.item
    (goods.epoch, goods.name) = (2, "goods")
    var cost = goods
    (cost.epoch, cost.columns[2].name) = (3, "cost")
    cost.columns.insert(.init(name: "note"), at: 2)
    func transaction(_ body: () throws -> Void) throws {
      try pen.begin()
      try body()
      try pen.commit()
    }
    // An earlier table of the same name.
    try transaction { try pen.change(.insert, nil, [.integer(7), .text("old"), .integer(1)]) }
    try transaction { try pen.ddl(.drop, Self.item, nil) }
    try transaction { try pen.ddl(.create, nil, Self.item) }
    try transaction { try pen.change(.insert, nil, [.integer(7), .text("tea"), .integer(3)]) }
    try transaction { try pen.change(.update, [.integer(7), .text("tea"), .integer(3)], [nil, nil, .integer(4)]) }
    try transaction { try pen.ddl(.rename, Self.item, goods) }
    try transaction { try pen.ddl(.reshape, goods, cost, origins: [0, 1, nil, 2]) }
    _ = try pen.writer.sync()
    let found = try blame(folder("t"), "goods", "7")
    #expect(["id", "label", "note", "cost"].map { found[column: $0]?.transaction } == [4, 4, 7, 5])
    #expect(found[column: "note"]?.kind == .column)
    #expect(try blame(folder("t"), "goods", "8").isEmpty)
    #expect(try blame(folder("t"), "item", "7").newName == "goods")
  }

  @Test func `a copy is the writer of what the trail did not have`() throws {
    let folder = try TempFolder()
    let pen = try Pen(folder("t"))
    func copy(_ rows: [[Value?]]) throws {
      try pen.begin()
      try pen.refresh(.start(.firstCopy, .byKey, estimatedRows: 1))
      try pen.refresh(.chunk(.keys(after: nil, through: nil)))
      for row in rows { try pen.row(row) }
      try pen.refresh(.end(rows: UInt64(rows.count)))
      try pen.commit()
    }
    try copy([[.integer(7), .text("tea"), .integer(3)], [.integer(8), .text("rice"), .integer(2)]])
    try pen.begin()
    try pen.change(.update, nil, [.integer(7), .text("tea"), .integer(4)])
    try pen.commit()
    _ = try pen.writer.sync()
    var found = try blame(folder("t"), "item", "7")
    #expect(["id", "label", "price"].map { found[column: $0]?.kind } == [.copy, .copy, .update])
    // Changes were lost: the row 8 is gone, and the label of 7 is another one.
    try copy([[.integer(7), .text("mate"), .integer(4)]])
    _ = try pen.writer.sync()
    found = try blame(folder("t"), "item", "7")
    #expect(["id", "label", "price"].map { found[column: $0]?.transaction } == [1, 3, 2])
    #expect(found[column: "price"]?.copied != nil && found[column: "label"]?.kind == .copy)
    found = try blame(folder("t"), "item", "8")
    #expect(found[column: "label"]?.kind == .copy && found[column: "label"]?.value == nil)
    #expect(found[column: "label"]?.transaction == 3)
  }
}
