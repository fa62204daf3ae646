import Changes

extension CatalogDocument {
  /// Returns an SQL expression for the ``CatalogDocument`` of the table with this oid. Only connections with equal
  /// session settings get equal documents.
  ///
  /// - Parameter oid: An SQL expression for the table's oid, such as `$1` or `listed.oid`.
  /// - Parameter withTypes: Whether the document describes the column types that are not built in.
  package static func sql(of oid: String, types withTypes: Bool = true) -> String {
    let ofTable = [
      table, columns, indexes, objects, foreignKeys, sequences, partitions, checks,
    ]
    let parts = ofTable + (withTypes ? [types, labels, domainChecks, attributes, ranges] : [])
    let sections = zip(letters, parts).map { letter, part in
      "SELECT \(String(letter).quotedText), part.* FROM (\(part)) AS part(place, name, fields)"
    }
    let union = sections.joined(separator: "\n  UNION ALL ")
    let used = withTypes ? "RECURSIVE used(oid) AS (\(usedTypes)),\n" : ""
    return """
      (WITH \(used)item(section, place, name, fields) AS (
        \(union))
      SELECT coalesce(string_agg(item.section || cardinality(item.fields) || ';' || \(encoded("item.fields")), ''
        ORDER BY item.section, item.place, item.name COLLATE "C", item.fields), '') FROM item)
      """.replacing("{oid}", with: oid)
  }

  /// Returns an SQL expression that estimates the size, in bytes, of a table's definitions in the catalog.
  ///
  /// - Parameter oid: An SQL expression for the table's oid, such as `$1`.
  static func size(of oid: String) -> String {
    """
    (WITH RECURSIVE used(oid) AS (\(usedTypes))
      SELECT sum(part.bytes)::bigint FROM (
        SELECT 0 AS bytes
        UNION ALL SELECT 256 + octet_length(d.adbin::text) FROM pg_attrdef AS d WHERE d.adrelid = {oid}
        UNION ALL SELECT 255 * pg_column_size(a.attmissingval) FROM pg_attribute AS a
          WHERE a.attrelid = {oid} AND pg_column_size(a.attmissingval) > 1000
        UNION ALL SELECT 1024 + coalesce(octet_length(co.conbin::text), 0) FROM pg_constraint AS co
          WHERE co.conrelid = {oid}
        UNION ALL SELECT 4096 + coalesce(octet_length(i.indexprs::text), 0) + coalesce(octet_length(i.indpred::text), 0)
          FROM pg_index AS i WHERE i.indrelid = {oid}
        UNION ALL SELECT 1024 + coalesce(octet_length(co.conbin::text), 0)
          FROM used JOIN pg_constraint AS co ON co.contypid = used.oid
        UNION ALL SELECT 256 * (1 + coalesce(c.relnatts, 0)) + coalesce(octet_length(t.typdefaultbin::text), 0)
          FROM used JOIN pg_type AS t ON t.oid = used.oid LEFT JOIN pg_class AS c ON c.oid = t.typrelid
        UNION ALL SELECT 128 FROM used JOIN pg_enum AS l ON l.enumtypid = used.oid) AS part)
    """.replacing("{oid}", with: oid)
  }

  // The length of the constant at the begin of `part`, a piece of an expression as the catalog stores it; 0 for a text
  // and for a constant of fixed size. The piece is split by hand, as a regular expression takes thirty times as long.
  private static let denseConstant = """
    CASE WHEN split_part(part, ' ', 7) = '-1' AND split_part(part, ' ', 11) = 'false'
        AND split_part(part, ' ', 14) = ':constvalue' AND split_part(part, ' ', 1) NOT IN ('17', '25', '1042', '1043')
      THEN split_part(part, ' ', 15)::bigint ELSE 0 END
    """

  /// Returns an SQL expression for the estimated stored size, in bytes, of those constants in a table's definitions
  /// that may be much longer as text.
  static func denseBytes(of oid: String) -> String {
    """
    (WITH RECURSIVE used(oid) AS (\(usedTypes)), expression(node) AS (
        SELECT d.adbin::text FROM pg_attrdef AS d WHERE d.adrelid = {oid}
        UNION ALL SELECT co.conbin::text FROM pg_constraint AS co WHERE co.conrelid = {oid} AND co.contype = 'c'
        UNION ALL SELECT coalesce(i.indexprs::text, '') || coalesce(i.indpred::text, '')
          FROM pg_index AS i WHERE i.indrelid = {oid} AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
        UNION ALL SELECT co.conbin::text FROM used JOIN pg_constraint AS co ON co.contypid = used.oid
          WHERE co.contype = 'c' AND \(usesTypes("{oid}"))
        UNION ALL SELECT t.typdefaultbin::text FROM used JOIN pg_type AS t ON t.oid = used.oid
          WHERE \(usesTypes("{oid}")))
      SELECT coalesce((SELECT sum(\(denseConstant)) FROM expression
          CROSS JOIN LATERAL unnest(string_to_array(expression.node, ':consttype ')) AS piece(whole)
          CROSS JOIN LATERAL left(piece.whole, 200) AS part), 0)
        + coalesce((SELECT sum(CASE WHEN pg_column_size(a.attmissingval) > 40 THEN 1000 ELSE 8 END)
          FROM pg_attribute AS a WHERE a.attrelid = {oid} AND a.attnum > 0 AND a.atthasmissing AND a.attlen = -1
            AND a.atttypid NOT IN (17, 25, 1042, 1043)), 0))
    """.replacing("{oid}", with: oid)
  }

  /// Returns an SQL expression for the length, in bytes, of a table's definitions as the server prints them.
  static func printedBytes(of oid: String) -> String {
    """
    (WITH RECURSIVE used(oid) AS (\(usedTypes))
      SELECT coalesce(sum(part.bytes), 0)::bigint FROM (
        SELECT octet_length(pg_get_expr(d.adbin, d.adrelid)) AS bytes FROM pg_attrdef AS d WHERE d.adrelid = {oid}
        UNION ALL SELECT octet_length(pg_get_constraintdef(co.oid)) FROM pg_constraint AS co
          WHERE co.conrelid = {oid} AND co.contype = 'c'
        UNION ALL SELECT octet_length(pg_get_indexdef(i.indexrelid)) FROM pg_index AS i
          WHERE i.indrelid = {oid} AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
        UNION ALL SELECT octet_length(pg_get_constraintdef(co.oid))
          FROM used JOIN pg_constraint AS co ON co.contypid = used.oid WHERE co.contype = 'c'
        UNION ALL SELECT octet_length(pg_get_expr(t.typdefaultbin, 0)) FROM used JOIN pg_type AS t ON t.oid = used.oid
        UNION ALL SELECT octet_length(a.attmissingval::text) FROM pg_attribute AS a
          WHERE a.attrelid = {oid} AND a.attnum > 0 AND a.atthasmissing AND NOT a.attisdropped) AS part)
    """.replacing("{oid}", with: oid)
  }

  /// Returns an SQL condition that is true if a column of the table has a type that is not built in.
  package static func usesTypes(_ oid: String) -> String {
    """
    EXISTS (SELECT FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid WHERE a.attrelid = \(oid)
      AND a.attnum > 0 AND NOT a.attisdropped AND t.typnamespace <> 'pg_catalog'::regnamespace)
    """
  }

  package static func encoded(_ fields: String) -> String {
    """
    (SELECT coalesce(string_agg(CASE WHEN u.f IS NULL THEN '-'
      ELSE octet_length(convert_to(u.f, 'UTF8')) || ':' || u.f END, '' ORDER BY u.n), '')
      FROM unnest(\(fields)) WITH ORDINALITY AS u(f, n))
    """
  }

  // The first field of each row is a text, because an array that begins with a `name` cuts the other fields to its
  // length.
  private static let letters = "tciofspkyedmr".map(String.init)

  // The types of the table's columns, and all types on which these depend.
  private static let usedTypes = """
    SELECT a.atttypid FROM pg_attribute AS a WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
    UNION SELECT x.oid FROM used JOIN pg_type AS t ON t.oid = used.oid CROSS JOIN LATERAL (
        SELECT t.typelem WHERE t.typcategory = 'A' AND t.typelem <> 0
        UNION ALL SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT m.atttypid FROM pg_attribute AS m WHERE t.typtype = 'c' AND m.attrelid = t.typrelid
          AND m.attnum > 0 AND NOT m.attisdropped
        UNION ALL SELECT r.rngsubtype FROM pg_range AS r WHERE r.rngtypid = t.oid OR r.rngmultitypid = t.oid) AS x(oid)
      WHERE t.typnamespace <> 'pg_catalog'::regnamespace
    """

  private static let table = """
    SELECT 0, c.relname, ARRAY[c.oid::text, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
      c.relreplident::text, greatest(c.reltuples, 0)::bigint::text, pg_get_userbyid(c.relowner),
      pg_has_role(c.relowner, 'USAGE')::text,
      (c.relrowsecurity AND NOT (SELECT rolbypassrls OR rolsuper FROM pg_roles WHERE rolname = current_user)
        AND (c.relforcerowsecurity OR NOT pg_has_role(c.relowner, 'USAGE')))::text, current_user]
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = {oid}
    """

  // A cast that calls a function prints only as a cast. The call is added around it, because Cairn must see that a
  // function is called.
  private static func calling(_ catalog: String, _ oid: String, _ text: String) -> String {
    """
    coalesce((SELECT min(d.refobjid::regproc::text) || '(' || \(text) || ')' FROM pg_depend AS d
      WHERE d.classid = \(catalog.postgresLiteral)::regclass AND d.objid = \(oid) AND d.refclassid = 'pg_proc'::regclass
        AND position(d.refobjid::regproc::text || '(' IN \(text)) = 0 HAVING count(*) > 0), \(text))
    """
  }

  private static let columns = """
    SELECT a.attnum, a.attname, ARRAY[a.attnum::text, a.attname, format_type(a.atttypid, a.atttypmod),
      a.attnotnull::text, a.attgenerated::text, a.atttypid::text, a.atttypmod::text,
      CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation
        THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) ELSE '' END,
      \(calling("pg_attrdef", "ad.oid", "pg_get_expr(ad.adbin, ad.adrelid)")),
      CASE WHEN t.typtype = 'd' THEN (
        WITH RECURSIVE b(type, modifier) AS (
          SELECT t.typbasetype, t.typtypmod
          UNION ALL SELECT x.typbasetype, x.typtypmod FROM b JOIN pg_type AS x ON x.oid = b.type WHERE x.typtype = 'd')
        SELECT CASE x.typtype WHEN 'e' THEN 'enum' WHEN 'c' THEN 'record' ELSE format_type(x.oid, b.modifier) END
        FROM b JOIN pg_type AS x ON x.oid = b.type WHERE x.typtype <> 'd')
      WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN ''
      ELSE CASE t.typtype WHEN 'e' THEN 'enum' WHEN 'c' THEN 'record' WHEN 'r' THEN 'range' WHEN 'm' THEN 'multirange'
        ELSE CASE WHEN t.typcategory = 'A' THEN 'array' ELSE '' END END END,
      a.attidentity::text,
      CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1] END,
      (t.typtype = 'd' OR t.typdefault IS NOT NULL)::text,
      (ad.oid IS NOT NULL OR a.attname IN (
        SELECT l.attname FROM pg_partition_tree({oid}) AS p JOIN pg_attribute AS l ON l.attrelid = p.relid
        WHERE p.level > 0 AND l.atthasmissing))::text]
    FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef AS ad ON ad.adrelid = a.attrelid AND ad.adnum = a.attnum
      LEFT JOIN pg_collation AS co ON co.oid = a.attcollation LEFT JOIN pg_namespace AS cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
    """

  private static let indexes = """
    SELECT CASE WHEN i.indisprimary THEN 0 ELSE 1 END, x.relname, ARRAY[i.indisprimary::text, i.indisreplident::text,
      (i.indpred IS NULL AND i.indexprs IS NULL AND i.indisunique)::text, (NOT i.indimmediate)::text,
      (SELECT string_agg(k.n::text, ' ' ORDER BY k.place) FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(n, place)
        WHERE k.place <= i.indnkeyatts),
      x.relname, pg_get_indexdef(i.indexrelid),
      CASE WHEN co.oid IS NULL THEN '' ELSE 'CONSTRAINT ' || quote_ident(co.conname) || ' ' || pg_get_constraintdef(co.oid)
        END]
    FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
      LEFT JOIN pg_constraint AS co ON co.conindid = i.indexrelid AND co.conrelid = i.indrelid
        AND co.contype IN ('p', 'u', 'x')
    WHERE i.indrelid = {oid} AND i.indisvalid AND (i.indisunique OR co.oid IS NOT NULL)
    """

  private static let objects = """
    SELECT 0, x.relname, ARRAY[x.relname::text, pg_get_indexdef(i.indexrelid)]
    FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE i.indrelid = {oid} AND i.indisvalid AND NOT EXISTS (SELECT 1 FROM pg_constraint AS co
        WHERE co.conindid = i.indexrelid AND co.conrelid = i.indrelid AND co.contype IN ('p', 'u', 'x'))
    """

  private static let foreignKeys = """
    SELECT 0, co.conname, ARRAY[array_to_string(co.conkey, ' '), n.nspname, c.relname,
      (SELECT string_agg(a.attname, E'\\x1f' ORDER BY k.place) FROM unnest(co.confkey) WITH ORDINALITY AS k(n, place)
        JOIN pg_attribute AS a ON a.attrelid = co.confrelid AND a.attnum = k.n),
      co.confupdtype::text, co.confdeltype::text, co.condeferred::text, co.condeferrable::text]
    FROM pg_constraint AS co JOIN pg_class AS c ON c.oid = co.confrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE co.conrelid = {oid} AND co.contype = 'f' AND co.conparentid = 0
    """

  // The sequences of identity and serial columns.
  private static let sequences = """
    SELECT 0, n.nspname || '.' || c.relname, ARRAY[n.nspname::text, c.relname, coalesce(o.refobjsubid, 0)::text,
      coalesce(o.deptype::text, ''),
      'AS ' || format_type(s.seqtypid, NULL) || ' INCREMENT BY ' || s.seqincrement || ' MINVALUE ' || s.seqmin
        || ' MAXVALUE ' || s.seqmax || ' START WITH ' || s.seqstart || ' CACHE ' || s.seqcache
        || CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END]
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_sequence AS s ON s.seqrelid = c.oid
      LEFT JOIN pg_depend AS o ON o.classid = 'pg_class'::regclass AND o.objid = c.oid AND o.refobjid = {oid}
        AND o.deptype IN ('a', 'i')
    WHERE c.relkind = 'S' AND (o.objid IS NOT NULL OR EXISTS (
      SELECT 1 FROM pg_attrdef AS ad JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = ad.oid
      WHERE ad.adrelid = {oid} AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid))
    """

  // Without `pg_partition_tree`, which takes locks.
  private static let partitions = """
    WITH RECURSIVE tree(oid) AS (
      SELECT w.oid FROM pg_class AS w WHERE w.oid = {oid} AND w.relkind = 'p'
      UNION ALL SELECT i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid
        WHERE NOT i.inhdetachpending)
    SELECT 0, lpad(c.oid::text, 10, '0'), ARRAY[c.oid || ':' || pg_relation_filenode(c.oid), n.nspname, c.relname,
      (CASE c.relreplident WHEN 'f' THEN true WHEN 'n' THEN false ELSE EXISTS (SELECT 1 FROM pg_index AS i
        WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
          AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END) END)::text,
      c.relreplident::text, (SELECT string_agg(root.attnum::text, ' ') FROM pg_index AS i
          CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(n, place)
          JOIN pg_attribute AS own ON own.attrelid = i.indrelid AND own.attnum = k.n
          JOIN pg_attribute AS root ON root.attrelid = {oid} AND root.attname = own.attname
        WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate AND k.place <= i.indnkeyatts
          AND CASE c.relreplident WHEN 'i' THEN i.indisreplident WHEN 'd' THEN i.indisprimary ELSE false END),
      c.relpersistence::text]
    FROM tree JOIN pg_class AS c ON c.oid = tree.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'f')
    """

  private static let checks = """
    SELECT 0, co.conname, ARRAY['CONSTRAINT ' || quote_ident(co.conname) || ' ' || pg_get_constraintdef(co.oid)]
    FROM pg_constraint AS co
    WHERE co.conrelid = {oid} AND co.contype = 'c'
    """

  // MARK: Types

  private static let types = """
    SELECT 0, lpad(t.oid::text, 10, '0'), ARRAY[t.oid::text, n.nspname, t.typname, t.typtype::text, t.typelem::text,
      t.typbasetype::text, format_type(t.typbasetype, t.typtypmod), t.typnotnull::text, pg_get_expr(t.typdefaultbin, 0),
      e.extname, en.nspname, t.typcategory::text,
      CASE WHEN t.typcollation <> b.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END]
    FROM used JOIN pg_type AS t ON t.oid = used.oid JOIN pg_namespace AS n ON n.oid = t.typnamespace
      LEFT JOIN pg_type AS b ON b.oid = t.typbasetype
      LEFT JOIN pg_collation AS co ON co.oid = t.typcollation LEFT JOIN pg_namespace AS cn ON cn.oid = co.collnamespace
      LEFT JOIN pg_depend AS d ON d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
      LEFT JOIN pg_extension AS e ON e.oid = d.refobjid LEFT JOIN pg_namespace AS en ON en.oid = e.extnamespace
    WHERE n.nspname <> 'pg_catalog'
    """

  private static let labels = """
    SELECT (row_number() OVER (ORDER BY l.enumtypid, l.enumsortorder))::int, '',
      ARRAY[l.enumtypid::text, l.oid::text, l.enumlabel]
    FROM used JOIN pg_enum AS l ON l.enumtypid = used.oid
    """

  private static let domainChecks = """
    SELECT 0, co.conname, ARRAY[co.contypid::text, 'CONSTRAINT ' || quote_ident(co.conname) || ' '
      || pg_get_constraintdef(co.oid)]
    FROM used JOIN pg_constraint AS co ON co.contypid = used.oid WHERE co.contype = 'c'
    """

  private static let attributes = """
    SELECT a.attnum, '', ARRAY[t.oid::text, a.attnum::text, a.attname, format_type(a.atttypid, a.atttypmod),
      a.atttypid::text, a.atttypmod::text]
    FROM used JOIN pg_type AS t ON t.oid = used.oid JOIN pg_attribute AS a ON a.attrelid = t.typrelid
    WHERE t.typtype = 'c' AND t.typnamespace <> 'pg_catalog'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
    """

  private static let ranges = """
    SELECT 0, '', ARRAY[r.rngtypid::text, r.rngmultitypid::text, r.rngsubtype::text, format_type(r.rngsubtype, NULL),
      quote_ident(n.nspname) || '.' || quote_ident(t.typname), quote_ident(m.typname), m.typnamespace::regnamespace::text,
      CASE WHEN r.rngcollation <> s.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
      CASE WHEN pn.nspname = 'pg_catalog' THEN quote_ident(pr.proname) END]
    FROM pg_range AS r JOIN pg_type AS t ON t.oid = r.rngtypid JOIN pg_namespace AS n ON n.oid = t.typnamespace
      JOIN pg_type AS m ON m.oid = r.rngmultitypid JOIN pg_type AS s ON s.oid = r.rngsubtype
      LEFT JOIN pg_collation AS co ON co.oid = r.rngcollation LEFT JOIN pg_namespace AS cn ON cn.oid = co.collnamespace
      LEFT JOIN pg_proc AS pr ON pr.oid = r.rngsubdiff LEFT JOIN pg_namespace AS pn ON pn.oid = pr.pronamespace
    WHERE n.nspname <> 'pg_catalog' AND EXISTS (SELECT 1 FROM used WHERE used.oid IN (r.rngtypid, r.rngmultitypid))
    """
}
