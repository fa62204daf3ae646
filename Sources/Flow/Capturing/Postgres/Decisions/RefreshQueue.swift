import Changes
import PostgresKit

/// The queue of table rows that capture must read, and the state of the running refresh. The rows are for initial
/// loads, refreshes, requests, and updates that changed a key. `now` is monotonic time in ms.
struct RefreshQueue {
  enum Part {
    case chunk(PostgresRegistry.Table)
    /// One row, which an update moved to this key.
    case row(PostgresRegistry.Table, [String])
  }

  enum ChunkEnd: Equatable {
    case goesOn
    case beginsAgain
    case isComplete(PostgresPosition.RefreshState)
  }

  enum MovedRow: Equatable {
    case ignored
    case queued
    /// Capture reads the row like a requested one; the caller must save the requests.
    case requested
  }

  struct Answer {
    enum Step {
      case nothing
      case read(PostgresRegistry.Table, [[String]])
      /// Capture must append the record that ends the refresh of this table's requested rows, then ask for the next
      /// step.
      case endRows(UInt32)
    }
    var step = Step.nothing
    var notices: [String] = []
    /// Whether requests were dropped, so that the caller must save the tables and the requests.
    var hasDropped = false
  }

  private static let keysPerSnapshot = 500
  private static let lockReportMilliseconds: Int64 = 3000
  private static let lockPauseMilliseconds: (least: Int64, most: Int64) = (300, 5000)

  /// The state of the running refresh; nil if the trail has no chunk of an unfinished refresh.
  private(set) var current: PostgresPosition.RefreshState?
  private(set) var requests: PostgresRequests
  private var movedRows: [(relation: UInt32, key: [String])] = []
  /// The tables that cannot be read now. Times are monotonic ms: the first failed attempt, and the next attempt.
  private var obstacles: [UInt32: (since: Int64, until: Int64, isReported: Bool)] = [:]
  private var openRows: Set<UInt32> = []
  private var committedOpenRows: Set<UInt32> = []

  init(_ current: PostgresPosition.RefreshState?, _ requests: PostgresRequests) {
    (self.current, self.requests) = (current, requests)
  }

  func isCurrent(_ relation: UInt32) -> Bool { current?.relation == relation }

  /// Whether no single rows are to be read. Whole tables may still be waiting for a refresh.
  var isIdle: Bool { movedRows.isEmpty && requests.isEmpty }

  // MARK: Transactions

  /// Makes the changes to the list of open row requests final. Before this call, ``abandon()`` undoes them.
  mutating func settle() { committedOpenRows = openRows }

  mutating func abandon() { openRows = committedOpenRows }

  /// Returns the state of the running refresh for capture's position in the trail; nil if no refresh is running.
  mutating func record() -> PostgresPosition.RefreshState? {
    if let current { self.current?.wantsRows = movedRows.contains { $0.relation == current.relation } }
    return current
  }

  // MARK: Connections

  mutating func restart(_ tables: KnownTables) {
    guard let refresh = current else { return }
    let table = tables[refresh.relation]
    if refresh.isDone || table?.epoch != refresh.epoch || table?.isKeyed != true || refresh.wantsRows
      || table?.refresh == nil
    {
      current = nil
    }
  }

  /// Drops the rows that updates moved, after the connection was lost. Also drops the running refresh if it needs these
  /// rows, or if its table has no key.
  mutating func disconnect(_ tables: KnownTables) {
    movedRows = []
    if current?.wantsRows == true { current = nil }
    if let refresh = current, tables[refresh.relation]?.isKeyed != true { current = nil }
  }

  mutating func restart(_ relation: UInt32) { if isCurrent(relation) { current = nil } }

  mutating func restartAll() { current = nil }

  /// Continues the running refresh of a table whose shape has changed. Does nothing if the running refresh is of
  /// another table.
  ///
  /// - Parameter epoch: The number of the new shape.
  mutating func follow(_ relation: UInt32, epoch: UInt64) { if isCurrent(relation) { current?.epoch = epoch } }

  // MARK: Chunks

  /// Returns the rows to read next; nil if there are none. Rows that an update moved to another key come first.
  mutating func next(_ tables: KnownTables, now: Int64) -> Part? {
    movedRows.removeAll { $0.relation != current?.relation }
    if let current, let table = tables[current.relation], table.refresh != nil {
      if !isHeldUp(current.relation, now: now) {
        return movedRows.first.map { .row(table, $0.key) } ?? .chunk(table)
      }
      guard isHeldUpForLong(current.relation, now: now) else { return nil }
    }
    return tables.all.filter {
      $0.refresh != nil && $0.copyNotBefore != PostgresRegistry.Table.unpublished && !isHeldUp($0.relation, now: now)
    }.min { $0.epoch < $1.epoch }.map { .chunk($0) }
  }

  private func isHeldUp(_ relation: UInt32, now: Int64) -> Bool { obstacles[relation].map { now < $0.until } ?? false }

  private func isHeldUpForLong(_ relation: UInt32, now: Int64) -> Bool {
    obstacles[relation].map { now - $0.since > Self.lockReportMilliseconds } ?? false
  }

  mutating func placed(_ state: PostgresPosition.RefreshState) {
    current = state
    endObstacle(of: state.relation)
  }

  mutating func endObstacle(of relation: UInt32) { obstacles[relation] = nil }

  /// Ends a chunk, after the stream has passed all transactions that its snapshot shows. Returns whether the refresh
  /// goes on, must begin again, or is complete.
  ///
  /// - Parameter isRaced: Whether the stream repeats changes that the chunk shows, so that the chunk's rows must be
  ///   read again.
  mutating func end(_ chunk: PostgresChunk, isRaced: Bool) -> ChunkEnd {
    guard var state = current, state.relation == chunk.table.relation else { return .goesOn }
    guard !isRaced else {
      guard !chunk.table.isKeyed else { return .goesOn }
      current = nil
      return .beginsAgain
    }
    switch chunk.part {
    case .asked: break
    case .row(let key): movedRows.removeAll { $0.relation == chunk.table.relation && $0.key == key }
    case .next:
      if let through = chunk.through {
        state.cursor = through
      } else {
        state.isDone = true
      }
    }
    current = state
    return state.isDone && !movedRows.contains { $0.relation == state.relation } ? .isComplete(state) : .goesOn
  }

  /// Returns whether rows of a table with a key are being refreshed. If so, a row that an update moves to another key
  /// must be read too.
  func readsRows(of table: Captured) -> Bool {
    (isCurrent(table.relation) || openRows.contains(table.relation)) && table.isKeyed
  }

  /// Queues a row whose key an update changed, and returns how it will be read. The row must be read because the update
  /// lacks unchanged TOAST values.
  mutating func move(_ key: [String], of table: Captured) -> MovedRow {
    guard readsRows(of: table), key.count == table.schema.key.count else { return .ignored }
    guard isCurrent(table.relation) else {
      // The target may not have that row.
      requests.add(key, of: .init(namespace: table.schema.namespace, table: table.schema.name))
      return .requested
    }
    if !movedRows.contains(where: { $0.relation == table.relation && $0.key == key }) {
      movedRows.append((table.relation, key))
    }
    return .queued
  }

  /// Registers that another session keeps a table from being read. Returns the pause before the next attempt, and
  /// whether to report the session (once, after three seconds).
  mutating func waitForSession(of relation: UInt32, now: Int64) -> (pauseMilliseconds: Int64, wantsReport: Bool) {
    let waited = now - (obstacles[relation]?.since ?? now)
    let pause = min(max(Self.lockPauseMilliseconds.least, waited / 4), Self.lockPauseMilliseconds.most)
    putOff(relation, milliseconds: pause, now: now)
    return (pause, waited > Self.lockReportMilliseconds && obstacles[relation]?.isReported != true)
  }

  mutating func noteReport(of relation: UInt32) { obstacles[relation]?.isReported = true }

  mutating func putOff(_ relation: UInt32, milliseconds: Int64, now: Int64) {
    obstacles[relation, default: (now, 0, false)].until = now + milliseconds
  }

  // MARK: Requested rows

  /// Adds a request for rows of a table.
  ///
  /// - Returns: The table if the refresh of its requested rows must now begin in the trail; otherwise nil.
  mutating func add(_ message: RequestMessage, _ tables: KnownTables) -> PostgresRegistry.Table? {
    requests.add(message)
    let name = PostgresRequests.Name(namespace: message.namespace, table: message.table)
    guard let table = tables.table(named: name), table.refresh == nil, table.isKeyed,
      requests.keys[name] != nil || isCopyRequested(of: table)
    else { return nil }
    return table
  }

  private func isCopyRequested(of table: PostgresRegistry.Table) -> Bool { requests.copies.contains(table.name) }

  /// Returns the tables whose requested refresh has not begun, in the order of their shape numbers.
  func awaited(_ tables: KnownTables) -> [PostgresRegistry.Table] {
    tables.all.filter { $0.passesChanges && !isCurrent($0.relation) }.sorted { $0.epoch < $1.epoch }
  }

  /// Registers that the refresh of a table's requested rows has begun in the trail. Returns false if this was
  /// registered before.
  mutating func beginRows(of relation: UInt32) -> Bool { openRows.insert(relation).inserted }

  /// Schedules the requested refreshes of whole tables, and returns notices for the operator. The caller must save the
  /// tables before it calls ``forgetRequestedCopies()``.
  mutating func beginRequestedCopies(_ tables: inout KnownTables) -> [String] {
    var notices: [String] = []
    for name in requests.copies {
      if let table = tables.table(named: name) {
        copy(table, &tables)
      } else {
        notices.append(Self.missing(name))
      }
    }
    return notices
  }

  mutating func forgetRequestedCopies() { for name in requests.copies { requests.forgetCopy(name) } }

  private mutating func copy(_ table: PostgresRegistry.Table, _ tables: inout KnownTables) {
    guard table.refresh == nil else { return }
    var table = table
    table.refresh = .asked
    tables.set(table)
    openRows.remove(table.relation)
    restart(table.relation)
  }

  private static func missing(_ name: PostgresRequests.Name) -> String {
    "rows of table \(name.namespace).\(name.table) were asked for, which is not captured: they are not sent"
  }

  mutating func nextRequested(_ tables: inout KnownTables, now: Int64) -> Answer {
    var answer = Answer()
    for name in requests.keys.keys.sorted(by: { ($0.namespace, $0.table) < ($1.namespace, $1.table) }) {
      guard let table = tables.table(named: name) else {
        answer.notices.append(Self.missing(name))
        requests.forget(name)
        answer.hasDropped = true
        continue
      }
      if isHeldUp(table.relation, now: now) { continue }
      if table.refresh == nil, !table.isKeyed { copy(table, &tables) }
      guard tables[table.relation]?.refresh == nil else {
        // The copy brings the rows.
        openRows.remove(table.relation)
        requests.forget(name)
        answer.hasDropped = true
        continue
      }
      let count = table.schema.key.count
      let unfit = requests.keys[name]?.filter { $0.count != count }.map { $0.map(\.text) } ?? []
      if !unfit.isEmpty {
        answer.notices.append(
          "rows of table \(table.schema.fullName) were asked for by a key that it has no more: they are not sent")
        requests.remove(unfit, of: name)
        answer.hasDropped = true
      }
      let keys = requests.keys[name]?.prefix(Self.keysPerSnapshot).map { $0.map(\.text) } ?? []
      answer.step = keys.isEmpty ? .endRows(table.relation) : .read(table, keys)
      return answer
    }
    return answer
  }

  mutating func remove(_ keys: [[String]], of table: PostgresRegistry.Table) -> Bool {
    requests.remove(keys, of: table.name)
    return requests.keys[table.name] == nil
  }

  /// Returns the table if the refresh of its requested rows must now end in the trail.
  ///
  /// Nil if a refresh of the whole table brings the rows.
  mutating func endRows(of relation: UInt32, _ tables: KnownTables) -> PostgresRegistry.Table? {
    guard let table = tables[relation], table.refresh == nil, !isCopyRequested(of: table) else {
      openRows.remove(relation)
      return nil
    }
    return table
  }

  mutating func endedRows(of relation: UInt32) { openRows.remove(relation) }
}

extension PostgresRegistry.Table {
  fileprivate var name: PostgresRequests.Name { .init(namespace: schema.namespace, table: schema.name) }
}
