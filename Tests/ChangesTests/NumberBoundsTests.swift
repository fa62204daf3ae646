import Changes
import Testing

/// Numbers from a peer that are no number of a trail: refused where they are decoded.
@Suite struct NumberBoundsTests {
  private static func bytes(_ encode: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter()
    encode(&writer)
    return Array(writer.bytes)
  }

  static let extremes: [UInt64] = [1 << 62, 1 << 63, .max - 1, .max]

  /// Each record kind with one number outside of the bounds, in turn.
  static var records: [(name: String, kind: UInt8, payload: [UInt8])] {
    var all: [(String, UInt8, [UInt8])] = []
    for n in extremes {
      var headers: [(String, TransactionHeader)] = []
      headers.append(("number", TransactionHeader(number: n, commitTime: 0)))
      headers.append(("clock", TransactionHeader(number: 1, commitTime: 0, clock: n)))
      headers.append(
        ("dependency", TransactionHeader(number: 1, commitTime: 0, dependencies: [.init(origin: "a.b", number: n)])))
      all += headers.map { name, header in ("begin \(name) \(n)", RecordKind.begin, bytes { $0.append(header) }) }
      for (name, first, second) in [("number", n, 1), ("changes", 1, n)] {
        all.append(
          (
            "commit \(name) \(n)", RecordKind.commit,
            bytes {
              $0.appendVarint(first); $0.appendVarint(second)
            }
          ))
      }
      let events: [Refresh.Event] = [.start(.firstCopy, .byKey, estimatedRows: n), .end(rows: n)]
      all += events.map { event in
        ("refresh \(event)", RecordKind.refresh, bytes { $0.append(Refresh(schemaID: 1, event: event)) })
      }
      all.append(
        ("refresh of \(n)", RecordKind.refresh, bytes { $0.append(Refresh(schemaID: n, event: .end(rows: 0))) }))
      all.append(("ddl \(n)", RecordKind.ddl, bytes { $0.append(DDL(action: .create, before: 0, after: n)) }))
      all.append(
        (
          "statement \(n)", RecordKind.statement,
          bytes { $0.append(ExecutedStatement(dialect: .sqlite, text: "x", rowsAffected: n)) }
        ))
      let end = StatementEnd(changes: n, digest: StatementDigest())
      all.append(("end of statement \(n)", RecordKind.statementEnd, bytes { $0.append(end) }))
      var schema = TableSchema(epoch: n, engine: .sqlite, name: "t", columns: [])
      all.append(
        (
          "epoch \(n)", RecordKind.schema,
          bytes {
            $0.appendVarint(1); $0.append(schema)
          }
        ))
      schema.epoch = 1
      all.append(
        (
          "schema id \(n)", RecordKind.schema,
          bytes {
            $0.appendVarint(n); $0.append(schema)
          }
        ))
    }
    for time in [Int64.min, .min + 1, NumberBounds.times.lowerBound - 1, NumberBounds.times.upperBound + 1, .max] {
      let header = TransactionHeader(number: 1, commitTime: time)
      all.append(("begin at \(time)", RecordKind.begin, bytes { $0.append(header) }))
      all.append(
        (
          "progress at \(time)", RecordKind.progress,
          bytes {
            $0.appendCounted([]); $0.appendZigzag(time)
          }
        ))
      let statement = ExecutedStatement(dialect: .sqlite, text: "x", rowsAffected: 0, now: time)
      all.append(("statement at \(time)", RecordKind.statement, bytes { $0.append(statement) }))
    }
    return all
  }

  @Test(arguments: Self.records.indices) func `a number outside of the bounds is refused`(index: Int) {
    let record = Self.records[index]
    #expect(throws: DecodingError.self, "\(record.name)") {
      try record.payload.withUnsafeBytes { _ = try Record.decode(kind: record.kind, $0) }
    }
  }

  @Test func `the last numbers within the bounds are read`() throws {
    let header = TransactionHeader(
      number: NumberBounds.numbers - 1, commitTime: NumberBounds.times.upperBound, clock: NumberBounds.clocks - 1)
    let payload = Self.bytes { $0.append(header) }
    let read = try payload.withUnsafeBytes { try Record.decode(kind: RecordKind.begin, $0) }
    guard case .begin(header)? = read else { return #expect(Bool(false), "\(String(describing: read))") }
  }

  @Test(arguments: [
    "ffffffffffffffff:0", "1000000000000:0", "00000001:ffffffffffffffff", "00000001:4000000000000000",
  ]) func `a place outside of the bounds is none`(text: String) {
    #expect(Position(text) == nil)
    #expect(AppliedNote("1 a.b 1 1 \(text)") == nil)
  }

  @Test(arguments: ["18446744073709551615", "4611686018427387904"]) func `neither is a note of such a number`(n: String)
  {
    #expect(AppliedNote("1 a.b \(n) 1 00000001:00000000") == nil)
    #expect(AppliedNote("1 a.b 1 \(n) 00000001:00000000") == nil)
  }

  @Test func `a transaction that follows a clock far ahead has one that every reader takes`() {
    var knowledge = VersionVector()
    knowledge.note("evil.x", number: 1, clock: NumberBounds.clocks - 1)
    var header = TransactionHeader(commitTime: 0)
    header.follow(knowledge)
    #expect(header.clock == NumberBounds.followedClock + 1)
    #expect(NumberBounds.isClock(header.clock))
  }
}
