import CCairn
import CairnCapture

// The functions of cairn.h for synchronisation.

@c @implementation
public func cairn_sync_open(
  _ database: OpaquePointer?, _ peer: UnsafePointer<CChar>?, _ options: UnsafePointer<cairn_sync_options>?,
  _ sync: UnsafeMutablePointer<OpaquePointer?>?
) -> cairn_code {
  answering {
    let place = try given(sync, "the place for the synchroniser")
    place.pointee = nil
    let handle = try given(database, DatabaseHandle.self)
    let made = try Synchronizer(handle.database, with: given(peer, "the peer"), options: chosen(options))
    place.pointee = Handle.make(made)
  }
}

private func chosen(_ options: UnsafePointer<cairn_sync_options>?) throws -> Synchronizer.Options {
  var chosen = Synchronizer.Options()
  guard let given = options?.pointee else { return chosen }
  guard given.size == MemoryLayout<cairn_sync_options>.size else {
    throw Misuse.unset("cairn_sync_options", "CAIRN_SYNC_OPTIONS")
  }
  chosen.state = try given.state.map { try CairnC.given($0, "the state folder") }
  if let tables = given.tables {
    chosen.tables = try CairnC.given(tables, "the list of tables").parts
  }
  chosen.firstCopy = given.first_copy_up == 0 ? .down : .up
  chosen.overwrites = given.overwrites != 0
  chosen.refusal = given.sets_refused_aside == 0 ? .stop : .setAside
  if let rule = given.conflict { chosen.conflict = try CairnC.given(rule, "the rule") }
  for pair in try given.column_conflicts.map({ try CairnC.given($0, "the list of rules").parts }) ?? [] {
    guard let sign = pair.utf8.firstIndex(of: UInt8(ascii: "=")) else {
      throw Misuse(CAIRN_MISUSE, "'\(pair)' is not a rule for a column", hint: "write TABLE.COLUMN=RULE")
    }
    let (column, rule) = (pair.utf8[..<sign], pair.utf8[sign...].dropFirst())
    chosen.columnConflicts[String(decoding: column, as: UTF8.self)] = String(decoding: rule, as: UTF8.self)
  }
  chosen.folds = given.folds != 0
  return chosen
}

@c @implementation
public func cairn_sync_initialize(
  _ sync: OpaquePointer?, _ watcher: cairn_sync_watcher?, _ context: UnsafeMutableRawPointer?,
  _ outcome: UnsafeMutablePointer<cairn_sync_outcome>?
) -> cairn_code {
  answering {
    let done = try given(sync, Synchronizer.self).initialize { tell($0, watcher, context) }
    outcome?.pointee = cairn_sync_outcome(done)
  }
}

@c @implementation
public func cairn_sync_run(
  _ sync: OpaquePointer?, _ watcher: cairn_sync_watcher?, _ context: UnsafeMutableRawPointer?,
  _ outcome: UnsafeMutablePointer<cairn_sync_outcome>?
) -> cairn_code {
  answering {
    let done = try given(sync, Synchronizer.self).synchronize { tell($0, watcher, context) }
    outcome?.pointee = cairn_sync_outcome(done)
  }
}

private func tell(
  _ progress: SynchronizationProgress, _ watcher: cairn_sync_watcher?, _ context: UnsafeMutableRawPointer?
) {
  guard let watcher else { return }
  var told = cairn_sync_progress(
    rows_sent: progress.sent, rows_received: progress.received, conflicts: Int64(progress.conflicts), table: nil,
    table_rows: progress.copying?.rows ?? 0, table_rows_expected: progress.copying?.expected ?? 0)
  guard let table = progress.copying?.table else { return watcher(&told, context) }
  table.withCString {
    told.table = $0
    watcher(&told, context)
  }
}

extension cairn_sync_outcome {
  fileprivate init(_ done: SynchronizationOutcome) {
    self.init(
      rows_sent: done.sent, rows_received: done.received, conflicts: Int64(done.conflicts), refused: Int64(done.refused)
    )
  }
}

@c @implementation
public func cairn_sync_cancel(_ sync: OpaquePointer?) {
  Handle.object(sync, as: Synchronizer.self)?.cancel()
}

@c @implementation
public func cairn_sync_pending(_ sync: OpaquePointer?, _ pending: UnsafeMutablePointer<cairn_pending>?) -> cairn_code {
  answering {
    let waiting = try given(sync, Synchronizer.self).pending
    try given(pending, "the place for what is pending").pointee = cairn_pending(
      transactions: Int64(waiting.inFile.transactions), rows: Int64(waiting.inFile.rows), unsent: Int64(waiting.unsent))
  }
}

@c @implementation
public func cairn_sync_wait(
  _ sync: OpaquePointer?, _ token: Int64, _ timeoutMilliseconds: Int64, _ applied: UnsafeMutablePointer<CInt>?
) -> cairn_code {
  answering {
    let isApplied = try given(sync, Synchronizer.self).waitUntilApplied(
      CommitToken(sequence: token), timeout: .milliseconds(timeoutMilliseconds))
    try given(applied, "the place for the answer").pointee = isApplied ? 1 : 0
  }
}

@c @implementation
public func cairn_sync_close(_ sync: OpaquePointer?) { Handle.close(sync, Synchronizer.self) }

extension String {
  /// The parts of the text between commas.
  fileprivate var parts: [String] {
    utf8.split(separator: UInt8(ascii: ",")).map { String(decoding: $0, as: UTF8.self) }
  }
}
