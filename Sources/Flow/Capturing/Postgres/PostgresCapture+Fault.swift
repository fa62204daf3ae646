import Changes
import PostgresKit
import SystemKit
import Trails

// Whether a server continues where the trail ends, for `cairn check`.
extension PostgresCapture {
  /// The most log, in bytes, that ``fault(of:folder:)`` lets the server decode.
  private static let decodedBytesMax: UInt64 = 64 << 20

  /// Returns the reason why capture of a server cannot continue the trail in `folder`; nil if there is none.
  ///
  /// The server decodes at most 64 MiB of its log, and the slot does not advance.
  package static func fault(of uri: String, folder: String) throws -> String? {
    let last = try Trail.lastSourcePosition(folder: folder)
    guard !last.isEmpty else { return nil }
    let (slot, name) = (SlotProgress(try PostgresPosition(decoding: last)), try Trail.info(folder: folder).id)
    let application = PostgresSource.application(PostgresSource.name(of: name))
    let source = PostgresSource(try PostgresConnection(uri, application: application), uri: uri, trail: name)
    let held = try source.slot()
    if held?.isActive == true { return nil }
    let replication = try PostgresConnection(uri, purpose: .replication, application: application)
    if let how = try departure(of: slot, PostgresSource.identity(replication), replication) { return how }
    if let how = try shortage(of: slot, source) { return how }
    guard let held, let witness = slot.position.witness, held.confirmed <= witness.commit,
      witness.commit.value - held.confirmed.value <= decodedBytesMax
    else { return nil }
    return try source.transactions(through: witness.commit).contains(witness) ? nil : foreign(witness.commit)
  }

  /// Returns how the cluster or the timeline of a server differs from those of the trail; nil if both are the same.
  static func departure(
    of slot: SlotProgress, _ identity: (system: UInt64, timeline: UInt32), _ replication: PostgresConnection
  ) throws -> String? {
    let position = slot.position
    let hasHistory =
      identity.system == position.system && identity.timeline != position.timeline && identity.timeline > 1
    let history = hasHistory ? try PostgresSource.history(of: identity.timeline, replication) : [:]
    return slot.departure(system: identity.system, timeline: identity.timeline, history: history)
  }

  /// Returns the reason for an error if the log of a server ends before the trail does; nil otherwise.
  static func shortage(of slot: SlotProgress, _ source: PostgresSource) throws -> String? {
    let end = try source.connection.first("SELECT pg_current_wal_lsn()").flatMap { LSN($0) } ?? LSN(0)
    return end >= slot.position.reached ? nil : "its WAL ends at \(end), the trail at \(slot.position.reached)"
  }

  static func foreign(_ commit: LSN) -> String { "its transaction at \(commit) is not the one that the trail has" }
}

extension PostgresSource {
  /// Returns the transactions that the slot would send, through the transaction that commits at `commit`. The slot
  /// stays unchanged.
  fileprivate func transactions(through commit: LSN) throws -> [PostgresPosition.Transaction] {
    let rows = try connection.query(
      """
      SELECT encode(data, 'hex') FROM pg_logical_slot_peek_binary_changes($1, $2::pg_lsn, NULL, 'proto_version', '1',
        'publication_names', $3, 'messages', 'true') WHERE get_byte(data, 0) = 66
      """, [name, LSN(commit.value + 1).description, name.quotedName])
    return try rows.compactMap { row in
      let bytes = Self.bytes(ofHex: (row[0] ?? "")[...])
      guard case .begin(let commit, let time, let xid) = try bytes.withUnsafeBytes({ try PgOutput($0) }) else {
        return nil
      }
      return .init(commit: commit, xid: xid, time: time)
    }
  }
}
