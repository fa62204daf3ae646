import Changes
import Mapping
import Reshaping
import Trails

/// The trail as apply is to see it: as it is, or under the rules for its tables.
///
/// Where there are no rules, every call goes to the trail's own reader.
final class ApplyReader {
  private let trail: TrailReader
  private let reshaper: Reshaper?
  /// Only shapes are looked at: rows stay as the trail has them.
  private let isForShapes: Bool
  /// Where writes go both ways every row has a key: PostgreSQL is to have it as one.
  private var hasWholeKeys = false
  /// The gate that decides which records the target takes; nil if apply reads only shapes and writes nothing.
  private var gate: TargetGate?
  /// Why the record that was returned last must not be applied; nil: it may be.
  private var barred: CairnError?

  /// Opens the trail behind a checkpoint, or at its start. Errors: as ``TrailReader``.
  static func open(
    folder: String, at checkpoint: Checkpoint?, rules: [ReshapeRule], to target: Engine, isForShapes: Bool = false
  ) throws -> ApplyReader {
    ApplyReader(try TrailReader.open(folder: folder, at: checkpoint), rules, target, isForShapes)
  }

  /// Opens the trail for a target: one that has nothing of it yet needs it from its beginning, or from where copies of
  /// everything were asked for. Throws `checkpoint-foreign` where that is gone.
  static func open(folder: String, for checkpoint: Checkpoint?, options: ApplyOptions, to target: Engine) throws
    -> ApplyReader
  {
    let reader = try open(folder: folder, at: checkpoint ?? options.askedAt, rules: options.rules, to: target)
    reader.hasWholeKeys = options.twoWay != nil && target == .postgres
    reader.gate = TargetGate(options, to: target, of: reader.trail.name)
    let begin = reader.trail.checkpoint.position
    guard checkpoint == nil, options.askedAt == nil, begin.segment > 1 else { return reader }
    throw CairnError(
      .checkpointForeign,
      "the target knows nothing of trail \(reader.trail.name), whose beginning has been purged: the oldest segment is \(begin.segment)",
      hint:
        "put the target back that it was applied to, or have everything copied: with the daemon 'cairn copy APPLY', else run again",
      context: ["trail": reader.trail.name.description])
  }

  private init(_ trail: TrailReader, _ rules: [ReshapeRule], _ target: Engine, _ isForShapes: Bool) {
    self.trail = trail
    self.isForShapes = isForShapes
    let epoch = String(trail.id.description.prefix(8))
    reshaper =
      rules.isEmpty ? nil : Reshaper(rules, to: target, trail: trail.name.description, epoch: epoch)
  }

  var id: TrailID { trail.id }
  /// Where the record that was returned last begins.
  var position: Position { trail.position }
  var checkpoint: Checkpoint { trail.checkpoint }
  /// The place up to which the trail was synced when the reader looked last.
  var durableEnd: Checkpoint { trail.durableEnd }
  /// Why the record that was returned last cannot be applied, where its treatment says so.
  var refusal: CairnError? { reshaper?.refusal }
  /// Of the transaction that is being read, as columns that mark rows have it. Empty where there are no rules.
  var commitTime: String { reshaper?.commitTime ?? "" }

  /// The schema of an id in the segment that is being read; nil before its record.
  func schema(_ id: UInt64) -> TableSchema? {
    guard var schema = shaped(id) else { return nil }
    gate?.treat(&schema, id, in: trail.position.segment)
    if hasWholeKeys { schema.flags.remove(.nullableKey) }
    return schema
  }

  /// The table as its rule makes it.
  private func shaped(_ id: UInt64) -> TableSchema? {
    guard let given = trail.schema(id) else { return nil }
    return reshaper?.schema(id, given) ?? given
  }

  /// Whether apply may write the table of an id.
  func isAllowed(_ id: UInt64) -> Bool {
    guard gate != nil else { return true }
    return gate?.verdict(id, in: trail.position.segment, shaped) == .allowed
  }

  /// Throws `table-forbidden` if the record that was returned last must not be applied.
  func checkBarred() throws(CairnError) {
    if let barred { throw barred }
  }

  /// As ``schema(_:)``, but as the source has the table.
  func given(_ id: UInt64) -> TableSchema? { trail.schema(id) }

  /// Whether a table or a column no longer has the name by which changes before wrote it: it is dropped or renamed.
  func takesNameAway(_ ddl: DDL) -> Bool {
    guard ddl.action != .create else { return false }
    guard let before = given(ddl.before), let after = given(ddl.after), before.fullName.hasSameBytes(as: after.fullName)
    else { return true }
    return !before.columns.allSatisfy { column in after.columns.contains { $0.name.hasSameBytes(as: column.name) } }
  }

  /// The next record that the target takes; nil at the durable end. Views in it are valid until the next call.
  ///
  /// Records for tables that the conf of the apply leaves out are not returned. One for a reserved table is returned, so
  /// that its transaction can be put aside, and ``checkBarred()`` throws before it is applied.
  func next() throws -> Record? {
    guard gate != nil else { return try ruled() }
    while let record = try ruled() {
      barred = nil
      let admission =
        try gate?.admit(record, in: trail.position.segment, shaped, given: trail.schema) ?? .taken(record)
      switch admission {
      case .taken(let record): return record
      case .leftOut: continue
      case .refused(let table):
        barred = TargetScope.refusal(table, by: trail.name.description, at: trail.position.description)
        return record
      }
    }
    return nil
  }

  /// As ``TrailReader/decoding(_:)``.
  func decoding<T>(_ body: () throws -> T) throws -> T { try trail.decoding(body) }

  /// The next record under the rules for its table.
  private func ruled() throws -> Record? {
    guard let reshaper else { return try trail.next() }
    if let record = reshaper.takeFollowing() { return record }
    while let record = try trail.next() {
      if isForShapes {
        switch record {
        case .change, .refreshRow: return record
        default: break
        }
      }
      do {
        if let reshaped = try reshaper.reshape(record, at: trail.position, trail.schema) { return reshaped }
      } catch let error as DecodingError {
        throw CairnError(
          .trailDamaged, "a record at \(trail.position) of trail \(trail.name) is not what it should be: \(error)",
          hint: "run 'cairn trail verify \(trail.name)'")
      }
    }
    return nil
  }

  func wait(milliseconds: Int, also fd: Int32? = nil) throws -> Bool {
    try trail.wait(milliseconds: milliseconds, also: fd)
  }
}
