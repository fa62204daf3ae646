import Changes
import CodecKit
import PostgresKit
import SystemKit

import Changes
import CodecKit
import PostgresKit
import SystemKit

/// The tables that the capture of a PostgreSQL source knows, with their shapes in the trail.
struct PostgresRegistry: Equatable {
  struct Table: Equatable {
    var relation: UInt32
    /// The number of the table's shape in the trail, unique among all tables.
    var epoch: UInt64
    var schema: TableSchema
    var types: [ColumnType]
    /// The catalog number (`attnum`) of each column; empty if the numbers are not known.
    var numbers: [Int] = []
    /// The definitions that decide how values print, such as the labels of enums.
    @ByBytes var forms: [NameKey: String] = [:]
    var isPartitioned = false
    @ByBytes var partitions: [String] = []
    var refresh: Refresh.Reason?
    /// The server transaction number below which all transactions must have ended before the refresh begins.
    var copyNotBefore: UInt64 = 0
    var sequences: [Sequence] = []

    var isKeyed: Bool { !schema.flags.contains(.wholeRow) }
    /// Whether changes of the table go into the trail before its refresh has begun. True if the refresh was requested:
    /// then targets have the rows already.
    var passesChanges: Bool { refresh == .asked && isKeyed }
    /// The value of ``copyNotBefore`` while the table is not published, so that its refresh cannot begin.
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

/// The file in the state folder that stores the known tables: their new and their previous state. After a crash, the
/// last transaction of the trail selects the valid state.
final class RegistryFile {
  private let path: String
  private var stored = PostgresRegistry()
  private static let version: UInt8 = 2

  /// Reads the known tables from the file; none if the file is missing or damaged.
  ///
  /// - Parameter number: The number of the trail's last whole transaction, which selects the valid state.
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

  /// Replaces the file; a crash leaves the old or the new content.
  ///
  /// - Parameter number: The transaction of the trail from which on `registry` is valid.
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
