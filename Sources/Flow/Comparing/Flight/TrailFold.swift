import Capturing
import Changes
import CodecKit
import Mapping
import Trails

/// Applies changes of the trail to some rows of one table that were read at the source. The result is the rows that the
/// target must have at its checkpoint. Skips changes that the source's rows already show.
struct TrailFold {
  enum Row {
    case absent
    /// The values of the compared columns; nil for a value that the trail does not contain.
    case values([Value?])
  }

  private let table: ComparedTable
  private let seed: UInt64
  let moment: SourceMoment
  private(set) var rows: [UInt64: Row]
  /// The numbers of equal rows without a key, or with NULL in their key, as read at the source.
  private let counts: RowCounts?
  /// For the hash of a whole row: the change that the trail makes to the number of such rows, and the row's values.
  private var steps: [UInt64: (step: Int, row: [Value])] = [:]
  /// Whether the trail has a TRUNCATE of the table that came after the read at the source.
  private(set) var isEmptied = false
  /// Whether the trail has a refresh or a schema change of the table.
  private(set) var isUnknown = false
  /// The hashes of the rows that changes in the trail affect. A TRUNCATE adds no hash.
  private(set) var touched: Set<UInt64> = []

  // The effect of the current transaction on the rows, pending until it is known whether the read included the
  // transaction.
  private var openRows: [UInt64: Row] = [:]
  private var openCounts: [UInt64: (step: Int, row: [Value])] = [:]
  private var isTruncated = false
  private var openUnknown = false

  // The schemas of the current segment.
  private var segment: UInt64 = 0
  private var places: [UInt64: [Int]?] = [:]

  init(
    _ table: ComparedTable, seed: UInt64, moment: SourceMoment, rows: [UInt64: Row], counts: RowCounts? = nil
  ) {
    (self.table, self.seed, self.moment, self.rows, self.counts) = (table, seed, moment, rows, counts)
  }

  /// Returns how many equal rows with this hash the target must have, after the trail's changes.
  func count(_ hash: UInt64) -> Int { (isEmptied ? 0 : counts?[hash] ?? 0) + (steps[hash]?.step ?? 0) }

  func row(_ hash: UInt64) -> [Value]? { counts?.row(hash) ?? steps[hash]?.row }

  mutating func take(_ record: Record, _ reader: TrailReader) throws {
    switch record {
    case .begin: begin()
    case .change(let change): try take(change, reader)
    case .refresh(let refresh):
      if try isMine(refresh.schemaID, reader) { openUnknown = true }
    case .refreshRow: break
    case .ddl(let ddl):
      let isBefore = try ddl.before != 0 && isMine(ddl.before, reader)
      let isAfter = try ddl.after != 0 && isMine(ddl.after, reader)
      if isBefore || isAfter { openUnknown = true }
    case .progress(let bytes, _):
      try end(SourceReach(decoding: bytes, of: table.source.engine))
    default: break
    }
  }

  private mutating func begin() {
    openRows.removeAll(keepingCapacity: true)
    openCounts.removeAll(keepingCapacity: true)
    (isTruncated, openUnknown) = (false, false)
  }

  /// Ends a transaction, and applies its changes unless the source's rows already show them.
  private mutating func end(_ reach: SourceReach) {
    if openUnknown { isUnknown = true }
    defer { begin() }
    guard !moment.shows(reach) else { return }
    touched.formUnion(openRows.keys)
    touched.formUnion(openCounts.keys)
    if isTruncated {
      isEmptied = true
      for hash in rows.keys { rows[hash] = .absent }
      steps.removeAll()
    }
    for (hash, row) in openRows { rows[hash] = row }
    for (hash, change) in openCounts { steps[hash] = ((steps[hash]?.step ?? 0) + change.step, change.row) }
  }

  // MARK: Changes

  private mutating func take(_ change: ChangeView, _ reader: TrailReader) throws {
    guard let places = try places(change.schemaID, reader) else { return }
    if change.operation == .truncate {
      isTruncated = true
      openRows.removeAll()
      openCounts.removeAll()
      return
    }
    let before = try change.before.map { try values($0, places) }
    var after = try change.after.map { try values($0, places) }
    let hashBefore = try before.map(identity)
    if let image = after {
      // An unchanged value is the value of the row before, which may be known.
      var known = before
      if let hash = hashBefore ?? (try? identity(image)), case .values(let there)? = openRows[hash] ?? rows[hash] {
        known = zip(known ?? there, there).map { $0 ?? $1 }
      }
      after = zip(image, known ?? image).map { $0 ?? $1 }
    }
    if let before, let hash = hashBefore ?? nil { remove(hash, before) }
    if let after, let hash = try identity(after) { add(hash, after) }
  }

  private mutating func remove(_ hash: UInt64, _ row: [Value?]) {
    if isKeyed(row) {
      if rows[hash] != nil { openRows[hash] = .absent }
    } else if counts?.contains(hash) == true {
      openCounts[hash] = ((openCounts[hash]?.step ?? 0) - 1, row.map { $0 ?? .null })
    }
  }

  private mutating func add(_ hash: UInt64, _ row: [Value?]) {
    if isKeyed(row) {
      if rows[hash] != nil { openRows[hash] = .values(row) }
    } else if counts?.contains(hash) == true {
      openCounts[hash] = ((openCounts[hash]?.step ?? 0) + 1, row.map { $0 ?? .null })
    }
  }

  private func isKeyed(_ row: [Value?]) -> Bool { !table.key.isEmpty && !table.key.contains { row[$0] == .null } }

  /// Returns the hash of the key, or of a whole row with no key or NULL in the key. Nil if the row lacks a value.
  private func identity(_ row: [Value?]) throws -> UInt64? {
    var hasher = RowHasher(table, .source, seed: seed)
    if isKeyed(row) {
      guard !table.key.contains(where: { row[$0] == nil }) else { return nil }
      return hasher.keyHash(of: row.map { $0 ?? .null })
    }
    guard !row.contains(nil) else { return nil }
    return hasher.rowHash(of: row.map { $0 ?? .null })
  }

  private func values(_ image: ImageView, _ places: [Int]) throws -> [Value?] {
    let all = try image.values()
    return places.map { $0 < all.count && $0 >= 0 ? all[$0] : nil }
  }

  // MARK: The table in the trail

  private mutating func isMine(_ id: UInt64, _ reader: TrailReader) throws -> Bool { try places(id, reader) != nil }

  /// Returns the index of each compared column in rows of the table definition `id`, or -1 for a missing column. Nil
  /// if `id` defines another table.
  private mutating func places(_ id: UInt64, _ reader: TrailReader) throws -> [Int]? {
    if reader.position.segment != segment {
      segment = reader.position.segment
      places.removeAll()
    }
    if let known = places[id] { return known }
    guard let schema = reader.schema(id) else { return nil }
    let found = Self.places(table, schema)
    places[id] = .some(found)
    return found
  }

  private static func places(_ table: ComparedTable, _ schema: TableSchema) -> [Int]? {
    let mine = table.source.schema
    let isMine =
      mine.engine == .sqlite
      ? schema.name.sqliteKey == mine.name.sqliteKey
      : schema.name.hasSameBytes(as: mine.name) && schema.namespace.hasSameBytes(as: mine.namespace)
    guard isMine else { return nil }
    return table.columns.indices.map { place in
      let name = table.source.column(place).name
      return schema.columns.firstIndex {
        $0.name.key(in: mine.engine) == name.key(in: mine.engine)
      }
        ?? -1
    }
  }
}
