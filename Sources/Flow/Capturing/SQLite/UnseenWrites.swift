import Changes
import SQLiteKit
import SystemKit

/// Finds writes to captured tables that left no row in the journal. Such a write comes from an application that
/// switches triggers off (`SQLITE_DBCONFIG_ENABLE_TRIGGER`), or from incremental blob I/O, which fires no triggers.
///
/// When capture is idle, it computes a digest of each table. If another connection then changes the file without a
/// change to journal or schema, the digests are computed again. If the digest of a table differs, the table had an
/// unseen write. All digests are equal after a checkpoint, or after a write to tables that are not captured.
struct UnseenWrites {
  /// The largest file, in bytes, for which digests are computed. The limit is smaller for a file with a rollback
  /// journal, because readers of such a file block commits.
  private static let bytesMax: (wal: Int64, rollback: Int64) = (64 << 20, 2 << 20)
  /// The least pause after digests were computed, as a multiple of the time that the computing took.
  private static let share: Int64 = 200
  /// The time without captured changes after which capture counts as idle, ms.
  private static let idleMilliseconds: Int64 = 500

  private struct Look: Equatable {
    var data: Int64
    var last: Int64
    var schema: Int64
  }

  /// The state of the file when its digests were computed last; nil if they are not known.
  private var known: Look?
  private var digests: [Int64: UInt64] = [:]
  private var isNextAt: Int64 = 0

  /// Forgets the digests, because tables are being copied or the schema changes.
  mutating func forget() { known = nil }

  /// Computes the digests of the tables, and compares them with the last ones. Call it in a read transaction that has
  /// seen no new journal rows.
  ///
  /// - Parameter last: The last journal row.
  /// - Parameter idle: The milliseconds for which nothing was captured.
  /// - Returns: The layouts (recorded shapes) of the tables with unseen writes.
  mutating func find(
    _ source: Database, _ layouts: [Layout], last: Int64, schema: Int64, idle: Int64, isWAL: Bool
  ) throws -> [Layout] {
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

  /// Returns a digest of a table: a sum over all rows, in any order.
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
