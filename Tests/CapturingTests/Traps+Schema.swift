extension Trap {
  /// Changes of the schema, with rows written in the gap before capture sees them.
  static let schemaChanges: [Trap] = [
    Trap(
      "a trigger that comes, writes and goes with its table",
      "CREATE TABLE tbl(a PRIMARY KEY, b, c); INSERT INTO tbl VALUES (1,2,3); CREATE TABLE t(a)",
      [
        "CREATE TRIGGER x AFTER UPDATE ON tbl BEGIN UPDATE tbl SET b = old.b; END; UPDATE tbl SET c = 10 WHERE a = 1; DROP TABLE tbl",
        "INSERT INTO t VALUES (1); CREATE TABLE tbl(z); INSERT INTO tbl VALUES (9)",
      ]),
    Trap(
      "ADD COLUMN",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE f(a); INSERT INTO t VALUES (1,1),(2,2); INSERT INTO f VALUES (1),(1)",
      [
        "INSERT INTO t VALUES (3,3)",
        "ALTER TABLE t ADD COLUMN b; INSERT INTO t VALUES (4,4,'gap'); UPDATE t SET b = 'gap' WHERE id = 1",
        "UPDATE t SET b = 5 WHERE id = 2",
        "ALTER TABLE f ADD COLUMN b NOT NULL DEFAULT 7; INSERT INTO f VALUES (1,7); DELETE FROM f WHERE rowid = 1",
        "INSERT INTO f VALUES (9,9)",
        "BEGIN; ALTER TABLE t ADD COLUMN c REFERENCES t; ALTER TABLE t ADD COLUMN d AS (a + id); UPDATE t SET c = 1; COMMIT",
      ]),
    Trap(
      "RENAME COLUMN",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE, b); CREATE INDEX ti ON t(b) WHERE a > 0; CREATE VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (1,1,1),(2,2,2)",
      [
        "UPDATE t SET b = 5; ALTER TABLE t RENAME COLUMN a TO aa; INSERT INTO t VALUES (3,3,3)",
        "REPLACE INTO t VALUES (4,3,'x')",
        "ALTER TABLE t RENAME COLUMN id TO key; ALTER TABLE t RENAME COLUMN aa TO id", "UPDATE t SET id = id + 10",
        "ALTER TABLE t RENAME COLUMN key TO x; ALTER TABLE t RENAME COLUMN id TO key; ALTER TABLE t RENAME COLUMN x TO id; DELETE FROM t WHERE id = 1",
      ]),
    Trap(
      "columns that trade names", "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1,'a','b')",
      [
        "BEGIN; ALTER TABLE t RENAME COLUMN a TO x; ALTER TABLE t RENAME COLUMN b TO a; ALTER TABLE t RENAME COLUMN x TO b; COMMIT",
        "INSERT INTO t(id,a,b) VALUES (2,'in a','in b')", "UPDATE t SET a = a || '!'",
      ]),
    Trap(
      "DROP COLUMN between unhook and rehook",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE TABLE f(a, b); INSERT INTO t VALUES (1,1,1),(2,2,2); INSERT INTO f VALUES (1,1),(1,1)",
      [
        "UPDATE t SET a = 5", .unhook("t"),
        "INSERT INTO t VALUES (3,3,3); ALTER TABLE t DROP COLUMN a; DELETE FROM t WHERE id = 1", .rehook("t"),
        "INSERT INTO t VALUES (4,4)",
        .unhook("F"), "ALTER TABLE f DROP COLUMN b; DELETE FROM f WHERE rowid = 1", .rehook("f"),
        "INSERT INTO f VALUES (1),(1)",
      ]),
    Trap(
      "the rebuild of the manual, in 12 steps",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b); CREATE INDEX ti ON t(a); CREATE TABLE c(t REFERENCES t(id)); INSERT INTO t VALUES (1,'1',1),(2,'2',2); INSERT INTO c VALUES (1)",
      [
        "UPDATE t SET b = 9 WHERE id = 2",
        "PRAGMA legacy_alter_table = 1; BEGIN; CREATE TABLE new_t(id INTEGER PRIMARY KEY, b, a INTEGER NOT NULL); INSERT INTO new_t SELECT id, b, a FROM t; DROP TABLE t; ALTER TABLE new_t RENAME TO t; CREATE INDEX ti ON t(a); COMMIT",
        "INSERT INTO t VALUES (3,3,3)", "DELETE FROM t WHERE id = 1", "INSERT INTO c VALUES (3)",
      ]),
    Trap(
      "a rebuild through a table of the same columns",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1,1),(2,2)",
      [
        "UPDATE t SET a = 3 WHERE id = 2",
        "BEGIN; ALTER TABLE t RENAME TO old; CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t SELECT id, a + 1 FROM old; DROP TABLE old; COMMIT",
        "REPLACE INTO t VALUES (1,'x')",
      ]),
    Trap(
      "DROP and CREATE of a table with other columns",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1,1)",
      [
        "INSERT INTO t VALUES (2,2)",
        "DROP TABLE t; CREATE TABLE t(k TEXT PRIMARY KEY, x, y); INSERT INTO t VALUES ('a',1,2)",
        "REPLACE INTO t VALUES ('a',3,4)", "DROP TABLE t; CREATE TABLE t(k); INSERT INTO t VALUES (1),(1)",
      ]),
    Trap(
      "DROP and CREATE of a table with the same columns",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1,1),(2,2)",
      [
        "DELETE FROM t WHERE id = 1",
        "BEGIN; DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (5,5); COMMIT",
        "UPDATE t SET a = 6",
      ]),
    Trap(
      "DROP TABLE and CREATE TABLE",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(a); INSERT INTO t VALUES (1,1)",
      [
        "INSERT INTO t VALUES (2,2); INSERT INTO u VALUES (1)", "DROP TABLE t",
        "CREATE TABLE w(a, b); INSERT INTO w VALUES (1,1)", "INSERT INTO w VALUES (2,2)", "DROP TABLE w",
        "CREATE TABLE w(x)",
      ]),
    Trap(
      "RENAME TABLE",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE); CREATE INDEX ti ON t(a); CREATE TABLE c(t REFERENCES t); INSERT INTO t VALUES (1,1),(2,2); INSERT INTO c VALUES (1)",
      [
        "INSERT INTO t VALUES (3,3); ALTER TABLE t RENAME TO t2; INSERT INTO t2 VALUES (4,4)",
        "REPLACE INTO t2 VALUES (5,4)", "ALTER TABLE t2 RENAME TO T2; DELETE FROM T2 WHERE id = 1",
        "CREATE TABLE t(x); INSERT INTO t VALUES (9)", "DROP TABLE T2; ALTER TABLE t RENAME TO t2",
      ]),
    Trap(
      "tables that trade names",
      "CREATE TABLE a(id INTEGER PRIMARY KEY, v); CREATE TABLE b(id INTEGER PRIMARY KEY, v); INSERT INTO a VALUES (1,'a'); INSERT INTO b VALUES (1,'b'),(2,'b')",
      [
        "INSERT INTO a VALUES (3,'a')",
        "BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b; COMMIT",
        "UPDATE a SET v = 'now in a'", "DELETE FROM b WHERE id = 1",
      ]),
    Trap(
      "indexes made, dropped and moved to another table",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(id INTEGER PRIMARY KEY, a); CREATE INDEX i ON t(a); INSERT INTO t VALUES (1,1),(2,1),(3,3); INSERT INTO u VALUES (1,1)",
      [
        "CREATE UNIQUE INDEX q ON u(a); INSERT INTO u VALUES (2,2)", "REPLACE INTO u VALUES (3,2)",
        "DROP INDEX i; CREATE INDEX i ON u(a)", "DROP INDEX q; INSERT INTO u VALUES (4,2),(5,2)",
        "DELETE FROM t WHERE id = 2; CREATE UNIQUE INDEX q ON t(a); REPLACE INTO t VALUES (9,1)",
        "DROP INDEX q; CREATE UNIQUE INDEX q ON t(a) WHERE a > 5; REPLACE INTO t VALUES (10,1)",
      ]),
    Trap(
      "a unique index made and used before capture sees it",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1,1),(2,2),(3,3)",
      [
        "CREATE UNIQUE INDEX q ON t(a); REPLACE INTO t VALUES (4,1); UPDATE OR REPLACE t SET a = 3 WHERE id = 2",
        "REPLACE INTO t VALUES (5,3)", "DROP INDEX q; INSERT INTO t VALUES (6,3)",
      ]),
    Trap(
      "a unique key that becomes the only key, and goes",
      "CREATE TABLE t(a NOT NULL, b); INSERT INTO t VALUES (1,1),(2,2),(2,2)",
      [
        "DELETE FROM t WHERE rowid = 2", "CREATE UNIQUE INDEX q ON t(a)", "UPDATE t SET b = 5 WHERE a = 2",
        "REPLACE INTO t VALUES (2,6)", "DROP INDEX q", "INSERT INTO t VALUES (2,6),(2,6)",
        "DELETE FROM t WHERE rowid = (SELECT min(rowid) FROM t WHERE a = 2)",
      ]),
    Trap(
      "VACUUM of tables without key",
      "CREATE TABLE f(a); CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO f VALUES (1),(2),(3),(4),(4); DELETE FROM f WHERE a = 2; INSERT INTO t VALUES (5,5),(9,9)",
      [
        "DELETE FROM f WHERE rowid = 1", "VACUUM", "INSERT INTO f VALUES (5)", "DELETE FROM f WHERE rowid = 1",
        "UPDATE f SET a = 7 WHERE rowid = 2; VACUUM; DELETE FROM f WHERE a = 7",
      ]),
    Trap(
      "a schema change that is rolled back", "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1,1)",
      [
        "BEGIN; ALTER TABLE t ADD COLUMN b; CREATE TABLE u(x); UPDATE t SET a = 2; ROLLBACK",
        "INSERT INTO t VALUES (2,2)", "BEGIN; DROP TABLE t; ROLLBACK", "DELETE FROM t WHERE id = 1",
      ]),
    Trap(
      "views and their changes",
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE VIEW v AS SELECT * FROM t; INSERT INTO t VALUES (1,1)",
      [
        "DROP VIEW v; CREATE VIEW v AS SELECT a FROM t", "INSERT INTO t VALUES (2,2)",
        "PRAGMA user_version = 7; PRAGMA application_id = 8",
      ]),
    Trap(
      "a table that turns WITHOUT ROWID, STRICT and back",
      "CREATE TABLE t(k TEXT PRIMARY KEY, a INT); INSERT INTO t VALUES ('a',1),('b',2)",
      [
        "UPDATE t SET a = 3",
        "BEGIN; CREATE TABLE n(k TEXT PRIMARY KEY, a INT) STRICT, WITHOUT ROWID; INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t; COMMIT",
        "REPLACE INTO t VALUES ('a',9)",
        "BEGIN; CREATE TABLE n(k TEXT, a INT); INSERT INTO n SELECT * FROM t; INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t; COMMIT",
        "DELETE FROM t WHERE rowid = 1",
      ]),
  ]
}
