/// The kinds of record (`docs/trail-format.md`, Records). A reader skips an unknown kind from 0x80 on, and refuses any
/// other.
package enum RecordKind {
  package static let begin: UInt8 = 0x01
  package static let commit: UInt8 = 0x02
  package static let schema: UInt8 = 0x03
  package static let change: UInt8 = 0x04
  package static let refresh: UInt8 = 0x05
  package static let refreshRow: UInt8 = 0x06
  /// The kind that was reserved for statements before they got the kind 0x8d.
  package static let reserved: UInt8 = 0x07
  package static let ddl: UInt8 = 0x08
  package static let progress: UInt8 = 0x8a
  package static let marker: UInt8 = 0x8b
  package static let sequence: UInt8 = 0x8c
  package static let statement: UInt8 = 0x8d
  package static let statementEnd: UInt8 = 0x8e
  package static let waitingRow: UInt8 = 0x8f
  package static let optional: UInt8 = 0x80

  /// Returns whether this version can read or skip records of a kind.
  package static func isReadable(_ kind: UInt8) -> Bool { kind >= optional || (begin...ddl).contains(kind) }
}

/// The content of a transaction's begin record.
///
///     TransactionHeader(number: 7, commitTime: Clock.system.microseconds(), flags: [.group])
package struct TransactionHeader: Equatable, Sendable {
  package struct Flags: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }
    /// The flag of several whole transactions stored as one, because the source does not report where each one ends.
    package static let group = Flags(rawValue: 1)
    /// The flag of a transaction whose source gives no commit time. The commit time is then the time of the reading.
    package static let late = Flags(rawValue: 2)
    /// The flag of a transaction whose rows an apply wrote. The first dependency is the transaction that the rows come
    /// from.
    package static let relayed = Flags(rawValue: 4)
  }
  /// The last transaction that the source contained from another trail when this transaction was committed.
  package struct Dependency: Equatable, Sendable {
    package var origin: String
    package var number: UInt64
    /// The id of the trail; nil in data of a version without trail ids, and for the origin of a relayed transaction.
    package var id: TrailID?
    package init(origin: String, number: UInt64, id: TrailID? = nil) {
      (self.origin, self.number, self.id) = (origin, number, id)
    }
  }
  /// The number of the transaction in its trail, from 1, without gaps.
  package var number: UInt64
  /// The time of the commit at the source, µs since 1970 UTC.
  package var commitTime: Int64
  /// The hybrid logical time of the transaction, µs. It is greater than the clock of the trail's previous transaction.
  package var clock: UInt64
  package var flags: Flags
  /// The position in the source from which capture continues after the transaction, in capture's own encoding.
  package var sourcePosition: [UInt8]
  package var dependencies: [Dependency]

  package init(
    number: UInt64 = 0, commitTime: Int64, clock: UInt64 = 0, flags: Flags = [], sourcePosition: [UInt8] = [],
    dependencies: [Dependency] = []
  ) {
    self.number = number
    self.commitTime = commitTime
    self.clock = clock
    self.flags = flags
    self.sourcePosition = sourcePosition
    self.dependencies = dependencies
  }
}

public enum Operation: UInt8, Sendable {
  case insert = 1
  case update = 2
  case delete = 3
  case truncate = 4
}

public struct ChangeFlags: OptionSet, Sendable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }
  @inlinable public static var before: ChangeFlags { ChangeFlags(rawValue: 1) }
  @inlinable public static var after: ChangeFlags { ChangeFlags(rawValue: 2) }
  /// The flag of a delete that the engine made for a REPLACE. The target may not have the row.
  @inlinable public static var implied: ChangeFlags { ChangeFlags(rawValue: 4) }
  @inlinable public static var replacedVersion: ChangeFlags { ChangeFlags(rawValue: 8) }
}

/// The origin and the clock of the transaction that last wrote a row.
package struct Version: Equatable, Sendable {
  package var origin: String
  package var clock: UInt64
  package init(origin: String, clock: UInt64) {
    self.origin = origin
    self.clock = clock
  }
}

/// One row change of a record, read without a copy. The view is valid only as long as the record's bytes.
///
/// ```swift
/// ChangeView(.insert, schemaID: 1, after: ImageView(bytes: writer.bytes))
/// ```
public struct ChangeView {
  public var operation: Operation
  public var flags: ChangeFlags
  public var schemaID: UInt64
  var replacedBytes: UnsafeRawBufferPointer?
  public var before: ImageView?
  public var after: ImageView?
  /// The flags that a rule of the target gives the change, and that the trail does not store.
  package var treatment: ChangeTreatment = []

  package init(
    _ operation: Operation, schemaID: UInt64, before: ImageView? = nil, after: ImageView? = nil,
    isImplied: Bool = false, treatment: ChangeTreatment = []
  ) {
    self.operation = operation
    flags = isImplied ? .implied : []
    self.schemaID = schemaID
    (self.before, self.after, self.treatment) = (before, after, treatment)
  }

  init(_ operation: Operation, _ flags: ChangeFlags, schemaID: UInt64) {
    (self.operation, self.flags, self.schemaID) = (operation, flags, schemaID)
  }

  package var replaced: Version? {
    guard let replacedBytes else { return nil }
    var reader = ByteReader(replacedBytes)
    guard let origin = try? reader.readString(), let clock = try? reader.readClock() else { return nil }
    return Version(origin: origin, clock: clock)
  }
}

/// A record of a table's refresh. Example: `Refresh(schemaID: 1, event: .end(rows: 98))`.
package struct Refresh: Equatable, Sendable {
  package enum Phase: UInt8, Sendable {
    case start = 1
    case chunk = 2
    case end = 3
  }
  package enum Reason: UInt8, Sendable {
    case firstCopy = 1
    case lostChanges = 2
    case schemaChange = 3
    case asked = 4
    case repair = 5
  }
  package enum Method: UInt8, Sendable {
    case byKey = 1
    case whole = 2
    case rows = 3
  }
  package enum Range: Equatable, Sendable {
    case nullKeys
    /// The rows after key `after`, up to and including key `through`; nil for no bound.
    case keys(after: [Value?]?, through: [Value?]?)
    case unkeyed
    /// The row with this key, if it exists. The array has an entry for each column of the table, nil outside the key.
    case row([Value?])
    /// The rows in the records that follow, up to the next chunk or the refresh's end. The target keeps its other rows.
    case some
  }
  package enum Event: Equatable, Sendable {
    case start(Reason, Method, estimatedRows: UInt64)
    case chunk(Range)
    case end(rows: UInt64)
  }
  package var schemaID: UInt64
  package var event: Event
  package init(schemaID: UInt64, event: Event) {
    self.schemaID = schemaID
    self.event = event
  }

  /// The keys that bound the range, each with an entry for every column of the table.
  package var bounds: [[Value?]] {
    switch event {
    case .chunk(.keys(let after, let through)): [after, through].compactMap(\.self)
    case .chunk(.row(let key)): [key]
    default: []
    }
  }
}

/// A schema change. Example: `DDL(action: .create, before: 0, after: 1)`.
package struct DDL: Equatable, Sendable {
  package enum Action: UInt8, Sendable {
    case create = 1
    case drop = 2
    case rename = 3
    case reshape = 4
  }
  package var action: Action
  /// The id of the table's schema record before the schema change; 0 for a new table.
  package var before: UInt64
  package var after: UInt64
  @ByBytes package var text: String
  /// Whether a refresh of the table follows the schema change.
  package var isRefreshed: Bool
  /// The index that each column had before the schema change; nil for a new column. The whole list is nil if unknown.
  package var origins: [Int?]?
  /// The trail, `NODE.NAME`, whose apply made the schema change at the source; empty if an application did.
  @ByBytes package var applied: String = ""
  package init(
    action: Action, before: UInt64, after: UInt64, text: String = "", isRefreshed: Bool = false, origins: [Int?]? = nil
  ) {
    self.action = action
    self.before = before
    self.after = after
    self.text = text
    self.isRefreshed = isRefreshed
    self.origins = origins
  }
}

/// A decoded record of a trail, which is valid only as long as the reader's block.
package enum Record {
  case begin(TransactionHeader)
  case commit(number: UInt64, changes: UInt64)
  case schema(id: UInt64, TableSchema)
  case change(ChangeView)
  case refresh(Refresh)
  case refreshRow(schemaID: UInt64, ImageView)
  case ddl(DDL)
  case progress(sourcePosition: [UInt8], time: Int64)
  case marker(kind: UInt8, text: String)
  case sequence(SequenceState)
  case statement(StatementView)
  case statementEnd(StatementEnd)
  case waitingRow(WaitingRow)
  case reserved(kind: UInt8, UnsafeRawBufferPointer)

  package var isOfChanges: Bool {
    switch self {
    case .change, .refresh, .refreshRow, .waitingRow, .ddl, .reserved: true
    case .begin, .commit, .schema, .progress, .marker, .sequence, .statement, .statementEnd: false
    }
  }

  /// The id of the schema of the table whose rows the record changes or copies; nil for all other records.
  package var schemaID: UInt64? {
    switch self {
    case .change(let change): change.schemaID
    case .refreshRow(let id, _): id
    case .waitingRow(let row): row.schemaID
    case .refresh(let refresh): refresh.schemaID
    default: nil
    }
  }

  /// Decodes the payload of a record; nil for an unknown kind from 0x80 on. Throws for any other unknown kind, for an
  /// invalid payload, and for a schema that takes more than `room` bytes.
  package static func decode(kind: UInt8, _ payload: UnsafeRawBufferPointer, room: Int = .max) throws -> Record? {
    var r = ByteReader(payload)
    switch kind {
    case RecordKind.change: return .change(try r.readChange())
    case RecordKind.refreshRow:
      return .refreshRow(schemaID: try r.readVarint(), try r.readImage())
    case RecordKind.begin: return .begin(try r.readHeader())
    case RecordKind.commit:
      return .commit(number: try r.readNumber("transaction"), changes: try r.readNumber("count of changes"))
    case RecordKind.schema: return .schema(id: try r.readNumber("schema id"), try r.readSchema(room: room))
    case RecordKind.refresh: return .refresh(try r.readRefresh())
    case RecordKind.ddl:
      guard let action = DDL.Action(rawValue: try r.readByte()) else {
        throw DecodingError(offset: 0, problem: "DDL action is unknown")
      }
      var ddl = DDL(
        action: action, before: try r.readNumber("schema id"), after: try r.readNumber("schema id"),
        text: try r.readString())
      let isWhole =
        switch action {
        case .create: ddl.before == 0 && ddl.after != 0
        case .drop: ddl.before != 0 && ddl.after == 0
        case .rename, .reshape: ddl.before != 0 && ddl.after != 0
        }
      guard isWhole else { throw DecodingError(offset: 0, problem: "a DDL record names the wrong tables") }
      if !r.isAtEnd { ddl.isRefreshed = try r.readByte() & 1 != 0 }
      if !r.isAtEnd {
        let origins = try r.readOrigins()
        ddl.origins = origins.isEmpty ? nil : origins
      }
      if !r.isAtEnd { ddl.applied = try r.readString() }
      return .ddl(ddl)
    case RecordKind.progress:
      return .progress(sourcePosition: Array(try r.readCounted()), time: try r.readTime())
    case RecordKind.marker: return .marker(kind: try r.readByte(), text: try r.readString())
    case RecordKind.sequence:
      return .sequence(
        SequenceState(
          namespace: try r.readString(), name: try r.readString(), last: try r.readZigzag(),
          increment: try r.readZigzag()))
    case RecordKind.statement: return .statement(try StatementView(&r))
    case RecordKind.statementEnd: return .statementEnd(try r.readStatementEnd())
    case RecordKind.waitingRow: return .waitingRow(try WaitingRow(&r))
    case RecordKind.reserved: return .reserved(kind: kind, payload)
    default:
      if kind >= RecordKind.optional { return nil }
      throw DecodingError(offset: 0, problem: "record kind \(kind) is unknown")
    }
  }
}

extension ByteWriter {
  package mutating func append(_ header: TransactionHeader) {
    appendVarint(header.number)
    appendZigzag(header.commitTime)
    appendVarint(header.clock)
    append(header.flags.rawValue)
    appendCounted(header.sourcePosition)
    appendVarint(UInt64(header.dependencies.count))
    for dependency in header.dependencies {
      appendString(dependency.origin)
      appendVarint(dependency.number)
    }
    for dependency in header.dependencies { append(dependency.id) }
  }

  mutating func append(_ id: TrailID?) {
    append(id == nil ? 0 : 1)
    if let id { append(id.bytes) }
  }

  package mutating func append(_ refresh: Refresh) {
    switch refresh.event {
    case .start(let reason, let method, let rows):
      append(Refresh.Phase.start.rawValue)
      appendVarint(refresh.schemaID)
      append(reason.rawValue)
      append(method.rawValue)
      appendVarint(rows)
    case .chunk(let range):
      append(Refresh.Phase.chunk.rawValue)
      appendVarint(refresh.schemaID)
      switch range {
      case .nullKeys: append(1)
      case .keys(let after, let through):
        append(2)
        for bound in [after, through] {
          append(bound == nil ? 0 : 1)
          if let bound { appendImage(bound) }
        }
      case .unkeyed: append(3)
      case .row(let key):
        append(4)
        appendImage(key)
      case .some: append(5)
      }
    case .end(let rows):
      append(Refresh.Phase.end.rawValue)
      appendVarint(refresh.schemaID)
      appendVarint(rows)
    }
  }

  package mutating func append(_ ddl: DDL) {
    append(ddl.action.rawValue)
    appendVarint(ddl.before)
    appendVarint(ddl.after)
    appendString(ddl.text)
    append(ddl.isRefreshed ? 1 : 0)
    appendVarint(UInt64(ddl.origins?.count ?? 0))
    for origin in ddl.origins ?? [] { appendVarint(origin.map { UInt64($0) + 1 } ?? 0) }
    appendString(ddl.applied)
  }
}

extension ByteReader {
  mutating func readHeader() throws -> TransactionHeader {
    var header = TransactionHeader(
      number: try readNumber("transaction"), commitTime: try readTime(), clock: try readClock(),
      flags: .init(rawValue: try readByte()), sourcePosition: Array(try readCounted()))
    for _ in 0..<(try readCount("known transactions", most: TransactionHeader.dependenciesMax)) {
      header.dependencies.append(.init(origin: try readString(), number: try readNumber("transaction")))
    }
    // An earlier version wrote no trail ids.
    guard !isAtEnd else { return header }
    for index in header.dependencies.indices { header.dependencies[index].id = try readTrailID() }
    return header
  }

  mutating func readTrailID() throws -> TrailID? {
    switch try readByte() {
    case 0: return nil
    case 1: return TrailID(try read(16))
    case let byte: throw DecodingError(offset: offset, problem: "\(byte) does not say whether a trail id follows")
    }
  }

  mutating func readChange() throws -> ChangeView {
    let byte = try readByte()
    guard let operation = Operation(rawValue: byte) else {
      throw DecodingError(offset: 0, problem: "operation \(byte) is unknown")
    }
    let flags = ChangeFlags(rawValue: try readByte())
    var change = ChangeView(operation, flags, schemaID: try readVarint())
    if flags.contains(.replacedVersion) {
      var rest = self
      _ = try readCounted()
      _ = try readVarint()
      change.replacedBytes = try rest.read(offset - rest.offset)
    }
    if flags.contains(.before) { change.before = try readImage() }
    if flags.contains(.after) { change.after = try readImage() }
    return change
  }

  mutating func readOrigins() throws -> [Int?] {
    var origins: [Int?] = []
    for _ in 0..<(try readCount("columns", most: TableSchema.columnsMax)) {
      let number = try readNumber("column")
      origins.append(number == 0 ? nil : Int(clamping: number - 1))
    }
    return origins
  }

  mutating func readRefresh() throws -> Refresh {
    func unknown(_ what: String) -> DecodingError { DecodingError(offset: offset, problem: "\(what) is unknown") }
    guard let phase = Refresh.Phase(rawValue: try readByte()) else { throw unknown("refresh phase") }
    let id = try readNumber("schema id")
    switch phase {
    case .start:
      guard let reason = Refresh.Reason(rawValue: try readByte()) else { throw unknown("refresh reason") }
      guard let method = Refresh.Method(rawValue: try readByte()) else { throw unknown("refresh method") }
      return Refresh(schemaID: id, event: .start(reason, method, estimatedRows: try readNumber("count of rows")))
    case .chunk:
      switch try readByte() {
      case 1: return Refresh(schemaID: id, event: .chunk(.nullKeys))
      case 2:
        let after = try readByte() == 1 ? try readImage().values() : nil
        let through = try readByte() == 1 ? try readImage().values() : nil
        return Refresh(schemaID: id, event: .chunk(.keys(after: after, through: through)))
      case 3: return Refresh(schemaID: id, event: .chunk(.unkeyed))
      case 4: return Refresh(schemaID: id, event: .chunk(.row(try readImage().values())))
      case 5: return Refresh(schemaID: id, event: .chunk(.some))
      default: throw unknown("refresh range")
      }
    case .end: return Refresh(schemaID: id, event: .end(rows: try readNumber("count of rows")))
    }
  }
}
