/// Finds the functions, types and other objects that the server uses for an expression, a column, an index or a
/// partition key.
package enum ReachedCode {
  /// The SQL of a WITH RECURSIVE's term `reach(kind, object, class, oid)`, which lists the found objects. An earlier
  /// term, `part`, must list the objects from which the search begins.
  package static let text = """
    reach(kind, object, class, oid) AS (
      SELECT kind, object, class, oid FROM part
      UNION SELECT r.kind, r.object, x.class, x.oid FROM reach r CROSS JOIN LATERAL (
        SELECT d.refclassid AS class, d.refobjid AS oid FROM pg_depend d
          WHERE d.classid = r.class AND d.objid = r.oid AND d.refclassid IN ('pg_proc'::regclass, 'pg_type'::regclass,
            'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_opfamily'::regclass)
        UNION ALL SELECT 'pg_proc'::regclass, p.amproc FROM pg_amproc p
          WHERE r.class = 'pg_opfamily'::regclass AND p.amprocfamily = r.oid
        UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k
          WHERE r.class = 'pg_type'::regclass AND k.contypid = r.oid
        UNION ALL SELECT 'pg_class'::regclass, t.typrelid FROM pg_type t
          WHERE r.class = 'pg_type'::regclass AND t.oid = r.oid AND t.typrelid <> 0
        UNION ALL SELECT 'pg_type'::regclass, t.typelem FROM pg_type t
          WHERE r.class = 'pg_type'::regclass AND t.oid = r.oid AND t.typelem >= 16384
        UNION ALL SELECT 'pg_type'::regclass, t.typarray FROM pg_type t
          WHERE r.class = 'pg_type'::regclass AND t.oid = r.oid AND t.typarray >= 16384
        -- Multiranges came with PostgreSQL 14.
        UNION ALL SELECT 'pg_type'::regclass, s.oid FROM pg_range g
          CROSS JOIN LATERAL (SELECT (to_jsonb(g) ->> 'rngmultitypid')::oid AS oid) m
          CROSS JOIN LATERAL (VALUES (g.rngtypid), (g.rngsubtype), (m.oid)) AS s(oid)
          WHERE r.class = 'pg_type'::regclass AND r.oid IN (g.rngtypid, m.oid) AND s.oid >= 16384
        UNION ALL SELECT 'pg_cast'::regclass, c.oid FROM pg_cast c
          WHERE r.class = 'pg_type'::regclass AND r.oid >= 16384 AND (
            (c.castsource = r.oid AND c.casttarget < 16384) OR (c.casttarget = r.oid AND c.castsource < 16384))) x)
    """
}
