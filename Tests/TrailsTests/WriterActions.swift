import Changes
import Testing

@testable import Trails

let till = TrailName(origin: "till-7", name: "pos")

let items = TableSchema(
  epoch: 3, engine: .sqlite, name: "items", flags: [.strict],
  columns: [
    .init(name: "id", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1),
    .init(name: "label", declaredType: "TEXT", collation: "NOCASE", defaultText: "''"),
  ],
  createText: "CREATE TABLE items(id INTEGER PRIMARY KEY, label TEXT) STRICT")

extension TrailOptions {
  /// Small enough that a few rows make several blocks and segments.
  static func small(block: Int = 256, segment: Int = 4096, compress: Bool = false) -> TrailOptions {
    var options = TrailOptions()
    options.blockBytes = block
    options.segmentBytes = segment
    options.compress = compress
    options.allocateBytes = 4096
    return options
  }
}

func openWriter(_ folder: String, _ options: TrailOptions = .small()) throws -> TrailWriter {
  try TrailWriter.open(folder: folder, name: till, options: options, now: { 1_700_000_000_000_000 })
}

/// Writes to a trail and keeps what a reader must see.
final class Script {
  let writer: TrailWriter
  var committed: [Seen] = []
  private var open: [Seen] = []
  private var changes: UInt64 = 0
  private var known: Set<UInt64> = []

  init(_ writer: TrailWriter, committed: [Seen] = []) {
    self.writer = writer
    self.committed = committed
  }

  func begin(time: Int64 = 1_700_000_000_000_000, position: [UInt8] = []) throws {
    let header = try writer.begin(TransactionHeader(commitTime: time, sourcePosition: position))
    open = [.begin(header)]
    changes = 0
  }

  func schema(_ schema: TableSchema = items, token: UInt64 = 1) throws -> UInt64 {
    let segment = writer.end.position.segment
    let id = try writer.schemaID(schema, token: token)
    if known.insert(segment << 32 | id).inserted { open.append(.schema(id, schema)) }
    return id
  }

  func append(_ kind: UInt8, _ seen: Seen?, _ encode: (inout ByteWriter) -> Void) throws {
    var payload = ByteWriter()
    encode(&payload)
    try writer.append(kind: kind, payload.bytes)
    if let seen { open.append(seen) }
  }

  func insert(_ values: [Value?], schema id: UInt64) throws {
    try append(RecordKind.change, .change(.insert, .after, schema: id, nil, before: nil, after: values)) {
      $0.append(Operation.insert.rawValue)
      $0.append(ChangeFlags.after.rawValue)
      $0.appendVarint(id)
      $0.appendImage(values)
    }
    changes += 1
  }

  func refreshRow(_ values: [Value?], schema id: UInt64) throws {
    try append(RecordKind.refreshRow, .row(schema: id, values)) {
      $0.appendVarint(id)
      $0.appendImage(values)
    }
    changes += 1
  }

  func commit() throws {
    guard case .begin(let header) = open.first else { return }
    try writer.commit()
    committed += open + [.commit(header.number, changes: changes)]
    open = []
  }

  func abandon() throws {
    try writer.abandon()
    for case .schema(let id, _) in open { known.remove(writer.end.position.segment << 32 | id) }
    open = []
  }

  /// A whole transaction of `rows` rows.
  func transaction(rows: Int = 1, bytes: Int = 20) throws {
    try begin()
    let id = try schema()
    for row in 0..<rows {
      try insert([.integer(Int64(row)), .text(Array(repeating: UInt8(0x61 + row % 26), count: bytes))], schema: id)
    }
    try commit()
  }
}

/// The blocks of a segment's file, by the page of the format.
struct BlockPlace {
  var file: Range<Int>
  var content: UInt64
  var header: BlockHeader
}

func blocks(_ bytes: [UInt8]) -> [BlockPlace] {
  var at = Int(bytes[10]) | Int(bytes[11]) << 8
  var all: [BlockPlace] = []
  while at + BlockHeader.size <= bytes.count {
    let header = bytes[at..<at + BlockHeader.size].withUnsafeBytes { BlockHeader(UnsafeRawBufferPointer($0)) }
    guard let header else { break }
    let end = at + BlockHeader.size + Int(header.storedLength)
    all.append(BlockPlace(file: at..<end, content: header.contentOffset, header: header))
    at = end
  }
  return all
}

/// A call that must fail with a `CairnError` of this code.
@discardableResult
func fails(
  _ code: ErrorCode, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: () throws -> Void
) -> CairnError? {
  do {
    try body()
    Issue.record("no error, expected \(code)", sourceLocation: sourceLocation)
  } catch let error as CairnError {
    #expect(error.code == code, comment ?? "\(error)", sourceLocation: sourceLocation)
    return error
  } catch { Issue.record("\(error)", sourceLocation: sourceLocation) }
  return nil
}
