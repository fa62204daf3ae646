import Changes
import PostgresKit
import SystemKit
import Trails

extension PostgresCapture {
  /// Writes the present values of the captured tables' sequences to the trail.
  func appendSequences(isLast: Bool) throws {
    let now = Clock.monotonicMilliseconds
    guard hasChangedSinceSequences, isLast || now - sequencesAt > 5000, source.connection.isUsable else { return }
    sequencesAt = now
    hasChangedSinceSequences = false
    let wanted = Set(registry.tables.values.flatMap { $0.sequences.map { "\($0.namespace).\($0.name)".nameKey } })
    guard !wanted.isEmpty else { return }
    let rows: [[String?]]
    do {
      rows = try source.connection.query(
        "SELECT schemaname, sequencename, last_value, increment_by FROM pg_sequences WHERE last_value IS NOT NULL")
    } catch let error as PostgresError where error.sqlState == "XX000" || error.isTransient {
      // A sequence was dropped while the view was read ("could not open relation with OID"). Or this query deadlocked
      // with a session that alters several tables.
      return hasChangedSinceSequences = true
    }
    var moved: [SequenceState] = []
    for row in rows {
      guard let namespace = row[0], let name = row[1], let last = Int64(row[2] ?? ""),
        wanted.contains("\(namespace).\(name)"), sequences["\(namespace).\(name)"] != last
      else { continue }
      sequences["\(namespace).\(name)"] = last
      moved.append(.init(namespace: namespace, name: name, last: last, increment: Int64(row[3] ?? "") ?? 1))
    }
    guard !moved.isEmpty else { return }
    try openTransaction()
    for sequence in moved {
      record.removeAll()
      record.append(sequence)
      try trail.append(kind: RecordKind.sequence, record.bytes)
    }
    try endTransaction()
    try sync()
  }
}
