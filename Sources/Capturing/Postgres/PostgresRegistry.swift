import Changes
import CodecKit
import PostgresKit
import SystemKit

/// The tables that a capture of a PostgreSQL source knows, as the trail was told of them. Kept in a file of the state
/// folder, so that a change of shape is seen also when it happened while nobody looked.
///
/// It is written after the trail has been told and synced. A crash in between makes us tell the same once more, which
/// does no harm: shapes that are there are left as they are, and tables are copied again.
struct PostgresRegistry {
  struct Table: Equatable {
    var relation: UInt32
    /// Unique among all tables: names this shape in the trail's segments.
    var epoch: UInt64
    var schema: TableSchema
    var types: [ColumnType]
    var isPartitioned = false
    /// As in ``PostgresTable/partitions``.
    var partitions: [String] = []
    /// Why it is to be copied; nil when it has been.
    var refresh: Refresh.Reason?
    /// Transactions before this one may have changed it without being told: wait for their end before copying.
    var copyNotBefore: UInt64 = 0
    var sequences: [Sequence] = []

    var isKeyed: Bool { !schema.flags.contains(.wholeRow) }
  }
  struct ColumnType: Equatable {
    var oid: UInt32
    var modifier: Int32
  }
  struct Sequence: Equatable {
    var namespace: String
    var name: String
  }

  private(set) var tables: [UInt32: Table] = [:]
  private(set) var lastEpoch: UInt64 = 0
  private let path: String
  private static let version: UInt8 = 1

  /// Reads the file; empty when there is none, or when it is not whole.
  init(folder: String) throws {
    path = folder + "/tables"
    guard Folder.exists(path) else { return }
    let file = try File(path, .read)
    var bytes = [UInt8](repeating: 0, count: Int(try file.size))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    guard bytes.count > 5 else { return }
    let (content, sum) = (Array(bytes.dropLast(4)), Array(bytes.suffix(4)))
    guard CRC32C.of(content) == sum.withUnsafeBytes({ $0.loadUnaligned(as: UInt32.self) }) else { return }
    try content.withUnsafeBytes { try decode(ByteReader($0)) }
  }

  var isEmpty: Bool { tables.isEmpty }

  mutating func nextEpoch() -> UInt64 {
    lastEpoch += 1
    return lastEpoch
  }

  mutating func set(_ table: Table) { tables[table.relation] = table }
  mutating func remove(_ relation: UInt32) { tables[relation] = nil }

  /// Writes the file anew: whole and durable, or as it was.
  func save() throws {
    var writer = ByteWriter()
    writer.append(Self.version)
    writer.appendVarint(lastEpoch)
    writer.appendVarint(UInt64(tables.count))
    for table in tables.values.sorted(by: { $0.relation < $1.relation }) {
      writer.appendFixed(table.relation)
      writer.appendVarint(table.epoch)
      writer.append(table.refresh?.rawValue ?? 0)
      writer.appendFixed(table.copyNotBefore)
      writer.append(table.isPartitioned ? 1 : 0)
      writer.appendVarint(UInt64(table.partitions.count))
      for partition in table.partitions { writer.appendString(partition) }
      writer.append(table.schema)
      writer.appendVarint(UInt64(table.types.count))
      for type in table.types {
        writer.appendFixed(type.oid)
        writer.appendFixed(type.modifier)
      }
      writer.appendVarint(UInt64(table.sequences.count))
      for sequence in table.sequences {
        writer.appendString(sequence.namespace)
        writer.appendString(sequence.name)
      }
    }
    writer.appendFixed(CRC32C.of(Array(writer.bytes)))
    let fresh = path + ".new"
    let file = try File(fresh, .openOrCreate)
    try file.truncate(to: 0)
    try file.write(writer.bytes, at: 0)
    try file.sync()
    try file.close()
    try Folder.rename(fresh, to: path)
    try Folder.sync(Folder.parent(of: path))
  }

  private mutating func decode(_ reader: ByteReader) throws {
    var r = reader
    guard try r.readByte() == Self.version else { return }
    lastEpoch = try r.readVarint()
    for _ in 0..<(try r.readCount()) {
      let relation: UInt32 = try r.readFixed()
      let epoch = try r.readVarint()
      let refresh = Refresh.Reason(rawValue: try r.readByte())
      let notBefore: UInt64 = try r.readFixed()
      let isPartitioned = try r.readByte() == 1
      var partitions: [String] = []
      for _ in 0..<(try r.readCount()) { partitions.append(try r.readString()) }
      var table = Table(
        relation: relation, epoch: epoch, schema: try r.readSchema(), types: [], isPartitioned: isPartitioned,
        partitions: partitions, refresh: refresh, copyNotBefore: notBefore)
      for _ in 0..<(try r.readCount()) {
        table.types.append(.init(oid: try r.readFixed(), modifier: try r.readFixed()))
      }
      for _ in 0..<(try r.readCount()) {
        table.sequences.append(.init(namespace: try r.readString(), name: try r.readString()))
      }
      tables[relation] = table
    }
  }
}
