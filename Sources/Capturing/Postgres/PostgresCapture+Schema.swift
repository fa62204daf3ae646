import Changes
import PostgresKit
import SystemKit
import Trails

// Schema changes that event triggers report, each at its place in the stream.
extension PostgresCapture {
  /// Creates the event triggers if they are missing, and reports once if that is impossible.
  func installTriggers() throws {
    let triggers = SchemaTriggers(connection: source.connection)
    do {
      try triggers.install()
      isTold = try MessageKey.read(.triggers, source.connection) != nil
      guard !isTold else { return }
      let role = try source.connection.first("SELECT current_user") ?? ""
      progress.tell(SchemaTriggers.unreadable(source.connection.place, role))
    } catch let error as PostgresError where !error.isServerGone {
      isTold = false
      progress.tell(SchemaTriggers.absence(source.connection.place, error.message))
    }
  }

  /// Reports if the event triggers were dropped or disabled.
  func lookAtTriggers() throws {
    guard isTold, try !SchemaTriggers(connection: source.connection).isComplete() else { return }
    isTold = false
    progress.tell(SchemaTriggers.absence(source.connection.place, "they were dropped or disabled"))
  }

  func take(_ message: SchemaMessage) throws {
    let known = registry.tables[message.relation]
    switch message.event {
    case .made(let kind, let name):
      if toldOf.insert("\(kind) \(name)").inserted {
        let kinds = kind.hasSuffix("y") ? kind.dropLast() + "ies" : kind + "s"
        progress.tell("\(kind) \(name) was created: \(kinds) are not replicated")
      }
      return
    case .doubt: look.isWanted = true
    case .rewritten(let reason): incoming?.rewrites[message.relation, default: 0] |= reason
    case .dropped:
      guard try message.tag == "ALTER TABLE" || isGone(message.relation) else {
        look.isWanted = true
        return
      }
      if let known { try drop(known, message.text) }
    case .unpublished(let publication):
      guard publication == slotName, var known else { return }
      if known.refresh == nil {
        progress.tell("table \(known.schema.fullName) was taken out of the publication: copying it again")
      }
      known.refresh = known.refresh ?? .lostChanges
      known.copyNotBefore = PostgresRegistry.Table.unpublished
      registry.set(known)
      relationChanged(known.relation)
      look.isWanted = true
    case .shape(let table): try take(table, message, known)
    }
    look.told()
  }

  /// Returns whether a table no longer exists: objects that a command dropped are missing in the catalog after its
  /// commit.
  private func isGone(_ relation: UInt32) throws -> Bool {
    guard let transaction = incoming?.transaction.xid else { return false }
    return try !source.isTable(relation, after: transaction)
  }

  private func take(_ table: PostgresTable, _ message: SchemaMessage, _ known: PostgresRegistry.Table?) throws {
    let rewrites = incoming?.rewrites.removeValue(forKey: table.oid) ?? 0
    let isOurs = options.tables.includes(table) && table.refusal?.isHarmless != true
    guard let known else {
      guard isOurs, table.refusal == nil else { return look.isWanted = true }
      // An apply that creates a table publishes it at once: the stream has every change of it.
      let isWhole =
        try incoming.map { try $0.isApplied && source.isPublished(table.oid, since: $0.transaction.xid) } ?? false
      try introduce(table, isWhole ? nil : .firstCopy, message.text, isPublished: isWhole)
      look.isWanted = true
      return tellWaiting()
    }
    guard isOurs else { return try drop(known, message.text) }
    // As long as the table has no replica identity, the server refuses the application's own updates. It may get one
    // right away.
    if table.refusal != nil { look.isWanted = true }
    if table.refusal?.isOfPartition == true { unsure.insert(table.oid) } else { unsure.remove(table.oid) }
    let word = RowFate.Word(
      isExact: true, mayCompute: message.mayCompute, rewrites: rewrites, isCreation: message.tag == "CREATE TABLE",
      isApplied: incoming?.isApplied == true, text: message.text)
    try update(known, to: shape(of: table), table.details, word)
    tellWaiting()
  }
}
