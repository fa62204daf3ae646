extension Trap {
  /// Keys, which identify rows.
  static let keys: [Trap] = [
    Trap(
      "equal rows without any key",
      "CREATE TABLE f(a, b); INSERT INTO f VALUES (1,'x'),(1,'x'),(1,'x'),(2,'y'),(2,'y'),(NULL,NULL),(NULL,NULL)",
      [
        "DELETE FROM f WHERE rowid = 2", "UPDATE f SET b = 'z' WHERE rowid = 4",
        "DELETE FROM f WHERE rowid = (SELECT max(rowid) FROM f WHERE a IS NULL)",
        "INSERT INTO f VALUES (1,'x')", "REPLACE INTO f(rowid,a,b) VALUES (1,1,'x'),(3,5,5)", "UPDATE f SET a = a",
        "UPDATE OR REPLACE f SET rowid = 5 WHERE rowid = 1",
      ]),
    Trap(
      "rows without key that are equal by value and not by type",
      "CREATE TABLE f(a); INSERT INTO f VALUES (1),(1.0),('1'),(x'31'),(0.0),(-0.0),(0)",
      [
        "DELETE FROM f WHERE typeof(a) = 'real' AND a = 1", "DELETE FROM f WHERE rowid = 6",
        "UPDATE f SET a = 7 WHERE typeof(a) = 'integer' AND a = 0", "DELETE FROM f WHERE a = '1'",
      ]),
    Trap(
      "NULL in a TEXT PRIMARY KEY",
      "CREATE TABLE t(k TEXT PRIMARY KEY, a); INSERT INTO t VALUES (NULL,1),(NULL,1),(NULL,2),('x',3)",
      [
        "DELETE FROM t WHERE rowid = 1", "UPDATE t SET k = 'y' WHERE a = 2", "UPDATE t SET k = NULL WHERE k = 'x'",
        "UPDATE t SET a = 9 WHERE k IS NULL", "DELETE FROM t WHERE k IS NULL; INSERT INTO t VALUES (NULL,NULL)",
      ]),
    Trap(
      "a row gives its key up for NULL, and another one takes the key",
      "CREATE TABLE t(k TEXT PRIMARY KEY, a); CREATE TABLE v(k, z, a, PRIMARY KEY(k, z)); INSERT INTO t VALUES ('a',1),('b',2); INSERT INTO v VALUES (1,1,1),(2,1,2)",
      [
        "BEGIN; UPDATE t SET a = 5; UPDATE t SET k = NULL WHERE k = 'a'; INSERT INTO t VALUES ('a',7); UPDATE t SET a = 8; COMMIT",
        "BEGIN; UPDATE v SET a = 5; UPDATE v SET k = NULL WHERE k = 1; INSERT INTO v VALUES (1,1,7); DELETE FROM v WHERE k = 1; COMMIT",
        "BEGIN; UPDATE t SET a = 3; UPDATE t SET k = NULL WHERE k = 'b'; UPDATE t SET k = 'b' WHERE rowid = 1; UPDATE t SET a = 4; COMMIT",
      ]),
    Trap(
      "a row with a key that may be NULL refers to itself, and an upsert changes the key",
      pragmas: "PRAGMA foreign_keys = 1",
      "CREATE TABLE t(k TEXT PRIMARY KEY, p REFERENCES t ON UPDATE CASCADE, a); INSERT INTO t VALUES ('a','a',1),('b',NULL,2)",
      [
        "INSERT INTO t VALUES ('a','a',0) ON CONFLICT DO UPDATE SET k = 'c'; INSERT INTO t VALUES (NULL,'c',3)",
        "INSERT OR IGNORE INTO t VALUES ('c',NULL,0); UPDATE t SET k = 'd' WHERE k = 'c'; UPDATE t SET a = 4 WHERE k = 'b'",
      ]),
    Trap(
      "NULL in one column of a composite key",
      "CREATE TABLE t(a, b, c, PRIMARY KEY(a,b)); INSERT INTO t VALUES (1,NULL,1),(1,NULL,1),(1,2,3),(NULL,NULL,NULL)",
      [
        "UPDATE t SET c = c + 1", "DELETE FROM t WHERE rowid = 2", "REPLACE INTO t VALUES (1,2,9),(1,NULL,9)",
        "UPDATE t SET b = 3 WHERE b IS NULL AND c = 2",
      ]),
    Trap(
      "only a nullable unique key", "CREATE TABLE t(u UNIQUE, a); INSERT INTO t VALUES (NULL,1),(NULL,1),(1,1),(2,2)",
      [
        "REPLACE INTO t VALUES (1,5)", "DELETE FROM t WHERE rowid = 1", "UPDATE t SET u = 9 WHERE u IS NULL",
        "UPDATE OR REPLACE t SET u = 2", "REPLACE INTO t VALUES (NULL,1),(NULL,1)",
      ]),
    Trap(
      "a row that OR IGNORE or an upsert spared, then loses its key, and a later row is equal to it",
      """
      CREATE TABLE t(k TEXT PRIMARY KEY, a); CREATE TABLE u(k UNIQUE, a); CREATE TABLE v(k, z, a, PRIMARY KEY(k, z));
      CREATE TABLE w(k TEXT COLLATE NOCASE PRIMARY KEY, a COLLATE NOCASE); CREATE TABLE x(k PRIMARY KEY, z UNIQUE, a);
      CREATE TABLE h(k PRIMARY KEY, rowid, _rowid_, oid);
      INSERT INTO t VALUES ('a','x'),('b','x'); INSERT INTO u VALUES ('a','x'),('b','x');
      INSERT INTO v VALUES (1,1,'x'),(2,1,'x'); INSERT INTO w VALUES ('a','x'),('b','X');
      INSERT INTO x VALUES (1,1,'x'),(2,2,'x'); INSERT INTO h VALUES (1,1,1,1),(2,1,1,1)
      """,
      [
        "INSERT OR IGNORE INTO t VALUES ('a',0); UPDATE t SET k = NULL WHERE k = 'a'; INSERT INTO t VALUES (NULL,'x')",
        "INSERT INTO t VALUES ('b',0) ON CONFLICT DO UPDATE SET k = NULL; INSERT INTO t SELECT * FROM t",
        "INSERT OR IGNORE INTO u VALUES ('a',0),('b',0); UPDATE u SET k = NULL; INSERT INTO u VALUES (NULL,'x')",
        "INSERT OR IGNORE INTO v VALUES (1,1,0); UPDATE v SET k = NULL WHERE k = 1; UPDATE v SET k = NULL",
        "INSERT OR IGNORE INTO w VALUES ('A',0); UPDATE w SET k = NULL WHERE k = 'a'; INSERT INTO w VALUES (NULL,'X')",
        "INSERT OR IGNORE INTO w VALUES ('B',0); UPDATE w SET k = NULL WHERE k = 'b'; REPLACE INTO w VALUES (NULL,'x')",
        "UPDATE OR IGNORE x SET k = 2; UPDATE x SET k = NULL, z = NULL; REPLACE INTO x VALUES (NULL,NULL,'x'),(NULL,5,'x')",
        "INSERT OR IGNORE INTO x VALUES (NULL,5,0); REPLACE INTO x VALUES (NULL,5,'x'); REPLACE INTO x VALUES (NULL,5,'y')",
        "INSERT OR IGNORE INTO h VALUES (1,0,0,0); UPDATE h SET k = NULL WHERE k = 1; INSERT INTO h VALUES (NULL,1,1,1)",
      ]),
    Trap(
      "a unique key without NULLs instead of a primary key",
      "CREATE TABLE t(u TEXT NOT NULL UNIQUE, a); INSERT INTO t VALUES ('a',1),('b',2)",
      [
        "REPLACE INTO t VALUES ('a',5)", "UPDATE t SET u = 'c' WHERE a = 2", "DELETE FROM t WHERE u = 'a'", "VACUUM",
        "INSERT INTO t VALUES ('z',1)",
      ]),
    Trap(
      "INT PRIMARY KEY, which is no rowid, and INTEGER PRIMARY KEY DESC",
      "CREATE TABLE t(id INT PRIMARY KEY, a); CREATE TABLE d(id INTEGER PRIMARY KEY DESC, a); INSERT INTO t VALUES (1,1),(NULL,2); INSERT INTO d VALUES (1,1),(NULL,2)",
      [
        "REPLACE INTO t VALUES (1,5),(-1,6)", "REPLACE INTO t VALUES (-1,7)", "REPLACE INTO d VALUES (1,5),(NULL,6)",
        "UPDATE t SET id = 8 WHERE id IS NULL",
      ]),
    Trap(
      "columns that hide the rowid",
      "CREATE TABLE t(rowid, a UNIQUE); CREATE TABLE u(rowid, oid, b); CREATE TABLE v(rowid INTEGER PRIMARY KEY, \"_rowid_\"); INSERT INTO t VALUES ('r',1),('r',2); INSERT INTO u VALUES (1,1,1),(1,1,1); INSERT INTO v VALUES (5,1)",
      [
        "REPLACE INTO t VALUES ('q',1)", "DELETE FROM u WHERE _rowid_ = 1", "UPDATE u SET rowid = 7, oid = 8",
        "REPLACE INTO v VALUES (5,2),(6,3)", "INSERT INTO u VALUES (1,1,1)",
      ]),
    Trap(
      "a generated column that hides the rowid of a table without key",
      "CREATE TABLE g(a, rowid AS (a + 1)); CREATE TABLE h(a PRIMARY KEY, rowid AS (a + 1)); INSERT INTO g VALUES (1),(1); INSERT INTO h VALUES (1),(2)",
      ["DELETE FROM g WHERE oid = 1", "REPLACE INTO h VALUES (2),(3)", "UPDATE h SET a = 9 WHERE rowid = 2"],
      skips: ["g"], notice: "table g is not captured"),
    Trap(
      "AUTOINCREMENT",
      "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE); INSERT INTO t(a) VALUES (1),(2); DELETE FROM t WHERE a = 2",
      ["INSERT INTO t(a) VALUES (3)", "REPLACE INTO t(a) VALUES (1)", "DELETE FROM t", "INSERT INTO t(a) VALUES (5)"]),
  ]

  /// Values that change on their way unless capture takes care.
  static let values: [Trap] = [
    Trap(
      "every storage class in every kind of column",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, i INTEGER, r REAL, x TEXT, b BLOB, n NUMERIC, u); INSERT INTO t VALUES (1,'abc',x'00',x'ff','t','1e3',NULL)",
      [
        "INSERT INTO t VALUES (2,1.5,'x',5,5,'0x10','5'),(3,'12','12',12,12.0,'12.0',12.0),(4,1e300,1,1.0,'','',zeroblob(0))",
        "UPDATE t SET i = b, r = x, x = r, b = i, n = u, u = n", "UPDATE t SET u = r, r = u, i = x'c328'",
      ]),
    Trap(
      "text with NUL and text that is no UTF-8",
      "CREATE TABLE t(k TEXT PRIMARY KEY, a); INSERT INTO t VALUES (CAST(x'610062' AS TEXT),1),(CAST(x'c328ff' AS TEXT),2),(CAST(x'00' AS TEXT),3),('',4)",
      [
        "UPDATE t SET a = CAST(x'ff00fe' AS TEXT)", "DELETE FROM t WHERE k = CAST(x'c328ff' AS TEXT)",
        "INSERT INTO t VALUES (CAST(x'c328' AS TEXT),CAST(x'00ff' AS TEXT))",
        "UPDATE t SET k = k || CAST(x'00' AS TEXT)", "REPLACE INTO t VALUES (CAST(x'61006200' AS TEXT),9)",
      ]),
    Trap(
      "negative zero, infinities and the smallest real",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u, r REAL); INSERT INTO t VALUES (1,-0.0,-0.0),(2,9e999,-9e999),(3,4.9e-324,2.2250738585072014e-308)",
      [
        "UPDATE t SET u = 0.0 WHERE id = 1", "UPDATE t SET u = -0.0 WHERE id = 1",
        "INSERT INTO t VALUES (4,-9e999,0.1),(5,-0.0,0.0)", "UPDATE t SET u = 0 WHERE id = 5",
        "DELETE FROM t WHERE id = 2",
      ]),
    Trap(
      "the largest integers",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u); INSERT INTO t VALUES (9223372036854775807,1),(-9223372036854775808,2),(0,9007199254740993)",
      [
        "REPLACE INTO t VALUES (9223372036854775807,-9223372036854775808)", "UPDATE t SET u = 9223372036854775807",
        "DELETE FROM t WHERE id = -9223372036854775808", "UPDATE t SET u = 9223372036854775808",
      ]),
    Trap(
      "empty blob, empty text and NULL",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT, c BLOB); INSERT INTO t VALUES (1,x'','',NULL),(2,'',NULL,x''),(3,NULL,x'','')",
      [
        "UPDATE t SET a = b, b = c, c = a", "UPDATE t SET a = c, c = b, b = a", "DELETE FROM t WHERE a = ''",
        "INSERT INTO t VALUES (9,zeroblob(0),'','')",
      ]),
    Trap(
      "large values",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1,zeroblob(1000000),printf('%.*c',300000,'x'))",
      [
        "UPDATE t SET a = CAST(b AS BLOB), b = 'short'", "INSERT INTO t VALUES (2,zeroblob(3000000),NULL)",
        "UPDATE t SET b = printf('%.*c',200000,'y')", "DELETE FROM t WHERE id = 1",
      ]),
    Trap(
      "integers where the column makes reals, and the other way",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, r REAL UNIQUE, i INTEGER, n NUMERIC UNIQUE); INSERT INTO t VALUES (1,1,1.0,1.0),(2,2.5,2.5,2.5)",
      [
        "REPLACE INTO t VALUES (3,1.0,'7.0','9007199254740993')",
        "UPDATE t SET r = 9007199254740993, n = '1e2' WHERE id = 2", "REPLACE INTO t VALUES (4,9007199254740992,0,100)",
      ]),
    Trap(
      "STRICT",
      "CREATE TABLE t(id INT PRIMARY KEY, a ANY, r REAL, x TEXT, b BLOB NOT NULL) STRICT; INSERT INTO t VALUES (1,'1',1,'a',x'00'),(3,1,NULL,NULL,x'')",
      [
        "INSERT INTO t VALUES (2,x'aa',2.5,'b',x'01')", "INSERT INTO t VALUES ('x',1,1,1,x'')",
        "UPDATE t SET a = 5, r = '3.5'", "REPLACE INTO t VALUES (1,-0.0,-0.0,'',x'')",
      ]),
  ]

  /// Shapes of tables.
  static let shapes: [Trap] = [
    Trap(
      "generated columns, virtual and stored",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, v AS (a * 2) VIRTUAL, b, s TEXT AS (b || '!') STORED, UNIQUE(s)); INSERT INTO t(id,a,b) VALUES (1,1,'x'),(2,2,'y')",
      [
        "UPDATE t SET a = 5, b = 'z' WHERE id = 1", "REPLACE INTO t(id,a,b) VALUES (3,3,'y')",
        "DELETE FROM t WHERE v = 10", "INSERT INTO t(a,b) VALUES (7,NULL),(8,NULL)",
      ]),
    Trap(
      "a full-text table beside others",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE VIRTUAL TABLE ft USING fts5(a, content='t', content_rowid='id'); CREATE TRIGGER tf AFTER INSERT ON t BEGIN INSERT INTO ft(rowid, a) VALUES (NEW.id, NEW.a); END; CREATE VIRTUAL TABLE own USING fts5(x); INSERT INTO t(a) VALUES ('the sea'); INSERT INTO own VALUES ('salt')",
      [
        "INSERT INTO t(a) VALUES ('the ship')", "INSERT INTO own VALUES ('water')",
        "CREATE VIRTUAL TABLE r USING rtree(id, lo, hi)", "INSERT INTO r VALUES (1,0,1)", "UPDATE t SET a = 'x'",
      ],
      skips: ["ft", "own", "r"], notice: "table ft is not captured"),
    Trap(
      "200 columns",
      "CREATE TABLE t(\((0..<200).map { "c\($0)" }.joined(separator: ",")), PRIMARY KEY(c150,c3)); INSERT INTO t(c3,c150,c199) VALUES (1,1,'x'),(2,2,'y')",
      [
        "UPDATE t SET c64 = 64, c63 = 63, c199 = 199 WHERE c3 = 1", "REPLACE INTO t(c3,c150,c0) VALUES (2,2,'z')",
        "INSERT INTO t VALUES (\((0..<200).map { "\($0)" }.joined(separator: ",")))", "DELETE FROM t WHERE c3 = 1",
      ]),
    Trap(
      "names with quotes, spaces and keywords",
      #"CREATE TABLE "select ""all"" from"("group" INTEGER PRIMARY KEY, "a b" UNIQUE, 'it''s', [x"y], "NEW", "old", "ключ"); CREATE TABLE "order"("key" TEXT PRIMARY KEY, "v0", "code", "layout") WITHOUT ROWID; CREATE UNIQUE INDEX "in ""dex" ON "order"("v0" DESC) WHERE "code" IS NOT NULL; INSERT INTO "order" VALUES ('a',1,1,1)"#,
      [
        #"INSERT INTO "select ""all"" from" VALUES (1,2,3,4,5,6,7)"#,
        #"REPLACE INTO "select ""all"" from" VALUES (9,2,3,4,5,6,7)"#,
        #"UPDATE "select ""all"" from" SET "NEW" = "old", "old" = "NEW""#,
        #"REPLACE INTO "order" VALUES ('b',1,2,3)"#, #"UPDATE "order" SET "key" = "key" || 'x', "layout" = "code""#,
        #"ALTER TABLE "order" RENAME TO "Ordnung ' 1""#,
      ]),
    Trap(
      "names that differ from ours by little",
      "CREATE TABLE cairnful(id INTEGER PRIMARY KEY); CREATE TABLE sqliteish(seq, code, at, v0); CREATE TABLE \"cairn-table\"(a); INSERT INTO sqliteish VALUES (1,2,3,4)",
      [
        "INSERT INTO cairnful VALUES (1)", "UPDATE sqliteish SET seq = 5, v0 = 6",
        "INSERT INTO \"cairn-table\" VALUES (1),(1)", "DELETE FROM \"cairn-table\" WHERE rowid = 1",
      ]),
    Trap(
      "defaults, checks and quotes in the statement",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a DEFAULT (1 + 1), b DEFAULT 'it''s', c TEXT CHECK (c <> ''';'), -- a comment; with ' a quote\n d DATETIME DEFAULT '2020', CONSTRAINT \"q\" CHECK (id > 0)); INSERT INTO t(id) VALUES (1)",
      ["INSERT INTO t(id) VALUES (2)", "UPDATE t SET a = NULL, c = ';'", "INSERT INTO t(id,c) VALUES (3,''';')"]),
    Trap(
      "a table made by CREATE TABLE AS",
      "CREATE TABLE p(a, b); INSERT INTO p VALUES (1,2); CREATE TABLE t AS SELECT a AS x, b + 0.5 AS \"b+0.5\" FROM p",
      ["INSERT INTO t VALUES (1,2)", "CREATE TABLE u AS SELECT * FROM t", "DELETE FROM u WHERE rowid = 1"]),
    Trap(
      "1,500 rows without key in one transaction, deleted again", "CREATE TABLE f(a, b)",
      [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) INSERT INTO f SELECT i % 7, i % 3 FROM n",
        "DELETE FROM f WHERE rowid % 2", "UPDATE f SET a = 9 WHERE rowid % 100 = 0",
      ]),
  ]
}
