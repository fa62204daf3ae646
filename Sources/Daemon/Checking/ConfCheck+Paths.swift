import Applying
import Capturing
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Mapping
import PostgresKit
import Replicating
import SystemKit
import Trails
import Transforming

extension ConfCheck {
  // MARK: Captures

  func check(_ capture: Configuration.Capture) throws {
    guard let database = configuration.database(capture.database) else { return }
    let url = try database.location()
    if case .sqlite(let path) = url {
      if awaitsTables(capture), FileIdentity(path: path) == nil, Folder.isFolder(Folder.parent(of: path)) {
        try checkRights(ofDatabase: path, mayBeMissing: true)
        return note("\(url.place) does not exist yet: the applies that write to it create it, and capture starts then")
      }
      try checkRights(ofDatabase: path, mayBeMissing: false)
    }
    let end = try SourceDatabase(url.canonical)
    let identity = try end.identity()
    if let identity { try claim(.capture(identity), by: WorkerName(.capture, capture.name)) }
    let folder = "\(configuration.node.state)/\(configuration.trail(of: capture))"
    switch end.handle {
    case .sqlite(let database):
      try output.tellOfFile(database, url.place)
      if let owner = try Journal(database).owner(), owner.place != folder {
        throw CairnError(
          .sourceCaptured, "\(url.place) is already captured; the state of that capture is in \(owner.place)",
          hint: TrailHint.captured(capture.name, folder, copyBack: configuration.copyBack(into: capture)))
      }
      try checkIsSource(of: capture, folder, url) { info in
        let owner = try Journal(database).owner()
        guard owner?.trail == info.id else {
          return (.sourceWentBack, owner == nil ? "it has no journal" : SQLiteCapture.otherState)
        }
        // A running capture may change the file between two checks.
        guard running.isEmpty else { return nil }
        return try SQLiteCapture.fault(of: database, folder: folder).map { (.sourceWentBack, $0) }
      }
    case .postgres(let server):
      try tellRights(server, isSource: true)
      if !Folder.exists(folder), let cluster = identity?.cluster {
        newSlots[cluster, default: 0] += 1
        try PostgresSource.check(server, newSlots: newSlots[cluster] ?? 1)
      }
      if let notice = try PostgresSource.schemaNotice(server) { note(notice) }
      if let notice = PostgresSource.versionNotice(server) { note(notice) }
      if Folder.exists(folder), let notice = try PostgresSource.encodingNotice(server) { note(notice) }
      if let notice = try server.barNotice() { note(notice) }
      if let notice = url.trustNotice { note(notice) }
      try checkIsSource(of: capture, folder, url) { info in
        // A running capture reports this itself.
        if running.isEmpty, case .postgres(let uri) = url.canonical,
          let how = try PostgresCapture.fault(of: uri, folder: folder)
        {
          return (.sourceWentBack, how)
        }
        let slot = PostgresSource.name(of: info.id)
        let row = try server.query(
          "SELECT coalesce(wal_status, 'lost') FROM pg_replication_slots WHERE slot_name = $1", [slot]
        ).first
        guard row?.first != "lost" else {
          return (.slotLost, "the server has dropped the log that slot \(slot) needed")
        }
        return row == nil ? (.slotLost, "it has no slot \(slot)") : nil
      }
      try tellIdleSlots(server, url)
    }
    let tables = try end.tables(TablePatterns(capture.tables), passesLocked: true)
    output.tellTables(tables)
    for notice in try end.startNotices() { note(notice) }
    if case .sqlite = end.handle {
      output.tellBlobs(tables)
      if configuration.isUnaudited(capture) { note(SQLiteCapture.unseenNotice) }
    }
    let isListed = try checkNames(of: capture, end)
    guard tables.contains(where: { $0.refusal == nil }) else {
      guard isListed else { return }
      if tables.isEmpty, awaitsTables(capture) {
        return note(
          "\(url.place) has no table yet: the applies that write to it create tables, and capture starts then")
      }
      throw CairnError(
        .noTables, "\(url.place) has no table that can be captured",
        hint: "create a table first, or check 'tables' of [capture.\(capture.name)]", remedy: .badInput)
    }
    sources[capture.name] = (end, tables.filter { $0.refusal == nil })
    if let line = configuration.lineOnApplied(capture) { note(line) }
    try tellKeys(capture, end)
  }

  /// Prints the names that match no table, from the setting `tables` of a capture. Such a name is an error, unless
  /// apply may still create the table. Returns whether no name was an error.
  private func checkNames(of capture: Configuration.Capture, _ end: SourceDatabase) throws -> Bool {
    lazy var coming = TablesToCome(configuration, in: capture.database)
    var isListed = true
    for name in try end.unmatched(TablePatterns(capture.tables)) {
      let error = name.error("'tables' of [capture.\(capture.name)]", at: end.url.place)
      guard name.isMistake, name.isExclusion || !coming.mayHave(name.name) else {
        note("\(error.message); \(error.hint)")
        continue
      }
      fail(error)
      isListed = false
    }
    return isListed
  }

  private func awaitsTables(_ capture: Configuration.Capture?) -> Bool {
    configuration.applies.contains { $0.database == capture?.database }
  }

  private func checkNames(of apply: Configuration.Apply, _ tables: [SourceDatabase.Table], _ end: TargetDatabase) {
    for name in apply.unmatched(in: tables, to: end.url.engine) {
      let error = name.error(apply.listName, at: "trail \(apply.trail)")
      name.isMistake && !configuration.mayCome(name.name, to: apply)
        ? fail(error) : note("\(error.message); \(error.hint)")
    }
  }

  /// Prints the names in the option `tables` that no table of another node's trail has, if the trail has brought tables.
  private func tellNames(of apply: Configuration.Apply, _ end: TargetDatabase, _ trail: TrailName) throws {
    let worker = running.first { $0.name == WorkerName(.apply, apply.name) }
    // A name may be among those that the status does not list.
    guard worker?.moreLeftOut ?? 0 == 0 else { return }
    let left = worker?.leftOut ?? []
    let known = try end.listedNames(of: trail) + left
    for name in known.isEmpty ? [] : TablePatterns(apply.tables).unmatched(in: known) where name.isMistake {
      let error = name.error(apply.listName, at: "trail \(trail)")
      note("\(error.message); \(error.hint)")
    }
  }

  /// Checks that a trail still belongs to its source, and not to a replaced or restored database.
  /// - Parameter capture: The capture of that source.
  /// - Parameter fault: A function that returns the problem of the source, if there is one.
  private func checkIsSource(
    of capture: Configuration.Capture, _ folder: String, _ url: DatabaseURL,
    _ fault: (TrailInfo) throws -> (ErrorCode, String)?
  ) throws {
    guard Trail.exists(folder: folder) else { return }
    let info = try Trail.info(folder: folder)
    guard info.lastTransaction > 0, let (code, what) = try fault(info) else { return }
    throw CairnError(
      code, "\(url.place) is not at the end of trail \(info.name): \(what)",
      hint: code == .sourceWentBack
        ? TrailHint.wentBack(folder, copyBack: configuration.copyBack(into: capture))
        : "put the url back if it was changed; else run 'cairn explain \(code.rawValue)'")
  }

  /// Prints the rights of the connection's role that Cairn does not need, and the owner of the schema `cairn`.
  private func tellRights(_ server: PostgresConnection, isSource: Bool) throws {
    for notice in try Self.rightsNotices(server, isSource: isSource) { note(notice) }
  }

  /// Returns notices about the rights of the connection's role that Cairn does not need, and about the owner of the
  /// schema `cairn`.
  package static func rightsNotices(_ server: PostgresConnection, isSource: Bool) throws -> [String] {
    let row = try server.query(
      """
      SELECT rolname, rolsuper, rolcreaterole, rolbypassrls AND NOT rolsuper, rolreplication AND NOT rolsuper,
        (SELECT r.rolname FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'cairn')
      FROM pg_roles WHERE rolname = current_user
      """
    ).first
    guard let row, let role = row[0] else { return [] }
    var notices: [String] = []
    if !isSource, let notice = try ExchangeableSchemas(server).notice { notices.append(notice) }
    if row[1] == "t" {
      notices.append("role \(role) at \(server.place) is a superuser: use another (docs/security.md)")
    } else {
      var more = [("CREATEROLE", row[2])]
      if !isSource { more += [("BYPASSRLS", row[3]), ("REPLICATION", row[4])] }
      for (right, has) in more where has == "t" {
        notices.append(
          "role \(role) at \(server.place) has \(right), which it does not need: ALTER ROLE \(role.quotedName) NO\(right)"
        )
      }
    }
    if let owner = row[5], owner != role {
      notices.append("schema cairn of \(server.place) belongs to role \(owner), not to role \(role)")
    }
    return notices
  }

  /// Prints the replication slots that no process reads and that belong to no trail of this node.
  private func tellIdleSlots(_ server: PostgresConnection, _ url: DatabaseURL) throws {
    let trails = (try? Trail.list(state: configuration.node.state)) ?? []
    let known = Set(trails.map { PostgresSource.name(of: $0.id) })
    for slot in try PostgresSource.idleSlots(server) where !known.contains(slot.name) {
      note(
        "slot \(slot.name) of \(url.place) has no reader and keeps \(Size.text(bytes: slot.bytes)) of log; if no other node uses it, drop it: \(LeftSlot.command(url.shown, slot.name))"
      )
    }
  }

  /// Prints replication slots of captures that were removed from the configuration.
  func tellLeftSlots() {
    let captures = Set(configuration.captures.map(\.name))
    for slot in LeftSlot.all(state: configuration.node.state, node: configuration.node.name, captures: captures) {
      begin("slot \(slot.name)")
      guard let left = NodeStatus.LeftSlot(slot, slot.standing(configuration.databases)) else { continue }
      note("\(left.text); \(left.hint)")
    }
  }

  private func claim(_ work: DatabaseWork, by name: WorkerName) throws {
    if let other = works[work] { throw work.isDone(by: other) }
    works[work] = name
  }

  // MARK: Applies

  func check(_ apply: Configuration.Apply) throws {
    guard let database = configuration.database(apply.database), let trail = TrailName(apply.trail) else { return }
    let url = try database.location()
    if case .sqlite(let path) = url { try checkRights(ofDatabase: path, mayBeMissing: true) }
    let end = try TargetDatabase(url.canonical)
    say("\(end.url.place): can be written", [("event", .text("target")), ("ok", .bool(true))])
    if let notice = url.trustNotice { note(notice) }
    tellPromises(apply)
    if let line = configuration.lineOnLacking(apply) { note(line) }
    if let server = end.server { try tellRights(server, isSource: false) }
    if let server = end.server, let cluster = try end.identity()?.cluster, try !PostgresOrigins.has(trail, server) {
      newOrigins[cluster, default: 0] += 1
      try PostgresOrigins.check(server, new: newOrigins[cluster] ?? 1)
    }
    if let identity = try end.identity() {
      try claim(.apply(identity, trail: apply.trail), by: WorkerName(.apply, apply.name))
    }
    guard trail.origin == configuration.node.name else {
      note("trail \(trail) comes from node \(trail.origin): its tables are unknown here")
      // The names at the target are those of the source if no rule gives others.
      let names = apply.rules.contains { $0.to != nil } ? [] : try end.tableNames(of: trail)
      let known = names.map { TableSchema(named: $0) }
      for (_, error) in RuledTables.unused(apply.rules, known: known, of: trail) {
        note("\(error.message); \(error.hint)")
      }
      try tellNames(of: apply, end, trail)
      return try checkBothWays(apply, end, trail)
    }
    guard let source = sources[trail.name] else {
      return note("the tables of trail \(trail) are unknown, as its capture is not ready")
    }
    guard try !end.isSame(as: source.end) else {
      throw CairnError(
        .sameDatabase, "trail \(trail) comes from the database to which it would be applied, \(end.url.place)",
        hint: "name another database in [apply.\(apply.name)]", remedy: .badInput)
    }
    let rules = apply.rules
    let areKept = attempt {
      var refused: [CairnError] = []
      let ruled = try RuledTables(source.tables, rules, source.end, to: end.url.engine) { refused.append($0) }
      for error in refused.dropLast() { fail(error) }
      if let last = refused.last { throw last }
      try output.tellContracts(
        ruled.tables, source.end, end, apply.names, within: TargetScope(apply.tables))
      // Rules compute other values than those of the source.
      let plain = ruled.tables.filter { table in source.tables.contains { $0.schema == table.schema } }
      try output.tellMisfits(
        plain, source.end, end, apply.names, policies: apply.misfits, rows: scanRows, within: TargetScope(apply.tables))
      ruled.notices.forEach(note)
      try output.tellQuietTriggers(end, ruled.tables, apply.names, firing: apply.fireTriggers)
      lazy var coming = configuration.captures.first { $0.name == trail.name }
        .map { TablesToCome(configuration, in: $0.database) }
      for error in ruled.unused {
        let mayCome = coming?.mayHave(error.context["table"] ?? "") ?? false
        mayCome ? note("\(error.message); \(error.hint)") : fail(error)
      }
      checkNames(of: apply, ruled.tables, end)
      try tellWays(apply, ruled.tables, source, end)
      try checkFeeders(apply, end, ruled.tables, trail)
    }
    guard areKept else { return }
    try checkBothWays(apply, source)
    let folder = "\(configuration.node.state)/\(trail)"
    let plan = StartPlan(
      try end.checkpoint(of: trail), trail: Trail.exists(folder: folder) ? .init(try Trail.info(folder: folder)) : nil,
      request: .none,
      rules: .init(
        existing: apply.existing,
        copiesRows: configuration.captures.first { $0.name == trail.name }?.copiesRows ?? true))
    if plan.proves.contains(.noRows) { try checkExisting(apply, end, source.end, trail) }
  }

  /// Checks that no other trail is applied to the same rows of the tables, according to this configuration and to the
  /// target's records.
  private func checkFeeders(
    _ apply: Configuration.Apply, _ end: TargetDatabase, _ tables: [SourceDatabase.Table], _ trail: TrailName
  ) throws {
    let place = try end.identity().map { "\($0)" } ?? end.url.place
    func key(_ table: TableSchema) -> NameKey {
      "\(place) \(table.namespace.quotedName).\(table.name.quotedName)".key(in: end.url.engine)
    }
    let ours = Set(configuration.applies.filter { $0.database == apply.database }.map(\.trail))
    // Trails that are replicated both ways share all rows.
    let both = configuration.captureBehind(apply).map { TablePatterns($0.tables) }
    let tables = try tables.filter { table in
      guard let both, table.refusal == nil else { return true }
      let target = try TableMapping(table.schema, to: end.url.engine, names: apply.names).target
      return !(target.namespace.isEmpty ? both.includes(target.name) : both.includes(target))
    }
    try end.checkFeeders(tables, of: trail, apply.names) { table, known in
      feeders[key(table), default: []] + known.filter { !ours.contains($0.trail) }
    }
    for table in tables where table.refusal == nil {
      let target = try TableMapping(table.schema, to: end.url.engine, names: apply.names).target
      feeders[key(target), default: []].append((trail.description, TableClaim(table.schema)))
    }
  }

  private func checkExisting(
    _ apply: Configuration.Apply, _ end: TargetDatabase, _ source: SourceDatabase, _ trail: TrailName
  ) throws {
    let patterns = configuration.captures.first { $0.name == trail.name }.map { TablePatterns($0.tables) }
    do {
      try end.checkHoldsNothingElse(
        source, patterns ?? TablePatterns(), apply.names, apply.rules, within: TargetScope(apply.tables))
    } catch let error as CairnError
      where error.code == .targetDiffers
    {
      throw CairnError(
        error.code, error.message,
        hint: """
          set existing in [apply.\(apply.name)] to "keep" (these rows stay), "overwrite" (the target becomes equal to \
          the source) or "merge" (the source's rows win)
          """, remedy: error.remedy, context: error.context)
    }
  }
}
