import Changes
import CodecKit
import SystemKit

/// Appends transactions to a trail. Each trail has one writer, which holds the lock of the folder and is used by one
/// thread. After a failed write or sync, close the writer and open another one.
package final class TrailWriter {
  package let name: TrailName
  /// The random id of the trail.
  package let id: TrailID
  /// The part of the trail that was cut off at its opening; nil if nothing was cut off.
  package let recovery: TrailRecovery?
  /// The header of the last complete transaction, synced or not; nil in an empty trail.
  package private(set) var lastHeader: TransactionHeader?

  private let folder: TrailFolder
  private let options: TrailOptions
  private let now: () -> Int64
  private let lock: File
  private let marks: MarkFile
  private let encoder: BlockEncoder
  private var mark: DurableMark
  private var segment: LiveSegment
  private var failure: CairnError?

  private var pending: ByteWriter
  private var current: ByteWriter
  private var payload = ByteWriter()
  private var header: TransactionHeader?
  private var changes: UInt64 = 0
  /// The place of the open transaction's first block; nil if none has been written.
  private var spilledFrom: LiveSegment.Place?
  private var schemaIDs: [UInt64: UInt64] = [:]
  private var lastSchemaID: UInt64
  /// The memory for the schemas of the segment, in bytes.
  private var schemaBytes: Int
  /// The memory for the schemas that the open transaction added, in bytes.
  private var newSchemaBytes = 0
  /// The caller's numbers (tokens) of the schemas that the open transaction added.
  private var newTokens: [UInt64] = []

  /// Opens the trail in `folder`, or creates it, and syncs all whole transactions.
  ///
  /// - Parameter now: Returns the time, µs since 1970 UTC.
  /// - Throws: `.trailBusy` if another writer has the lock, `.trailDamaged`, `.trailVersion`, `.stateForeign` for a
  ///   trail of another name, and `.diskFull`.
  package static func open(
    folder path: String, name: TrailName, options: TrailOptions = .init(), now: @escaping () -> Int64
  ) throws -> TrailWriter {
    let folder = TrailFolder(path)
    do { return try TrailWriter(folder, name, options, now) } catch { throw folder.outward(error, "open") }
  }

  private init(_ folder: TrailFolder, _ name: TrailName, _ options: TrailOptions, _ now: @escaping () -> Int64) throws {
    guard TrailName.isValid(name.origin), TrailName.isValid(name.name) else {
      throw CairnError(
        .usage, "\(name) is not a valid name for a trail", hint: "use letters, digits, '-' and '_', as in till-7.pos",
        remedy: .badInput)
    }
    self.folder = folder
    self.name = name
    self.options = options
    self.now = now
    encoder = try BlockEncoder(compress: options.compress)
    pending = ByteWriter(capacity: options.blockBytes + 4096)
    current = ByteWriter(capacity: options.blockBytes + 4096)
    lock = try folder.lock()
    let creator = TrailCreator(folder: folder, allocateBytes: options.allocateBytes)
    if try creator.isNeeded() { try creator.create(name, now()) }

    var newest: DurableMark
    (_, newest) = try folder.openMark()
    marks = try MarkFile(folder.markPath, .readWrite)
    var recovered = Recovery(folder, newest, name, keeps: .transactions)
    let end = try recovered.run()
    recovery = recovered.cut
    id = newest.trail
    lastHeader = end.lastHeader
    if end.isSealed {
      let next = Self.header(newest.trail, after: end, name, now())
      segment = try LiveSegment(folder, next, allocateBytes: options.allocateBytes)
      (lastSchemaID, schemaBytes) = (0, 0)
    } else {
      segment = try LiveSegment(folder, end, allocateBytes: options.allocateBytes)
      (lastSchemaID, schemaBytes) = (end.records.lastSchemaID, end.records.schemaBytes)
    }
    newest = newest.moved(to: segment, lastTransaction: end.lastNumber)
    mark = newest
    try Folder.sync(folder.path)
    try marks.write(newest)
    try marks.file.sync()
  }

  /// The end of the synced part of the trail.
  package var end: Checkpoint { mark.checkpoint }

  /// Begins a transaction, and returns its header with the next number and a clock. The clock is later than that of the
  /// last transaction.
  ///
  /// - Parameter isLate: Whether the commit time in `given` is the time at which capture saw the transaction. The clock
  ///   then does not depend on the commit time.
  package func begin(_ given: TransactionHeader, isLate: Bool = false) throws -> TransactionHeader {
    try check(isOpen: false)
    if schemaBytes >= options.schemaBytes { try sync() }
    var header = given
    // A clock from a peer may be the largest possible number: then it is not increased.
    let before = lastHeader?.clock ?? 0
    let clock = before == .max ? before : before + 1
    let number = lastNumber.addingReportingOverflow(1)
    guard !number.overflow else { throw folder.bug("transaction number is at its end") }
    header.number = number.partialValue
    header.clock = max(isLate ? 0 : UInt64(clamping: given.commitTime), clock, given.clock)
    self.header = header
    changes = 0
    payload.removeAll()
    payload.append(header)
    try add(RecordKind.begin, payload.bytes)
    return header
  }

  /// Returns the id of a schema in the open segment, and writes the schema there if it is missing.
  ///
  /// - Parameter token: The caller's number for the schema.
  /// - Throws: `unsupported` if the schemas of the segment would take more memory than a reader accepts.
  package func schemaID(_ schema: TableSchema, token: UInt64) throws -> UInt64 {
    guard let id = try schemaIDInRoom(schema, token: token) else { throw tooManySchemas(schema) }
    return id
  }

  /// Returns the id of a schema in the open segment, and writes the schema there if it is missing. Nil if the segment
  /// has no room for the schema.
  package func schemaIDInRoom(_ schema: TableSchema, token: UInt64) throws -> UInt64? {
    if failure == nil, header != nil, let id = schemaIDs[token] { return id }
    try check(isOpen: true)
    let bytes = schema.memoryBytes
    guard bytes <= schemaRoom else { return nil }
    payload.removeAll()
    payload.appendVarint(lastSchemaID + 1)
    payload.append(schema)
    try add(RecordKind.schema, payload.bytes)
    lastSchemaID += 1
    schemaBytes += bytes
    newSchemaBytes += bytes
    schemaIDs[token] = lastSchemaID
    newTokens.append(token)
    return lastSchemaID
  }

  /// Adds a record to the open transaction. The record must not be a begin, commit or schema record.
  package func append(kind: UInt8, _ payload: UnsafeRawBufferPointer) throws {
    try check(isOpen: true)
    switch kind {
    case RecordKind.change, RecordKind.refreshRow:
      try add(kind, payload)
      changes += 1
    case RecordKind.begin, RecordKind.commit, RecordKind.schema:
      throw folder.bug("a record of kind \(kind) is not the caller's to write")
    default: try add(kind, payload)
    }
  }

  /// Ends the open transaction, which is durable after the next ``sync()``.
  package func commit() throws {
    try check(isOpen: true)
    guard let header else { return }
    payload.removeAll()
    payload.appendVarint(header.number)
    payload.appendVarint(changes)
    try add(RecordKind.commit, payload.bytes)
    try poisoning {
      if pending.count + current.count > options.blockBytes { try flush(&pending, .border) }
      pending.append(current.bytes)
    }
    lastHeader = header
    close(transaction: header)
  }

  /// Makes all committed transactions durable, and moves the durable mark. Begins another segment if this one has
  /// reached a size in ``TrailOptions``. No transaction may be open. After an error, the last transactions may or may
  /// not be in the trail.
  @discardableResult
  package func sync() throws -> Checkpoint {
    try check(isOpen: false)
    return try poisoning {
      try flush(&pending, [.border, .sync])
      let hasNews = !segment.isSynced
      if hasNews { try segment.sync() }
      // Data in a removed file are lost: capture must not release them at the source.
      guard try marks.file.isInPlace, try segment.isInPlace else { throw folder.removed() }
      if hasNews {
        mark = mark.moved(to: segment, lastTransaction: lastNumber)
        try marks.write(mark)
      }
      if isSegmentFull { try rotate() }
      return end
    }
  }

  /// Drops the open transaction, if any.
  package func abandon() throws {
    if let failure { throw failure }
    guard let header else { return }
    try poisoning { if let place = spilledFrom { try segment.cut(to: place) } }
    for token in newTokens { schemaIDs[token] = nil }
    lastSchemaID -= UInt64(newTokens.count)
    schemaBytes -= newSchemaBytes
    close(transaction: header)
  }

  /// Drops an open transaction, syncs everything, and releases the lock. No call may follow.
  ///
  /// - Throws: The error of an earlier failed write.
  package func close() throws {
    defer {
      failure = failure ?? folder.bug("a writer is used after it was closed")
      try? lock.close()
    }
    try abandon()
    try sync()
    try poisoning {
      try marks.file.sync()
      try segment.close()
    }
  }
}

// MARK: - Writing

extension TrailWriter {
  private var lastNumber: UInt64 { lastHeader?.number ?? 0 }

  private func check(isOpen: Bool) throws {
    if let failure { throw failure }
    if (header != nil) != isOpen { throw folder.bug(isOpen ? "no transaction is open" : "a transaction is open") }
  }

  private func poisoning<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch {
      let error = folder.outward(error, "write")
      failure = error
      throw error
    }
  }

  private func add(_ kind: UInt8, _ payload: UnsafeRawBufferPointer) throws {
    guard payload.count <= 1 << 30 else {
      throw CairnError(
        .unsupported, "a record of \(payload.count) bytes is larger than 1 GiB",
        hint: "leave the table with this row out of the capture", context: ["trail": folder.label])
    }
    if current.count > 0, current.count + payload.count + 11 > options.blockBytes { try spill() }
    current.append(kind)
    current.appendCounted(payload)
  }

  /// The memory left for further schemas in the segment, in bytes.
  package var schemaRoom: Int { options.schemaBytesMax - schemaBytes }
  /// A quarter of the memory for the schemas of a segment, in bytes. A caller may keep this memory in reserve.
  package var schemaSpare: Int { options.schemaBytesMax / 4 }

  private func tooManySchemas(_ schema: TableSchema) -> CairnError {
    CairnError(
      .unsupported,
      "the definitions of the tables that one transaction uses take more than \(options.schemaBytesMax >> 20) MiB, with that of \(schema.fullName)",
      hint: "leave tables with long definitions, or tables that one transaction alters very often, out of the capture",
      context: ["trail": folder.label, "table": schema.fullName])
  }

  /// Writes the collected records of the open transaction to the segment's file.
  private func spill() throws {
    try poisoning {
      try flush(&pending, .border)
      if spilledFrom == nil { spilledFrom = segment.place }
      try flush(&current, [])
    }
    guard let most = options.transactionBytesMax, let first = spilledFrom,
      segment.place.fileOffset - first.fileOffset > most
    else { return }
    throw CairnError(
      .diskBudget, "a transaction takes more than \(most.counted("byte")) in trail \(folder.label)",
      hint: "raise [limits] disk above the size of the transaction, and reload", remedy: .retry,
      context: ["trail": folder.label])
  }

  private func flush(_ buffer: inout ByteWriter, _ flags: BlockHeader.Flags) throws {
    guard buffer.count > 0 else { return }
    Pulse.beat()
    try segment.append(buffer.bytes, flags, encoder)
    empty(&buffer)
  }

  private func empty(_ buffer: inout ByteWriter) {
    buffer.removeAll()
    buffer.shrink(above: max(options.blockBytes * 2, 1 << 20))
  }

  private func close(transaction: TransactionHeader) {
    header = nil
    spilledFrom = nil
    newTokens.removeAll(keepingCapacity: true)
    newSchemaBytes = 0
    empty(&current)
  }

  private var isSegmentFull: Bool {
    let place = segment.place
    return place.contentOffset > 0
      && (place.fileOffset >= UInt64(options.segmentBytes) || place.contentOffset >= UInt64(options.contentBytes)
        || schemaBytes >= options.schemaBytes)
  }

  /// Finishes the segment and begins the next one. After a crash, the trail is whole.
  private func rotate() throws {
    try segment.seal(encoder)
    let place = segment.place
    let header = SegmentHeader(
      trail: id, number: segment.number + 1, created: now(), firstTransaction: lastNumber + 1, chain: place.chain,
      name: name)
    let next = try LiveSegment(folder, header, allocateBytes: options.allocateBytes)
    let moved = mark.moved(to: next, lastTransaction: lastNumber)
    try marks.write(moved)
    try marks.file.sync()
    mark = moved
    try segment.close()
    segment = next
    schemaIDs.removeAll(keepingCapacity: true)
    (lastSchemaID, schemaBytes) = (0, 0)
  }

  private static func header(
    _ trail: TrailID, after end: Recovery.End, _ name: TrailName, _ now: Int64
  ) -> SegmentHeader {
    SegmentHeader(
      trail: trail, number: end.segment + 1, created: now, firstTransaction: end.lastNumber + 1, chain: end.place.chain,
      name: name)
  }
}
