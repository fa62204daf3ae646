import Changes
import Mapping
import SQLiteKit

// Schema changes.
extension SQLiteReplay {
  /// A schema change that was not made; the group has to be rolled back. Done again with it among the refusals, the
  /// table waits exactly there.
  struct Refusal: Error {
    let position: Position
    let error: CairnError
  }

  /// Where a table begins to wait: a record, and the border before its transaction.
  struct Place {
    let from: Position
    let checkpoint: Checkpoint
    /// The last transaction before the border.
    let number: UInt64
  }

  private var place: Place { Place(from: reader.position, checkpoint: reader.checkpoint, number: number) }

  private struct Names {
    let before: String?
    let after: String?
    var isMoved: Bool { before.map { old in after.map { $0.lowercased() != old.lowercased() } ?? true } ?? true }
  }

  func apply(_ ddl: DDL) throws {
    if !held.isEmpty { try settleHeld() }
    let names = Names(before: try targetName(ddl.before), after: try targetName(ddl.after))
    defer { forgetShapes() }
    switch scope {
    case .main:
      try beginToWait(ddl, names)
      if try isPassedOver(ddl, names) { return }
    case .lane(let key):
      if laneName == nil, halt == nil, let waiting = target.tables[key]?.waiting, let from = waiting.from,
        reader.position >= from
      {
        laneName = waiting.names.first
      }
      guard let laneName, (names.before ?? names.after)?.lowercased() == laneName.lowercased() else { return }
      if refusals[reader.position] != nil {
        (halt, self.laneName) = (place, nil)
        return
      }
    }
    do {
      try checkFree(names)
      try make(ddl)
    } catch let error as CairnError where [.schemaStopped, .tableRefused].contains(error.code) {
      throw Refusal(position: reader.position, error: error)
    }
    if case .lane = scope, let after = names.after { laneName = after }
  }

  private func targetName(_ id: UInt64) throws -> String? {
    id == 0 ? nil : TableMapping.targetName(of: try schema(id), in: .sqlite)
  }

  // MARK: Tables that wait

  /// From a change on that is known not to be made, the table waits: what stands before it has been applied.
  private func beginToWait(_ ddl: DDL, _ names: Names) throws {
    guard let error = refusals[reader.position], let name = names.before ?? names.after else { return }
    var known = target.tables[name.lowercased()] ?? .init()
    guard known.waiting == nil else { return }
    let table = WaitingTable(
      name: try schema(ddl.before == 0 ? ddl.after : ddl.before).fullName, checkpoint: place.checkpoint, number: number,
      code: error.code, message: error.message, hint: error.hint)
    known.waiting = .init(table: table, names: [name], from: reader.position)
    try save(name, known)
  }

  /// Whether the change is that of a table that waits: then only its name is kept up to date.
  private func isPassedOver(_ ddl: DDL, _ names: Names) throws -> Bool {
    if let before = names.before {
      guard let known = target.tables[before.lowercased()], let waiting = known.waiting else { return false }
      var moved = known
      guard let after = names.after, names.isMoved else {
        moved.waiting?.isGone = names.after == nil
        if moved.waiting != waiting { try save(before, moved) }
        return true
      }
      guard target.tables[after.lowercased()]?.waiting == nil else {
        throw CairnError(
          .schemaStopped,
          "table \(before), which waits, is renamed to \(after), and another table of that name waits too: \(waiting.table.message)",
          hint: waiting.table.hint, context: ["table": before])
      }
      moved.waiting?.names.append(after)
      moved.waiting?.table.name = try schema(ddl.after).fullName
      try state.forget(before)
      target.tables[before.lowercased()] = nil
      try save(after, moved)
      return true
    }
    guard let after = names.after, var known = target.tables[after.lowercased()], known.waiting != nil else {
      return false
    }
    known.waiting?.isGone = false
    try save(after, known)
    return true
  }

  /// A name that a table has which waits is not free before that table has moved on.
  private func checkFree(_ names: Names) throws {
    guard let after = names.after, names.isMoved else { return }
    let own = key(names.before ?? after)
    for (key, table) in target.tables where key != own {
      guard let waiting = table.waiting, waiting.holds(after) else { continue }
      throw SchemaRefusal(
        place: database.path,
        phrases: [names.before.map { "rename table \($0) to \(after)" } ?? "create table \(after)"]
      ).error(
        "the name is that of table \(waiting.table.name), which waits", table: after,
        hint: "do first what that table waits for")
    }
  }

  // MARK: Making it

  private func make(_ ddl: DDL) throws {
    var before = ddl.before == 0 ? nil : try mapping(ddl.before)
    var after = ddl.after == 0 ? nil : try mapping(ddl.after)
    if let was = before, was.target.name == after?.target.name ?? was.target.name {
      before = try underNameThere(was)
      after = try after.map(underNameThere)
    }
    let known = before.flatMap { target.tables[key($0.target.name)] }
    var change = TargetShape.Change(
      before: before, after: after, isRefreshed: ddl.isRefreshed, isRename: ddl.action == .rename,
      isCreated: known?.isCreated ?? false)
    if let before, let after { change.origins = ddl.origins(from: before.source, to: after.source) }
    change.policy = options.policy(isCreated: change.isCreated)
    switch (ddl.action, before, after) {
    case (.create, _, let after?): try create(after)
    case (.drop, let before?, _):
      try target.shape.drop(change)
      try state.saveOrigin(before.target.name, nil)
      try forget(before.target.name)
    case (.rename, let before?, let after?), (.reshape, let before?, let after?):
      try target.shape.reshape(change)
      try move(before, after)
    default: break
    }
  }

  private func create(_ after: TableMapping) throws {
    let name = after.target.name
    let was = target.tables[key(name)]
    var known = TargetState.Table()
    known.source = was?.source ?? ""
    try claim(&known, for: after)
    let change = TargetShape.Change(after: after, policy: options.ddl ?? .follow)
    known.isCreated = try target.shape.create(change, isOwn: was?.isCreated ?? false)
    // A table that Cairn made at its first copy is still its own at a later one.
    if !known.isCreated, let was { known = was }
    known.waiting = was?.waiting
    if number < options.askedBehind { (known.refreshing, known.isAwaited) = (.byKey, true) }
    try claim(&known, for: after)
    try save(name, known)
    try saveOrigin(after)
  }

  private func move(_ before: TableMapping, _ after: TableMapping) throws {
    if before.source.fullName != after.source.fullName {
      let (old, new) = (before.target.name, after.target.name)
      var known = target.tables[key(old)] ?? .init()
      try state.saveOrigin(old, nil)
      if known.waiting == nil {
        try forget(old)
      } else if let place = known.waiting?.names.firstIndex(where: { $0.lowercased() == new.lowercased() }) {
        known.waiting?.names.removeFirst(place)
      }
      known.source = ""
      try claim(&known, for: after)
      try save(new, known)
    }
    try saveOrigin(after)
  }

  /// Keeps what a table of ours was in PostgreSQL.
  private func saveOrigin(_ mapping: TableMapping) throws {
    guard target.tables[key(mapping.target.name)]?.isCreated ?? false else { return }
    let source = mapping.source
    try state.saveOrigin(mapping.target.name, source.engine == .postgres ? source : source.original)
  }
}
