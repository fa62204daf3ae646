import Changes

/// Where in an SQLite source a trail stands: what the progress record at the end of each of our transactions carries.
///
/// The source keeps a **mark** (`cairn_control`): the sequence number up to which rows were taken, and a nonce. The
/// mark is written less often than rows are taken, so the position also names the mark that stood in the source then,
/// and a checksum of the journal rows from there. With both, a restart can tell a source that is where we left it from
/// one that went back in time and then wrote other rows under the same sequence numbers.
struct SourcePosition: Equatable {
  struct Mark: Equatable {
    var taken: Int64
    var nonce: Int64
  }
  /// A refresh that is under way or has just ended.
  struct RefreshState: Equatable {
    var layout: Int64
    var rows: UInt64
    /// Key values of the last row sent (for method *whole*: the rowid); nil: none yet.
    var cursor: [Value]?
    var isDone: Bool
    /// Only some of the rows are sent (``Layout/isPartial``).
    var isPartial = false
  }
  /// Last journal row in the trail, and the nonce that the source will be marked with for it.
  var mark: Mark
  /// The mark that stood in the source.
  var previous: Mark
  /// CRC-32C of the journal rows behind `previous.taken`, up to `mark.taken`.
  var checksum: UInt32
  var refresh: RefreshState?
  /// Rows of one look that stand in several transactions of the trail, of which this is not the last: the journal row
  /// behind which it began, and the last one that it saw.
  struct Look: Equatable {
    var from: Int64
    var through: Int64
  }
  /// What apply has brought into the file, as far as its notes were read.
  var knowledge = Knowledge()
  /// Only where something was begun that the look has to end.
  var look: Look?

  /// The numbers that journal rows have. A program can write others into its file; one more than these still counts.
  static let places: Range<Int64> = 0..<1 << 61

  /// 2: with knowledge. 3: with the ids of trails in it. One of version 1 is read as one without.
  static let version: UInt8 = 3

  var encoded: [UInt8] {
    var writer = ByteWriter(capacity: 128)
    writer.append(Self.version)
    writer.appendZigzag(mark.taken)
    writer.appendFixed(mark.nonce)
    writer.appendZigzag(previous.taken)
    writer.appendFixed(previous.nonce)
    writer.appendFixed(checksum)
    writer.append(refresh == nil ? 0 : 1)
    if let refresh {
      writer.appendZigzag(refresh.layout)
      writer.appendVarint(refresh.rows)
      writer.append((refresh.isDone ? 1 : 0) | (refresh.isPartial ? 2 : 0))
      writer.append(refresh.cursor == nil ? 0 : 1)
      if let cursor = refresh.cursor { writer.appendImage(cursor) }
    }
    writer.append(knowledge)
    writer.append(look == nil ? 0 : 1)
    if let look {
      writer.appendZigzag(look.from)
      writer.appendZigzag(look.through)
    }
    return Array(writer.bytes)
  }

  init(mark: Mark, previous: Mark, checksum: UInt32, refresh: RefreshState? = nil) {
    self.mark = mark
    self.previous = previous
    self.checksum = checksum
    self.refresh = refresh
  }

  init(decoding bytes: [UInt8]) throws {
    self = try bytes.withUnsafeBytes { raw in
      var r = ByteReader(raw)
      let version = try r.readByte()
      guard (1...Self.version).contains(version) else {
        throw DecodingError(offset: 0, problem: "source position has version \(version)")
      }
      var position = SourcePosition(
        mark: Mark(taken: try r.readZigzag(), nonce: try r.readFixed()),
        previous: Mark(taken: try r.readZigzag(), nonce: try r.readFixed()), checksum: try r.readFixed())
      if try r.readByte() == 1 {
        let layout = try r.readZigzag()
        let rows = try r.readNumber("count of rows")
        let flags = try r.readByte()
        let cursor = try r.readByte() == 1 ? try r.readImage().values().compactMap { $0 } : nil
        position.refresh = RefreshState(
          layout: layout, rows: rows, cursor: cursor, isDone: flags & 1 != 0, isPartial: flags & 2 != 0)
      }
      if version >= 2 {
        position.knowledge = try r.readKnowledge(hasIDs: version >= 3)
        if try r.readByte() == 1 { position.look = Look(from: try r.readZigzag(), through: try r.readZigzag()) }
      }
      let numbers = [
        position.mark.taken, position.previous.taken, position.look?.from ?? 0, position.look?.through ?? 0,
      ]
      guard numbers.allSatisfy(Self.places.contains) else {
        throw DecodingError(offset: 1, problem: "a number of a journal row is out of bounds")
      }
      return position
    }
  }
}
