import Changes
import SystemKit
import Trails

@testable import Applying

/// Applies a trail to a database in memory. It models no suspended table and no quarantine: apply ends with their
/// error.
final class MemoryApply {
  let database: MemoryDatabase
  private let open: (MemoryReplay.Desk?) throws -> MemoryReplay
  private var replay: MemoryReplay
  private let name: TrailName
  private let stop = StopSignal()

  init(
    _ database: MemoryDatabase, trail folder: String, _ name: TrailName, _ options: ApplyOptions,
    clock: Clock = .system, progress: ApplyProgress
  ) throws {
    (self.database, self.name) = (database, name)
    open = { try MemoryReplay(database, trail: folder, name, options, clock, progress, desk: $0) }
    let desk = options.twoWay.map { TwoWaySession<MemoryTable>($0, name, RowNames(to: .sqlite, options.names), clock) }
    replay = try open(desk)
    guard let desk else { return }
    try desk.lookAtKeys(replay.foreignKeys)
    let rows = MemoryDisplacedRows(database: database)
    try desk.shared.prepare(
      desk.names, hasUniqueValues: { database.tables.values.contains { !$0.schema.uniques.isEmpty } },
      candidates: rows.counts, returned: StoredReturns(database.books).all,
      reach: { trail in
        database.checkpoints[trail.description.nameKey].map { .init(id: $0.checkpoint.trail, number: $0.number) }
          ?? .init()
      })
    try desk.shared.check(name, replay.reader.id)
  }

  /// Applies everything that is in the trail.
  func drain() throws {
    guard let desk = replay.desk else {
      while try step() {}
      return
    }
    while try desk.shared.inTurn(stop, step) ?? false {}
    _ = try desk.shared.inTurn(stop) { try judge(desk) }
  }

  /// Applies one group. Returns false if there is none.
  private func step() throws -> Bool {
    do {
      let isApplied = try replay.reader.decodingGroup {
        guard try replay.readGroup(through: .max, stop) != nil else { return false }
        try replay.resolver?.judge()
        return true
      }
      if isApplied { try commit() }
      return isApplied
    } catch {
      database.rollback()
      guard let desk = replay.desk else { throw error }
      desk.shared.window.rollback(name)
      let number = replay.cursor.whole + 1
      let next = ApplyDecision(isCareful: true, mayResolve: desk.maySettle(through: number)).next(after: error)
      guard next == .resolveAll else { throw error }
      desk.settle(through: number)
      replay = try open(desk)
      return true
    }
  }

  private func commit() throws {
    database.checkpoints[name.description.nameKey] = (replay.reader.checkpoint, replay.cursor.whole)
    try database.commit()
    try replay.desk?.committed(replay.cursor.whole)
    replay.progress.update { $0.conflicts += replay.conflicts }
    replay.conflicts = 0
  }

  /// Writes waiting rows to their tables if their unique values are free.
  private func judge(_ desk: MemoryReplay.Desk) throws {
    guard desk.shared.mayHaveCandidates else { return }
    try database.begin()
    defer { database.rollback() }
    desk.beginGroup()
    try replay.inform(desk)
    if try replay.resolver?.judge() ?? false { try database.commit() }
    desk.noteCandidates()
  }
}
