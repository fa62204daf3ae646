import Changes

@testable import Trails

/// The content of the golden trail of format 1. Changed only together with a new format version, for a new trail.
enum GoldenTrail {
  static let orders = TableSchema(
    epoch: 17, engine: .postgres, namespace: "shop", name: "orders", flags: [.nullableKey],
    columns: [
      .init(name: "id", declaredType: "bigint", isNotNull: true, keyOrdinal: 2),
      .init(name: "till", declaredType: "text", keyOrdinal: 1, collation: "C", defaultText: "'a'"),
      .init(name: "sum", declaredType: "numeric(10,2)"),
    ],
    uniques: [[0], [2, 1]],
    foreignKeys: [
      .init(columns: [1], table: "tills", references: ["name"], onUpdate: "CASCADE", onDelete: "NO ACTION")
    ],
    createText: "CREATE TABLE shop.orders (…)", objects: [.init(name: "by_sum", text: "CREATE INDEX by_sum …")])

  static let headers = [
    TransactionHeader(
      number: 1, commitTime: 1_700_000_000_123_456, clock: 1_700_000_000_123_456, sourcePosition: [0, 1, 0xff]),
    TransactionHeader(
      number: 2, commitTime: -7, clock: 1_700_000_000_123_457, flags: [.group, .late],
      dependencies: [.init(origin: "hq", number: 300), .init(origin: "till-8", number: 1)]),
    TransactionHeader(number: 3, commitTime: 1_700_000_000_123_458, clock: 1_800_000_000_000_000),
    TransactionHeader(number: 4, commitTime: 1_700_000_000_123_459, clock: 1_800_000_000_000_001),
  ]

  static let everyValue: [Value?] = [.integer(.min), .text([0x61, 0xff, 0]), nil]
  static let long = [UInt8](repeating: 0x7a, count: 3000)

  static let refreshes: [Refresh] = [
    Refresh(schemaID: 1, event: .start(.lostChanges, .byKey, estimatedRows: 200)),
    Refresh(schemaID: 1, event: .chunk(.nullKeys)),
    Refresh(schemaID: 1, event: .chunk(.keys(after: nil, through: [.integer(5), nil]))),
    Refresh(schemaID: 1, event: .chunk(.keys(after: [.integer(5), nil], through: nil))),
    Refresh(schemaID: 1, event: .chunk(.unkeyed)),
    Refresh(schemaID: 1, event: .end(rows: 2)),
  ]

  static let records: [Seen] =
    [
      .begin(headers[0]),
      .schema(1, items),
      .change(.insert, .after, schema: 1, nil, before: nil, after: [.integer(-1), .text("öß")]),
      .change(.insert, .after, schema: 1, nil, before: nil, after: [.real(-0.5), .blob([0, 1, 2])]),
      .change(.insert, .after, schema: 1, nil, before: nil, after: [.null, .text(long)]),
      .schema(2, orders),
      .change(
        .update, [.before, .after, .replacedVersion], schema: 2, Version(origin: "hq", clock: 99),
        before: everyValue, after: [.integer(.max), nil, .exact(Array("12.50".utf8))]),
      .change(.delete, [.before, .implied], schema: 1, nil, before: [.integer(300), nil], after: nil),
      .change(.truncate, [], schema: 2, nil, before: nil, after: nil),
      .commit(1, changes: 6),
      .begin(headers[1]),
    ] + refreshes.map { .refresh($0) } + [
      .row(schema: 1, [.integer(1), .text("one")]),
      .row(schema: 1, [.integer(2), .null]),
      .commit(2, changes: 2),
      .begin(headers[2]),
      .progress([9, 9], 1_700_000_000_000_000),
      .marker(1, "before the move"),
      .commit(3, changes: 0),
      .begin(headers[3]),
      .schema(1, orders),
      .ddl(DDL(action: .rename, before: 1, after: 1, text: "ALTER TABLE orders RENAME TO o")),
      .reserved(RecordKind.reserved, [1, 2, 3]),
      .change(.insert, .after, schema: 1, nil, before: nil, after: [.integer(0), .text(""), .exact([])]),
      .change(.insert, .after, schema: 1, nil, before: nil, after: [.integer(63), .null, .null]),
      .change(.insert, .after, schema: 1, nil, before: nil, after: [.integer(-64), .null, .null]),
      .change(.insert, .after, schema: 1, nil, before: nil, after: [.integer(64), .null, .null]),
      .change(.insert, .after, schema: 1, nil, before: nil, after: [.integer(8192), .null, .null]),
      .commit(4, changes: 5),
    ]

  /// A third trail of format 1: rows that wait came later still.
  static let waiting: [Seen] = [
    .begin(TransactionHeader(number: 1, commitTime: 1_700_000_000_123_456, clock: 1_700_000_000_123_456)),
    .schema(1, items),
    .refresh(Refresh(schemaID: 1, event: .start(.asked, .byKey, estimatedRows: 1))),
    .refresh(Refresh(schemaID: 1, event: .chunk(.keys(after: nil, through: nil)))),
    .row(schema: 1, [.integer(1), .text("one")]),
    .waiting(schema: 1, [.integer(2), .text("one")], 1_700_000_000_123_400, "hq.pos", 300),
    .waiting(schema: 1, [.integer(3), nil], 0, "", 0),
    .refresh(Refresh(schemaID: 1, event: .end(rows: 1))),
    .commit(1, changes: 1),
  ]

  static func writeWaiting(_ folder: String) throws {
    let writer = try TrailWriter.open(
      folder: folder, name: till, options: .small(block: 2000, segment: 1 << 20), now: { 1_700_000_000_000_000 })
    for record in waiting { try writeOne(record, writer) }
    try writer.close()
  }

  /// The records of one writer, each transaction synced.
  struct Part {
    var transactions: ClosedRange<Int>
    var segmentBytes: Int
    var created: Int64

    func write(_ folder: String) throws {
      var options = TrailOptions()
      options.segmentBytes = segmentBytes
      options.blockBytes = 2000
      options.allocateBytes = 4096
      let time = created
      let writer = try TrailWriter.open(folder: folder, name: till, options: options, now: { time })
      var number = 0
      for record in records {
        if case .begin = record { number += 1 }
        if transactions.contains(number) { try writeOne(record, writer) }
      }
      try writer.close()
    }
  }

  /// The second writer ends the first segment; the third goes on in the empty second one.
  static let parts = [
    Part(transactions: 1...2, segmentBytes: 1 << 20, created: 1_700_000_000_000_000),
    Part(transactions: 3...3, segmentBytes: 1, created: 1_700_000_000_000_001),
    Part(transactions: 4...4, segmentBytes: 1 << 20, created: 1_700_000_000_000_002),
  ]

  /// A second trail of format 1: statements came later.
  static let statements: [Seen] = [
    .begin(TransactionHeader(number: 1, commitTime: 1_700_000_000_123_456, clock: 1_700_000_000_123_456)),
    .schema(1, items),
    .statement(
      ExecutedStatement(
        dialect: .sqlite, text: "INSERT INTO items VALUES (?, ?), (?, datetime('now'))",
        parameters: [.integer(1), .text("öß"), .integer(-2)], rowsAffected: 2, now: 1_700_000_000_120_000)),
    .change(.insert, .after, schema: 1, nil, before: nil, after: [.integer(1), .text("öß")]),
    .change(.insert, .after, schema: 1, nil, before: nil, after: [.integer(-2), .text("2023-11-14 22:13:20")]),
    .statementEnd(StatementEnd(changes: 2, digest: insertDigest)),
    .statement(
      ExecutedStatement(
        dialect: .sqlite, text: "DELETE FROM items WHERE id = :id OR label IS ?2 OR x = ?3",
        parameters: [.integer(1), .null, .real(0.5)], rowsAffected: 1, flags: [.nowUnknown, .isPartial])),
    .change(.delete, .before, schema: 1, nil, before: [.integer(1), .text("öß")], after: nil),
    .statementEnd(StatementEnd(changes: 1, digest: deleteDigest)),
    .commit(1, changes: 3),
  ]

  private static func digest(_ rows: [[Value]], _ add: (inout StatementDigest, UnsafeRawBufferPointer) -> Void)
    -> StatementDigest
  {
    var digest = StatementDigest()
    for row in rows {
      var image = ByteWriter()
      for value in row { image.append(value) }
      add(&digest, image.bytes)
    }
    return digest
  }
  static let insertDigest = digest([[.integer(1), .text("öß")], [.integer(-2), .text("2023-11-14 22:13:20")]]) {
    $0.addWritten($1, of: .init(name: "items"))
  }
  static let deleteDigest = digest([[.integer(1), .text("öß")]]) { $0.addGone($1, of: .init(name: "items")) }

  static func writeStatements(_ folder: String) throws {
    let writer = try TrailWriter.open(
      folder: folder, name: till, options: .small(block: 2000, segment: 1 << 20), now: { 1_700_000_000_000_000 })
    for record in statements { try writeOne(record, writer) }
    try writer.close()
  }

  private static func writeOne(_ record: Seen, _ writer: TrailWriter) throws {
    var payload = ByteWriter()
    switch record {
    case .begin(var header):
      header.number = 0
      _ = try writer.begin(header)
      return
    case .commit:
      // Skipped by every reader of format 1.
      payload.append([1, 2, 3])
      try writer.append(kind: 0xee, payload.bytes)
      try writer.commit()
      try writer.sync()
      return
    case .schema(let id, let schema):
      _ = try writer.schemaID(schema, token: id)
      return
    case .change(let operation, let flags, let id, let replaced, let before, let after):
      payload.append(operation.rawValue)
      payload.append(flags.rawValue)
      payload.appendVarint(id)
      if let replaced {
        payload.appendString(replaced.origin)
        payload.appendVarint(replaced.clock)
      }
      for image in [before, after] { if let image { payload.appendImage(image) } }
      try writer.append(kind: RecordKind.change, payload.bytes)
    case .row(let id, let values):
      payload.appendVarint(id)
      payload.appendImage(values)
      try writer.append(kind: RecordKind.refreshRow, payload.bytes)
    case .waiting(let id, let values, let clock, let origin, let number):
      payload.appendWaitingRow(schema: id, values, clock: clock, origin: origin, number: number)
      try writer.append(kind: RecordKind.waitingRow, payload.bytes)
    case .refresh(let refresh):
      payload.append(refresh)
      try writer.append(kind: RecordKind.refresh, payload.bytes)
    case .ddl(let ddl):
      payload.append(ddl)
      try writer.append(kind: RecordKind.ddl, payload.bytes)
    case .progress(let position, let time):
      payload.appendCounted(position)
      payload.appendZigzag(time)
      try writer.append(kind: RecordKind.progress, payload.bytes)
    case .sequence(let sequence):
      payload.append(sequence)
      try writer.append(kind: RecordKind.sequence, payload.bytes)
    case .marker(let kind, let text):
      payload.append(kind)
      payload.appendString(text)
      try writer.append(kind: RecordKind.marker, payload.bytes)
    case .statement(let statement):
      payload.append(statement)
      try writer.append(kind: RecordKind.statement, payload.bytes)
    case .statementEnd(let end):
      payload.append(end)
      try writer.append(kind: RecordKind.statementEnd, payload.bytes)
    case .reserved(let kind, let bytes):
      payload.append(bytes)
      try writer.append(kind: kind, payload.bytes)
    }
  }
}
