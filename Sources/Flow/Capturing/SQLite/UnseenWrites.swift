import Changes
import SQLiteKit
import SystemKit

/// Finds writes to captured tables that left no journal row, such as incremental blob I/O or writes with triggers
/// switched off. While capture is idle, compares digests of the tables with earlier digests.
struct UnseenWrites {
  /// The largest file, in bytes, for which digests are computed: in WAL mode, and with a rollback journal.
  private static let bytesMax: (wal: Int64, rollback: Int64) = (64 << 20, 2 << 20)
  /// The shortest pause between two computations of digests, as a multiple of the time that the last computation took.
  private static let share: Int64 = 200
  /// The time without captured changes after which capture counts as idle, ms.
  private static let idleMilliseconds: Int64 = 500

  private struct Look: Equatable {
    var data: Int64
    var last: Int64
    var schema: Int64
  }

  private var known: Look?
  private var digests: [Int64: UInt64] = [:]
  private var isNextAt: Int64 = 0

  mutating func forget() { known = nil }

  /// Computes the digests of the tables, and compares them with those of the previous call. The caller has opened a
  /// read transaction, whose snapshot has no journal row that capture lacks.
  ///
  /// - Parameter last: The last journal row.
  /// - Parameter idle: The milliseconds for which nothing was captured.
  /// - Returns: The layouts of the tables with unseen writes.
  mutating func find(
    _ source: Database, _ layouts: [CaptureInstance], last: Int64, schema: Int64, idle: Int64, isWAL: Bool
  ) throws -> [CaptureInstance] {
    let look = Look(data: try source.integer("PRAGMA data_version") ?? 0, last: last, schema: schema)
    guard look != known, idle >= Self.idleMilliseconds else { return [] }
    let begun = Clock.monotonicMilliseconds
    guard begun >= isNextAt else { return [] }
    let pages = try source.integer("PRAGMA page_count") ?? 0
    let bytes = try source.integer("PRAGMA page_size") ?? 0
    guard pages <= (isWAL ? Self.bytesMax.wal : Self.bytesMax.rollback) / max(1, bytes) else { return [] }
    let before = known.map { $0.last == last && $0.schema == schema } == true ? digests : [:]
    digests = [:]
    for layout in layouts { digests[layout.id] = try Self.digest(layout.schema, source) }
    known = look
    isNextAt = Clock.monotonicMilliseconds + (Clock.monotonicMilliseconds - begun) * Self.share
    return layouts.filter { layout in before[layout.id].map { $0 != digests[layout.id] } ?? false }
  }

  /// Returns the sum of the hashes of a table's rows, which does not depend on their order.
  private static func digest(_ schema: TableSchema, _ source: Database) throws -> UInt64 {
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    let statement = try source.prepare("SELECT \(columns) FROM \(schema.name.quotedName) NOT INDEXED")
    var sum: UInt64 = 0
    var image = ByteWriter()
    while try statement.step() {
      image.removeAll()
      for index in schema.columns.indices { statement.encode(index, into: &image) }
      sum &+= XXHash64.of(image.bytes, seed: 1)
    }
    return sum
  }
}
