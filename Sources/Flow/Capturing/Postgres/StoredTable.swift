import Changes
import PostgresKit

/// The name, columns and data files of a table in the catalog at one moment. A chunk is valid only if all three are
/// the same in its snapshot and after its table was locked.
///
/// Source: https://www.postgresql.org/docs/15/mvcc-caveats.html
struct StoredTable: Equatable {
  @ByBytes private var rows: [[String?]]

  /// Reads the table from the catalog; nil if it does not exist or has no column.
  init?(_ relation: UInt32, on connection: PostgresConnection) throws {
    rows = try connection.query(
      """
      WITH RECURSIVE tree(oid) AS (
        SELECT $1::oid
        UNION ALL SELECT i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid AND NOT i.inhdetachpending
          JOIN pg_class AS p ON p.oid = i.inhparent AND p.relkind = 'p')
      SELECT n.nspname, c.relname, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation,
        (SELECT string_agg(f.oid || ':' || f.relfilenode, ' ' ORDER BY f.oid)
          FROM tree JOIN pg_class AS f ON f.oid = tree.oid)
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_attribute AS a ON a.attrelid = c.oid
      WHERE c.oid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
      """, [String(relation)])
    guard !rows.isEmpty else { return nil }
  }

  func isKnown(as table: PostgresRegistry.Table) -> Bool {
    let schema = table.schema
    guard rows[0][0] == schema.namespace, rows[0][1] == schema.name, rows.count == schema.columns.count,
      rows.count == table.types.count
    else { return false }
    return rows.indices.allSatisfy { index in
      let (row, type) = (rows[index], table.types[index])
      return row[3] == schema.columns[index].name && row[4] == String(type.oid) && row[5] == String(type.modifier)
        && (table.numbers.isEmpty || row[2] == String(table.numbers[index]))
    }
  }
}
