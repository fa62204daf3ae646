import Changes
import SystemKit

/// What is kept of a window between two runs: from where each trail is to be read, and what its origin knew.
struct WindowFile: Equatable {
  struct Kept: Equatable, Sendable {
    var trail: TrailName
    var id: TrailID
    /// The first transaction of which a version is needed.
    var from: UInt64
    /// The last transaction that counts, and what it knew.
    var number: UInt64
    var knew: [TransactionHeader.Dependency]
  }

  private static let version: UInt8 = 1
  /// Far more than there are nodes.
  private static let bytesMax: UInt64 = 16 << 20
  var trails: [Kept]

  init(trails: [Kept]) { self.trails = trails }

  /// Nil where there is none, or one that is not whole.
  static func read(_ path: String) throws(FileError) -> WindowFile? {
    guard Folder.exists(path) else { return nil }
    let file = try File(path, .read)
    let size = try file.size
    guard size <= bytesMax else { return nil }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(size), alignment: 8)
    defer { buffer.deallocate() }
    let count = try file.read(into: buffer, at: 0)
    return try? WindowFile(UnsafeRawBufferPointer(buffer).prefix(count))
  }

  /// Whole and durable, or as it was.
  func write(_ path: String) throws(FileError) {
    var out = ByteWriter()
    out.append(Self.version)
    out.appendVarint(UInt64(trails.count))
    for kept in trails {
      out.appendString(kept.trail.description)
      out.append(kept.id.bytes)
      out.appendVarint(kept.from)
      out.appendVarint(kept.number)
      out.appendVarint(UInt64(kept.knew.count))
      for one in kept.knew {
        out.appendString(one.origin)
        out.appendVarint(one.number)
      }
    }
    out.appendFixed(Self.checksum(out.bytes))
    try File.replace(path, with: out.bytes)
  }

  private init(_ slice: Slice<UnsafeRawBufferPointer>) throws {
    let bytes = UnsafeRawBufferPointer(rebasing: slice)
    guard bytes.count > 8 else { throw DecodingError(offset: 0, problem: "the file is too short") }
    let body = UnsafeRawBufferPointer(rebasing: bytes.dropLast(8))
    var end = ByteReader(UnsafeRawBufferPointer(rebasing: bytes.suffix(8)))
    var reader = ByteReader(body)
    guard try end.readFixed(UInt64.self) == Self.checksum(body),
      try reader.readByte() == Self.version
    else {
      throw DecodingError(offset: 0, problem: "checksum or version is another")
    }
    trails = []
    for _ in 0..<(try reader.readCount()) {
      guard let name = TrailName(try reader.readString()), let id = TrailID(try reader.read(16))
      else {
        throw DecodingError(offset: reader.offset, problem: "no name of a trail")
      }
      var kept = Kept(
        trail: name, id: id, from: try reader.readVarint(), number: try reader.readVarint(),
        knew: [])
      for _ in 0..<(try reader.readCount()) {
        kept.knew.append(.init(origin: try reader.readString(), number: try reader.readVarint()))
      }
      trails.append(kept)
    }
  }

  /// For a file that broke; nothing that somebody made to deceive.
  private static func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var naming = RowNaming(table: "window")
    naming.add(.blob(bytes))
    return naming.name.hash
  }
}
