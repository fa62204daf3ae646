import Capturing
import Changes
import Mapping
import PostgresKit
import SystemKit
import Trails

// The comparison while no Cairn replicates between the ends: changes that the source or the trail holds, and the target
// lacks, are in flight.
extension SettlingByTrail {
  func settleAtRest(_ look: RowLook, _ verdict: RowVerdict, keyed suspects: [Suspect]) throws -> ProvenDifferences {
    // This node cannot know whether the source's node has more changes for the trail.
    if ends.isAfar { return ProvenDifferences(inFlight: suspects.count) }
    let here = try look.rows(.source, suspects)
    let (checkpoint, there) = try ends.atTarget { try look.rows(.target, suspects) }
    let differing = try suspects.flatMap { suspect in
      try verdict.differences(here[suspect.hash]?.first, there[suspect.hash] ?? []).map { (suspect.hash, $0) }
    }
    guard !differing.isEmpty else { return ProvenDifferences() }
    let rows = Dictionary(suspects.map { ($0.hash, TrailFold.Row.absent) }, uniquingKeysWith: { first, _ in first })
    let moving = try moving(look.table, checkpoint, rows: rows, counts: nil)
    var settlement = ProvenDifferences()
    for (hash, difference) in differing {
      if moving(hash) {
        settlement.inFlight += 1
        settlement.unproven.append(difference)
      } else {
        settlement.differences.append(difference)
      }
    }
    return settlement
  }

  func settleAtRest(
    _ look: RowLook, _ verdict: RowVerdict, whole hashes: [UInt64], _ report: (ProvenDifferences) throws -> Void
  ) throws {
    if ends.isAfar { return try report(ProvenDifferences(inFlight: hashes.count)) }
    let here = try look.counts(.source, hashes)
    let (checkpoint, there) = try ends.atTarget { try look.counts(.target, hashes) }
    let moving = try moving(look.table, checkpoint, rows: [:], counts: here)
    for hash in hashes where here[hash] != there[hash] {
      let isMoving = moving(hash)
      let difference = try verdict.difference(
        here[hash] - there[hash], source: here.row(hash), target: there.row(hash))
      var settlement = ProvenDifferences(differences: difference.map { [$0] } ?? [])
      if isMoving { settlement.doubt() }
      try report(settlement)
    }
  }

  /// Returns a function of a row's hash. That function returns whether the source or the trail may have a change of the
  /// row that the target lacks.
  private func moving(
    _ table: ComparedTable, _ checkpoint: Checkpoint?, rows: [UInt64: TrailFold.Row], counts: RowCounts?
  ) throws -> (UInt64) -> Bool {
    guard let checkpoint else { return { _ in true } }
    try follower.go(to: checkpoint)
    var fold = TrailFold(
      table, seed: seed, moment: .beforeAll(table.source.engine), rows: rows, counts: counts)
    _ = try follower.read({ record, reader in try fold.take(record, reader) }, until: { _ in false })
    if fold.isUnknown { return { _ in true } }
    var touched = fold.touched
    func isLookedFor(_ hash: UInt64) -> Bool { rows[hash] != nil || counts?.contains(hash) == true }
    switch table.source.engine {
    case .sqlite:
      guard case .journal(let taken)? = try follower.reach(.sqlite) ?? ends.takenAtSource() else {
        return { _ in true }
      }
      touched.formUnion(try ends.journalled(table, behind: taken, seed: seed, where: isLookedFor))
    case .postgres:
      // If no record follows the checkpoint, all changes in the slot count.
      var reached = LSN(0)
      if case .log(let last, _)? = try follower.reach(.postgres) { reached = last }
      guard try !ends.hasUncaptured(PostgresSource.name(of: checkpoint.trail), behind: reached) else {
        return { _ in true }
      }
    }
    return { fold.isEmptied || touched.contains($0) }
  }
}

extension SourceMoment {
  fileprivate static func beforeAll(_ engine: Engine) -> SourceMoment {
    switch engine {
    case .sqlite: .journal(.min)
    case .postgres: .log(PostgresSnapshot.empty, end: LSN(0))
    }
  }
}

extension FlightEnds {
  /// The highest number of table definitions in a journal.
  private static let layoutsMax = 100_000

  /// Returns the hashes of rows in the journal after journal row `taken`. The hash is the key's, or the whole row's if
  /// the row has no key or NULL in its key.
  ///
  /// - Parameter isLookedFor: Selects the hashes to return.
  fileprivate func journalled(
    _ table: ComparedTable, behind taken: Int64, seed: UInt64, where isLookedFor: (UInt64) -> Bool
  ) throws -> Set<UInt64> {
    guard let reader = source as? SQLiteRowReader else { return [] }
    var hashes: Set<UInt64> = []
    var hasher = RowHasher(table, .source, seed: seed)
    try reader.database.forEachRow("SELECT id, schema FROM cairn_layout", rowsMax: Self.layoutsMax) { layout in
      Pulse.beat()
      guard case .blob(let bytes) = layout[1] else { return }
      let schema = try bytes.withUnsafeBytes { raw in
        var reader = ByteReader(raw)
        return try reader.readSchema(room: TableSchema.memoryMax)
      }
      guard schema.name.sqliteKey == table.source.schema.name.sqliteKey else { return }
      let places = Dictionary(
        schema.columns.enumerated().map { ($1.name.sqliteKey, $0) }, uniquingKeysWith: { first, _ in first })
      let columns = table.columns.indices.map { place in
        places[table.source.column(place).name.sqliteKey].map { "v\($0)" } ?? "NULL"
      }
      let statement = try reader.database.prepare(
        "SELECT \(columns.joined(separator: ",")) FROM cairn_journal WHERE seq > ? AND code / 8 = ? AND code % 8 <> 0")
      try statement.bind([.integer(taken), layout[0]])
      while try statement.step() {
        let row = table.columns.indices.map { statement.value($0) }
        let key = table.key.isEmpty ? nil : hasher.keyHash(of: row)
        let hash = key ?? hasher.rowHash(of: row)
        if isLookedFor(hash) { hashes.insert(hash) }
      }
    }
    return hashes
  }

  /// The maximum number of changes to read from a slot. If the slot has more, the source counts as having uncaptured
  /// changes.
  private static let slotChangesMax = 100_000

  /// Returns whether a slot has row changes that committed after LSN `reached`. Also returns true if the slot cannot be
  /// read or has too many changes.
  fileprivate func hasUncaptured(_ slot: String, behind reached: LSN) throws -> Bool {
    do {
      let row = try Self.connection(source).query(
        """
        WITH p AS (SELECT lsn, xid, get_byte(data, 0) AS kind FROM pg_logical_slot_peek_binary_changes($1::text::name, NULL,
          \(Self.slotChangesMax), 'proto_version', '1', 'publication_names', $1::text))
        SELECT count(*), count(*) FILTER (WHERE kind IN (68, 73, 84, 85)
          AND xid::text IN (SELECT xid::text FROM p WHERE kind = 67 AND lsn > $2::pg_lsn)) FROM p
        """, [slot, reached.description]
      ).first
      return row?[1] != "0" || Int(row?[0] ?? "") ?? .max >= Self.slotChangesMax
    } catch let error as PostgresError where !error.isServerGone { return true }
  }
}
