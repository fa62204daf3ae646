import Changes

/// The statements that create the types of a database which are not built in: enums, domains, composites, ranges, and
/// the extensions that bring types.
package struct PostgresTypes {
  private let connection: PostgresConnection
  private var known: [String: [String]] = [:]

  package init(_ connection: PostgresConnection) { self.connection = connection }

  /// What must be run, in this order, so that the type of this oid exists; empty for a built-in one.
  package mutating func script(of oid: String) throws -> [String] {
    if let script = known[oid] { return script }
    // A composite may not hold itself, but a wrong catalog shall not make us recurse for ever.
    known[oid] = []
    let script = try makeScript(oid)
    known[oid] = script
    return script
  }

  private mutating func makeScript(_ oid: String) throws -> [String] {
    let rows = try connection.query(
      """
      SELECT n.nspname, t.typname, t.typtype, t.typelem, t.typbasetype, format_type(t.typbasetype, t.typtypmod),
        t.typnotnull, pg_get_expr(t.typdefaultbin, 0), t.typrelid, e.extname, en.nspname, t.typcategory,
        CASE WHEN t.typcollation <> b.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END
      FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
        LEFT JOIN pg_type AS b ON b.oid = t.typbasetype
        LEFT JOIN pg_collation AS co ON co.oid = t.typcollation LEFT JOIN pg_namespace AS cn ON cn.oid = co.collnamespace
        LEFT JOIN pg_depend AS d ON d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
        LEFT JOIN pg_extension AS e ON e.oid = d.refobjid LEFT JOIN pg_namespace AS en ON en.oid = e.extnamespace
      WHERE t.oid = $1::oid
      """, [oid])
    guard let row = rows.first, let namespace = row[0], let name = row[1], namespace != "pg_catalog" else {
      // An array of a built-in type is built in as well.
      return []
    }
    let place = namespace == "public" ? [] : ["CREATE SCHEMA IF NOT EXISTS \(namespace.quotedName)"]
    if let extensionName = row[9] {
      return place + [
        "CREATE EXTENSION IF NOT EXISTS \(extensionName.quotedName) WITH SCHEMA \((row[10] ?? "public").quotedName)"
      ]
    }
    if row[11] == "A", let element = row[3], element != "0" { return try script(of: element) }
    let type = "\(namespace.quotedName).\(name.quotedName)"
    switch row[2] {
    case "e":
      let labels = try connection.query(
        "SELECT enumlabel FROM pg_enum WHERE enumtypid = $1::oid ORDER BY enumsortorder", [oid])
      let list = labels.compactMap { $0[0]?.postgresLiteral }.joined(separator: ", ")
      return place + [Self.guarded("CREATE TYPE \(type) AS ENUM (\(list))")]
    case "d":
      var text = "CREATE DOMAIN \(type) AS \(row[5] ?? "")"
      if let collation = row[12] { text += " COLLATE \(collation)" }
      if let expression = row[7] { text += " DEFAULT \(expression)" }
      if row[6] == "t" { text += " NOT NULL" }
      let checks = try connection.query(
        "SELECT 'CONSTRAINT ' || quote_ident(conname) || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE contypid = $1::oid AND contype = 'c' ORDER BY conname",
        [oid])
      for check in checks { text += " " + (check[0] ?? "") }
      return try script(of: row[4] ?? "") + place + [Self.guarded(text)]
    case "c":
      let columns = try connection.query(
        "SELECT attname, format_type(atttypid, atttypmod), atttypid FROM pg_attribute WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [row[8] ?? ""])
      var needed: [String] = []
      for column in columns { needed += try script(of: column[2] ?? "") }
      let list = columns.map { "\(($0[0] ?? "").quotedName) \($0[1] ?? "")" }.joined(separator: ", ")
      return needed + place + [Self.guarded("CREATE TYPE \(type) AS (\(list))")]
    case "r", "m":
      let ranges = try connection.query(
        "SELECT r.rngsubtype, format_type(r.rngsubtype, NULL), quote_ident(n.nspname) || '.' || quote_ident(t.typname), quote_ident(m.typname), m.typnamespace::regnamespace, CASE WHEN r.rngcollation <> s.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END, CASE WHEN pn.nspname = 'pg_catalog' THEN quote_ident(pr.proname) END FROM pg_range AS r JOIN pg_type AS t ON t.oid = r.rngtypid JOIN pg_namespace AS n ON n.oid = t.typnamespace JOIN pg_type AS m ON m.oid = r.rngmultitypid JOIN pg_type AS s ON s.oid = r.rngsubtype LEFT JOIN pg_collation AS co ON co.oid = r.rngcollation LEFT JOIN pg_namespace AS cn ON cn.oid = co.collnamespace LEFT JOIN pg_proc AS pr ON pr.oid = r.rngsubdiff LEFT JOIN pg_namespace AS pn ON pn.oid = pr.pronamespace WHERE r.rngtypid = $1::oid OR r.rngmultitypid = $1::oid",
        [oid])
      guard let range = ranges.first else { return [] }
      let options = [("COLLATION", range[5]), ("SUBTYPE_DIFF", range[6])].compactMap { name, value in
        value.map { ", \(name) = \($0)" }
      }.joined()
      let multirange = "MULTIRANGE_TYPE_NAME = \(range[4] ?? "").\(range[3] ?? "")"
      return try script(of: range[0] ?? "") + place + [
        Self.guarded("CREATE TYPE \(range[2] ?? "") AS RANGE (SUBTYPE = \(range[1] ?? ""), \(multirange)\(options))")
      ]
    default: return place
    }
  }

  /// A type has no IF NOT EXISTS.
  private static func guarded(_ statement: String) -> String {
    let tag = statement.contains("$cairn$") ? "$cairn_type$" : "$cairn$"
    return "DO \(tag) BEGIN \(statement); EXCEPTION WHEN duplicate_object THEN NULL; END \(tag)"
  }
}
