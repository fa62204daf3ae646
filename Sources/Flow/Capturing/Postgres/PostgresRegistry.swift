import Changes
import CodecKit
import PostgresKit
import SystemKit

import Changes
import CodecKit
import PostgresKit
import SystemKit

/// The tables that the capture of a PostgreSQL source knows, with the shapes that the trail has recorded.
struct PostgresRegistry: Equatable {
  struct Table: Equatable {
    var relation: UInt32
    /// The number of the table's shape, unique among all tables: it identifies the shape in segments of the trail.
    var epoch: UInt64
    var schema: TableSchema
    var types: [ColumnType]
    /// For each column, its number in the catalog (`attnum`), which identifies the column as long as it exists. Empty
    /// if the numbers are not known.
    var numbers: [Int] = []
    /// The definitions that decide how values print, such as the labels of enums. See ``PostgresTable/forms``.
    @ByBytes var forms: [NameKey: String] = [:]
    var isPartitioned = false
    /// The partitions of the table, as in ``PostgresTable/partitions``.
    @ByBytes var partitions: [String] = []
    /// The reason for which the table must be copied; nil once it has been copied.
    var refresh: Refresh.Reason?
    /// The number of a server transaction. The copy of the table waits until all transactions with a lower number have
    /// ended, because the stream may lack their changes of the table.
    var copyNotBefore: UInt64 = 0
    var sequences: [Sequence] = []

    var isKeyed: Bool { !schema.flags.contains(.wholeRow) }
    /// Whether changes of the table go into the trail before the table's copy has begun. They do if the copy was only
    /// requested, because targets already have the rows. Without the deletes, a two-way peer could bring a deleted row
    /// back by its own copy.
    var passesChanges: Bool { refresh == .asked && isKeyed }
    /// The value of `copyNotBefore` for a table that must be published before it can be copied.
    static let unpublished = UInt64.max
  }
  struct ColumnType: Equatable {
    var oid: UInt32
    var modifier: Int32
  }
  struct Sequence: Equatable {
    @ByBytes var namespace: String
    @ByBytes var name: String
  }

  fileprivate(set) var tables: [UInt32: Table] = [:]
  fileprivate(set) var lastEpoch: UInt64 = 0

  var isEmpty: Bool { tables.isEmpty }

  mutating func nextEpoch() -> UInt64 {
    lastEpoch += 1
    return lastEpoch
  }

  mutating func set(_ table: Table) { tables[table.relation] = table }
  mutating func remove(_ relation: UInt32) { tables[relation] = nil }
}

/// The file in the state folder that stores the known tables. After a start, capture compares it with the catalog, to
/// find shapes that changed while capture did not run.
///
/// The file is written before the trail gets a transaction that changes the known tables. It has the new state, with
/// the number of that transaction, and the previous state. After a crash, the last transaction of the trail shows which
/// of the two is valid.
final class RegistryFile {
  private let path: String
  private var stored = PostgresRegistry()
  private static let version: UInt8 = 2

  /// Reads the file. `number`, which is that of the trail's last whole transaction, selects one of the two stored
  /// states. The result is empty if the file is missing or damaged.
  init(folder: String, number: UInt64) throws {
    path = folder + "/tables"
    guard Folder.exists(path) else { return }
    let file = try File(path, .read)
    var bytes = [UInt8](repeating: 0, count: Int(try file.size))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    guard bytes.count > 5 else { return }
    let (content, sum) = (Array(bytes.dropLast(4)), Array(bytes.suffix(4)))
    guard CRC32C.of(content) == sum.withUnsafeBytes({ $0.loadUnaligned(as: UInt32.self) }) else { return }
    var isAhead = false
    stored = try content.withUnsafeBytes { bytes in
      var reader = ByteReader(bytes)
      let version = try reader.readByte()
      if version == 1 { return try reader.readRegistry(version) }
      guard version == Self.version else { return PostgresRegistry() }
      isAhead = try reader.readVarint() > number
      let registry = try reader.readRegistry(version)
      return isAhead ? try reader.readRegistry(version) : registry
    }
    // Another transaction will get that number.
    if isAhead { try save(stored, from: number) }
  }

  var registry: PostgresRegistry { stored }

  /// Replaces the file; after a crash it has all of the old or all of the new content. `registry` becomes valid when
  /// the trail has its transaction `number`. Until then, the state that was saved before is valid.
  func save(_ registry: PostgresRegistry, from number: UInt64) throws {
    var writer = ByteWriter()
    writer.append(Self.version)
    writer.appendVarint(number)
    writer.append(registry)
    writer.append(stored)
    writer.appendFixed(CRC32C.of(Array(writer.bytes)))
    try File.replace(path, with: writer.bytes)
    stored = registry
  }
}

extension ByteWriter {
  fileprivate mutating func append(_ registry: PostgresRegistry) {
    appendVarint(registry.lastEpoch)
    appendVarint(UInt64(registry.tables.count))
    for table in registry.tables.values.sorted(by: { $0.relation < $1.relation }) {
      appendFixed(table.relation)
      appendVarint(table.epoch)
      append(table.refresh?.rawValue ?? 0)
      appendFixed(table.copyNotBefore)
      append(table.isPartitioned ? 1 : 0)
      appendVarint(UInt64(table.partitions.count))
      for partition in table.partitions { appendString(partition) }
      append(table.schema)
      appendVarint(UInt64(table.types.count))
      for type in table.types {
        appendFixed(type.oid)
        appendFixed(type.modifier)
      }
      appendVarint(UInt64(table.sequences.count))
      for sequence in table.sequences {
        appendString(sequence.namespace)
        appendString(sequence.name)
      }
      appendVarint(UInt64(table.numbers.count))
      for number in table.numbers { appendVarint(UInt64(number)) }
      appendVarint(UInt64(table.forms.count))
      for (key, text) in table.forms.sorted(by: { $0.key < $1.key }) {
        appendString(key.text)
        appendString(text)
      }
    }
  }
}

extension ByteReader {
  fileprivate mutating func readRegistry(_ version: UInt8) throws -> PostgresRegistry {
    var registry = PostgresRegistry()
    registry.lastEpoch = try readVarint()
    for _ in 0..<(try readCount()) {
      let relation: UInt32 = try readFixed()
      let epoch = try readVarint()
      let refresh = Refresh.Reason(rawValue: try readByte())
      let notBefore: UInt64 = try readFixed()
      let isPartitioned = try readByte() == 1
      var partitions: [String] = []
      for _ in 0..<(try readCount()) { partitions.append(try readString()) }
      var table = PostgresRegistry.Table(
        relation: relation, epoch: epoch, schema: try readSchema(), types: [], isPartitioned: isPartitioned,
        partitions: partitions, refresh: refresh, copyNotBefore: notBefore)
      for _ in 0..<(try readCount()) { table.types.append(.init(oid: try readFixed(), modifier: try readFixed())) }
      for _ in 0..<(try readCount()) {
        table.sequences.append(.init(namespace: try readString(), name: try readString()))
      }
      if version > 1 {
        for _ in 0..<(try readCount()) { table.numbers.append(Int(clamping: try readVarint())) }
        for _ in 0..<(try readCount()) {
          let key = try readString()
          table.forms[key] = try readString()
        }
      }
      registry.set(table)
    }
    return registry
  }
}
