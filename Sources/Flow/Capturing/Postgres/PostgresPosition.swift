import Changes
import PostgresKit

/// The place in a PostgreSQL source up to which a trail has the changes, stored with each transaction of the trail.
struct PostgresPosition: Equatable {
  struct RefreshState: Equatable {
    var relation: UInt32
    var epoch: UInt64
    var rows: UInt64
    /// The key of the last row that chunks in the trail have covered; nil before the first chunk.
    @ByBytes var cursor: [String]? = nil
    var isDone: Bool
    var wantsRows = false
  }
  struct Transaction: Equatable {
    var commit: LSN
    var xid: UInt32
    var time: Int64
  }

  var system: UInt64
  var timeline: UInt32
  /// The LSN after the last transaction that is in the trail or left out of it on purpose.
  var reached: LSN
  /// The LSN before which the server has nothing more for the trail. The slot may be confirmed up to here.
  var quiet: LSN
  var last: Transaction?
  /// The last transaction that the server sent, also if it is not in the trail. A server that sends this transaction
  /// again has the same history as the trail.
  var witness: Transaction?
  var refresh: RefreshState?
  /// The transactions of other trails that were applied to the source before this position.
  var knowledge = VersionVector()

  private static let magic: UInt8 = 0x50
  static let version: UInt8 = 4

  init(system: UInt64, timeline: UInt32, reached: LSN) {
    self.system = system
    self.timeline = timeline
    self.reached = reached
    quiet = reached
  }

  var encoded: [UInt8] {
    var writer = ByteWriter(capacity: 128)
    writer.append(Self.magic)
    writer.append(Self.version)
    writer.appendFixed(system)
    writer.appendFixed(timeline)
    writer.appendFixed(reached.value)
    writer.append(last)
    writer.append(refresh == nil ? 0 : 1)
    if let refresh {
      writer.appendFixed(refresh.relation)
      writer.appendVarint(refresh.epoch)
      writer.appendVarint(refresh.rows)
      writer.append((refresh.isDone ? 1 : 0) | (refresh.wantsRows ? 2 : 0))
      writer.append(refresh.cursor == nil ? 0 : 1)
      if let cursor = refresh.cursor {
        writer.appendVarint(UInt64(cursor.count))
        for value in cursor { writer.appendString(value) }
      }
    }
    writer.append(knowledge)
    writer.appendFixed(quiet.value)
    writer.append(witness)
    return Array(writer.bytes)
  }

  init(decoding bytes: [UInt8]) throws {
    self = try bytes.withUnsafeBytes { raw in
      var r = ByteReader(raw)
      guard try r.readByte() == Self.magic else {
        throw DecodingError(offset: 0, problem: "source position is not one of PostgreSQL")
      }
      let version = try r.readByte()
      guard (1...Self.version).contains(version) else {
        throw DecodingError(offset: 1, problem: "source position has version \(version)")
      }
      var position = PostgresPosition(
        system: try r.readFixed(), timeline: try r.readFixed(), reached: LSN(try r.readFixed()))
      position.last = try r.readTransaction()
      if try r.readByte() == 1 {
        var state = RefreshState(
          relation: try r.readFixed(), epoch: try r.readVarint(), rows: try r.readVarint(), isDone: false)
        let flags = try r.readByte()
        (state.isDone, state.wantsRows) = (flags & 1 != 0, flags & 2 != 0)
        if try r.readByte() == 1 {
          var cursor: [String] = []
          for _ in 0..<(try r.readCount()) { cursor.append(try r.readString()) }
          state.cursor = cursor
        }
        position.refresh = state
      }
      if version >= 2 { position.knowledge = try r.readKnowledge(hasIDs: version >= 4) }
      position.witness = position.last
      if version >= 3 { (position.quiet, position.witness) = (LSN(try r.readFixed()), try r.readTransaction()) }
      return position
    }
  }
}

extension ByteWriter {
  fileprivate mutating func append(_ transaction: PostgresPosition.Transaction?) {
    append(transaction == nil ? 0 : 1)
    guard let transaction else { return }
    appendFixed(transaction.commit.value)
    appendFixed(transaction.xid)
    appendFixed(transaction.time)
  }
}

extension ByteReader {
  fileprivate mutating func readTransaction() throws -> PostgresPosition.Transaction? {
    guard try readByte() == 1 else { return nil }
    return .init(commit: LSN(try readFixed()), xid: try readFixed(), time: try readFixed())
  }
}

/// The set of transactions that a snapshot of a PostgreSQL server shows.
///
/// Source: https://www.postgresql.org/docs/15/functions-info.html#FUNCTIONS-PG-SNAPSHOT
///
///     PostgresSnapshot("10:20:10,14,15")?.shows(14)   // false: 14 was running
package struct PostgresSnapshot: Equatable, Sendable {
  let xmin: UInt64
  let xmax: UInt64
  let running: Set<UInt64>

  package static let empty = PostgresSnapshot()

  private init() { (xmin, xmax, running) = (1, 1, []) }

  /// The highest number of running transactions in a snapshot: a server has at most 262,143 sessions and as many
  /// prepared transactions.
  private static let runningMax = 1 << 19

  /// Parses the text `xmin:xmax:xip,…` of a snapshot; nil for any other text.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let xmin = UInt64(parts[0]), let xmax = UInt64(parts[1]), NumberBounds.isNumber(xmax),
      xmin <= xmax
    else { return nil }
    var running: Set<UInt64> = []
    for part in parts[2].isEmpty ? [] : parts[2].split(separator: ",", omittingEmptySubsequences: false) {
      guard let number = UInt64(part), (xmin..<xmax).contains(number), running.count < Self.runningMax else {
        return nil
      }
      running.insert(number)
    }
    (self.xmin, self.xmax, self.running) = (xmin, xmax, running)
  }

  /// The text of the snapshot in the form that the server prints.
  package var text: String { "\(xmin):\(xmax):\(running.sorted().map(String.init).joined(separator: ","))" }

  /// Returns whether the snapshot shows a transaction.
  ///
  /// - Parameter xid: The lower 32 bits of the transaction's number, as in the stream.
  package func shows(_ xid: UInt32) -> Bool {
    var full = xmax & ~0xffff_ffff | UInt64(xid)
    // The nearest number with these lower bits.
    if full > xmax, full - xmax > 1 << 31, full >= 1 << 32 { full -= 1 << 32 }
    // Cannot overflow: `xmax` is below 2^62.
    if full < xmax, xmax - full > 1 << 31 { full += 1 << 32 }
    return full < xmax && !running.contains(full)
  }
}
