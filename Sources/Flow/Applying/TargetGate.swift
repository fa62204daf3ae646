import Changes
import Mapping

/// Decides for each record of a trail whether apply may write its table, before apply queries the target.
///
/// Tables have the names that rules give them at the target.
struct TargetGate {
  enum Admission {
    case taken(Record)
    /// The setting `tables` of the apply does not include the table, or its name at the target is reserved. Its records
    /// are skipped.
    case leftOut
  }

  private let tables: AdmittedTables
  private let target: Engine
  private let names: NamePolicy
  private let noteLeftOut: (LeftOutTable) throws -> Void

  private var segment: UInt64 = 0
  private var verdicts: [UInt64: TargetScope.Verdict] = [:]
  /// The schema id of the last record whose table apply may write.
  private var allowed: UInt64?
  /// The tables, by schema id, that apply may write only under their new name, after a rename. The target
  /// lacks the rows that such a table got before the rename.
  private var entered: [UInt64: TableTreatment.Refusal] = [:]
  /// The excluded tables that were reported. If there are too many of them, they are reported again.
  private var told: Set<NameKey> = []
  private var toldBudget = RowBudget(rows: 10_000, bytes: 4 << 20)
  /// The size of the names of reported tables, in bytes.
  var rememberedBytes: Int { toldBudget.bytes }

  init(_ options: ApplyOptions, to target: Engine, of trail: TrailName) {
    tables = AdmittedTables(options.scope, of: options.sourceTables, names: options.names)
    (self.target, names, noteLeftOut) = (target, options.names, options.noteLeftOut)
  }

  /// Returns whether apply takes a record or skips it.
  ///
  /// - Parameter shaped: Returns, by schema id, a table's schema as its rule changes it.
  /// - Parameter given: Returns, by schema id, a table's schema as the source has it.
  mutating func admit(
    _ record: Record, in segment: UInt64, _ shaped: (UInt64) -> TableSchema?, given: (UInt64) -> TableSchema?
  ) throws -> Admission {
    enter(segment)
    switch record {
    case .change(let change):
      if change.schemaID == allowed { return .taken(record) }
      return try admit(change.schemaID, record, shaped, given)
    case .refreshRow(let id, _):
      if id == allowed { return .taken(record) }
      return try admit(id, record, shaped, given)
    case .waitingRow(let row): return try admit(row.schemaID, record, shaped, given)
    case .refresh(let refresh): return try admit(refresh.schemaID, record, shaped, given)
    case .ddl(let ddl): return try admit(ddl, shaped, given)
    case .sequence(let sequence):
      guard target == .postgres, TargetScope.isReserved(sequence.namespace, sequence.name, in: target) else {
        return .taken(record)
      }
      try tell(sequence)
      return .leftOut
    case .schema(let id, _):
      (verdicts[id], entered[id], allowed) = (nil, nil, nil)
      return .taken(record)
    default: return .taken(record)
    }
  }

  mutating func verdict(_ id: UInt64, in segment: UInt64, _ shaped: (UInt64) -> TableSchema?) -> TargetScope.Verdict {
    enter(segment)
    if let verdict = verdicts[id] { return verdict }
    // A record without its schema is damage, which apply reports.
    guard let schema = shaped(id) else { return .allowed }
    let verdict = tables.verdict(schema, in: target)
    verdicts[id] = verdict
    return verdict
  }

  /// Marks a table's schema if the setting `tables` includes the table only under its new name, after a rename. Such a
  /// table must be refreshed.
  func treat(_ schema: inout TableSchema, _ id: UInt64, in segment: UInt64) {
    guard segment == self.segment, let refusal = entered[id] else { return }
    var treatment = schema.treatment ?? TableTreatment()
    treatment.refusal = refusal
    schema.treatment = treatment
  }

  /// Clears the cached answers about tables if `segment` is not the segment of the last call. A schema id is valid
  /// within one segment.
  private mutating func enter(_ segment: UInt64) {
    guard segment != self.segment else { return }
    self.segment = segment
    verdicts.removeAll(keepingCapacity: true)
    entered.removeAll()
    allowed = nil
  }

  private mutating func admit(
    _ id: UInt64, _ record: Record, _ shaped: (UInt64) -> TableSchema?, _ given: (UInt64) -> TableSchema?
  ) throws -> Admission {
    switch verdict(id, in: segment, shaped) {
    case .allowed:
      allowed = id
      return .taken(record)
    case .leftOut, .reserved:
      try tell(id, shaped, given)
      return .leftOut
    }
  }

  private mutating func admit(
    _ ddl: DDL, _ shaped: (UInt64) -> TableSchema?, _ given: (UInt64) -> TableSchema?
  ) throws -> Admission {
    allowed = nil
    let ids = [ddl.before, ddl.after].filter { $0 != 0 }
    var found = ids.map { ($0, verdict($0, in: segment, shaped)) }
    // If two tables swap names, the first one temporarily takes a third name, under which no row is written.
    if found.count == 2, let aside = found.firstIndex(where: { $0.1 == .reserved && isAside($0.0, shaped) }) {
      found[aside].1 = found[1 - aside].1
    }
    for (id, verdict) in found where verdict != .allowed { try tell(id, shaped, given) }
    let isAllowed = { (id: UInt64) in found.contains { $0.0 == id && $0.1 == .allowed } }
    let isLeftOut = { (id: UInt64) in found.contains { $0.0 == id && $0.1 != .allowed } }
    if isLeftOut(ddl.after) || (ddl.after == 0 && isLeftOut(ddl.before)) { return .leftOut }
    guard isLeftOut(ddl.before), isAllowed(ddl.after) else { return .taken(.ddl(ddl)) }
    if !ddl.isRefreshed, let was = shaped(ddl.before), let now = shaped(ddl.after) {
      entered[ddl.after] = .init(
        message:
          "table \(was.fullName) is called \(now.fullName) now, which apply may write, but its earlier rows were left out",
        hint: "check that the source captures the table, \(TableTreatment.thenCopy)")
    }
    return .taken(.ddl(DDL(action: .create, before: 0, after: ddl.after, isRefreshed: ddl.isRefreshed)))
  }

  /// Returns whether a table has the temporary name that capture gives it while two tables swap names.
  private func isAside(_ id: UInt64, _ shaped: (UInt64) -> TableSchema?) -> Bool {
    guard let schema = shaped(id), schema.engine == .sqlite else { return false }
    let (name, head) = (schema.name.utf8, "cairn_moving_".utf8)
    return name.starts(with: head) && name.count > head.count
      && name.dropFirst(head.count).allSatisfy { (0x30...0x39).contains($0) }
  }

  private mutating func tell(
    _ id: UInt64, _ shaped: (UInt64) -> TableSchema?, _ given: (UInt64) -> TableSchema?
  ) throws {
    guard let source = given(id), let schema = shaped(id), !told.contains(source.plainName) else { return }
    if !toldBudget.take(source.plainName.utf8.count) {
      told.removeAll()
      toldBudget.clear()
      _ = toldBudget.take(source.plainName.utf8.count)
    }
    told.insert(source.plainName)
    let place = TableMapping.targetPlace(of: schema, in: target, names: names)
    try noteLeftOut(LeftOutTable(source: source.plainName, namespace: place.namespace, name: place.name))
  }

  private mutating func tell(_ sequence: SequenceState) throws {
    let source = sequence.shownName
    guard told.insert(source.nameKey).inserted else { return }
    try noteLeftOut(LeftOutTable(source: source, namespace: sequence.namespace, name: sequence.name))
  }
}
