import Changes
import Foundation
import TestServers

/// Whole transactions with hostile content: every kind of record, with text and numbers of an attacker.
///
///     var random = Seeded(7)
///     let segment = HostileTrails.segment(TrailName(origin: "evil", name: "x"), &random)
package enum HostileTrails {
  static let table = "t"
  /// The tables that an apply of such a trail may write; all others are ``Canary``.
  package static let allowed = ["t", "u", "new1"]

  static let texts = [
    "x", "", "t", "T", "u", "new1", "public", "salaries", "main.salaries", "ledger", "counted", "cairn",
    "cairn.pending", "cairn_origin", "cairn.checkpoint", "sqlite_master", "pg_class", "information_schema.tables",
    "'; DROP TABLE salaries; --", "x\u{600}'); DELETE FROM salaries; --",
    "t\"; DELETE FROM salaries; --", "a\u{0}b", "\u{FE0F}\u{200D}", String(repeating: "a", count: 300), "\u{1b}[2J",
    "int, b int); DROP TABLE salaries; --", "varchar(99999999999999999999)", "numeric(-1,9223372036854775807)",
    "random()", "(SELECT pay FROM salaries)", "load_extension('x')", "e\u{301}", "ÿ", "%s%n",
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); DROP TABLE salaries; ATTACH 'x.db' AS x",
    "CREATE TABLE t AS SELECT * FROM salaries", "CREATE TRIGGER q AFTER INSERT ON t BEGIN DELETE FROM salaries; END",
    "CREATE UNIQUE INDEX i ON salaries(pay)", "CREATE VIRTUAL TABLE v USING fts5(x)",
  ]
  /// Statements that a capture could have recorded, as an attacker would write them.
  static let statements = [
    "INSERT INTO t(id, a) SELECT id, pay FROM salaries", "INSERT INTO salaries SELECT * FROM t",
    "INSERT INTO t VALUES (4, 'x', 0.5)", "INSERT OR REPLACE INTO t VALUES (1, ?, 2)", "DELETE FROM salaries",
    "DELETE FROM t WHERE id IN (SELECT id FROM salaries)", "DELETE FROM t; DELETE FROM salaries",
    "UPDATE t SET a = (SELECT pay FROM salaries LIMIT 1)", "UPDATE salaries SET pay = 0",
    "UPDATE t SET a = load_extension('x')", "UPDATE t SET a = pg_read_file('/etc/passwd')",
    "UPDATE t SET b = b + 1 WHERE id = $1",
    "WITH s AS (DELETE FROM salaries RETURNING id, pay) INSERT INTO t SELECT id, pay, 0 FROM s",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO t SELECT i, '', 0 FROM n",
    "UPDATE t SET a = 'x\u{600}' || ';' WHERE a = 'e\u{301}'", "INSERT INTO cairn_origin SELECT * FROM t",
    "DELETE FROM cairn.checkpoint", "UPDATE \"t\" SET \"a\" = \"pay\" FROM \"salaries\"", "TRUNCATE salaries",
    "INSERT INTO t(id, a) SELECT id, v FROM ledger", "DELETE FROM t WHERE a LIKE '%' || a ESCAPE '\\'",
  ]
  static let numbers: [UInt64] = [
    0, 1, 2, 3, 255, 1 << 31, 1 << 32, 1 << 48, 1 << 61, 1 << 62 - 1, 1 << 62, 1 << 63 - 1, 1 << 63, .max - 1, .max,
  ]
  static let integers: [Int64] = [0, 1, -1, .max, .min, .min + 1, 1 << 53, -1 << 53, 1_772_368_200_000_000]

  package static func text(_ random: inout Seeded) -> String { texts.randomElement(using: &random) ?? "" }
  package static func number(_ random: inout Seeded) -> UInt64 { numbers.randomElement(using: &random) ?? 0 }

  static func value(_ random: inout Seeded) -> Value? {
    switch Int.random(in: 0..<9, using: &random) {
    case 0: nil
    case 1: .null
    case 2: .integer(integers.randomElement(using: &random) ?? 0)
    case 3:
      .real(
        [0, -0.0, .nan, .infinity, -.infinity, .greatestFiniteMagnitude, .leastNonzeroMagnitude, 1e300].randomElement(
          using: &random)
          ?? 0)
    case 4: .text(Array(text(&random).utf8))
    case 5: .text([0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80])
    case 6: .blob((0..<Int.random(in: 0..<40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) })
    case 7: .exact(Array(text(&random).utf8))
    default: .integer(Int64.random(in: -3...3, using: &random))
    }
  }

  static func row(_ random: inout Seeded, _ columns: Int) -> [Value?] {
    if columns == 3, Int.random(in: 0..<2, using: &random) == 0 { return plainRow(&random) }
    let count = Int.random(in: 0..<12, using: &random) == 0 ? Int.random(in: 0...9, using: &random) : columns
    return (0..<count).map { _ in value(&random) }
  }

  /// A row that the columns take, as the one or the other engine writes it; its text may be an attack.
  private static func plainRow(_ random: inout Seeded) -> [Value?] {
    let (id, text) = (Int64.random(in: 1...5, using: &random), Array(text(&random).utf8))
    return Bool.random(using: &random)
      ? [.integer(id), .text(text), .real(0.5)]
      : [.exact(Array("\(id)".utf8)), .exact(text), .exact(Array("0.5".utf8))]
  }

  /// A table that could be one; now and then with something of an attacker in one place.
  static func schema(_ random: inout Seeded, isHostile: Bool) -> TableSchema {
    var schema = TableSchema(
      epoch: 1, engine: Bool.random(using: &random) ? .sqlite : .postgres, name: table,
      columns: [
        .init(name: "id", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1),
        .init(name: "a", declaredType: "TEXT"),
        .init(name: "b", declaredType: "REAL"),
      ], createText: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b REAL)")
    if schema.engine == .postgres {
      (schema.namespace, schema.createText) = ("public", "")
      for (column, type) in ["integer", "text", "double precision"].enumerated() {
        schema.columns[column].declaredType = type
      }
    }
    guard isHostile else { return schema }
    for _ in 0...Int.random(in: 0..<2, using: &random) {
      let column = Int.random(in: 0..<3, using: &random)
      guard schema.columns.count == 3 else { break }
      switch Int.random(in: 0..<15, using: &random) {
      case 0: schema.name = text(&random)
      case 1: schema.namespace = text(&random)
      case 2: schema.columns[column].name = text(&random)
      case 3: schema.columns[column].declaredType = text(&random)
      case 4: schema.columns[column].defaultText = text(&random)
      case 5: schema.columns[column].collation = text(&random)
      case 6: schema.createText = text(&random)
      case 7: schema.objects = [.init(name: text(&random), text: text(&random))]
      case 8:
        schema.foreignKeys = [
          .init(
            columns: [column], namespace: text(&random), table: text(&random), references: [text(&random)],
            onUpdate: text(&random), onDelete: text(&random))
        ]
      case 9: schema.uniques = [[column], [], [column, column]]
      case 10: schema.columns[column].keyOrdinal = Int(clamping: number(&random))
      case 11: schema.flags = .init(rawValue: number(&random))
      case 12: schema.columns[column].baseType = text(&random)
      case 13:
        var original = schema
        original.name = text(&random)
        original.engine = .sqlite
        schema.original = original
      default: schema.columns = []
      }
    }
    return schema
  }

  /// The records of some transactions. Their own numbers and counts are right unless the attack is there.
  static func transactions(_ random: inout Seeded) -> [UInt8] {
    var records = HostileRecords()
    var schemas: UInt64 = 0
    for number in 1...UInt64.random(in: 1...3, using: &random) {
      let isExtreme = Int.random(in: 0..<12, using: &random) == 0
      records.begin(
        isExtreme ? self.number(&random) : number,
        time: isExtreme ? integers.randomElement(using: &random) ?? 0 : 1_772_368_200_000_000,
        clock: isExtreme ? self.number(&random) : nil, flags: flags(&random),
        sourcePosition: Int.random(in: 0..<6, using: &random) == 0 ? Array(text(&random).utf8) : [],
        dependencies: dependencies(&random, isExtreme))
      var changes: UInt64 = 0
      if schemas == 0 {
        schemas = 1
        let first = schema(&random, isHostile: Int.random(in: 0..<3, using: &random) == 0)
        records.schema(1, first)
        records.ddl(DDL(action: .create, before: 0, after: 1, text: text(&random)))
      }
      for _ in 0..<Int.random(in: 0..<8, using: &random) { add(&records, &random, &schemas, &changes) }
      if Int.random(in: 0..<25, using: &random) == 0 { break }
      records.commit(number, changes: isExtreme ? self.number(&random) : changes)
    }
    return records.bytes
  }

  /// Flags of a header: each that there is, now and then one that is none.
  private static func flags(_ random: inout Seeded) -> TransactionHeader.Flags {
    guard Int.random(in: 0..<4, using: &random) == 0 else { return [] }
    return [.group, .late, .relayed, [.relayed, .group], [.relayed, .late]].randomElement(using: &random) ?? []
  }

  private static func dependencies(_ random: inout Seeded, _ isExtreme: Bool) -> [TransactionHeader.Dependency] {
    guard Int.random(in: 0..<3, using: &random) == 0 else { return [] }
    let origins = ["evil.x", "good.shop", "hub.open", "hub.secret", "evil.y", "far.shop"] + (isExtreme ? texts : [])
    return (0..<Int.random(in: 1...3, using: &random)).map { _ in
      .init(
        origin: origins.randomElement(using: &random) ?? "",
        number: isExtreme ? number(&random) : UInt64.random(in: 0...9, using: &random),
        id: [nil, HostileSegment.id(7), HostileSegment.id(9)].randomElement(using: &random) ?? nil)
    }
  }

  /// Adds a statement. Mostly it is one that apply may try: a change of one row and the statement's end follow it.
  private static func statement(
    _ records: inout HostileRecords, _ random: inout Seeded, _ id: UInt64, _ changes: inout UInt64
  ) {
    let isWritten = Int.random(in: 0..<4, using: &random) > 0
    let text = isWritten ? statements.randomElement(using: &random) ?? "" : text(&random)
    let statement = ExecutedStatement(
      dialect: Bool.random(using: &random) ? .sqlite : .postgres, text: text,
      parameters: row(&random, 3).compactMap { $0 }, rowsAffected: isWritten ? 1 : number(&random),
      now: Bool.random(using: &random) ? integers.randomElement(using: &random) : nil)
    records.add(RecordKind.statement) { $0.append(statement) }
    if isWritten {
      records.change(.insert, id, before: nil, after: plainRow(&random))
      changes += 1
    }
    if isWritten || Bool.random(using: &random) {
      records.add(RecordKind.statementEnd) {
        $0.append(StatementEnd(changes: isWritten ? 1 : number(&random), digest: .init()))
      }
    }
  }

  private static func add(
    _ records: inout HostileRecords, _ random: inout Seeded, _ schemas: inout UInt64, _ changes: inout UInt64
  ) {
    let id =
      Int.random(in: 0..<10, using: &random) == 0 ? number(&random) : UInt64.random(in: 1...schemas, using: &random)
    switch Int.random(in: 0..<16, using: &random) {
    case 0...4:
      let operation = [Changes.Operation.insert, .update, .delete, .truncate].randomElement(using: &random) ?? .insert
      let hasBefore = operation == .update || operation == .delete
      records.change(
        operation, id, before: hasBefore ? row(&random, 3) : nil,
        after: operation == .insert || operation == .update ? row(&random, 3) : nil,
        flags: Int.random(in: 0..<8, using: &random) == 0 ? 4 : 0,
        replaced: Int.random(in: 0..<6, using: &random) == 0
          ? (["evil.x", "good.shop", text(&random)].randomElement(using: &random) ?? "", number(&random)) : nil)
      changes += 1
    case 5:
      let method = [Refresh.Method.byKey, .whole, .rows].randomElement(using: &random) ?? .whole
      records.refresh(id, .start(.firstCopy, method, estimatedRows: number(&random)))
      let range: Refresh.Range =
        [.nullKeys, .unkeyed, .some, .row(row(&random, 3)), .keys(after: row(&random, 3), through: nil)]
        .randomElement(using: &random) ?? .some
      records.refresh(id, .chunk(range))
      for _ in 0..<Int.random(in: 0..<3, using: &random) {
        records.row(id, row(&random, 3))
        changes += 1
      }
      for _ in 0..<Int.random(in: 0..<3, using: &random) {
        let isHostile = Int.random(in: 0..<6, using: &random) == 0
        records.waiting(
          Int.random(in: 0..<10, using: &random) == 0 ? number(&random) : id, row(&random, 3),
          clock: isHostile ? number(&random) : UInt64.random(in: 0..<1 << 62, using: &random),
          origin: isHostile
            ? text(&random) : ["", "evil.x", "good.shop", "far.away"].randomElement(using: &random) ?? "",
          number: isHostile ? number(&random) : UInt64.random(in: 0...9, using: &random))
      }
      if Bool.random(using: &random) { records.refresh(id, .end(rows: number(&random))) }
    case 6:
      schemas += 1
      records.schema(schemas, schema(&random, isHostile: Bool.random(using: &random)))
    case 7:
      let action = [DDL.Action.create, .drop, .rename, .reshape].randomElement(using: &random) ?? .create
      var ddl = DDL(
        action: action, before: id, after: UInt64.random(in: 0...schemas, using: &random), text: text(&random))
      ddl.origins = [nil, Int.random(in: 0..<5, using: &random), Int(clamping: number(&random) >> 2)]
      ddl.isRefreshed = Bool.random(using: &random)
      ddl.applied = text(&random)
      records.ddl(ddl)
    case 8: records.marker(text(&random))
    case 9:
      records.add(RecordKind.sequence) {
        $0.append(
          SequenceState(
            namespace: ["public", "", text(&random)].randomElement(using: &random) ?? "", name: text(&random),
            last: integers.randomElement(using: &random) ?? 0,
            increment: integers.randomElement(using: &random) ?? 0))
      }
    case 10:
      records.add(RecordKind.progress) {
        $0.appendCounted(Array(text(&random).utf8))
        $0.appendZigzag(integers.randomElement(using: &random) ?? 0)
      }
    case 11: statement(&records, &random, id, &changes)
    case 12:
      // Anything under the kind of a record.
      let kind = UInt8.random(in: 1...0x90, using: &random)
      guard ![RecordKind.begin, RecordKind.commit, RecordKind.schema].contains(kind) else { return }
      records.add(kind) { payload in
        for _ in 0..<Int.random(in: 0..<30, using: &random) {
          payload.append(UInt8.random(in: 0...255, using: &random))
        }
      }
      if kind == RecordKind.change || kind == RecordKind.refreshRow { changes += 1 }
    case 13:
      // A count of things that are not there.
      records.add(RecordKind.schema) {
        $0.appendVarint(schemas + 1)
        $0.appendVarint(1)
        $0.append(1)
        $0.appendString("")
        $0.appendString("t")
        $0.appendVarint(0)
        $0.appendVarint(number(&random))
      }
    default:
      records.change(
        .insert, 1, before: nil,
        after: [.integer(Int64.random(in: 0...9, using: &random)), value(&random), value(&random)])
      changes += 1
    }
  }

  private static func header(_ random: inout Seeded) -> UInt64 {
    HostileHeaders.numbers.randomElement(using: &random) ?? 0
  }

  /// A segment of them, and what a fuzzer makes of its bytes: most with right checksums, some without.
  package static func segment(
    _ name: TrailName, _ random: inout Seeded, id: TrailID = HostileSegment.id(7)
  ) -> HostileSegment {
    var start = HostileHeaders.Start()
    if Int.random(in: 0..<15, using: &random) == 0 {
      HostileHeaders.ofSegments.randomElement(using: &random)?(&start, header(&random))
    }
    var fields = HostileSegment.BlockFields()
    if Int.random(in: 0..<15, using: &random) == 0 {
      HostileHeaders.ofBlocks.randomElement(using: &random)?(&fields, header(&random))
    }
    var segment = HostileSegment(
      name, id: id, number: start.number, created: start.created, first: start.first, chain: start.chain,
      start.fields)
    var content = transactions(&random)
    if !content.isEmpty, Int.random(in: 0..<3, using: &random) == 0 {
      for _ in 0...Int.random(in: 0..<3, using: &random) {
        let at = Int.random(in: 0..<content.count, using: &random)
        content[at] =
          [0, 0xff, 0x7f, 0x80, UInt8.random(in: 0...255, using: &random)].randomElement(using: &random) ?? 0
      }
    }
    if Int.random(in: 0..<40, using: &random) == 0 {
      segment.bomb(contentLength: Int.random(in: 1...(1 << 21), using: &random))
    }
    if Int.random(in: 0..<6, using: &random) == 0, content.count > 1 {
      let cut = Int.random(in: 1..<content.count, using: &random)
      segment.block(Array(content[..<cut]), HostileSegment.Flags.none)
      segment.block(Array(content[cut...]), HostileSegment.Flags.border, fields)
    } else {
      segment.block(content, HostileSegment.Flags.border, fields)
    }
    if Int.random(in: 0..<4, using: &random) == 0 { segment.seal() }
    return segment
  }
}
