import Changes
import PostgresKit
import SystemKit

/// The publication and the logical slot of a capture at a PostgreSQL source, both named after the trail.
package struct PostgresSource {
  let connection: PostgresConnection
  let uri: String
  let name: String

  init(_ connection: PostgresConnection, uri: String, trail: TrailID) {
    (self.connection, self.uri) = (connection, uri)
    name = Self.name(of: trail)
  }

  package static func name(of trail: TrailID) -> String { "cairn_" + trail.bytes.prefix(8).hex }

  // MARK: Checks of the server

  /// Checks that capture supports the server and the role of the connection, without writing.
  ///
  /// - Parameter newSlots: The number of slots that are still to be created.
  package static func check(_ connection: PostgresConnection, newSlots: Int) throws {
    let place = connection.place
    func refuse(_ message: String, _ hint: String) -> CairnError {
      CairnError(.serverSetting, "\(place): \(message)", hint: hint)
    }
    try checkVersion(connection.serverVersion, at: place)
    let row =
      try connection.query(
        """
        SELECT pg_is_in_recovery(), current_setting('wal_level'), current_setting('server_encoding'),
          rolreplication OR rolsuper, rolname, current_setting('max_replication_slots')::int,
          (SELECT count(*) FROM pg_replication_slots), current_database()
        FROM pg_roles WHERE rolname = current_user
        """
      ).first ?? []
    guard row.count == 8 else { throw refuse("the role of this session is unknown", "connect as another role") }
    let role = (row[4] ?? "").quotedName
    if row[0] == "t" {
      throw refuse("it is a standby, which cannot be captured", "connect to the primary")
    }
    guard row[3] == "t" else {
      throw CairnError(
        .privilegeMissing, "\(place): role \(role) may not replicate",
        hint: "run as a superuser: ALTER ROLE \(role) REPLICATION")
    }
    guard row[1] == "logical" else {
      throw refuse(
        "wal_level is \(row[1] ?? "?"), and capture needs logical",
        "run as a superuser: ALTER SYSTEM SET wal_level = logical; then restart the server")
    }
    guard row[2] != "SQL_ASCII" else {
      throw refuse(
        "database \(row[7] ?? "") has the encoding SQL_ASCII, so the encoding of its text is unknown",
        "create a database with ENCODING 'UTF8' and move the rows there")
    }
    guard newSlots > 0 else { return }
    if let gap = encodingGap(row[2] ?? "", row[7] ?? "") {
      throw refuse(gap, "create a database with TEMPLATE template0 ENCODING 'UTF8' and move the rows there")
    }
    try checkSenders(connection, newSlots)
    if let most = Int(row[5] ?? ""), let used = Int(row[6] ?? ""), used + newSlots > most {
      throw refuse(
        tooFew(used, of: most, newSlots, "replication slots", "max_replication_slots"),
        "drop a slot that is not needed (SELECT pg_drop_replication_slot('NAME')), or raise the limit and restart the server"
      )
    }
  }

  /// The database encodings in which every byte is a Unicode character. Texts in other encodings may not convert to
  /// UTF-8, and one such text ends the stream.
  private static let wholeEncodings = [
    "UTF8", "LATIN1", "LATIN2", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9", "LATIN10", "ISO_8859_5",
    "KOI8R", "KOI8U", "WIN866", "WIN1256",
  ]

  private static func encodingGap(_ encoding: String, _ database: String) -> String? {
    wholeEncodings.contains { $0.hasSameBytes(as: encoding) }
      ? nil
      : "database \(database) has the encoding \(encoding), with texts that cannot be converted to UTF-8: one such value, of whichever table, would stop the capture"
  }

  /// Returns a notice if the server may be unable to convert some texts of the database to UTF-8; nil otherwise.
  package static func encodingNotice(_ connection: PostgresConnection) throws -> String? {
    let row = try connection.query("SELECT current_setting('server_encoding'), current_database()").first ?? []
    guard let gap = encodingGap(row.first.flatMap { $0 } ?? "", row.last.flatMap { $0 } ?? "") else { return nil }
    return "\(connection.place): \(gap); move the rows to a database with ENCODING 'UTF8'"
  }

  private static func tooFew(_ used: Int, of most: Int, _ new: Int, _ things: String, _ setting: String) -> String {
    used >= most
      ? "all \(most) \(things) are in use (\(setting))"
      : "\(used) of \(most) \(things) are in use (\(setting)), and \(new) captures need one each"
  }

  /// Throws `server-setting` if `max_wal_senders` is too low for the new captures.
  private static func checkSenders(_ connection: PostgresConnection, _ new: Int) throws {
    let row =
      try connection.query(
        """
        SELECT current_setting('max_wal_senders')::int,
          (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender')
        """
      ).first ?? []
    guard row.count == 2, let most = Int(row[0] ?? ""), let used = Int(row[1] ?? ""), used + new > most else { return }
    throw CairnError(
      .serverSetting,
      "\(connection.place): \(tooFew(used, of: most, new, "senders of the log", "max_wal_senders"))",
      hint: "end a standby or a capture that is not needed, or raise the limit and restart the server")
  }

  /// Returns a warning if the stream does not report schema changes; nil otherwise.
  ///
  /// - Throws: `privilege-missing` if schema `cairn`, or an object in it, belongs to an untrusted role.
  package static func schemaNotice(_ connection: PostgresConnection) throws -> String? {
    try OwnSchema.check(MessageKey.Place.own.rawValue, connection)
    let row = try connection.query("SELECT rolsuper, rolname FROM pg_roles WHERE rolname = current_user").first ?? []
    guard row.first != "t" else { return nil }
    guard try SchemaTriggers(connection: connection).isComplete() else {
      return SchemaTriggers.absence(connection.place, "this role is no superuser")
    }
    guard try MessageKey.read(.triggers, connection) == nil else { return nil }
    return SchemaTriggers.unreadable(connection.place, (row.last ?? nil) ?? "")
  }

  /// Throws `unsupported` if server version `version`, such as 140018 for 14.18, is one that capture is not tested with.
  static func checkVersion(_ version: Int, at place: String) throws(CairnError) {
    guard version < 150_000 else { return }
    throw CairnError(
      .unsupported, "\(place) is PostgreSQL \(version / 10_000), and capture needs 15 or newer",
      hint: "upgrade the server", remedy: .badInput)
  }

  /// Returns a warning if the server's version can lose changes in logical replication; nil otherwise.
  ///
  /// Source: release notes of 17.5, 16.9 and 15.13 ("Avoid data loss in logical replication").
  package static func versionNotice(_ connection: PostgresConnection) -> String? {
    versionNotice(connection.serverVersion, at: connection.place)
  }

  /// Returns a warning if server version `version`, such as 150012 for 15.12, can lose changes; nil otherwise.
  static func versionNotice(_ version: Int, at place: String) -> String? {
    let mended = [15: 13, 16: 9, 17: 5]
    let (major, minor) = (version / 10_000, version % 10_000)
    guard let least = mended[major], minor < least else { return nil }
    return
      "\(place) is PostgreSQL \(major).\(minor), which can leave out changes of transactions that run while a table is added to a publication; update the server to \(major).\(least) or later"
  }

  // MARK: Slot

  struct Slot {
    var isActive: Bool
    var activePID: Int32
    var confirmed: LSN
    var isLost: Bool
    var database: String
    var plugin: String
  }

  func time() throws -> Int64 {
    let text = try connection.first("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    return text.flatMap { Int64($0) } ?? 0
  }

  func slot() throws -> Slot? {
    let rows = try connection.query(
      "SELECT active, active_pid, confirmed_flush_lsn, wal_status, database, plugin FROM pg_replication_slots WHERE slot_name = $1",
      [name])
    return rows.first.map { row in
      Slot(
        isActive: row[0] == "t", activePID: Int32(row[1] ?? "") ?? 0, confirmed: row[2].flatMap { LSN($0) } ?? LSN(0),
        isLost: row[3] == "lost", database: row[4] ?? "", plugin: row[5] ?? "")
    }
  }

  /// Creates the slot of the trail. Waits up to a minute until the transactions that are open now have ended.
  func createSlot(
    _ replication: PostgresConnection, tell: @escaping (String) -> Void
  ) throws -> (start: LSN, snapshot: String) {
    let connection = self.connection
    let begun = Clock.monotonicMilliseconds
    var hasTold = false
    var blocker = ""
    replication.onWait = {
      let waited = Clock.monotonicMilliseconds - begun
      guard waited > 3000 else { return true }
      blocker = (try? Self.oldestTransaction(connection, besides: replication.backendPID)) ?? blocker
      if !hasTold, !blocker.isEmpty {
        hasTold = true
        tell("the slot waits for an older transaction to end: \(blocker)")
      }
      return waited < 60_000
    }
    defer { replication.onWait = nil }
    do {
      let row = try replication.query("CREATE_REPLICATION_SLOT \(name.quotedName) LOGICAL pgoutput EXPORT_SNAPSHOT")
      return (row.first.flatMap { $0[1] }.flatMap { LSN($0) } ?? LSN(0), row.first.flatMap { $0[2] } ?? "")
    } catch let error as PostgresError where error.isCancelled && !blocker.isEmpty {
      throw CairnError(
        .slotMissing, "\(connection.place): the slot must wait for a transaction to end: \(blocker)",
        hint: "end that transaction, then run again", remedy: .retry)
    } catch let error as PostgresError where error.sqlState == "53400" {
      throw CairnError(
        .serverSetting, "\(connection.place): \(error.message)",
        hint: "drop a slot that is not needed, or raise max_replication_slots and restart the server")
    }
  }

  /// Returns an applied note for each trail that apply writes to this database. Transactions that suspended tables
  /// lack, or that are in quarantine, do not count as applied.
  ///
  /// - Parameter snapshot: The exported snapshot to read in; nil for the present state.
  /// - Parameter clock: The clock of each returned note.
  func applied(asOf snapshot: String? = nil, clock: UInt64) throws -> [AppliedNote] {
    try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    defer { _ = try? connection.execute("ROLLBACK") }
    if let snapshot { try connection.execute("SET TRANSACTION SNAPSHOT \(snapshot.postgresLiteral)") }
    guard try connection.first("SELECT to_regclass('cairn.checkpoint')") != nil else { return [] }
    var numbers = ["number"]
    for (table, number) in [("cairn.waiting", "number"), ("cairn.quarantine", "number - 1")]
    where try connection.first("SELECT to_regclass($1)", [table]) != nil {
      numbers.append("(SELECT min(\(number)) FROM \(table) AS held WHERE held.trail = c.trail)")
    }
    let least = "least(\(numbers.joined(separator: ", ")))"
    let sql = "SELECT trail, \(least), encode(trail_id, 'hex') FROM cairn.checkpoint AS c"
    return try connection.query(sql).compactMap { row in
      guard let trail = row[0], let number = row[1].flatMap(Int64.init), number >= 0 else { return nil }
      return AppliedNote(
        trail: trail, id: row[2].flatMap(TrailID.init(hex:)), number: UInt64(bitPattern: number), clock: clock,
        position: .start)
    }
  }

  static func oldestTransaction(_ connection: PostgresConnection, besides pid: Int32 = 0) throws -> String? {
    let rows = try connection.query(
      """
      SELECT pid, coalesce(usename, ''), coalesce(application_name, ''), date_trunc('second', now() - xact_start)
      FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid NOT IN ($1::int, pg_backend_pid())
      ORDER BY xact_start LIMIT 1
      """, [String(pid)])
    guard let row = rows.first else {
      return try connection.first(
        "SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts ORDER BY prepared LIMIT 1")
    }
    return "process \(row[0] ?? "?") of \(row[1] ?? "?") (\(row[2] ?? "")), open for \(row[3] ?? "?")"
  }

  func dropSlot() throws {
    try endOwnStream()
    if try slot() != nil { try connection.query("SELECT pg_drop_replication_slot($1)", [name]) }
  }

  /// Ends the server process that still serves the stream of a killed cairn process. Throws `slot-missing` if another
  /// program uses the slot, or after 15 s.
  func endOwnStream() throws {
    let limit = Clock.monotonicMilliseconds + 15_000
    while let slot = try slot(), slot.isActive {
      let owner = try connection.first(
        "SELECT application_name FROM pg_stat_activity WHERE pid = $1::int", [String(slot.activePID)])
      guard owner == nil || owner == Self.application(name), Clock.monotonicMilliseconds < limit else {
        throw CairnError(
          .slotMissing, "\(connection.place): slot \(name) is in use by process \(slot.activePID) (\(owner ?? "?"))",
          hint: "end that process, then run again", remedy: .retry)
      }
      _ = try? connection.query("SELECT pg_terminate_backend($1::int)", [String(slot.activePID)])
      Clock.sleep(milliseconds: 50)
    }
  }

  static func application(_ name: String) -> String { "cairn \(name)" }

  static func identity(_ replication: PostgresConnection) throws -> (system: UInt64, timeline: UInt32) {
    let row = try replication.query("IDENTIFY_SYSTEM").first ?? []
    guard row.count > 1, let system = UInt64(row[0] ?? ""), let timeline = UInt32(row[1] ?? "") else {
      throw PostgresError(
        sqlState: "08P01", message: "IDENTIFY_SYSTEM gave no answer", place: replication.place, isConnectionLost: true)
    }
    return (system, timeline)
  }

  /// Returns, for each earlier timeline of the server, the LSN at which the server left that timeline.
  ///
  /// Source: https://www.postgresql.org/docs/15/protocol-replication.html, `TIMELINE_HISTORY`; timeline.c for the file.
  static func history(of timeline: UInt32, _ replication: PostgresConnection) throws -> [UInt32: LSN] {
    let content = try replication.query("TIMELINE_HISTORY \(timeline)").first?[1] ?? ""
    // With or without extended queries, a bytea may come in its hexadecimal form.
    let text =
      content.hasPrefix("\\x") ? String(decoding: Self.bytes(ofHex: content.dropFirst(2)), as: UTF8.self) : content
    var left: [UInt32: LSN] = [:]
    for line in text.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
      let words = line.split(whereSeparator: \.isWhitespace)
      guard words.count >= 2, let parent = UInt32(words[0]), let place = LSN(String(words[1])) else { continue }
      left[parent] = place
    }
    return left
  }

  static func bytes(ofHex digits: Substring) -> [UInt8] {
    var (bytes, high): ([UInt8], Int?) = ([], nil)
    for digit in digits.compactMap(\.hexDigitValue) {
      if let first = high { bytes.append(UInt8(first << 4 | digit)) }
      high = high == nil ? digit : nil
    }
    return bytes
  }

  // MARK: Detach

  /// Drops one unused slot of Cairn and the publication of the same name.
  ///
  /// - Throws: `usage` for a name that is not Cairn's, `slot-missing` if the slot does not exist or is in use.
  package static func detach(slot name: String, _ connection: PostgresConnection) throws {
    let digits = name.dropFirst("cairn_".count)
    guard name.hasPrefix("cairn_"), digits.count == 16, digits.allSatisfy(\.isHexDigit) else {
      throw CairnError(
        .usage, "'\(name)' is not a slot of Cairn",
        hint: "slots of Cairn are named cairn_ and 16 digits; 'cairn status' lists them",
        remedy: .badInput)
    }
    let row = try connection.query(
      "SELECT active, active_pid, database, database = current_database() FROM pg_replication_slots WHERE slot_name = $1",
      [name]
    ).first
    if let row {
      guard row[3] == "t" else {
        throw CairnError(
          .slotMissing, "\(connection.place): slot \(name) belongs to database \(row[2] ?? "?")",
          hint: "name that database in the URL", remedy: .badInput)
      }
      guard row[0] != "t" else { throw inUse(name, row[1] ?? "?", connection) }
      try connection.query("SELECT pg_drop_replication_slot($1)", [name])
    }
    let isPublished = try connection.first("SELECT 1 FROM pg_publication WHERE pubname = $1", [name]) != nil
    guard row != nil || isPublished else {
      throw CairnError(
        .slotMissing, "\(connection.place) has no slot \(name)",
        hint: "it is already dropped, or is at another server", remedy: .badInput)
    }
    if isPublished { try connection.execute("DROP PUBLICATION \(name.quotedName)") }
  }

  /// Returns the unused slots of Cairn in this database, each with the bytes of log that the slot keeps.
  package static func idleSlots(_ connection: PostgresConnection) throws -> [(name: String, bytes: Int64)] {
    try connection.query(
      """
      SELECT slot_name, coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, 0) FROM pg_replication_slots
      WHERE slot_name ~ '^cairn_[0-9a-f]{16}$' AND database = current_database() AND NOT active ORDER BY 1
      """
    ).map { ($0[0] ?? "", $0[1].flatMap { Int64($0) } ?? 0) }
  }

  private static func inUse(_ slot: String, _ process: String, _ connection: PostgresConnection) -> CairnError {
    CairnError(
      .slotMissing, "\(connection.place): slot \(slot) is in use by process \(process)",
      hint: "stop the replication first, then run again", remedy: .retry)
  }

  /// Removes the slots and publications of Cairn from the database; returns false if there were none.
  package static func detach(_ connection: PostgresConnection) throws -> Bool {
    let slots = try connection.query(
      "SELECT slot_name, active, active_pid FROM pg_replication_slots WHERE slot_name ~ '^cairn_' AND database = current_database()"
    )
    for slot in slots where slot[1] == "t" {
      throw inUse(slot[0] ?? "", slot[2] ?? "?", connection)
    }
    let hadTriggers = try SchemaTriggers(connection: connection).remove()
    for slot in slots { try connection.query("SELECT pg_drop_replication_slot($1)", [slot[0]]) }
    let publications = try connection.query("SELECT pubname FROM pg_publication WHERE pubname ~ '^cairn_'")
    for publication in publications {
      try connection.execute("DROP PUBLICATION IF EXISTS \((publication[0] ?? "").quotedName)")
    }
    return !slots.isEmpty || !publications.isEmpty || hadTriggers
  }
}
