import Changes

/// The last writer of each column of one row, from one trail. It takes the records that may concern the row, the newest
/// first. Renamed columns and tables, and the row's earlier keys, are followed.
///
///     var blame = Blame(schema, key)
///     let step = blame.note(event)   // .follow: now search for blame.table and blame.key before the event
package struct Blame {
  /// How a column got its value.
  package enum Kind: String, Sendable {
    case insert
    case update
    case delete
    case truncate
    /// A copy of the table brought the value. Its writer is older.
    case copy
    /// A schema change added the column.
    case column
    /// The row got another key.
    case move
    /// A schema change dropped the table.
    case drop
  }

  /// The last write of a column.
  package struct Write: Sendable {
    package var kind: Kind
    package var node: String
    /// The time of the commit, µs since 1970 UTC.
    package var time: Int64
    /// Whether ``time`` is that of the capture, because the source gave none.
    package var isLate: Bool
    package var clock: UInt64
    /// The trail that has the write.
    package var trail: String
    /// The trail in which the transaction began, and its number there.
    package var origin: String
    package var transaction: UInt64
    package var position: Position
    /// The value that was written; nil if the row is gone, or if the trail does not give it.
    package var value: Value?
    package var statement: String?
    /// Whether an earlier transaction may have written the same value: the trail does not say what was there before.
    package var mayBeOlder = false
    /// The time of a later copy that brought the same value.
    package var copied: Int64?
  }

  /// The next event that a search needs.
  package enum Step: Equatable {
    /// An older event of the same key and table.
    case more
    /// An older event of another key or table: ``Blame/key`` and ``Blame/table`` have changed.
    case follow
    /// Nothing: older events do not matter.
    case end
  }

  /// A column that is looked for.
  private struct Wanted {
    /// The name that the column had at the time of the last event; nil if the column is settled.
    var name: String?
    var write: Write?
  }

  /// The name of the table at the time of the last event, as ``TableSchema/plainName`` gives it.
  package private(set) var table: String
  /// The key of the row at the time of the last event.
  package private(set) var key: RowKey
  /// The number of the key's columns.
  package private(set) var keyCount: Int
  /// The name that the table has got since, if it is not the one that was asked for.
  package private(set) var newName: String?
  /// The time of the event before which the search does not look; nil if the trail's beginning ended it.
  package private(set) var horizon: Int64?
  private var wanted: [Wanted]
  private let columns: [NameKey: Int]
  private var isSeen = false
  /// The newest event after which the table did not have the row, whether it had it before or not.
  private var absence: (event: BlameEvent, kind: Kind)?
  /// Whether the last older event was the end of a copy, and whether the row came since.
  private var copy: (end: BlameEvent, hasRow: Bool)?

  package init(_ schema: TableSchema, _ key: RowKey) {
    (table, self.key, keyCount) = (schema.plainName, key, schema.key.isEmpty ? schema.columns.count : schema.key.count)
    wanted = schema.columns.map { Wanted(name: $0.name) }
    columns = Dictionary(schema.columns.enumerated().map { ($1.name.sqliteKey, $0) }) { first, _ in first }
  }

  /// Returns the last write of a column; nil if the trail does not have it.
  package subscript(column column: String) -> Write? { columns[column.sqliteKey].flatMap { wanted[$0].write } }

  /// Whether the trail has no write of the row.
  package var isEmpty: Bool { wanted.allSatisfy { $0.write == nil || $0.write?.kind == .column } }

  /// Takes the next older event.
  package mutating func note(_ event: BlameEvent) -> Step {
    switch event.content {
    case .row(.insert, _, let after?): return inserted(event, after)
    case .row(.update, let before, let after?): return updated(event, before, after)
    case .row(.delete, let before?, _): return before.key == key ? gone(event, .delete) : .more
    case .row(.truncate, _, _): return absent(event, .truncate)
    case .row: return .more
    case .copied(let row):
      guard row.key == key else { return .more }
      if let absence { return gone(absence.event, absence.kind) }
      copy?.hasRow = true
      take(row.values, old: [], event, .copy)
      return next
    case .copyEnds:
      copy = (event, false)
      return .more
    case .copyBegins(let isWhole):
      defer { copy = nil }
      // The copy has all rows of the table, and this one is not among them.
      guard isWhole, let copy, !copy.hasRow else { return .more }
      return absent(copy.end, .copy)
    case .schema(let action, let before, let after, let origins):
      return reshaped(event, action, before, after, origins)
    }
  }

  private var next: Step { wanted.allSatisfy { $0.name == nil } ? .end : .more }

  // MARK: Rows

  private mutating func inserted(_ event: BlameEvent, _ after: BlameEvent.Row) -> Step {
    guard after.key == key else { return .more }
    if let absence { return gone(absence.event, absence.kind) }
    take(after.values, old: nil, event, .insert)
    return end()
  }

  private mutating func updated(_ event: BlameEvent, _ before: BlameEvent.Row?, _ after: BlameEvent.Row) -> Step {
    guard after.key == key else {
      guard before?.key == key else { return .more }
      return gone(event, .move, after.values)
    }
    if let absence { return gone(absence.event, absence.kind) }
    copy?.hasRow = true
    take(after.values, old: before?.values ?? [], event, .update)
    guard let old = before?.key, old != key, next == .more else { return next }
    key = old
    return .follow
  }

  /// Notes the values that a record gives to columns that are not settled.
  ///
  /// - Parameter old: The values before, nil for those that the trail does not give; nil if there was no row.
  private mutating func take(_ values: [Value?], old: [Value?]?, _ event: BlameEvent, _ kind: Kind) {
    isSeen = true
    for index in wanted.indices {
      guard let place = event.place(of: wanted[index].name), place < values.count, let value = values[place] else {
        continue
      }
      let before = old.flatMap { place < $0.count ? $0[place] : nil }
      if before == value { continue }
      let isCertain = old == nil || before != nil
      if let write = wanted[index].write, write.value != value {
        // A newer write or copy brought another value, so that one is the last.
        wanted[index].write?.mayBeOlder = write.kind == .copy
        wanted[index].name = nil
        continue
      }
      let newer = wanted[index].write
      var write = event.write(kind, value)
      write.mayBeOlder = !isCertain
      write.copied = newer.flatMap { $0.kind == .copy ? $0.time : $0.copied }
      if kind == .copy { write.copied = nil }
      wanted[index].write = write
      if isCertain { wanted[index].name = nil }
    }
  }

  /// Notes that the table did not have the row after an event. Older events say whether it had the row before.
  private mutating func absent(_ event: BlameEvent, _ kind: Kind) -> Step {
    guard !isSeen else { return end() }
    absence = absence ?? (event, kind)
    return .more
  }

  /// Ends the search at an event after which the row was not there.
  private mutating func gone(_ event: BlameEvent, _ kind: Kind, _ values: [Value?] = []) -> Step {
    guard !isSeen else { return end() }
    for index in wanted.indices {
      let place = event.place(of: wanted[index].name)
      wanted[index].write = event.write(kind, place.flatMap { $0 < values.count ? values[$0] : nil })
    }
    return end()
  }

  private mutating func end(at time: Int64? = nil) -> Step {
    for index in wanted.indices { wanted[index].name = nil }
    horizon = time
    return .end
  }

  // MARK: Schema changes

  private mutating func reshaped(
    _ event: BlameEvent, _ action: DDL.Action, _ before: TableSchema?, _ after: TableSchema?, _ origins: [Int?]?
  ) -> Step {
    switch (action, before, after) {
    case (.drop, let before?, _) where before.plainName == table: return absent(event, .drop)
    // An earlier table of that name has nothing to do with this one.
    case (.create, _, let after?) where after.plainName == table: return end(at: event.time)
    case (.rename, let before?, let after?), (.reshape, let before?, let after?):
      guard after.plainName == table else {
        guard before.plainName == table else { return .more }
        newName = after.fullName
        return end(at: event.time)
      }
      for index in wanted.indices {
        guard let name = wanted[index].name, let place = after.place(of: name) else { continue }
        let origin = origins.map { place < $0.count ? $0[place] : nil } ?? before.place(of: name)
        if let origin, origin < before.columns.count {
          wanted[index].name = before.columns[origin].name
        } else {
          wanted[index].name = nil
          if wanted[index].write == nil { wanted[index].write = event.write(.column, nil) }
        }
      }
      guard Self.keepsKey(before, after, origins) else { return end(at: event.time) }
      guard next == .more, before.plainName != table else { return next }
      table = before.plainName
      return .follow
    default: return .more
    }
  }

  /// Returns whether the key columns before a schema change are those after it.
  private static func keepsKey(_ before: TableSchema, _ after: TableSchema, _ origins: [Int?]?) -> Bool {
    // All columns identify a row, so a change of the columns is another key.
    if before.key.isEmpty || after.key.isEmpty {
      return before.key.isEmpty && after.key.isEmpty && before.columns.count == after.columns.count
    }
    let old = after.key.map { place in
      origins.map { place < $0.count ? $0[place] : nil } ?? before.place(of: after.columns[place].name)
    }
    return old == before.key.map(Optional.some)
  }
}

extension TableSchema {
  /// Returns the index of a column by its name, without regard to the case of ASCII letters.
  fileprivate func place(of name: String) -> Int? {
    columns.firstIndex { $0.name == name }
      ?? columns.firstIndex { $0.name.asciiLowercased == name.asciiLowercased }
  }
}

/// A record of a trail that may concern a row, without pointers into the trail.
package struct BlameEvent {
  /// A row before or after a change.
  package struct Row {
    var values: [Value?]
    /// nil if the trail does not give the key.
    var key: RowKey?
  }

  /// The record's own content.
  enum Content {
    case row(Changes.Operation, before: Row?, after: Row?)
    case copied(Row)
    case copyBegins(isWhole: Bool)
    case copyEnds
    case schema(DDL.Action, before: TableSchema?, after: TableSchema?, origins: [Int?]?)
  }

  let content: Content
  let position: Position
  let begin: Position
  private let schema: TableSchema?
  private let transaction: TransactionHeader
  private let trail: TrailName
  private let statement: String?

  var time: Int64 { transaction.commitTime }

  /// Returns nil for a record that does not matter.
  init?(_ hit: TrailSearch.Hit, trail: TrailName) throws {
    (position, begin, transaction, statement) = (hit.position, hit.begin, hit.transaction, hit.statement)
    (self.trail, schema) = (trail, hit.record.schemaID.flatMap(hit.schema))
    switch hit.record {
    case .change(let change):
      guard let schema else { return nil }
      let columns = KeyColumns(schema)
      content = .row(
        change.operation, before: try change.before.map { try Row($0, else: change.after, columns) },
        after: try change.after.map { try Row($0, else: change.before, columns) })
    case .refreshRow(_, let image):
      guard let schema else { return nil }
      content = .copied(try Row(image, else: nil, KeyColumns(schema)))
    case .refresh(let refresh):
      switch refresh.event {
      case .start(_, let method, _): content = .copyBegins(isWhole: method != .rows)
      case .end: content = .copyEnds
      case .chunk: return nil
      }
    case .ddl(let ddl):
      let (before, after) = (hit.schema(ddl.before), hit.schema(ddl.after))
      let origins = before.flatMap { old in after.flatMap { ddl.origins(from: old, to: $0) } }
      content = .schema(ddl.action, before: before, after: after, origins: origins)
    default: return nil
    }
  }

  fileprivate func place(of name: String?) -> Int? { name.flatMap { schema?.place(of: $0) } }

  fileprivate func write(_ kind: Blame.Kind, _ value: Value?) -> Blame.Write {
    let relay = transaction.relay
    return Blame.Write(
      kind: kind, node: transaction.node(trail: trail.origin), time: transaction.commitTime,
      isLate: transaction.flags.contains(.late), clock: transaction.clock, trail: trail.description,
      origin: relay?.origin ?? trail.description, transaction: relay?.number ?? transaction.number, position: begin,
      value: value, statement: statement)
  }
}

extension BlameEvent.Row {
  fileprivate init(_ image: ImageView, else other: ImageView?, _ columns: KeyColumns) throws {
    var key = ByteWriter(capacity: 64)
    values = try image.values()
    self.key = try columns.read(image, else: other, into: &key) ? RowKey(bytes: Array(key.bytes)) : nil
  }
}
