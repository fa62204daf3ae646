extension Trap {
  /// REPLACE deletes rows without firing their delete triggers.
  static let replacing: [Trap] = [
    Trap(
      "REPLACE on an INTEGER PRIMARY KEY",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1,'a'),(2,'b')",
      [
        "REPLACE INTO t VALUES (2,'c'),(3,'d')", "INSERT OR REPLACE INTO t VALUES (1,'x'),(1,'y'),(1,'z')",
        "REPLACE INTO t(a) VALUES ('auto')", "REPLACE INTO t VALUES (2,'c')",
      ]),
    Trap(
      "REPLACE on a TEXT PRIMARY KEY",
      "CREATE TABLE t(k TEXT PRIMARY KEY, a); INSERT INTO t VALUES ('a',1),('b',2),(NULL,3)",
      ["REPLACE INTO t VALUES ('a',10)", "REPLACE INTO t VALUES ('a',11),('b',12),('a',13),(NULL,4)"]),
    Trap(
      "REPLACE on a secondary unique key",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, a); INSERT INTO t VALUES (1,'x',1),(2,'y',2),(3,'z',3)",
      ["REPLACE INTO t VALUES (4,'y',4)", "REPLACE INTO t(u,a) VALUES ('x',5)", "REPLACE INTO t VALUES (3,'x',6)"]),
    Trap(
      "REPLACE on several unique keys at once",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE, b, c, UNIQUE(b,c)); INSERT INTO t VALUES (1,1,1,1),(2,2,2,2),(3,3,3,3),(4,4,4,4)",
      [
        "REPLACE INTO t VALUES (1,2,3,3)", "REPLACE INTO t VALUES (9,4,3,3)",
        "UPDATE OR REPLACE t SET a = 4, b = 3, c = 3",
      ]),
    Trap(
      "REPLACE on a partial unique index",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE UNIQUE INDEX ti ON t(a) WHERE b > 0; INSERT INTO t VALUES (1,1,1),(2,1,0),(3,2,1)",
      ["REPLACE INTO t VALUES (4,1,5)", "REPLACE INTO t VALUES (5,1,-5)", "UPDATE OR REPLACE t SET b = 7 WHERE id = 2"]),
    Trap(
      "REPLACE on an expression index",
      "CREATE TABLE t(k TEXT PRIMARY KEY, a, g AS (a || k)); CREATE UNIQUE INDEX ti ON t(lower(a), length(k)); CREATE UNIQUE INDEX tg ON t(g); INSERT INTO t(k,a) VALUES ('k1','A'),('k2','B'),('k3','C')",
      [
        "REPLACE INTO t(k,a) VALUES ('k4','a')", "UPDATE OR REPLACE t SET a = 'c' WHERE k = 'k2'",
        "REPLACE INTO t(k,a) VALUES ('k','4ak5')",
      ]),
    Trap(
      "REPLACE on an expression index that names another connection's collation and a partial expression",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE UNIQUE INDEX ti ON t((a + 0) DESC, b COLLATE NOCASE) WHERE length(b) > 1; INSERT INTO t VALUES (1,'1','xx'),(2,'2','yy'),(3,1,'y')",
      [
        "REPLACE INTO t VALUES (4,1.0,'XX')", "REPLACE INTO t VALUES (5,1,'Y')",
        "UPDATE OR REPLACE t SET a = 1, b = 'xX' WHERE id = 2",
      ]),
    Trap(
      "REPLACE on a NOCASE key",
      "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, a); INSERT INTO t VALUES ('abc',1),('def',2)",
      [
        "REPLACE INTO t VALUES ('ABC',3)", "UPDATE t SET k = 'AbC' WHERE k = 'abc'",
        "REPLACE INTO t VALUES ('dEf',4),('DEF',5)",
      ]),
    Trap(
      "REPLACE on a NOCASE secondary key",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT COLLATE NOCASE UNIQUE); INSERT INTO t VALUES (1,'abc'),(2,'def')",
      ["REPLACE INTO t VALUES (3,'ABC')", "UPDATE OR REPLACE t SET k = 'DEF' WHERE id = 3"]),
    Trap(
      "UPDATE OR REPLACE on the rowid",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c')",
      [
        "UPDATE OR REPLACE t SET id = 2 WHERE id = 1", "UPDATE OR REPLACE t SET id = id + 1",
        "UPDATE OR REPLACE t SET id = 9",
      ]),
    Trap(
      "UPDATE OR REPLACE on a secondary unique key",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, a); INSERT INTO t VALUES (1,'x',1),(2,'y',2),(3,'z',3)",
      ["UPDATE OR REPLACE t SET u = 'y' WHERE id = 1", "UPDATE OR REPLACE t SET u = 'q', id = id + 1"]),
    Trap(
      "a row with rowid -1 is replaced",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE f(a); INSERT INTO t VALUES (-1,'a'),(1,'b'); INSERT INTO f(rowid,a) VALUES (-1,'m'),(1,'n')",
      [
        "REPLACE INTO t VALUES (-1,'z')", "INSERT OR IGNORE INTO t VALUES (-1,'no')",
        "REPLACE INTO t(a) VALUES ('auto')",
        "UPDATE OR REPLACE t SET id = -1 WHERE id = 1",
        "INSERT INTO t VALUES (-1,'up') ON CONFLICT DO UPDATE SET a = 'up'",
        "REPLACE INTO f(rowid,a) VALUES (-1,'M')", "INSERT INTO f VALUES ('o')",
        "REPLACE INTO f(rowid,a) VALUES (1,'N')",
      ]),
    Trap(
      "a table whose keys say ON CONFLICT REPLACE",
      "CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT REPLACE, u UNIQUE ON CONFLICT REPLACE, n NOT NULL ON CONFLICT REPLACE DEFAULT 5); INSERT INTO t VALUES (1,'x',1),(2,'y',2)",
      [
        "INSERT INTO t VALUES (1,'z',NULL)", "INSERT INTO t VALUES (3,'y',3)", "UPDATE t SET u = 'y'",
        "INSERT OR ABORT INTO t VALUES (3,'w',9)",
      ]),
    Trap(
      "REPLACE with recursive triggers on", pragmas: "PRAGMA recursive_triggers = 1",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(k TEXT PRIMARY KEY, v UNIQUE); INSERT INTO t VALUES (1,1),(2,2); INSERT INTO u VALUES ('a',1),('b',2),('c',3)",
      [
        "REPLACE INTO t VALUES (1,9)", "UPDATE OR REPLACE t SET id = 2 WHERE id = 1", "REPLACE INTO u VALUES ('a',2)",
        "UPDATE OR REPLACE u SET v = 3", "INSERT OR IGNORE INTO u VALUES ('c',3); DELETE FROM u",
      ]),
    Trap(
      "REPLACE whose row a BEFORE trigger of the program touches first",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, n DEFAULT 0); CREATE TRIGGER tb BEFORE INSERT ON t BEGIN UPDATE t SET n = n + 1 WHERE id = NEW.id; END; INSERT INTO t(id,a) VALUES (1,'a'),(2,'b')",
      ["REPLACE INTO t(id,a) VALUES (1,'x')", "REPLACE INTO t(id,a) VALUES (2,'y'),(3,'z')"]),
    Trap(
      "REPLACE on a unique key whose row a BEFORE trigger of the program touches first",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, n DEFAULT 0); CREATE TRIGGER tb BEFORE INSERT ON t BEGIN UPDATE t SET n = n + 1 WHERE u = NEW.u; END; INSERT INTO t(id,u) VALUES (1,'a'),(2,'b')",
      ["REPLACE INTO t(id,u) VALUES (5,'a')", "REPLACE INTO t(id,u) VALUES (2,'b')"]),
    Trap(
      "UPDATE OR REPLACE whose row a BEFORE trigger of the program moves or changes first",
      """
      CREATE TABLE w(k INTEGER PRIMARY KEY, x, y, z UNIQUE); CREATE TABLE v(x, y, z); CREATE UNIQUE INDEX vz ON v(z + 0);
      CREATE TRIGGER wa BEFORE UPDATE OF y ON w BEGIN UPDATE w SET k = k + 100 WHERE z = NEW.z; END;
      CREATE TRIGGER va BEFORE UPDATE OF y ON v BEGIN UPDATE v SET x = x + 1 WHERE z = NEW.z; END;
      INSERT INTO w VALUES (1,0,0,5),(2,0,0,6); INSERT INTO v VALUES (1,0,5),(2,0,6)
      """,
      ["UPDATE OR REPLACE w SET y = 3, z = 6 WHERE z = 5", "UPDATE OR REPLACE v SET y = 3, z = 6 WHERE z = 5"]),
    Trap(
      "REPLACE of a row that a BEFORE trigger of the program has inserted",
      """
      CREATE TABLE t(k INTEGER PRIMARY KEY, a, z UNIQUE); CREATE TABLE r(k INTEGER PRIMARY KEY, a);
      INSERT INTO t VALUES (1,'a',1),(2,'b',2);
      CREATE TRIGGER ta BEFORE INSERT ON t WHEN NEW.k < 50 BEGIN
        DELETE FROM t WHERE z = NEW.z; INSERT INTO t VALUES (NEW.k + 50, 'other', NEW.z); END;
      CREATE TRIGGER ra BEFORE INSERT ON r WHEN NEW.a < 50 BEGIN INSERT INTO r VALUES (NEW.k, NEW.a + 50); END
      """,
      ["REPLACE INTO t VALUES (3,'c',1)", "REPLACE INTO t VALUES (4,'d',4)", "REPLACE INTO r VALUES (1,1),(2,2)"]),
    Trap(
      "a REPLACE that fails half way",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, a CHECK (a < 10)); INSERT INTO t VALUES (1,'x',1),(2,'y',2),(3,'z',3)",
      [
        "REPLACE INTO t VALUES (1,'y',5),(3,'q',50)", "INSERT OR FAIL INTO t VALUES (7,'v',1),(2,'w',2)",
        "BEGIN; REPLACE INTO t VALUES (8,'z',1); ROLLBACK", "UPDATE OR ROLLBACK t SET u = 'x'",
        "UPDATE OR FAIL t SET a = a + 8",
      ]),
  ]

  /// Every way in which rows are unique.
  static let unique: [Trap] = [
    Trap(
      "WITHOUT ROWID",
      "CREATE TABLE t(a, b, c, PRIMARY KEY(b,a)) WITHOUT ROWID; INSERT INTO t VALUES (1,1,1),(1,2,2),(2,1,3)",
      [
        "REPLACE INTO t VALUES (1,1,9)", "UPDATE OR REPLACE t SET a = 2", "DELETE FROM t WHERE b = 2",
        "INSERT OR IGNORE INTO t VALUES (2,1,7)",
      ]),
    Trap(
      "WITHOUT ROWID with a secondary unique key",
      "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, u UNIQUE, c) WITHOUT ROWID; INSERT INTO t VALUES ('a',1,1),('b',2,2),('c',3,3)",
      [
        "REPLACE INTO t VALUES ('A',2,9)", "REPLACE INTO t VALUES ('d',3,9)", "UPDATE OR REPLACE t SET u = 3",
        "INSERT INTO t VALUES ('D',8,8) ON CONFLICT DO NOTHING",
      ]),
    Trap(
      "keys that are equal by value and not by type",
      "CREATE TABLE t(k PRIMARY KEY, u UNIQUE); CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO t VALUES (1,'a'),('1','b'),(x'31','c'); INSERT INTO w VALUES (1,1),('1',2)",
      [
        "REPLACE INTO t VALUES (1.0,'d')", "UPDATE t SET k = 1 WHERE k = 1.0", "DELETE FROM t WHERE k = '1'",
        "REPLACE INTO w VALUES (1.0,3)", "UPDATE w SET k = x'31' WHERE k = '1'",
      ]),
    Trap(
      "rows of one unique key that trade places",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES (1,1),(2,2),(3,3)",
      [
        "BEGIN; UPDATE t SET u = -u; UPDATE t SET u = 4 + u; COMMIT",
        "UPDATE t SET id = -id; UPDATE t SET id = id + 10",
        "UPDATE t SET u = u + 1 WHERE u = 3", "DELETE FROM t WHERE u = 4; INSERT INTO t VALUES (40,4)",
      ]),
  ]

  /// Statements that touch a row and leave it as it was.
  static let ignoring: [Trap] = [
    Trap(
      "INSERT OR IGNORE, then the spared rows are deleted and changed",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(id INTEGER PRIMARY KEY, v UNIQUE); INSERT INTO t VALUES (1,1),(2,2),(3,3); INSERT INTO u VALUES (1,1),(2,2),(3,3)",
      [
        "INSERT OR IGNORE INTO t VALUES (1,9),(2,9),(3,9),(4,9); INSERT OR IGNORE INTO u VALUES (1,9),(9,2),(3,3)",
        "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1,'again'); DELETE FROM u WHERE id = 1; INSERT INTO u VALUES (1,'again')",
        "INSERT OR IGNORE INTO t VALUES (2,8); UPDATE t SET id = 20 WHERE id = 2; INSERT INTO t VALUES (2,'new')",
        "INSERT OR IGNORE INTO u VALUES (20,2); UPDATE u SET id = 20 WHERE id = 2; INSERT INTO u VALUES (2,'new')",
        "UPDATE OR IGNORE u SET v = 3; UPDATE OR IGNORE t SET id = 3; DELETE FROM u WHERE v = 3; REPLACE INTO u VALUES (20,30)",
      ]),
    Trap(
      "REPLACE of a row that OR IGNORE spared before, while foreign keys change other rows",
      pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, p REFERENCES t ON DELETE SET NULL);
      WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
        INSERT INTO t SELECT i, i, CASE WHEN i % 20 = 2 THEN i - 1 END FROM n
      """,
      // One row is spared, then a number of others. REPLACE deletes the row to which a third one refers, then that row.
      (0..<15).map { number in
        let row = 20 * number + 1
        let others = (0..<number).map { "INSERT OR IGNORE INTO t VALUES (\(row + 4 + $0), 0, NULL);" }.joined()
        return """
          INSERT OR IGNORE INTO t VALUES (-\(row), \(row + 3), NULL); \(others)
          REPLACE INTO t VALUES (\(row), \(row + 3), NULL)
          """
      }),
    Trap(
      "names and expressions with signs that mean something elsewhere",
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, "a%%b" UNIQUE, "%@" , "\\(x)"); CREATE UNIQUE INDEX ti ON t("%@" || '%%');
      INSERT INTO t VALUES (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)
      """,
      ["INSERT OR IGNORE INTO t VALUES (9, 1, 2, 0)", "REPLACE INTO t VALUES (1, 2, 3, 4)", "DELETE FROM t"]),
    Trap(
      "a row that refers to itself by a unique column that an update replaces",
      pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, p REFERENCES t(u) ON UPDATE CASCADE ON DELETE SET NULL, w);
      INSERT INTO t VALUES (1, 1, 1, 0), (2, 2, NULL, 0), (3, 3, 1, 0)
      """,
      [
        "UPDATE t SET u = 11 WHERE id = 1", "UPDATE OR REPLACE t SET u = 2 WHERE id = 1",
        "BEGIN; UPDATE t SET w = 5; UPDATE OR REPLACE t SET u = 3 WHERE id = 1; COMMIT",
      ]),
    Trap(
      "REPLACE whose deletes fire triggers that insert into the same table or ignore a row of it",
      pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE);
      CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES t ON DELETE CASCADE);
      WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t SELECT i, i FROM n;
      WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO c SELECT i, 1 FROM n;
      CREATE TRIGGER more AFTER DELETE ON c BEGIN INSERT OR IGNORE INTO t VALUES (-old.id, old.id + 50); END
      """,
      ["REPLACE INTO t VALUES (1, 2)", "DELETE FROM t WHERE u > 90"]),
    Trap(
      "UPDATE OR REPLACE gives a row that refers to itself the key of another row",
      pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, p REFERENCES t ON UPDATE CASCADE ON DELETE SET NULL);
      CREATE TABLE r(id INTEGER PRIMARY KEY, u, p REFERENCES r ON UPDATE CASCADE ON DELETE SET NULL);
      CREATE TABLE k(id TEXT PRIMARY KEY, u, p REFERENCES k ON UPDATE CASCADE ON DELETE SET NULL) WITHOUT ROWID;
      INSERT INTO t VALUES (1, 1, 1), (2, 2, NULL), (3, 3, 2), (4, 4, 1);
      INSERT INTO r SELECT * FROM t; INSERT INTO k SELECT 'k' || id, u, 'k' || p FROM t
      """,
      [
        "BEGIN; UPDATE t SET u = 22 WHERE id = 2; UPDATE OR REPLACE t SET id = 2 WHERE id = 1; COMMIT",
        "BEGIN; UPDATE r SET u = 22 WHERE id = 2; UPDATE OR REPLACE r SET id = 2 WHERE id = 1; COMMIT",
        "BEGIN; UPDATE k SET u = 22 WHERE id = 'k2'; UPDATE OR REPLACE k SET id = 'k2' WHERE id = 'k1'; COMMIT",
        "UPDATE OR REPLACE t SET id = 3 WHERE id = 2; UPDATE OR REPLACE r SET id = 3 WHERE id = 2",
        "UPDATE OR REPLACE k SET id = 'k3' WHERE id = 'k2'", "UPDATE t SET id = 9 WHERE id = 3",
        // The write replaces two rows, one by the key and one by the unique value, in either order.
        "INSERT INTO t VALUES (20, 20, 20), (21, 21, NULL), (22, 22, NULL), (30, 30, 30), (31, 31, NULL), (29, 29, NULL)",
        "BEGIN; UPDATE t SET u = 121 WHERE id = 21; UPDATE OR REPLACE t SET id = 21, u = 22 WHERE id = 20; COMMIT",
        "BEGIN; UPDATE t SET u = 131 WHERE id = 31; UPDATE OR REPLACE t SET id = 31, u = 29 WHERE id = 30; COMMIT",
      ]),
    Trap(
      "INSERT OR IGNORE, then VACUUM renumbers a table without key",
      "CREATE TABLE f(a); INSERT INTO f VALUES ('a'),('b'),('c'),('d'),('e'); DELETE FROM f WHERE a < 'd'",
      [
        "INSERT OR IGNORE INTO f(rowid,a) VALUES (5,'stray'),(4,'stray')", "VACUUM",
        "INSERT INTO f VALUES ('x'),('y'),('z')",
        "UPDATE f SET a = a || '!'",
      ]),
    Trap(
      "upserts",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, n); INSERT INTO t VALUES (1,'a',1),(2,'b',2),(3,'c',3)",
      [
        "INSERT INTO t VALUES (1,'q',5) ON CONFLICT(id) DO UPDATE SET n = n + excluded.n",
        "INSERT INTO t VALUES (9,'b',5) ON CONFLICT(u) DO UPDATE SET id = 20, u = 'bb'",
        "INSERT INTO t VALUES (3,'c',0) ON CONFLICT DO NOTHING",
        "DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (3,'cc',0)",
        "INSERT INTO t VALUES (1,'zz',7) ON CONFLICT(id) DO UPDATE SET id = 30 WHERE excluded.n > 100",
        "INSERT INTO t SELECT id + 1, u, n FROM t WHERE true ON CONFLICT(id) DO UPDATE SET n = -1 ON CONFLICT(u) DO UPDATE SET n = -2",
      ]),
    Trap(
      "an upsert that changes the only key",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (1,1),(2,2)",
      [
        "INSERT INTO t VALUES (1,5) ON CONFLICT DO UPDATE SET id = 5",
        "INSERT INTO t VALUES (1,6),(2,7) ON CONFLICT DO UPDATE SET id = id * 10, n = excluded.n",
        "INSERT INTO t VALUES (20,0) ON CONFLICT DO NOTHING; DELETE FROM t WHERE id = 20; INSERT INTO t VALUES (20,'new')",
      ]),
    Trap(
      "RETURNING", "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE); INSERT INTO t VALUES (1,1)",
      ["REPLACE INTO t VALUES (2,1) RETURNING *", "DELETE FROM t RETURNING id"]),
  ]
}
