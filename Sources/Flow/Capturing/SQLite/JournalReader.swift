import Changes
import CodecKit
import SQLiteKit
import Trails

/// Turns journal rows into change records of the trail, in their order, and finds out which rows a REPLACE has deleted.
struct JournalReader: ~Copyable {
  private struct Key: Hashable {
    let layout: Int64
    let rowid: Int64
  }

  /// The CRC-32C of all journal rows after the row that the source stores as the last captured one.
  var checksum: UInt32 = 0

  /// Whether a VACUUM may have renumbered rows of tables without a key since the first journal row of this reading.
  var mayHaveVacuumed = false
  /// The layouts of tables that must be refreshed: a VACUUM may have renumbered rows, or definitions had no room.
  private(set) var doubtful: Set<Int64> = []
  /// Whether changes may be left out for a later refresh if the segment has no room for the table's definition.
  var mayLeaveOut = true

  /// The digest of the statement that is being read; nil if the journal does not name the statement.
  private var digest: StatementDigest?
  private var emitted: UInt64 = 0

  /// Collects net changes to write them later; nil if each change is written at once.
  var fold: NetChanges?

  /// The rows that a REPLACE may delete, by their rowids.
  private var candidates = RecentImages<Key>()
  /// The last values of each updated row. They correct outdated old values, which AFTER triggers log if foreign key
  /// actions or BEFORE triggers changed the row. The key is a hash of table shape and row key.
  private var latest = RecentImages<Int>()
  private var vanished = VanishedRows()
  private var row = ByteWriter()
  private var old = ByteWriter()
  private var oldEnds: [Int] = []
  /// The layout id of an update whose new row comes next in the journal; nil otherwise.
  private var oldLayout: Int64?
  /// Whether the old values of the present update were replaced by those that an earlier update gave to the row.
  private var isOldFollowed = false
  private var rowEnds: [Int] = []
  private var after = ByteWriter()
  private var record = ByteWriter()

  /// Ends the reading of a snapshot. Returns, and forgets, the layouts of tables that must be refreshed.
  mutating func endSnapshot() -> Set<Int64> {
    defer { doubtful = [] }
    mayHaveVacuumed = false
    endTransaction()
    return doubtful
  }

  mutating func beginStatement() { (digest, emitted) = (StatementDigest(), 0) }

  mutating func endStatement() -> StatementEnd {
    defer { digest = nil }
    return StatementEnd(changes: emitted, digest: digest ?? .init())
  }

  private mutating func noteWritten(_ image: UnsafeRawBufferPointer, _ layout: CaptureInstance) {
    digest?.addWritten(image, of: layout.digestTable)
  }

  private mutating func noteGone(_ image: UnsafeRawBufferPointer, _ layout: CaptureInstance) {
    digest?.addGone(image, of: layout.digestTable)
  }

  /// Forgets the row values that were kept for one transaction of the journal. Must be called at the end of each
  /// transaction.
  mutating func endTransaction() {
    candidates.removeAll()
    latest.removeAll()
  }

  var rowBytes: Int64 { Int64(row.count) }

  /// Reads the values of the journal row in `statement` from column `first` on, and adds them to ``checksum``.
  mutating func read(_ statement: Statement, seq: Int64, code: Int64, first: Int, count: Int) {
    row.removeAll()
    rowEnds.removeAll(keepingCapacity: true)
    for index in 0..<count {
      statement.encode(first + index, into: &row)
      rowEnds.append(row.count)
    }
    var frame = (seq.littleEndian, code.littleEndian)
    checksum = withUnsafeBytes(of: &frame) { CRC32C.of($0, continuing: checksum) }
    checksum = CRC32C.of(row.bytes, continuing: checksum)
  }

  /// Appends the changes of the journal row that was read last to the trail.
  /// - Parameter isWanted: Gets the rowid of each changed row, or nil, and returns whether the trail needs the change.
  mutating func emit(
    _ kind: JournalKind, _ layout: CaptureInstance, to trail: TrailWriter, isWanted: (Int64?) -> Bool
  ) throws {
    let columns = layout.schema.columns.count
    guard kind == .marker || rowEnds.count >= layout.valueCount else { throw CaptureInstance.foreign }
    // The copy that was requested has all rows.
    if doubtful.contains(layout.id) { return }
    defer { if kind != .vanished, kind != .updateOld { vanished.removeAll() } }
    switch kind {
    case .marker, .asked: break
    case .replaceCandidate:
      guard let rowid = rowid(layout, row, rowEnds) else { break }
      candidates.note(Key(layout: layout.id, rowid: rowid), row.bytes)
    case .delete, .vanished:
      if kind == .vanished { vanished.note(keyHash(layout, row, rowEnds)) }
      let rowid = rowid(layout, row, rowEnds)
      forget(layout, rowid)
      let seen = keyHash(layout, row, rowEnds).flatMap { latest.take($0) }
      guard isWanted(rowid), let seen else {
        noteGone(slice(row, rowEnds, columns), layout)
        guard isWanted(rowid) else { break }
        try delete(layout, image: slice(row, rowEnds, columns), isImplied: kind == .vanished, to: trail)
        break
      }
      try setOld(row.bytes, count: rowEnds.count)
      try bringOld(to: seen, layout)
      noteGone(slice(old, oldEnds, columns), layout)
      try delete(layout, image: slice(old, oldEnds, columns), isImplied: kind == .vanished, to: trail)
    case .insert:
      let rowid = rowid(layout, row, rowEnds)
      noteWritten(slice(row, rowEnds, columns), layout)
      if let rowid, let replaced = candidates.take(Key(layout: layout.id, rowid: rowid)) {
        if mayHaveVacuumed, layout.carriesRowid {
          doubtful.insert(layout.id)
          break
        }
        _ = keyHash(layout, row, rowEnds).map { latest.take($0) }
        guard isWanted(rowid) else { break }
        isOldFollowed = false
        try replaced.withUnsafeBytes { try setOld($0, count: rowEnds.count) }
        try update(layout, columns, to: trail)
        break
      }
      guard isWanted(rowid) else { break }
      if rowid == -1, layout.rowidIndex != nil, !layout.carriesRowid {
        // To the trigger, a row with the explicit rowid -1 looks like a row without a rowid.
        try deleteByKey(layout, to: trail)
        _ = keyHash(layout, row, rowEnds).map { latest.take($0) }
      }
      try insert(layout, image: slice(row, rowEnds, columns), to: trail)
    case .updateOld:
      isOldFollowed = false
      try setOld(row.bytes, count: rowEnds.count)
      oldLayout = layout.id
    case .updateNew:
      // Triggers write both halves of an update in succession, but an application can write anything.
      // It may also change the layout between them.
      guard oldLayout == layout.id, oldEnds.count == rowEnds.count else {
        throw CairnError(
          .databaseDamaged, "the journal has half an update of table \(layout.schema.name), which Cairn did not write",
          hint: "run 'cairn detach' on the source and replicate again", context: ["table": layout.schema.name])
      }
      oldLayout = nil
      let before = rowid(layout, old, oldEnds)
      let now = rowid(layout, row, rowEnds)
      if hasMixedRows(layout, movedTo: now) {
        doubtful.insert(layout.id)
        break
      }
      try followUpdate(layout)
      if now == before {
        retouch(layout, now)
      } else {
        forget(layout, before)
      }
      noteWritten(slice(row, rowEnds, columns), layout)
      if let now, now != before, let replaced = candidates.take(Key(layout: layout.id, rowid: now)) {
        try replaced.withUnsafeBytes {
          noteGone(try $0.image(columns: columns), layout)
          guard isWanted(now) else { return }
          try delete(layout, image: try $0.image(columns: columns), isImplied: false, to: trail)
        }
      }
      switch (isWanted(before), isWanted(now)) {
      case (true, true): try update(layout, columns, to: trail)
      case (true, false): try delete(layout, image: slice(old, oldEnds, columns), isImplied: false, to: trail)
      case (false, true): try insert(layout, image: slice(row, rowEnds, columns), to: trail)
      case (false, false): break
      }
    }
  }

  /// Returns whether a foreign key may have changed an updated row within the update. The journal has that change first,
  /// as one of a row that the target lacks: with the new key, or with a new unique value.
  private func hasMixedRows(_ layout: CaptureInstance, movedTo now: Int64?) -> Bool {
    guard layout.cascadesToItself, let key = keyHash(layout, row, rowEnds) else { return false }
    if key == keyHash(layout, old, oldEnds) { return latest.image(key).map { !old.bytes.elementsEqual($0) } ?? false }
    return vanished.mayHave(key) || now.map { candidates.image(Key(layout: layout.id, rowid: $0)) != nil } ?? false
  }

  // MARK: Records

  private func slice(_ writer: borrowing ByteWriter, _ ends: [Int], _ columns: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: writer.bytes[0..<(columns == 0 ? 0 : ends[columns - 1])])
  }

  /// Begins a change record. If the table's definition has no room, returns false; the table is then refreshed.
  private mutating func begin(
    _ operation: Operation, _ flags: ChangeFlags, _ layout: CaptureInstance, _ trail: TrailWriter
  )
    throws -> Bool
  {
    let found =
      mayLeaveOut && layout.refresh == nil
      ? try trail.schemaIDInRoom(layout.schema, token: layout.token)
      : try trail.schemaID(layout.schema, token: layout.token)
    guard let id = found else {
      doubtful.insert(layout.id)
      return false
    }
    record.removeAll()
    record.append(operation.rawValue)
    record.append(flags.rawValue)
    record.appendVarint(id)
    return true
  }

  private mutating func append(to trail: TrailWriter) throws {
    try trail.append(kind: RecordKind.change, record.bytes)
    emitted &+= 1
  }

  private mutating func insert(_ layout: CaptureInstance, image: UnsafeRawBufferPointer, to trail: TrailWriter) throws {
    if let fold, try fold.take(layout, before: nil, after: image, trail) { return }
    guard try begin(.insert, .after, layout, trail) else { return }
    record.appendCounted(image)
    try append(to: trail)
  }

  private mutating func delete(
    _ layout: CaptureInstance, image: UnsafeRawBufferPointer, isImplied: Bool, to trail: TrailWriter
  ) throws {
    if let fold, try fold.take(layout, before: image, after: nil, isImplied: isImplied, trail) { return }
    guard try begin(.delete, isImplied ? [.before, .implied] : .before, layout, trail) else { return }
    record.appendCounted(image)
    try append(to: trail)
  }

  private mutating func deleteByKey(_ layout: CaptureInstance, to trail: TrailWriter) throws {
    try fold?.write(to: trail)
    guard try begin(.delete, [.before, .implied], layout, trail) else { return }
    record.appendImage(layout.schema.columns.indices.map { layout.schema.key.contains($0) ? .integer(-1) : nil })
    try append(to: trail)
  }

  private mutating func update(_ layout: CaptureInstance, _ columns: Int, to trail: TrailWriter) throws {
    if let fold,
      try fold.take(layout, before: slice(old, oldEnds, columns), after: slice(row, rowEnds, columns), trail)
    {
      return
    }
    after.removeAll()
    var isChanged = false
    var (oldStart, newStart) = (0, 0)
    for index in 0..<columns {
      let was = UnsafeRawBufferPointer(rebasing: old.bytes[oldStart..<oldEnds[index]])
      let now = UnsafeRawBufferPointer(rebasing: row.bytes[newStart..<rowEnds[index]])
      let isEqual = was.isEqual(to: now)
      if !isEqual { isChanged = true }
      // The target may still have the default, and the row may have moved to keys whose rows have already been sent.
      if isEqual, !layout.isPartial || index < layout.firstNew ?? 0 {
        after.appendUnchanged()
      } else {
        after.append(now)
      }
      (oldStart, newStart) = (oldEnds[index], rowEnds[index])
    }
    // Apply then checks that the row is as the old image states.
    guard isChanged || isOldFollowed else { return }
    guard try begin(.update, [.before, .after], layout, trail) else { return }
    record.appendCounted(slice(old, oldEnds, columns))
    record.appendCounted(after.bytes)
    try append(to: trail)
  }

  /// Appends a change of a row. The row did not exist before if `before` is nil, nor after if `after` is nil.
  mutating func append(
    _ layout: CaptureInstance, before: [UInt8]?, after: [UInt8]?, isImplied: Bool, to trail: TrailWriter
  ) throws {
    switch (before, after) {
    case (let before?, let after?):
      isOldFollowed = false
      let columns = layout.schema.columns.count
      try before.withUnsafeBytes { try setOld($0, count: columns) }
      try after.withUnsafeBytes { try setRow($0, count: columns) }
      try update(layout, columns, to: trail)
    case (let before?, nil):
      try before.withUnsafeBytes { try delete(layout, image: $0, isImplied: isImplied, to: trail) }
    case (nil, let after?): try after.withUnsafeBytes { try insert(layout, image: $0, to: trail) }
    case (nil, nil): break
    }
  }

  // MARK: Images

  private mutating func setRow(_ bytes: UnsafeRawBufferPointer, count: Int) throws {
    row.removeAll()
    row.append(bytes)
    rowEnds.removeAll(keepingCapacity: true)
    var reader = ByteReader(bytes)
    for _ in 0..<count {
      _ = try reader.readColumn()
      rowEnds.append(reader.offset)
    }
  }

  private mutating func setOld(_ bytes: UnsafeRawBufferPointer, count: Int) throws {
    old.removeAll()
    old.append(bytes)
    oldEnds.removeAll(keepingCapacity: true)
    var reader = ByteReader(bytes)
    for _ in 0..<count {
      _ = try reader.readColumn()
      oldEnds.append(reader.offset)
    }
  }

  /// Returns a hash of the key or rowid of a row; nil if the key contains NULL.
  private func keyHash(_ layout: CaptureInstance, _ writer: borrowing ByteWriter, _ ends: [Int]) -> Int? {
    var hasher = Hasher()
    hasher.combine(layout.id)
    let mayBeNull = layout.schema.flags.contains(.nullableKey)
    for index in layout.carriesRowid ? layout.rowidIndex.map({ [$0] }) ?? [] : layout.schema.key {
      // The encoding of a value includes its length.
      let value = UnsafeRawBufferPointer(rebasing: writer.bytes[(index == 0 ? 0 : ends[index - 1])..<ends[index]])
      if mayBeNull {
        var reader = ByteReader(value)
        guard let column = try? reader.readColumn(), !column.isNull else { return nil }
      }
      hasher.combine(bytes: value)
    }
    return hasher.finalize()
  }

  private mutating func bringOld(to seen: [UInt8], _ layout: CaptureInstance) throws {
    try seen.withUnsafeBytes { seen in
      if old.bytes.isEqual(to: seen) { return }
      if mayHaveVacuumed, layout.carriesRowid {
        doubtful.insert(layout.id)
        return
      }
      let (shown, count) = (Array(old.bytes), oldEnds.count)
      let key = keyBytes(layout)
      try setOld(seen, count: count)
      isOldFollowed = true
      guard keyBytes(layout) != key else { return }
      // Two keys may have the same hash.
      try shown.withUnsafeBytes { try setOld($0, count: count) }
      isOldFollowed = false
    }
  }

  private func keyBytes(_ layout: CaptureInstance) -> [UInt8] {
    let indexes = layout.carriesRowid ? [oldEnds.count - 1] : layout.schema.key
    return indexes.flatMap { old.bytes[($0 == 0 ? 0 : oldEnds[$0 - 1])..<oldEnds[$0]] }
  }

  /// Replaces the old values of an update by the values that an earlier update gave to the row, if these are kept.
  private mutating func followUpdate(_ layout: CaptureInstance) throws {
    let before = keyHash(layout, old, oldEnds)
    if let seen = before.flatMap({ latest.image($0) }) { try bringOld(to: seen, layout) }
    let now = keyHash(layout, row, rowEnds)
    if now != before, let before { _ = latest.take(before) }
    guard let now else { return }
    if now != before {
      // The write deletes the row that had this key.
      if let rowid = rowid(layout, row, rowEnds), candidates.image(Key(layout: layout.id, rowid: rowid)) != nil {
        _ = latest.take(now)
      }
      // The journal already has an update of the row under its new key: that update's image stays.
      if latest.image(now) != nil { return }
    }
    latest.note(now, row.bytes)
  }

  private func rowid(_ layout: CaptureInstance, _ writer: borrowing ByteWriter, _ ends: [Int]) -> Int64? {
    guard let index = layout.rowidIndex else { return nil }
    let start = index == 0 ? 0 : ends[index - 1]
    var reader = ByteReader(UnsafeRawBufferPointer(rebasing: writer.bytes[start..<ends[index]]))
    guard case .integer(let rowid)? = try? reader.readColumn() else { return nil }
    return rowid
  }

  // MARK: Candidates

  /// If the updated row is kept as one that a REPLACE may delete, replaces the kept values by the new ones.
  private mutating func retouch(_ layout: CaptureInstance, _ rowid: Int64?) {
    guard !candidates.isEmpty, let rowid else { return }
    let key = Key(layout: layout.id, rowid: rowid)
    if candidates.image(key) != nil { candidates.note(key, row.bytes) }
  }

  private mutating func forget(_ layout: CaptureInstance, _ rowid: Int64?) {
    guard !candidates.isEmpty, let rowid else { return }
    _ = candidates.take(Key(layout: layout.id, rowid: rowid))
  }
}
