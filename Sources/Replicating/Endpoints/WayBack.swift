import Capturing
import Changes
import PostgresKit
import SQLiteKit

extension TargetDatabase {
  /// Returns whether rows of this database are replicated to the source by any capture and apply. If so, rows from the
  /// source must not enter this database's trail: they would return to the source.
  package func leadsBack(to source: SourceDatabase) throws -> Bool {
    let captured = try capturedTrails()
    return try !captured.isEmpty && !captured.isDisjoint(with: source.appliedTrails())
  }

  /// Returns the slot names of the trails that captures of this database write. For SQLite, returns the name that a
  /// slot of the trail would have.
  package func capturedTrails() throws -> Set<String> {
    switch handle {
    case .sqlite(let database):
      guard let owner = try database.flatMap({ try Journal($0).owner() }) else { return [] }
      return [PostgresSource.name(of: owner.trail)]
    case .postgres(let connection):
      return Set(
        try connection.query(
          "SELECT slot_name FROM pg_replication_slots WHERE slot_name ~ '^cairn_' AND database = current_database()"
        ).compactMap { $0[0] })
    }
  }
}

extension SourceDatabase {
  /// Returns the slot names of the trails that are applied to this database.
  package func appliedTrails() throws -> Set<String> {
    switch handle {
    case .sqlite(let database):
      guard
        try database.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_checkpoint'") != nil
      else { return [] }
      return Set(
        try database.query("SELECT trail_id FROM cairn_checkpoint").compactMap { row in
          guard case .blob(let bytes) = row[0] else { return nil }
          return TrailID(bytes).map(PostgresSource.name)
        })
    case .postgres(let connection):
      // The role of a capture may lack the right to read the state that an apply of another role keeps.
      let isReadable = try connection.first(
        """
        SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'cairn' AND c.relname = 'checkpoint' AND has_schema_privilege(n.oid, 'USAGE')
          AND has_table_privilege(c.oid, 'SELECT')
        """)
      guard isReadable != nil else { return [] }
      return Set(
        try connection.query("SELECT 'cairn_' || left(encode(trail_id, 'hex'), 16) FROM cairn.checkpoint")
          .compactMap { $0[0] })
    }
  }
}
