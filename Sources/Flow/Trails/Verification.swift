import Changes

/// Reads a trail to its end with all checks of a reader, and decodes every value.
struct Verification {
  let reader: TrailReader
  let folder: TrailFolder
  private(set) var summary = TrailSummary()
  private var lastClock: UInt64 = 0

  init(reader: TrailReader, folder: TrailFolder) {
    self.reader = reader
    self.folder = folder
  }

  mutating func run(_ info: TrailInfo, _ progress: (UInt64, UInt64) -> Void) throws {
    summary.bytes = info.bytes
    summary.segments = UInt64(info.segments.count)
    let sizes = Dictionary(info.segments.map { ($0.number, $0.bytes) }, uniquingKeysWith: { first, _ in first })
    var segment = reader.segmentNumber
    var before: UInt64 = 0
    var reported: UInt64 = 0
    while reader.segmentNumber < info.end.position.segment || reader.commitPosition < info.end.position {
      guard let record = try reader.next() else { break }
      try check(record)
      if reader.segmentNumber != segment {
        before += sizes[segment] ?? 0
        segment = reader.segmentNumber
      }
      let done = min(before + reader.segmentBytesRead, info.bytes)
      if done != reported { progress(done, info.bytes) }
      reported = done
    }
    guard reader.commitPosition != info.end.position || reader.checkpoint == info.end else {
      throw fault("chain hash is \(reader.checkpoint.chain), the durable mark says \(info.end.chain)")
    }
  }

  private mutating func check(_ record: Record) throws {
    switch record {
    case .begin(let header):
      guard header.clock > lastClock else { throw fault("clock \(header.clock) follows \(lastClock)") }
      lastClock = header.clock
    case .commit(_, let changes):
      summary.transactions += 1
      summary.changes += changes
    case .change(let change):
      let schema = try schema(change.schemaID)
      if let before = change.before { try check(before, schema) }
      if let after = change.after { try check(after, schema) }
    case .refreshRow(let id, let image): try check(image, schema(id))
    case .waitingRow(let row): try check(row.image, schema(row.schemaID))
    case .refresh(let refresh): _ = try schema(refresh.schemaID)
    case .ddl(let ddl): for id in [ddl.before, ddl.after] where id > 0 { _ = try schema(id) }
    case .statement(let statement): try check(statement)
    case .schema, .progress, .marker, .sequence, .statementEnd, .reserved: break
    }
  }

  private func schema(_ id: UInt64) throws -> TableSchema {
    guard let schema = reader.schema(id) else { throw fault("schema \(id) has not been given in this segment") }
    return schema
  }

  private func check(_ image: ImageView, _ schema: TableSchema) throws {
    var values = ByteReader(image.bytes)
    var count = 0
    do {
      while !values.isAtEnd {
        _ = try values.readColumn()
        count += 1
      }
    } catch let error as DecodingError { throw fault("image of \(schema.name): \(error.problem)") }
    guard count == schema.columns.count else {
      throw fault("image of \(schema.name) has \(count) values, the schema \(schema.columns.count) columns")
    }
  }

  private func check(_ statement: StatementView) throws {
    do { _ = try statement.parameters() } catch let error as DecodingError {
      throw fault("parameters of a statement: \(error.problem)")
    }
  }

  private func fault(_ problem: String) -> CairnError { folder.damaged(reader.position, problem) }
}
