import Changes
import TestServers

/// Random records with their payloads. Their seed is new each time, and every failure shows it.
struct Samples: CustomStringConvertible {
  struct Sample {
    var kind: UInt8
    var payload: [UInt8]
    /// As ``describe(_:)`` gives it.
    var text: String
    /// The ends of the record in older trails, in bytes.
    var olderEnds: [Int] = []
  }

  let seed: UInt64
  var generator: Seeded

  init(seed: UInt64 = .random(in: 0 ... .max)) {
    self.seed = seed
    generator = Seeded(seed)
    print("random records of seed \(seed)")
  }

  var description: String { "seed \(seed)" }

  private mutating func int(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
  private mutating func bool() -> Bool { Bool.random(using: &generator) }

  mutating func bytes(_ count: Int) -> [UInt8] { generator.bytes(count) }

  /// Returns a number; all lengths in bits are equally likely. It is within the bounds of all that a record counts.
  mutating func number() -> UInt64 { generator.next() >> UInt64(int(2...63)) }
  /// Any integer, the extremes among them.
  mutating func integer() -> Int64 { Int64(bitPattern: generator.next() >> UInt64(int(0...63))) }
  mutating func time() -> Int64 { Int64(number() >> 5) * (int(0...1) == 0 ? 1 : -1) }

  mutating func text() -> String {
    String((0..<int(0...12)).map { _ in "aZ9 _\"'é€😀\n".randomElement(using: &generator) ?? "a" })
  }

  mutating func value() -> Value? {
    switch int(0...6) {
    case 0: nil
    case 1: .null
    case 2: .integer(integer())
    case 3:
      .real([0.1, 2, -0.5, .infinity, -.infinity, .leastNonzeroMagnitude, 1e300].randomElement(using: &generator) ?? 0)
    case 4: .text(bytes(int(0...20)))
    case 5: .blob(bytes(int(0...200)))
    default: .exact(Array("1.50".utf8))
    }
  }

  mutating func values(_ count: Int) -> [Value?] { (0..<count).map { _ in value() } }

  mutating func header() -> TransactionHeader {
    TransactionHeader(
      number: number(), commitTime: time(), clock: number(),
      flags: .init(rawValue: UInt8(int(0...3))), sourcePosition: bytes(int(0...30)),
      dependencies: (0..<int(0...3)).map { _ in dependency() })
  }

  private mutating func dependency() -> TransactionHeader.Dependency {
    let id = int(0...1) == 0 ? nil : TrailID((0..<16).map { _ in UInt8(int(0...255)) })
    return .init(origin: text(), number: number(), id: id)
  }

  mutating func schema(canHaveOriginal: Bool = true) -> TableSchema {
    let columns = (0..<int(1...6)).map { index in
      TableSchema.Column(
        name: "c\(index)" + text(), declaredType: text(), isNotNull: bool(), keyOrdinal: int(0...3),
        collation: bool() ? "" : "NOCASE", defaultText: bool() ? nil : text(), baseType: bool() ? "" : text(),
        identity: .init(rawValue: UInt8(int(0...2))) ?? .none)
    }
    var schema = TableSchema(
      epoch: number(), engine: bool() ? .sqlite : .postgres, namespace: bool() ? "" : text(), name: text(),
      flags: .init(rawValue: UInt64(int(0...31))), columns: columns,
      uniques: (0..<int(0...2)).map { _ in (0..<int(1...3)).map { _ in int(0...columns.count - 1) } },
      foreignKeys: (0..<int(0...2)).map { _ in
        .init(
          columns: [int(0...columns.count - 1)], namespace: bool() ? "" : text(), table: text(),
          references: bool() ? [] : [text()],
          onUpdate: "NO ACTION", onDelete: "CASCADE")
      },
      createText: text(), objects: (0..<int(0...2)).map { _ in .init(name: text(), text: text()) })
    if canHaveOriginal, int(0...3) == 0 { schema.original = self.schema(canHaveOriginal: false) }
    return schema
  }

  /// How many bytes at the end of a schema older trails do not have; of its original, which comes last, as well.
  private func bytesOfLater(_ schema: TableSchema) -> [Int] {
    var writer = ByteWriter(capacity: 1)
    for column in schema.columns {
      writer.appendString(column.baseType)
      writer.append(column.identity.rawValue)
    }
    for key in schema.foreignKeys {
      writer.appendString(key.namespace)
      writer.append(key.timing.rawValue)
    }
    writer.append(UInt8(0))
    guard let original = schema.original else { return [writer.bytes.count] }
    var whole = ByteWriter(capacity: 1)
    whole.append(original)
    return [writer.bytes.count + whole.bytes.count] + bytesOfLater(original)
  }

  mutating func refresh() -> Refresh {
    switch int(0...6) {
    case 0:
      Refresh(
        schemaID: number(),
        event: .start(
          .init(rawValue: UInt8(int(1...5))) ?? .asked, .init(rawValue: UInt8(int(1...3))) ?? .byKey,
          estimatedRows: number()))
    case 1: Refresh(schemaID: number(), event: .chunk(.nullKeys))
    case 2: Refresh(schemaID: number(), event: .chunk(.unkeyed))
    case 4: Refresh(schemaID: number(), event: .chunk(.row(values(3))))
    case 5: Refresh(schemaID: number(), event: .chunk(.some))
    case 3:
      Refresh(
        schemaID: number(), event: .chunk(.keys(after: bool() ? nil : values(3), through: bool() ? nil : values(3))))
    default: Refresh(schemaID: number(), event: .end(rows: number()))
    }
  }

  mutating func record() -> Sample {
    var writer = ByteWriter(capacity: 1)
    switch int(0...12) {
    case 0:
      let header = header()
      writer.append(header)
      var result = sample(RecordKind.begin, writer, "begin \(header)")
      let idBytes = header.dependencies.reduce(0) { $0 + ($1.id == nil ? 1 : 17) }
      result.olderEnds = [result.payload.count - idBytes]
      return result
    case 1:
      let (number, changes) = (number(), number())
      writer.appendVarint(number)
      writer.appendVarint(changes)
      return sample(RecordKind.commit, writer, "commit \(number) \(changes)")
    case 2:
      let (id, schema) = (number(), schema())
      writer.appendVarint(id)
      writer.append(schema)
      var result = sample(RecordKind.schema, writer, "schema \(id) \(schema)")
      result.olderEnds = bytesOfLater(schema).map { result.payload.count - $0 }
      return result
    case 3: return change()
    case 4:
      let refresh = refresh()
      writer.append(refresh)
      return sample(RecordKind.refresh, writer, "refresh \(refresh)")
    case 5:
      let (id, row) = (number(), values(int(0...8)))
      writer.appendVarint(id)
      writer.appendImage(row)
      return sample(RecordKind.refreshRow, writer, "row \(id) \(row)")
    case 6:
      let action = DDL.Action(rawValue: UInt8(int(1...4))) ?? .create
      var ddl = DDL(
        action: action, before: action == .create ? 0 : max(1, number()), after: action == .drop ? 0 : max(1, number()),
        text: text(), isRefreshed: bool())
      writer.append(ddl)
      let older = writer.bytes.count - 2
      if bool() { ddl.origins = (0..<int(1...5)).map { _ in bool() ? nil : int(0...300) } }
      writer.removeAll()
      writer.append(ddl)
      let untold = writer.bytes.count - 1
      if bool() { ddl.applied = "shop.pos" }
      writer.removeAll()
      writer.append(ddl)
      var result = sample(RecordKind.ddl, writer, "ddl \(ddl)")
      result.olderEnds = [older - 1, older, untold]
      return result
    case 7:
      let (position, time) = (bytes(int(0...30)), self.time())
      writer.appendCounted(position)
      writer.appendZigzag(time)
      return sample(RecordKind.progress, writer, "progress \(position) \(time)")
    case 8:
      let sequence = SequenceState(
        namespace: text(), name: text(), last: integer(), increment: integer())
      writer.append(sequence)
      return sample(RecordKind.sequence, writer, "sequence \(sequence)")
    case 9:
      let statement = ExecutedStatement(
        dialect: bool() ? .sqlite : .postgres, text: text(), parameters: values(int(0...4)).map { $0 ?? .null },
        rowsAffected: number(), now: bool() ? nil : self.time(),
        flags: bool() ? [] : [.nowUnknown, .isPartial])
      writer.append(statement)
      return sample(RecordKind.statement, writer, "statement \(statement)")
    case 10:
      var digest = StatementDigest()
      let row = bytes(int(0...40))
      row.withUnsafeBytes { digest.addWritten($0, of: .init(name: "t")) }
      let end = StatementEnd(changes: number(), digest: digest)
      writer.append(end)
      return sample(RecordKind.statementEnd, writer, "statement end \(end)")
    case 11:
      let (id, row) = (number(), values(int(0...8)))
      let (clock, origin, last) = (number(), bool() ? "" : "till-7.pos", number())
      writer.appendWaitingRow(schema: id, row, clock: clock, origin: origin, number: last)
      return sample(RecordKind.waitingRow, writer, "waiting \(id) \(row) \(clock) \(origin) \(last)")
    default:
      let text = text()
      writer.append(UInt8(1))
      writer.appendString(text)
      return sample(RecordKind.marker, writer, "marker 1 \(text)")
    }
  }

  private mutating func change() -> Sample {
    var writer = ByteWriter(capacity: 1)
    let operation = Operation(rawValue: UInt8(int(1...4))) ?? .insert
    let flags = ChangeFlags(rawValue: UInt8(int(0...15)))
    let (id, origin, clock) = (number(), text(), number())
    let (before, after) = (values(int(0...5)), values(int(0...5)))
    writer.append(operation.rawValue)
    writer.append(flags.rawValue)
    writer.appendVarint(id)
    if flags.contains(.replacedVersion) {
      writer.appendString(origin)
      writer.appendVarint(clock)
    }
    if flags.contains(.before) { writer.appendImage(before) }
    if flags.contains(.after) { writer.appendImage(after) }
    let replaced = flags.contains(.replacedVersion) ? "\(Version(origin: origin, clock: clock))" : "-"
    return sample(
      RecordKind.change, writer,
      "change \(operation) \(flags.rawValue) \(id) \(replaced) "
        + "\(flags.contains(.before) ? "\(before)" : "-") \(flags.contains(.after) ? "\(after)" : "-")")
  }

  private func sample(_ kind: UInt8, _ writer: borrowing ByteWriter, _ text: String) -> Sample {
    Sample(kind: kind, payload: Array(writer.bytes), text: text)
  }
}

/// All that a record holds, as text that can be compared. Decodes its images.
func describe(_ record: Record) throws -> String {
  switch record {
  case .begin(let header): "begin \(header)"
  case .commit(let number, let changes): "commit \(number) \(changes)"
  case .schema(let id, let schema): "schema \(id) \(schema)"
  case .change(let change):
    "change \(change.operation) \(change.flags.rawValue) \(change.schemaID) \(change.replaced.map { "\($0)" } ?? "-") "
      + "\(try change.before.map { "\(try $0.values())" } ?? "-") "
      + "\(try change.after.map { "\(try $0.values())" } ?? "-")"
  case .refresh(let refresh): "refresh \(refresh)"
  case .refreshRow(let id, let image): "row \(id) \(try image.values())"
  case .waitingRow(let row):
    "waiting \(row.schemaID) \(try row.image.values()) \(row.clock) \(row.origin) \(row.number)"
  case .ddl(let ddl): "ddl \(ddl)"
  case .progress(let position, let time): "progress \(position) \(time)"
  case .sequence(let sequence): "sequence \(sequence)"
  case .marker(let kind, let text): "marker \(kind) \(text)"
  case .statement(let statement): "statement \(try statement.executed())"
  case .statementEnd(let end): "statement end \(end)"
  case .reserved(let kind, let bytes): "reserved \(kind) \(bytes.count)"
  }
}

/// As ``describe(_:)``; nil for an optional record that is not known.
func decoded(kind: UInt8, _ bytes: [UInt8]) throws -> String? {
  try bytes.withUnsafeBytes { bytes in try Record.decode(kind: kind, bytes).map { try describe($0) } }
}
