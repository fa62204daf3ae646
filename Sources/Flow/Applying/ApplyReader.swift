import Changes
import Mapping
import Trails
import Transforming

/// Reads the records of a trail for apply, and changes them as the rules for their tables say.
///
/// Without rules, every record is returned as the trail has it.
final class ApplyReader {
  private let trail: TrailReader
  private let reshaper: Reshaper?
  /// Whether the caller needs only schemas. If so, rules do not change the rows.
  private let isForShapes: Bool
  /// Whether key columns count as NOT NULL, as in a two-way apply to PostgreSQL.
  private var hasWholeKeys = false
  /// The check that decides which records apply processes; nil if the caller needs only schemas.
  private var gate: TargetGate?

  /// Opens the trail after a checkpoint; without one, at the trail's start.
  ///
  /// - Throws: Errors of ``TrailReader``.
  static func open(
    folder: String, at checkpoint: Checkpoint?, rules: [TableRule], to target: Engine, isForShapes: Bool = false
  ) throws -> ApplyReader {
    ApplyReader(try TrailReader.open(folder: folder, at: checkpoint), rules, target, isForShapes)
  }

  /// Opens the trail for a target. Without a checkpoint, reading begins at the trail's end at the time of a refresh
  /// request. Without a request, it begins at the trail's start.
  ///
  /// - Throws: `checkpoint-foreign` if that place has been purged.
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
      "the target has no position in trail \(reader.trail.name), and the beginning of the trail is purged: the oldest segment is \(begin.segment)",
      hint:
        "use the target that the trail was applied to, or copy everything: with the daemon 'cairn copy APPLY', else run again",
      context: ["trail": reader.trail.name.description])
  }

  private init(_ trail: TrailReader, _ rules: [TableRule], _ target: Engine, _ isForShapes: Bool) {
    self.trail = trail
    self.isForShapes = isForShapes
    let epoch = String(trail.id.description.prefix(8))
    reshaper =
      rules.isEmpty ? nil : Reshaper(rules, to: target, trail: trail.name.description, epoch: epoch)
  }

  var id: TrailID { trail.id }
  /// The place in the trail of the record that was returned last.
  var position: Position { trail.position }
  var checkpoint: Checkpoint { trail.checkpoint }
  /// The place up to which the trail was durable when the reader last checked.
  var durableEnd: Checkpoint { trail.durableEnd }
  /// The reason why the table's rule does not let apply write the record that was returned last; nil: none.
  var refusal: CairnError? { reshaper?.refusal }
  /// The commit time of the present transaction, as a text for delete marks. Empty if the apply has no table rules.
  var commitTime: String { reshaper?.commitTime ?? "" }

  /// Returns the schema with this id in the present segment; nil if the segment has no such schema yet.
  func schema(_ id: UInt64) -> TableSchema? {
    guard var schema = shaped(id) else { return nil }
    gate?.treat(&schema, id, in: trail.position.segment)
    if hasWholeKeys { schema.flags.remove(.nullableKey) }
    return schema
  }

  private func shaped(_ id: UInt64) -> TableSchema? {
    guard let given = trail.schema(id) else { return nil }
    return reshaper?.schema(id, given) ?? given
  }

  /// Returns whether apply may write the table with this schema id.
  func isAllowed(_ id: UInt64) -> Bool {
    guard gate != nil else { return true }
    return gate?.verdict(id, in: trail.position.segment, shaped) == .allowed
  }

  func given(_ id: UInt64) -> TableSchema? { trail.schema(id) }

  /// Returns whether a schema change renames or drops a table, or one of the table's columns.
  func takesNameAway(_ ddl: DDL) -> Bool {
    guard ddl.action != .create else { return false }
    guard let before = given(ddl.before), let after = given(ddl.after), before.fullName.hasSameBytes(as: after.fullName)
    else { return true }
    return !Set(before.columns.map(\.name.nameKey)).isSubset(of: after.columns.map(\.name.nameKey))
  }

  /// Returns the next record that is meant for the target; nil at the durable end. The record's bytes are valid until
  /// the next call.
  ///
  /// Skips records for tables that the conf leaves out, and for tables with a reserved name.
  func next() throws -> Record? {
    guard gate != nil else { return try ruled() }
    while let record = try ruled() {
      let admission =
        try gate?.admit(record, in: trail.position.segment, shaped, given: trail.schema) ?? .taken(record)
      switch admission {
      case .taken(let record): return record
      case .leftOut: continue
      }
    }
    return nil
  }

  /// Runs a body that decodes a group. Adds the record's place to errors, then gives back the memory of large blocks.
  func decodingGroup<T>(_ body: () throws -> T) throws -> T {
    let result = try trail.decoding(body)
    trail.pause()
    return result
  }

  /// Runs a body that decodes the present record, and adds the record's place to errors of the body.
  func decoding<T>(_ body: () throws -> T) throws -> T { try trail.decoding(body) }

  /// Returns the next record as the table's rule changes it; nil at the durable end of the trail.
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
          .trailDamaged, "a record at \(trail.position) of trail \(trail.name) is invalid: \(error)",
          hint: "run 'cairn trail verify \(trail.name)'")
      }
    }
    return nil
  }

  func wait(milliseconds: Int, also fd: Int32? = nil) throws -> Bool {
    try trail.wait(milliseconds: milliseconds, also: fd)
  }
}

extension ApplyReader {
  /// Returns the schema record with this id, which the present segment of trail `name` must have.
  func schema(_ id: UInt64, of name: TrailName) throws -> TableSchema {
    guard let schema = schema(id) else {
      throw CairnError(
        .trailDamaged, "schema \(id) at \(position) of trail \(name) is not in its segment",
        hint: "run 'cairn trail verify \(name)'")
    }
    return schema
  }
}
