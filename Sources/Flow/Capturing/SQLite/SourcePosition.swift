import Changes

/// The place in an SQLite source up to which a trail has the changes, stored at the end of each transaction of the
/// trail. The place also shows whether the source was restored from a backup.
struct SourcePosition: Equatable {
  struct Mark: Equatable {
    var taken: Int64
    var nonce: Int64
  }
  struct RefreshState: Equatable {
    var layout: Int64
    var rows: UInt64
    /// The key of the last row sent, or its rowid if the table has no key; nil if no row was sent.
    var cursor: [Value]?
    var isDone: Bool
    var isPartial = false
  }
  /// The last journal row in the trail, with a random number that the source will store for it.
  var mark: Mark
  /// The journal row that the source stored as the last captured one when this position was written.
  var previous: Mark
  /// The CRC-32C of the journal rows after `previous.taken`, through `mark.taken`.
  var checksum: UInt32
  var refresh: RefreshState?
  /// The first and last row of a reading of the journal. The trail lacks some transactions of this reading.
  struct Look: Equatable {
    var from: Int64
    var through: Int64
  }
  /// The transactions of other trails that were applied to the file, from the applied notes in the journal.
  var knowledge = VersionVector()
  var look: Look?

  /// The valid sequence numbers of journal rows. Their sums cannot overflow.
  static let places: Range<Int64> = 0..<1 << 61

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
