extension Trap {
  /// Foreign key actions: the engine changes rows on its own, children before their parent.
  static let cascades: [Trap] = [
    Trap(
      "foreign keys that cascade deletes and updates", pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE p(id INTEGER PRIMARY KEY, k TEXT UNIQUE);
      CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, k REFERENCES p(k) ON UPDATE SET NULL);
      CREATE TABLE g(c REFERENCES c ON DELETE CASCADE ON UPDATE CASCADE, n);
      INSERT INTO p VALUES (1,'a'),(2,'b'),(3,'c'); INSERT INTO c VALUES (1,1,'a'),(2,1,'b'),(3,2,'c'),(4,3,'a'); INSERT INTO g VALUES (1,1),(1,1),(3,3),(4,4)
      """,
      [
        "DELETE FROM p WHERE id = 1", "UPDATE p SET id = id + 10", "UPDATE p SET k = k || '!'",
        "REPLACE INTO p VALUES (12,'new')",
        "DELETE FROM p",
      ]),
    Trap(
      "REPLACE of a parent whose children cascade", pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE p(id INTEGER PRIMARY KEY, u UNIQUE);
      CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(u) ON DELETE CASCADE ON UPDATE CASCADE, v UNIQUE);
      INSERT INTO p VALUES (1,'a'),(2,'b'),(3,'c'); INSERT INTO c VALUES (1,'a',1),(2,'b',2),(3,'c',3)
      """,
      [
        "REPLACE INTO p VALUES (1,'a')", "REPLACE INTO p VALUES (4,'b')",
        "INSERT INTO c VALUES (5,'a',5); UPDATE OR REPLACE c SET v = 3 WHERE id = 5",
        "UPDATE OR REPLACE p SET u = 'c' WHERE id = 1",
        "INSERT OR IGNORE INTO p VALUES (9,'c'); DELETE FROM p WHERE u = 'c'",
      ]),
    Trap(
      "foreign keys that set NULL and default", pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE p(id INTEGER PRIMARY KEY);
      CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE, d DEFAULT 1 REFERENCES p ON DELETE SET DEFAULT);
      INSERT INTO p VALUES (1),(2),(3); INSERT INTO c VALUES (1,2,2),(2,3,3),(3,2,3)
      """,
      [
        "DELETE FROM p WHERE id = 2", "UPDATE p SET id = 30 WHERE id = 3",
        "BEGIN; DELETE FROM p WHERE id > 3; ROLLBACK",
      ]),
    Trap(
      "a table that references itself", pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE n(id INTEGER PRIMARY KEY, up REFERENCES n ON DELETE CASCADE ON UPDATE CASCADE, name UNIQUE);
      INSERT INTO n VALUES (1,NULL,'root'),(2,1,'a'),(3,1,'b'),(4,2,'aa'),(5,5,'own'),(6,4,'aaa')
      """,
      [
        "UPDATE n SET id = 20 WHERE id = 2", "REPLACE INTO n VALUES (4,20,'aa')", "DELETE FROM n WHERE id = 5",
        "UPDATE n SET name = 'b' WHERE id = 20; UPDATE OR REPLACE n SET name = 'b' WHERE id = 20",
        "DELETE FROM n WHERE id = 1",
      ]),
    Trap(
      "a row that takes the place of the one it references", pragmas: "PRAGMA foreign_keys = 1",
      """
      CREATE TABLE n(id INTEGER PRIMARY KEY, up REFERENCES n ON DELETE SET NULL ON UPDATE CASCADE, name UNIQUE, x);
      CREATE TABLE o(id INTEGER PRIMARY KEY, up DEFAULT 1 REFERENCES o ON DELETE SET DEFAULT);
      CREATE TABLE w(id TEXT PRIMARY KEY, up REFERENCES w ON DELETE SET NULL, name UNIQUE) WITHOUT ROWID;
      INSERT INTO n VALUES (1,NULL,'a',0),(2,1,'b',0),(3,2,'c',0),(4,4,'own',0),(5,1,'e',0);
      INSERT INTO o VALUES (1,NULL),(2,1),(3,2),(4,3); INSERT INTO w VALUES ('p',NULL,'p'),('q','p','q'),('r','q','r')
      """,
      [
        "UPDATE OR REPLACE n SET name = 'a' WHERE id = 2", "UPDATE n SET x = 1",
        "UPDATE OR REPLACE n SET id = 2 WHERE id = 3; UPDATE n SET x = x + 1",
        "UPDATE OR REPLACE n SET id = 40, name = 'e' WHERE id = 4; UPDATE n SET x = x + 1; DELETE FROM n WHERE id = 40",
        "UPDATE OR REPLACE o SET id = 3 WHERE id = 4; UPDATE OR REPLACE o SET id = 2 WHERE id = 3; UPDATE o SET up = NULL",
        "UPDATE OR REPLACE w SET name = 'p' WHERE id = 'q'; UPDATE w SET name = name || '!'", "DELETE FROM n",
        "INSERT INTO o VALUES (7,NULL),(8,NULL); UPDATE o SET up = 2 WHERE id = 8; UPDATE OR REPLACE o SET id = 8 WHERE id = 7; UPDATE o SET up = 2 WHERE id = 8; DELETE FROM o WHERE id = 8",
        "INSERT INTO o VALUES (7,NULL); UPDATE o SET up = 2 WHERE id = 7; REPLACE INTO o VALUES (7,NULL); UPDATE o SET up = 2 WHERE id = 7",
        "UPDATE n SET x = 9; INSERT INTO n(id,name,x) VALUES (50,'f',1); UPDATE n SET x = 2; REPLACE INTO n(id,name,x) VALUES (50,'g',3); UPDATE n SET x = 4",
      ]),
    Trap(
      "cascades with recursive triggers on", pragmas: "PRAGMA foreign_keys = 1; PRAGMA recursive_triggers = 1",
      """
      CREATE TABLE p(k TEXT PRIMARY KEY, n); CREATE TABLE c(k TEXT REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, n UNIQUE);
      INSERT INTO p VALUES ('a',1),('b',2); INSERT INTO c VALUES ('a',1),('a',2),('b',3),(NULL,4)
      """,
      [
        "REPLACE INTO p VALUES ('a',9)", "UPDATE p SET k = 'c'  WHERE k = 'b'", "REPLACE INTO c VALUES ('c',4)",
        "DELETE FROM p",
      ]),
    Trap(
      "deferred foreign keys that do not hold", pragmas: "PRAGMA foreign_keys = 1",
      "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p DEFERRABLE INITIALLY DEFERRED); INSERT INTO p VALUES (1); INSERT INTO c VALUES (1)",
      [
        "BEGIN; DELETE FROM p; INSERT INTO p VALUES (2); COMMIT", "ROLLBACK",
        "BEGIN; INSERT INTO c VALUES (7); INSERT INTO p VALUES (7); COMMIT",
      ]),
    Trap(
      "rows that break foreign keys",
      "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p NOT NULL REFERENCES p ON DELETE CASCADE); INSERT INTO c VALUES (99)",
      ["INSERT INTO c VALUES (5)", "INSERT INTO p VALUES (5)", "DELETE FROM p", "DROP TABLE p"]),
  ]

  /// SQLite 3.40 gives AFTER triggers an OLD with the affinity of the column that references it.
  static let mistyped: [Trap] =
    [
      ("with rowid", "TEXT PRIMARY KEY", ""), ("without rowid", "TEXT PRIMARY KEY", "WITHOUT ROWID"),
      ("unique and untyped", "UNIQUE", ""),
    ].map { name, key, suffix in
      Trap(
        "foreign keys between columns of another affinity, \(name)", pragmas: "PRAGMA foreign_keys = 1",
        """
        CREATE TABLE zip(code \(key), city, u UNIQUE) \(suffix);
        CREATE TABLE addr(id INTEGER PRIMARY KEY, zip INTEGER REFERENCES zip(code) ON UPDATE CASCADE ON DELETE SET NULL);
        CREATE INDEX addr_zip ON addr(zip);
        CREATE TRIGGER zd BEFORE DELETE ON zip WHEN OLD.city = 'stays' BEGIN SELECT RAISE(IGNORE); END;
        INSERT INTO zip VALUES ('01234','PO',1),('1234','PO',2),('2.0','x',3),('2','x',4),('07','stays',5);
        INSERT INTO addr VALUES (1,NULL)
        """,
        [
          "DELETE FROM zip WHERE code = '01234'", "UPDATE zip SET code = '3' WHERE code = '2.0'",
          "UPDATE zip SET code = '0' || code, city = 'y' WHERE code IN ('2', '3')", "DELETE FROM zip WHERE code = '07'",
          "INSERT INTO zip VALUES ('008','z',8),('8','z',9); UPDATE OR REPLACE zip SET u = 9 WHERE code = '008'",
          "REPLACE INTO zip VALUES ('08','w',9); UPDATE zip SET city = 'v', code = '8.0' WHERE code = '08'",
          "INSERT INTO zip VALUES ('8.0','q',11) ON CONFLICT(code) DO UPDATE SET code = '0008', u = 12",
          "DELETE FROM zip WHERE city = 'v'; UPDATE zip SET city = 'goes' WHERE code = '07'; DELETE FROM zip",
        ])
    } + [
      Trap(
        "a foreign key of another affinity that comes later", pragmas: "PRAGMA foreign_keys = 1",
        "CREATE TABLE zip(code TEXT PRIMARY KEY, city); INSERT INTO zip VALUES ('01234','PO'),('1234','PO'),('05','a'),('5','a')",
        [
          "CREATE TABLE addr(id INTEGER PRIMARY KEY, zip INTEGER REFERENCES zip); CREATE INDEX az ON addr(zip); DELETE FROM zip WHERE code = '01234'",
          "DELETE FROM zip WHERE code = '05'",
        ]),
      Trap(
        "a mistyped foreign key of a table without key that fires recursive triggers",
        pragmas: "PRAGMA foreign_keys = 1; PRAGMA recursive_triggers = 1",
        """
        CREATE TABLE zip(code TEXT UNIQUE, city); CREATE TABLE addr(zip REAL REFERENCES zip(code)); CREATE INDEX az ON addr(zip);
        INSERT INTO zip VALUES ('01','a'),('1','a'),(NULL,'a'),(NULL,'a')
        """,
        [
          "REPLACE INTO zip VALUES ('01','b')", "DELETE FROM zip WHERE code = '01'; DELETE FROM zip WHERE rowid = 3",
          "UPDATE zip SET code = '1.0' WHERE code = '1'",
        ]),
      Trap(
        "foreign keys of several columns, each with another affinity than its parent",
        pragmas: "PRAGMA foreign_keys = 1",
        """
        CREATE TABLE p(a TEXT, b NUMERIC, c BLOB, d, PRIMARY KEY (a, b, c));
        CREATE TABLE k(id INTEGER PRIMARY KEY, a REAL, b TEXT, c INTEGER,
          FOREIGN KEY (a, b, c) REFERENCES p ON UPDATE CASCADE ON DELETE CASCADE);
        CREATE INDEX ki ON k(a, b, c);
        INSERT INTO p VALUES ('01', '1.0', '7', 1), ('1', 1, '07', 2), ('1', 1, 7, 3), ('1.0', 1, 7, 4), ('x', 'y', 'z', 5)
        """,
        [
          "DELETE FROM p WHERE a = '01'", "UPDATE p SET d = 9 WHERE c = '07'", "UPDATE p SET a = '001' WHERE d = 3",
          "REPLACE INTO p VALUES ('001', 1, 7, 6)", "DELETE FROM p WHERE d = 9",
          "INSERT INTO k VALUES (1, '1.0', 1, 7)",
          "UPDATE p SET c = '8', d = 10; DELETE FROM p",
        ]),
      Trap(
        "rows of a mistyped foreign key that come before their parent", pragmas: "PRAGMA foreign_keys = 1",
        """
        CREATE TABLE zip(code TEXT PRIMARY KEY, other UNIQUE, city);
        CREATE TABLE addr(id INTEGER PRIMARY KEY, zip INTEGER REFERENCES zip DEFERRABLE INITIALLY DEFERRED,
          o INTEGER REFERENCES zip(other) DEFERRABLE INITIALLY DEFERRED);
        CREATE INDEX addr_zip ON addr(zip); CREATE INDEX addr_o ON addr(o); CREATE TABLE loose(code TEXT, city);
        CREATE TABLE la(c REAL REFERENCES zip(other) DEFERRABLE INITIALLY DEFERRED); CREATE INDEX lai ON la(c)
        """,
        [
          "BEGIN; INSERT INTO addr VALUES (1, 7, NULL); INSERT INTO zip VALUES ('01234', '05', 'a'), ('1234', '5', 'b'), ('7', '1.0', 'c'); COMMIT",
          "BEGIN; INSERT INTO addr VALUES (2, 8, NULL); UPDATE zip SET code = '0' || code, other = '00' || other WHERE city <> 'c'; REPLACE INTO zip VALUES ('0001', '0005', 'd'); INSERT INTO zip VALUES ('8', '8.0', 'e'); COMMIT",
          "BEGIN; INSERT INTO la VALUES (3.0); INSERT INTO zip VALUES ('03', 3.0, 'f') ON CONFLICT DO UPDATE SET code = '033'; UPDATE zip SET other = '07' WHERE city = 'd'; COMMIT",
          "DELETE FROM addr; DELETE FROM la; DELETE FROM zip WHERE code LIKE '0%'",
        ]),
      Trap(
        "a mistyped foreign key of a table to itself", pragmas: "PRAGMA foreign_keys = 1",
        """
        CREATE TABLE n(code TEXT PRIMARY KEY, up INTEGER REFERENCES n ON DELETE SET NULL ON UPDATE CASCADE, v UNIQUE);
        CREATE INDEX nu ON n(up);
        INSERT INTO n VALUES ('01', NULL, 1), ('1', NULL, 2), ('2', 1, 3), ('02', 1, 4), ('1e0', NULL, 5)
        """,
        [
          "DELETE FROM n WHERE code = '01'", "UPDATE n SET code = '3' WHERE code = '1e0'", "UPDATE n SET v = v + 10",
          "UPDATE OR REPLACE n SET v = 13 WHERE code = '02'", "UPDATE n SET code = '5' WHERE code = '1'",
          "DELETE FROM n",
        ]),
      Trap(
        "a parent whose numbers are read as text, and one read as the rowid", pragmas: "PRAGMA foreign_keys = 1",
        """
        CREATE TABLE num(id INTEGER PRIMARY KEY, u REAL UNIQUE, v UNIQUE);
        CREATE TABLE k1(t TEXT REFERENCES num(u) ON UPDATE CASCADE ON DELETE CASCADE); CREATE INDEX k1i ON k1(t);
        CREATE TABLE k2(t TEXT REFERENCES num ON UPDATE CASCADE ON DELETE SET NULL); CREATE INDEX k2i ON k2(t);
        INSERT INTO num VALUES (1, 1, 1), (2, 1.5, 2), (3, 1e300, 3), (4, -0.0, 4), (5, NULL, 5), (6, NULL, 6);
        INSERT INTO k2 VALUES ('1'), ('2')
        """,
        [
          "DELETE FROM num WHERE id = 1", "UPDATE num SET u = u + 1 WHERE u > 1", "UPDATE num SET id = id + 10",
          "REPLACE INTO num VALUES (12, 1e300, 4)", "DELETE FROM num WHERE u IS NULL", "DELETE FROM num",
        ]),
    ]

  /// Triggers of the program's own.
  static let triggers: [Trap] = [
    Trap(
      "a trigger that sets updated_at, made before capture",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, at); CREATE TRIGGER tt AFTER INSERT ON t BEGIN UPDATE t SET at = 'now' WHERE id = NEW.id; END; CREATE TRIGGER tu AFTER UPDATE OF a ON t BEGIN UPDATE t SET at = 'then' WHERE id = NEW.id; END; INSERT INTO t(a) VALUES (1)",
      [
        "INSERT INTO t(a) VALUES (2)", "UPDATE t SET a = a + 1", "REPLACE INTO t VALUES (1,7,NULL)",
        "DELETE FROM t WHERE id = 2; INSERT INTO t(id,a) VALUES (2,3)",
      ]),
    Trap(
      "a trigger that sets updated_at, made after capture began",
      "CREATE TABLE t(k TEXT PRIMARY KEY, a, at); INSERT INTO t(k,a) VALUES ('a',1)",
      [
        "CREATE TRIGGER tt AFTER INSERT ON t BEGIN UPDATE t SET at = 'now' WHERE k = NEW.k; END",
        "INSERT INTO t(k,a) VALUES ('b',2)",
        "CREATE TRIGGER td AFTER DELETE ON t BEGIN INSERT INTO t VALUES ('x' || OLD.k, OLD.a, NULL); END; DELETE FROM t WHERE k = 'a'",
        "DROP TRIGGER tt; REPLACE INTO t VALUES ('b',3,4)",
      ]),
    Trap(
      "a trigger made in the same transaction as the rows it fires on",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, at); INSERT INTO t(a) VALUES (1)",
      [
        "BEGIN; CREATE TRIGGER tt AFTER INSERT ON t BEGIN UPDATE t SET at = 'now' WHERE id = NEW.id; END; INSERT INTO t(a) VALUES (2); COMMIT",
        "INSERT INTO t(a) VALUES (3)",
      ]),
    Trap(
      "a trigger of a connection's own, in temp",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, at); INSERT INTO t(a) VALUES (1)",
      [
        "CREATE TEMP TRIGGER tt AFTER INSERT ON t BEGIN UPDATE t SET at = 'now' WHERE id = NEW.id; END",
        "INSERT INTO t(a) VALUES (2)",
      ]),
    Trap(
      "triggers that change the row before it is updated or deleted",
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, a, n DEFAULT 0); CREATE TABLE k(k TEXT PRIMARY KEY NOT NULL, u UNIQUE, n DEFAULT 0);
      CREATE TABLE f(a, n DEFAULT 0);
      CREATE TRIGGER tu BEFORE UPDATE OF a ON t BEGIN UPDATE t SET n = n + 1 WHERE id = OLD.id; END;
      CREATE TRIGGER td BEFORE DELETE ON t BEGIN UPDATE t SET n = -1 WHERE id = OLD.id; END;
      CREATE TRIGGER ku BEFORE UPDATE OF u ON k BEGIN UPDATE k SET n = n + 1; END;
      CREATE TRIGGER fu BEFORE UPDATE OF a ON f BEGIN UPDATE f SET n = n + 1 WHERE a = OLD.a; END;
      INSERT INTO t(a) VALUES (1),(2),(3); INSERT INTO k(k,u) VALUES ('a',1),('b',2); INSERT INTO f(a) VALUES (1),(1),(2)
      """,
      [
        "UPDATE t SET a = 'x'; UPDATE t SET a = 'y' WHERE id = 1; UPDATE t SET n = 50 WHERE id = 1",
        "DELETE FROM t WHERE id < 3",
        "INSERT INTO t(id,a) VALUES (1,9); UPDATE t SET a = 8; REPLACE INTO t(id,a) VALUES (1,10); UPDATE t SET a = 11",
        "UPDATE k SET u = -u; UPDATE OR REPLACE k SET u = -2 WHERE k = 'a'",
        "UPDATE f SET a = a + 1; UPDATE f SET n = 0",
        "UPDATE f SET a = 7 WHERE rowid = 1; DELETE FROM f WHERE rowid = 1; VACUUM; UPDATE f SET a = 8 WHERE rowid = 1",
        "CREATE TEMP TRIGGER tt BEFORE UPDATE OF n ON f BEGIN UPDATE f SET a = a - 1 WHERE rowid = OLD.rowid; END; UPDATE f SET n = 5",
      ]),
    Trap(
      "triggers that write to other tables, before and after",
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE log(what, id); CREATE TABLE sums(k PRIMARY KEY, n);
      INSERT INTO sums VALUES ('all',0);
      CREATE TRIGGER t1 BEFORE INSERT ON t BEGIN INSERT INTO log VALUES ('before', NEW.id); END;
      CREATE TRIGGER t2 AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('after', NEW.id); UPDATE sums SET n = n + NEW.a; END;
      CREATE TRIGGER t3 BEFORE DELETE ON t BEGIN DELETE FROM log WHERE id = OLD.id; REPLACE INTO sums VALUES ('all', -1); END;
      """,
      [
        "INSERT INTO t VALUES (1,1),(2,2)", "REPLACE INTO t VALUES (2,5)", "DELETE FROM t",
        "INSERT INTO t(a) VALUES (9)",
      ]),
    Trap(
      "triggers that raise",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES (1,1),(2,2); CREATE TRIGGER ti BEFORE INSERT ON t WHEN NEW.u > 50 BEGIN SELECT RAISE(IGNORE); END; CREATE TRIGGER tf AFTER UPDATE ON t WHEN NEW.u > 50 BEGIN SELECT RAISE(ABORT, 'no'); END; CREATE TRIGGER td BEFORE DELETE ON t WHEN OLD.id = 1 BEGIN SELECT RAISE(ROLLBACK, 'never'); END",
      [
        "INSERT INTO t VALUES (3,60),(4,4)", "REPLACE INTO t VALUES (1,70)", "UPDATE t SET u = 80 WHERE id = 2",
        "BEGIN; INSERT INTO t VALUES (5,5); DELETE FROM t WHERE id = 1",
        "REPLACE INTO t VALUES (1,7)",
      ]),
    Trap(
      "a trigger that recurses", pragmas: "PRAGMA recursive_triggers = 1",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, n UNIQUE); CREATE TRIGGER tt AFTER INSERT ON t WHEN NEW.n < 40 BEGIN INSERT INTO t(n) VALUES (NEW.n + 1); END; INSERT INTO t(n) VALUES (35)",
      ["DELETE FROM t; INSERT INTO t(n) VALUES (1)", "REPLACE INTO t(n) VALUES (36)", "UPDATE t SET n = -n"]),
    Trap(
      "an INSTEAD OF trigger of a view",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE VIEW v AS SELECT id AS i, a AS b FROM t; CREATE TRIGGER vi INSTEAD OF INSERT ON v BEGIN REPLACE INTO t VALUES (NEW.i, NEW.b); END; CREATE TRIGGER vd INSTEAD OF DELETE ON v BEGIN DELETE FROM t WHERE id = OLD.i; END; INSERT INTO t VALUES (1,1)",
      ["INSERT INTO v VALUES (1,5),(2,6)", "DELETE FROM v WHERE i = 1"]),
  ]

  /// How the program opens and shares its file.
  static let modes: [Trap] = [
    Trap(
      "rollbacks and savepoints", "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES (1,1),(2,2)",
      [
        "BEGIN; INSERT INTO t VALUES (3,3); DELETE FROM t; ROLLBACK",
        "BEGIN; INSERT INTO t VALUES (4,4); SAVEPOINT a; REPLACE INTO t VALUES (5,4); ROLLBACK TO a; UPDATE t SET u = -u; RELEASE a; COMMIT",
        "SAVEPOINT a; DELETE FROM t WHERE id = 1; SAVEPOINT b; INSERT INTO t VALUES (9,9); ROLLBACK TO b; RELEASE a",
        "BEGIN; REPLACE INTO t VALUES (7,-2); ROLLBACK; INSERT INTO t VALUES (8,8)",
      ]),
    Trap(
      "two connections that write in turn",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES (1,1),(2,2)",
      [
        "INSERT INTO t VALUES (3,3)", .other("REPLACE INTO t VALUES (4,3)"), "BEGIN; DELETE FROM t WHERE id = 4",
        .other("SELECT * FROM t"), "COMMIT",
        .other("PRAGMA recursive_triggers = 1; REPLACE INTO t VALUES (1,2)"), "INSERT OR IGNORE INTO t VALUES (6,2)",
        .other("DELETE FROM t WHERE u = 2"),
        "INSERT INTO t VALUES (1,2)", .other("PRAGMA foreign_keys = 1; UPDATE t SET u = u * 2"),
      ]),
    Trap(
      "a database in rollback-journal mode", journalMode: "DELETE",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); CREATE TABLE f(a); INSERT INTO t VALUES (1,1),(2,2)",
      [
        "REPLACE INTO t VALUES (3,1)", "INSERT INTO f VALUES (1),(1),(2)", "DELETE FROM f WHERE rowid = 2",
        .other("UPDATE t SET u = u + 5"), "VACUUM", "DELETE FROM f",
      ]),
    Trap(
      "a journal that is truncated instead of deleted", journalMode: "TRUNCATE",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES (1,1)",
      [
        "INSERT INTO t VALUES (2,2)", .other("DELETE FROM t WHERE id = 1"),
        "PRAGMA journal_mode = PERSIST; INSERT INTO t VALUES (3,3)",
        "BEGIN EXCLUSIVE; REPLACE INTO t VALUES (4,3); COMMIT",
      ]),
    Trap(
      "a database in UTF-16",
      "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(k TEXT PRIMARY KEY, a); INSERT INTO t VALUES ('Łódź','港'),('🚢','x')",
      [
        "INSERT INTO t VALUES ('é','e\u{301}')", "REPLACE INTO t VALUES ('🚢','y')",
        "ALTER TABLE t ADD COLUMN \"naïve\" DEFAULT 'ü'", "UPDATE t SET a = a || 'Ω'",
      ]),
    Trap(
      "a database in UTF-16 big endian with a collated key",
      "PRAGMA encoding = 'UTF-16be'; CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, a) WITHOUT ROWID; INSERT INTO t VALUES ('Abc',1)",
      ["REPLACE INTO t VALUES ('aBC',2)", "UPDATE t SET k = 'ABC'"]),
    Trap(
      "auto_vacuum, freelists and a dropped index",
      "PRAGMA auto_vacuum = FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, b); CREATE INDEX ti ON t(b); INSERT INTO t SELECT value, zeroblob(3000) FROM json_each('[1,2,3,4,5,6]')",
      [
        "DELETE FROM t WHERE id < 4", "DROP INDEX ti",
        "PRAGMA incremental_vacuum; INSERT INTO t VALUES (1, zeroblob(20000))",
      ]),
    Trap(
      "DELETE without WHERE",
      "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE w(k PRIMARY KEY) WITHOUT ROWID; CREATE TABLE f(a); INSERT INTO t VALUES (1),(2); INSERT INTO w VALUES (1),(2); INSERT INTO f VALUES (1),(1)",
      ["DELETE FROM t", "DELETE FROM w", "DELETE FROM f", "INSERT INTO f VALUES (1)"]),
  ]
}
