import Changes
import Mapping

/// Converts the records of a trail by the rules of an apply. Tables get other names and shapes, rows that leave or
/// enter a filter become deletes and inserts, and changes of a history become inserts.
///
/// Records keep their order and positions. A returned record is valid until the next call of `reshape`.
///
///     let reshaper = Reshaper(rules, to: .sqlite, trail: "till.pos", epoch: epoch)
///     let record = try reshaper.reshape(record, at: position, schemas)
package final class Reshaper {
  enum Entry {
    case untouched
    case refused(TableSchema)
    case shaped(ShapedTable)
  }

  private let rules: [TableRule]
  let target: Engine
  /// The encoded name of the trail, for column `cairn_origin` of a history.
  private let origin: [UInt8]
  private let epoch: String

  private var segment: UInt64 = 0
  private var entries: [UInt64: Entry] = [:]
  /// The plan of the rule for each table, by the table's name at the source.
  private var plans: [NameKey: ReshapePlan] = [:]
  /// The commit time of the current transaction, as a delete mark stores it.
  package private(set) var commitTime = ""
  private var encodedTime: [UInt8] = []
  private var row = SourceRow()
  private var old = ByteWriter(capacity: 256)
  private var new = ByteWriter(capacity: 256)
  private var following: Record?
  /// The reason why apply cannot write the last returned record; nil if there is none. For a record with the flag
  /// ``ChangeTreatment/incomplete``, the reason applies only if the target lacks the row.
  package private(set) var refusal: CairnError?

  /// Creates a reshaper for one apply.
  /// - Parameter trail: The name of the trail, for column `cairn_origin` of a history.
  /// - Parameter epoch: The text after the `@` in column `cairn_position` of a history.
  package init(_ rules: [TableRule], to target: Engine, trail: String, epoch: String) {
    (self.rules, self.target, self.epoch) = (rules, target, epoch)
    origin = Self.encoded(trail)
  }

  /// Returns the table in the shape that apply receives.
  /// - Parameter id: The id of the schema in the current segment.
  package func schema(_ id: UInt64, _ given: TableSchema) -> TableSchema {
    switch entry(id, given) {
    case .untouched: given
    case .refused(let schema): schema
    case .shaped(let table): table.plan.schema
    }
  }

  /// Returns the converted record; nil if the rules leave out the record.
  /// - Parameter given: A function that returns the trail's schema for an id.
  package func reshape(_ record: Record, at position: Position, _ given: (UInt64) -> TableSchema?) throws -> Record? {
    refusal = nil
    if position.segment != segment {
      segment = position.segment
      entries.removeAll(keepingCapacity: true)
    }
    switch record {
    case .change(let change):
      guard case .shaped(let table) = find(change.schemaID, given) else { return record }
      return try reshape(change, table, position).map { .change($0) }
    case .refreshRow(let id, let image):
      guard case .shaped(let table) = find(id, given) else { return record }
      return try reshape(row: image, id, table, position)
    // Only tables without a rule are replicated both ways.
    case .waitingRow(let row):
      if case .shaped = find(row.schemaID, given) { return nil }
    case .refresh(let refresh):
      guard case .shaped(let table) = find(refresh.schemaID, given) else { return record }
      return try reshape(refresh, table)
    case .ddl(let ddl):
      following = nil
      return try reshape(ddl, given)
    case .schema(let id, _): entries[id] = nil
    case .begin(let header):
      commitTime = TimeStamp.text(header.commitTime)
      encodedTime = Self.encoded(commitTime)
    default: break
    }
    return record
  }

  /// Returns the second record that the last call of `reshape` made, and forgets it. Nil if there is none.
  package func takeFollowing() -> Record? {
    defer { following = nil }
    return following
  }

  // MARK: Tables

  func find(_ id: UInt64, _ given: (UInt64) -> TableSchema?) -> Entry {
    if let entry = entries[id] { return entry }
    return given(id).map { entry(id, $0) } ?? .untouched
  }

  private func entry(_ id: UInt64, _ given: TableSchema) -> Entry {
    if let entry = entries[id] { return entry }
    let entry = makeEntry(given)
    entries[id] = entry
    return entry
  }

  private func makeEntry(_ given: TableSchema) -> Entry {
    guard let rule = rules.rule(for: given) else { return .untouched }
    if let plan = plans[given.fullName], plan.source == given { return .shaped(ShapedTable(plan)) }
    do {
      let plan = try ReshapePlan(rule, given, to: target)
      plans[given.fullName] = plan
      return .shaped(ShapedTable(plan))
    } catch {
      let error = error as? CairnError ?? CairnError(.bug, "unexpected: \(error)", hint: "please report this")
      return .refused(ReshapePlan.refused(rule, given, error, to: target))
    }
  }

  /// Makes apply write no more changes of a table, and report the message and the hint.
  func refuse(_ id: UInt64, _ given: TableSchema, _ message: String, hint: String) {
    var schema = given
    var treatment = TableTreatment()
    treatment.refusal = .init(message: message, hint: hint)
    schema.treatment = treatment
    entries[id] = .refused(schema)
  }

  func follow(with record: Record) { following = record }

  // MARK: Changes

  private func reshape(_ change: ChangeView, _ table: ShapedTable, _ position: Position) throws -> ChangeView? {
    try row.read(before: change.before, after: change.after, columns: table.plan.source.columns.count)
    old.removeAll()
    new.removeAll()
    old.shrink(above: 1 << 20)
    new.shrink(above: 1 << 20)
    do {
      if table.plan.rule.mode == .history { return try history(change, table, position) }
      switch change.operation {
      case .insert:
        guard try table.newSide(row) == .inside else { return nil }
        return try inserted(change, table)
      case .delete:
        let side = try table.oldSide(row)
        return side == .outside ? nil : try removed(change, table, isTolerant: side == .unknown)
      case .update: return try updated(change, table)
      case .truncate: return try truncated(change, table)
      }
    } catch let missing as ShapedTable.Missing {
      return refused(change, table, because: missing.column)
    } catch let failure as RowCalculator.Failure {
      return refused(
        change, table, "SQLite cannot compute it: \(failure.message)",
        hint: "correct the expression in the rule, or the row at the source, \(TableTreatment.thenCopy)")
    }
  }

  private func inserted(_ change: ChangeView, _ table: ShapedTable) throws -> ChangeView {
    _ = try table.append(.new, of: row, removed: Self.null, to: &new)
    // A kept row may have the same key.
    return ChangeView(
      .insert, schemaID: change.schemaID, after: ImageView(bytes: new.bytes),
      treatment: table.removal == .applied ? [] : .tolerant)
  }

  /// Returns the change for a row that was deleted at the source or left the filter. It deletes the target's row or
  /// sets its delete mark; nil to change nothing.
  private func removed(_ change: ChangeView, _ table: ShapedTable, isTolerant: Bool) throws -> ChangeView? {
    let isImplied = change.flags.contains(.implied)
    switch table.removal {
    case .kept: return nil
    case .applied:
      _ = try table.append(.old, of: row, removed: Self.null, to: &old)
      return ChangeView(
        .delete, schemaID: change.schemaID, before: ImageView(bytes: old.bytes), isImplied: isImplied,
        treatment: isTolerant ? .tolerant : [])
    case .marked:
      _ = try table.append(.old, of: row, removed: isTolerant ? Self.unchanged : Self.null, to: &old)
      appendMark(table)
      return ChangeView(
        .update, schemaID: change.schemaID, before: ImageView(bytes: old.bytes), after: ImageView(bytes: new.bytes),
        treatment: isTolerant || isImplied ? .tolerant : [])
    }
  }

  private func appendMark(_ table: ShapedTable) {
    for output in table.plan.outputs { output == .removed ? new.append(encodedTime) : new.appendUnchanged() }
  }

  private func updated(_ change: ChangeView, _ table: ShapedTable) throws -> ChangeView? {
    let (was, now) = (try table.oldSide(row), try table.newSide(row))
    switch (was, now) {
    case (_, .unknown): throw ShapedTable.Missing(column: "")
    case (.outside, .outside): return nil
    case (.outside, .inside): return try inserted(change, table)
    case (_, .outside): return try removed(change, table, isTolerant: was == .unknown)
    case (.inside, .inside):
      if table.isUntouched(by: row) { return nil }
      if table.removal != .applied, table.isKeyChanged(by: row) { return try moved(change, table) }
      if !row.before.isEmpty { _ = try table.append(.old, of: row, removed: Self.null, to: &old) }
      _ = try table.append(.changes, of: row, removed: Self.unchanged, to: &new)
      return update(change, [])
    case (.unknown, .inside):
      if !row.before.isEmpty { _ = try table.append(.old, of: row, removed: Self.unchanged, to: &old) }
      let isWhole = try table.append(.known, of: row, removed: Self.null, to: &new)
      if !isWhole { refusal = missing(table, "") }
      return update(change, isWhole ? .tolerant : .incomplete)
    }
  }

  /// Returns a delete of the row with the old key. The next record inserts the row with the new key.
  private func moved(_ change: ChangeView, _ table: ShapedTable) throws -> ChangeView {
    follow(with: .change(try inserted(change, table)))
    _ = try table.append(.old, of: row, removed: Self.unchanged, to: &old)
    return ChangeView(
      .delete, schemaID: change.schemaID, before: ImageView(bytes: old.bytes), treatment: .tolerant)
  }

  private func update(_ change: ChangeView, _ treatment: ChangeTreatment) -> ChangeView {
    ChangeView(
      .update, schemaID: change.schemaID, before: row.before.isEmpty ? nil : ImageView(bytes: old.bytes),
      after: ImageView(bytes: new.bytes), treatment: treatment)
  }

  private func truncated(_ change: ChangeView, _ table: ShapedTable) throws -> ChangeView? {
    switch table.removal {
    case .kept: return nil
    case .applied: return change
    case .marked:
      appendMark(table)
      return ChangeView(.truncate, schemaID: change.schemaID, after: ImageView(bytes: new.bytes))
    }
  }

  // MARK: Histories

  private func history(_ change: ChangeView, _ table: ShapedTable, _ position: Position) throws -> ChangeView? {
    let isTaken: Bool
    switch change.operation {
    case .insert: isTaken = try table.newSide(row) != .outside
    case .delete: isTaken = try table.oldSide(row) != .outside
    case .update: isTaken = try table.newSide(row) != .outside || table.oldSide(row) != .outside
    case .truncate: isTaken = true
    }
    guard isTaken else { return nil }
    let name =
      switch change.operation {
      case .insert: "insert"
      case .update: "update"
      case .delete: "delete"
      case .truncate: "truncate"
      }
    return try history(name, change.schemaID, table, position, change.operation == .delete ? .old : .known)
  }

  private func history(
    _ operation: String, _ id: UInt64, _ table: ShapedTable, _ position: Position, _ image: ShapedTable.Image
  ) throws -> ChangeView {
    _ = try table.append(image, of: row, removed: Self.null, to: &new) { column, unknown in
      switch column {
      case .operation: Self.encoded(operation)
      case .committedAt: self.encodedTime
      case .origin: self.origin
      case .position: Self.encoded("\(position)@\(self.epoch)")
      case .unknown:
        unknown.isEmpty || operation == "truncate" ? Self.null : Self.encoded(unknown.joined(separator: ","))
      }
    }
    return ChangeView(.insert, schemaID: id, after: ImageView(bytes: new.bytes))
  }

  // MARK: Refresh

  private func reshape(row image: ImageView, _ id: UInt64, _ table: ShapedTable, _ position: Position) throws
    -> Record?
  {
    try row.read(before: nil, after: image, columns: table.plan.source.columns.count)
    new.removeAll()
    new.shrink(above: 1 << 20)
    do {
      guard try table.newSide(row) == .inside else { return nil }
      if table.plan.rule.mode == .history { return .change(try history("copy", id, table, position, .known)) }
      _ = try table.append(.new, of: row, removed: Self.null, to: &new)
      return .refreshRow(schemaID: id, ImageView(bytes: new.bytes))
    } catch let failure as RowCalculator.Failure {
      let change = ChangeView(.insert, schemaID: id)
      return .change(
        refused(
          change, table, "SQLite cannot compute it: \(failure.message)",
          hint: "correct the expression in the rule, or the row at the source, \(TableTreatment.thenCopy)"))
    }
  }

  private func reshape(_ refresh: Refresh, _ table: ShapedTable) throws -> Record? {
    var derived = refresh
    let isHistory = table.plan.rule.mode == .history
    switch refresh.event {
    case .start(let reason, _, let rows):
      // A history keeps its rows, and the copy adds to them.
      if isHistory { derived.event = .start(reason, .rows, estimatedRows: rows) }
    case .chunk(.keys(let after, let through)):
      derived.event = .chunk(.keys(after: try after.map(table.bound), through: try through.map(table.bound)))
    case .chunk(.row(let key)): derived.event = .chunk(.row(try table.bound(key)))
    case .chunk, .end: break
    }
    if isHistory, case .chunk = refresh.event { return nil }
    return .refresh(derived)
  }

  // MARK: Refused changes

  private func missing(_ table: ShapedTable, _ column: String) -> CairnError {
    let source = table.plan.source
    return CairnError(
      .ruleRefused,
      "table \(source.fullName): PostgreSQL does not log a long value that an update left unchanged\(column.isEmpty ? "" : ", and column \(column) needs it"), so the rule for the table cannot be applied",
      hint:
        "run at the source: ALTER TABLE \(source.postgresIdentifier) REPLICA IDENTITY FULL, \(TableTreatment.thenCopy)",
      context: ["table": table.plan.schema.fullName])
  }

  private func refused(_ change: ChangeView, _ table: ShapedTable, because column: String) -> ChangeView {
    refusal = missing(table, column)
    return ChangeView(change.operation, schemaID: change.schemaID, treatment: .refused)
  }

  private func refused(_ change: ChangeView, _ table: ShapedTable, _ why: String, hint: String) -> ChangeView {
    let source = table.plan.source
    let key = source.key.map { column in
      let bytes = row.new(column) ?? row.old(column)
      var value: Value?
      if let bytes {
        var reader = ByteReader(bytes)
        value = (try? reader.readColumn())?.value
      }
      return "\(source.columns[column].name)=\(value?.shown ?? "?")"
    }
    refusal = CairnError(
      .ruleRefused, "table \(source.fullName), row \(key.joined(separator: ", ")): \(why)", hint: hint,
      context: ["table": table.plan.schema.fullName])
    return ChangeView(change.operation, schemaID: change.schemaID, treatment: .refused)
  }

  // MARK: Values

  private static let null: [UInt8] = [ValueTag.null]
  private static let unchanged: [UInt8] = [ValueTag.unchanged]

  private static func encoded(_ text: String) -> [UInt8] {
    var image = ByteWriter(capacity: text.utf8.count + 8)
    image.append(Value.text(text))
    return Array(image.bytes)
  }
}
