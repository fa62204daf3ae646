import Changes
import CodecKit
import PostgresKit
import SystemKit
import Trails

/// The requests for rows that a capture of a PostgreSQL source has not answered.
struct PostgresRequests: Equatable {
  static let prefix = "cairn.request"
  /// The highest number of requested keys of one table. If more are requested, the whole table is refreshed.
  static let keysMax = 50_000
  static let keyBytesMax = 16 << 20

  struct Name: Hashable {
    var namespace: String
    var table: String

    static func == (a: Self, b: Self) -> Bool { a.parts == b.parts }
    func hash(into hasher: inout Hasher) { hasher.combine(parts) }
    private var parts: [NameKey] { [namespace.nameKey, table.nameKey] }
  }

  private(set) var keys: [Name: Set<[NameKey]>] = [:]
  private(set) var copies: Set<Name> = []
  private var keyBytes: [Name: Int] = [:]

  var isEmpty: Bool { keys.isEmpty && copies.isEmpty }

  mutating func add(_ message: RequestMessage) {
    let name = Name(namespace: message.namespace, table: message.table)
    guard !message.isWhole else {
      copies.insert(name)
      return forget(name)
    }
    for key in message.keys { add(key, of: name) }
  }

  mutating func add(_ key: [String], of name: Name) {
    guard !copies.contains(name), keys[name, default: []].insert(key.map(\.nameKey)).inserted else { return }
    keyBytes[name, default: 0] += key.reduce(64) { $0 + $1.utf8.count }
    guard keys[name]?.count ?? 0 > Self.keysMax || keyBytes[name] ?? 0 > Self.keyBytesMax else { return }
    copies.insert(name)
    forget(name)
  }

  mutating func remove(_ sent: some Sequence<[String]>, of name: Name) {
    for key in sent where keys[name]?.remove(key.map(\.nameKey)) != nil {
      keyBytes[name, default: 0] -= key.reduce(64) { $0 + $1.utf8.count }
    }
    if keys[name]?.isEmpty == true { forget(name) }
  }

  mutating func forget(_ name: Name) {
    keys[name] = nil
    keyBytes[name] = nil
  }

  mutating func forgetCopy(_ name: Name) { copies.remove(name) }

  fileprivate var messages: [RequestMessage] {
    copies.map { .init(slot: "", namespace: $0.namespace, table: $0.table, isWhole: true, keys: []) }
      + keys.map { name, keys in
        .init(
          slot: "", namespace: name.namespace, table: name.table, isWhole: false, keys: keys.map { $0.map(\.text) })
      }
  }
}

/// The file in the state folder that keeps unanswered requests for rows. Capture writes the file before the slot is
/// confirmed beyond a request.
struct RequestsFile {
  private let path: String

  init(folder: String) { path = folder + "/requests" }

  /// Reads the unanswered requests; none if the file is missing or damaged.
  func load() throws -> PostgresRequests {
    var requests = PostgresRequests()
    guard Folder.exists(path) else { return requests }
    let file = try File(path, .read)
    var bytes = [UInt8](repeating: 0, count: Int(try file.size))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    guard bytes.count > 4 else { return requests }
    let (content, sum) = (Array(bytes.dropLast(4)), Array(bytes.suffix(4)))
    guard CRC32C.of(content) == sum.withUnsafeBytes({ $0.loadUnaligned(as: UInt32.self) }) else { return requests }
    try content.withUnsafeBytes {
      var reader = ByteReader($0)
      while !reader.isAtEnd { requests.add(try RequestMessage(&reader)) }
    }
    return requests
  }

  /// Replaces the file; a crash leaves the old or the new content.
  func save(_ requests: PostgresRequests) throws {
    var writer = ByteWriter()
    for message in requests.messages { message.encode(to: &writer) }
    writer.appendFixed(CRC32C.of(Array(writer.bytes)))
    try File.replace(path, with: writer.bytes)
  }
}

/// A request for rows of one table, as a message in the stream or in the file of requests.
struct RequestMessage: Equatable {
  private static let version: UInt8 = 1

  @ByBytes var slot: String
  @ByBytes var namespace: String
  @ByBytes var table: String
  var isWhole: Bool
  @ByBytes var keys: [[String]]

  init(slot: String, namespace: String, table: String, isWhole: Bool, keys: [[String]]) {
    (self.slot, self.namespace, self.table, self.isWhole, self.keys) = (slot, namespace, table, isWhole, keys)
  }

  init(_ reader: inout ByteReader) throws {
    guard try reader.readByte() == Self.version else {
      throw DecodingError(offset: 0, problem: "a request for rows is of another version of cairn")
    }
    slot = try reader.readString()
    namespace = try reader.readString()
    table = try reader.readString()
    isWhole = try reader.readByte() == 1
    keys = []
    for _ in 0..<(try reader.readCount()) {
      var key: [String] = []
      for _ in 0..<(try reader.readCount()) { key.append(try reader.readString()) }
      keys.append(key)
    }
  }

  func encode(to writer: inout ByteWriter) {
    writer.append(Self.version)
    writer.appendString(slot)
    writer.appendString(namespace)
    writer.appendString(table)
    writer.append(isWhole ? 1 : 0)
    writer.appendVarint(UInt64(keys.count))
    for key in keys {
      writer.appendVarint(UInt64(key.count))
      for value in key { writer.appendString(value) }
    }
  }

  /// Commits the request as a logical message, signed with the database's key, in a transaction of its own. Creates the
  /// key if it is missing.
  func emit(_ connection: PostgresConnection) throws {
    var writer = ByteWriter()
    encode(to: &writer)
    try MessageKey.ensure(connection)
    try connection.transaction {
      try connection.execute("SET LOCAL synchronous_commit = on")
      try MessageKey.emit(PostgresRequests.prefix, Array(writer.bytes), connection)
    }
  }
}

extension PostgresSource {
  /// Requests rows of a table from the capture that writes `trail`. If the table has no key, capture refreshes the
  /// whole table.
  ///
  /// - Throws: ``PostgresError``. Requests made before the error remain.
  package static func ask(_ request: RowRequest, on connection: PostgresConnection, trail: TrailID) throws {
    for keys in request.portions {
      let texts = keys.map { $0.map(\.keyText) }
      try RequestMessage(
        slot: name(of: trail), namespace: request.namespace, table: request.table,
        isWhole: texts.contains { $0.contains(nil) }, keys: texts.map { $0.compactMap { $0 } }
      ).emit(connection)
    }
  }

  /// Requests a refresh of a whole table from the capture that writes `trail`.
  package static func askForCopy(
    of table: String, namespace: String, on connection: PostgresConnection, trail: TrailID
  ) throws {
    try RequestMessage(slot: name(of: trail), namespace: namespace, table: table, isWhole: true, keys: [])
      .emit(connection)
  }
}

extension Value {
  fileprivate var keyText: String? {
    switch self {
    case .exact(let bytes), .text(let bytes): String(decoding: bytes, as: UTF8.self)
    case .integer(let n): String(n)
    case .real(let r): String(r)
    case .blob(let bytes): "\\x" + bytes.hex
    case .null: nil
    }
  }
}
