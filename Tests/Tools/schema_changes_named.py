"""Further steps of schema_changes.py, whose tables are named after them."""
import time


class NamedSteps:
    def add_column_typed(self):
        t = "sc_add_column_typed"
        self.around(t, *["ALTER TABLE %s ADD COLUMN %s" % (t, c) for c in (
            "born DATE DEFAULT '2024-02-29'", "ok BOOLEAN NOT NULL DEFAULT 1", "price DECIMAL(10,2) DEFAULT 1.5",
            "short VARCHAR(40) DEFAULT 'v'", "seen DATETIME", "bits BLOB DEFAULT x''", "free")])
        self.sql("INSERT INTO %s(a) VALUES ('by default')" % t)

    def add_column_check(self):
        t = "sc_add_column_check"
        self.around(t, "ALTER TABLE %s ADD COLUMN n INTEGER CHECK (n >= 0) DEFAULT 0" % t,
                    "ALTER TABLE %s ADD COLUMN word TEXT COLLATE NOCASE DEFAULT 'X'" % t)

    def add_column_after_delete_all(self):
        t = "sc_add_column_after_delete_all"
        self.sql("BEGIN IMMEDIATE")
        self.write(t)
        self.sql("DELETE FROM " + t)
        self.sql("ALTER TABLE %s ADD COLUMN n INTEGER DEFAULT 5" % t)
        self.write(t, rows=20)
        self.sql("COMMIT")
        self.gap(t)

    def drop_column_last(self):
        self.write("sc_drop_column_last")
        self.drop("sc_drop_column_last", "c")
        self.gap("sc_drop_column_last")

    def drop_columns_several(self):
        self.write("sc_drop_columns_several")
        self.drop("sc_drop_columns_several", "a", "c")
        self.gap("sc_drop_columns_several")

    def drop_and_add_column(self):
        t = "sc_drop_and_add_column"
        self.write(t)
        self.drop(t, "b")
        self.sql("ALTER TABLE %s ADD COLUMN b TEXT DEFAULT 'new'" % t)
        self.gap(t)

    def rename_column_case(self):
        t = "sc_rename_column_case"
        self.around(t, "ALTER TABLE %s RENAME COLUMN a TO A" % t)

    def rename_column_used(self):
        """It is in an index, a view, a trigger and a foreign key of another table."""
        t = "sc_rename_column_used"
        self.around(t, "CREATE VIEW {0}_v AS SELECT code, a FROM {0}".format(t),
                    "CREATE TRIGGER {0}_g AFTER INSERT ON {0} BEGIN UPDATE {0} SET a = a || new.code "
                    "WHERE id = new.id AND a IS NULL; END".format(t),
                    "ALTER TABLE %s RENAME COLUMN code TO number" % t,
                    "ALTER TABLE %s RENAME COLUMN a TO label" % t)
        self.gap(t + "_child")

    def rename_table_used(self):
        t = "sc_rename_table_used"
        self.around(t, "CREATE VIEW {0}_v AS SELECT a FROM {0}".format(t),
                    "CREATE INDEX {0}_i ON {0}(a, b)".format(t),
                    "CREATE TRIGGER {0}_g AFTER DELETE ON {0} BEGIN DELETE FROM {0} WHERE id = -1; END".format(t),
                    "ALTER TABLE {0} RENAME TO {0}_2".format(t), after=t + "_2")

    def rename_back_and_forth(self):
        t = "sc_rename_back_and_forth"
        self.around(t, "ALTER TABLE {0} RENAME TO {0}_2".format(t), "ALTER TABLE {0}_2 RENAME TO {0}".format(t))

    def swap(self, t):
        self.write(t)
        self.write(t + "_2")
        self.sql("BEGIN IMMEDIATE")
        self.write(t)
        self.sql("ALTER TABLE {0} RENAME TO {0}_3".format(t))
        self.sql("ALTER TABLE {0}_2 RENAME TO {0}".format(t))
        self.write(t)
        self.sql("ALTER TABLE {0}_3 RENAME TO {0}_2".format(t))
        self.write(t + "_2")
        self.sql("COMMIT")
        self.gap(t, t + "_2")

    def swap_table_names(self):
        self.swap("sc_swap_table_names")

    def swap_tables_of_same_shape(self):
        self.swap("sc_swap_tables_of_same_shape")

    def to(self, name, columns, select="id, a, b, c", options="", indexes=()):
        """A rebuild of the step's table into these columns."""
        t = "sc_" + name
        self.rebuild(t, "CREATE TABLE %s_new(%s) %s" % (t, columns, options),
                     "INSERT INTO %s_new SELECT %s FROM %s" % (t, select, t), indexes)

    def rebuild_strict(self):
        self.to("rebuild_strict", "id INTEGER PRIMARY KEY, a TEXT, b INT, c REAL, x ANY", "id, a, b, c, b", "STRICT")

    def rebuild_without_rowid(self):
        self.to("rebuild_without_rowid", "id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL", options="WITHOUT ROWID")

    def rebuild_with_rowid(self):
        self.to("rebuild_with_rowid", "k TEXT PRIMARY KEY NOT NULL, v BLOB, extra INTEGER DEFAULT 3", "k, v, 7")

    def rebuild_strict_without_rowid(self):
        self.to("rebuild_strict_without_rowid", "id INTEGER NOT NULL, a TEXT NOT NULL, b INTEGER, PRIMARY KEY (a, id)",
                "id, coalesce(a, '?'), b", "STRICT, WITHOUT ROWID")

    def rebuild_autoincrement(self):
        self.to("rebuild_autoincrement", "id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b INTEGER, c REAL")

    def rebuild_int_to_text(self):
        self.to("rebuild_int_to_text", "id INTEGER PRIMARY KEY, a TEXT, b TEXT, c TEXT")

    def rebuild_text_to_int(self):
        self.to("rebuild_text_to_int", "id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c REAL", "id, length(a), b, c")

    def rebuild_to_date(self):
        self.to("rebuild_to_date", "id INTEGER PRIMARY KEY, a DATE, b DATETIME, c REAL",
                "id, date(length(a) * 86400, 'unixepoch'), datetime(b, 'unixepoch'), c")

    def rebuild_to_decimal(self):
        self.to("rebuild_to_decimal", "id INTEGER PRIMARY KEY, a VARCHAR(200), b BOOLEAN, c DECIMAL(12,2)",
                "id, a, b > 5000, round(c, 2)")

    def rebuild_to_blob(self):
        self.to("rebuild_to_blob", "id INTEGER PRIMARY KEY, a BLOB, b INTEGER, c REAL", "id, CAST(a AS BLOB), b, c")

    def rebuild_untyped(self):
        self.to("rebuild_untyped", "id INTEGER PRIMARY KEY, a, b, c REAL")

    def rebuild_key_to_text(self):
        self.to("rebuild_key_to_text", "id TEXT PRIMARY KEY NOT NULL, a TEXT, b INTEGER, c REAL", "'k' || id, a, b, c")

    def rebuild_key_added(self):
        self.to("rebuild_key_added", "n INTEGER PRIMARY KEY, a TEXT, b INTEGER", "NULL, a, b")

    def rebuild_key_removed(self):
        self.to("rebuild_key_removed", "id INTEGER, a TEXT, b INTEGER, c REAL")

    def rebuild_key_renumbered(self):
        self.to("rebuild_key_renumbered", "id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL", "NULL, a, b, c")

    def rebuild_unique_added(self):
        self.to("rebuild_unique_added", "id INTEGER PRIMARY KEY, a TEXT, b INTEGER UNIQUE, c REAL, UNIQUE (a, b)", "id, a, id, c")

    def rebuild_unique_removed(self):
        self.to("rebuild_unique_removed", "id INTEGER PRIMARY KEY, code TEXT, b INTEGER", "id, code, b")
        self.sql("UPDATE sc_rebuild_unique_removed SET code = 'same' WHERE id % 2")

    def rebuild_default(self):
        self.to("rebuild_default", "id INTEGER PRIMARY KEY, a TEXT DEFAULT 'd', b INTEGER NOT NULL DEFAULT 42, c REAL",
                "id, a, coalesce(b, 1), c")
        self.sql("INSERT INTO sc_rebuild_default(c) VALUES (1.5)")

    def rebuild_check_and_collation(self):
        self.to("rebuild_check_and_collation",
                "id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE, b INTEGER CHECK (b >= 0), c REAL")

    def rebuild_reference_added(self):
        self.to("rebuild_reference_added", "id INTEGER PRIMARY KEY, a TEXT, b INTEGER REFERENCES sc_parent(id) ON DELETE SET NULL, c REAL",
                "id, a, NULL, c")

    def rebuild_reference_removed(self):
        self.to("rebuild_reference_removed", "id INTEGER PRIMARY KEY, up INTEGER", "id, up")
        self.sql("UPDATE sc_rebuild_reference_removed SET up = -5 WHERE id % 3 = 0")

    def rebuild_several_changes(self):
        t = "sc_rebuild_several_changes"
        self.to("rebuild_several_changes", "number INTEGER PRIMARY KEY, label TEXT NOT NULL, b TEXT, extra DATE DEFAULT '2024-01-01', c REAL",
                "id, coalesce(a, '-'), b, NULL, c * 2", indexes=["CREATE INDEX {0}_i ON {0}(label)".format(t)])

    def rebuild_fewer_rows(self):
        t = "sc_rebuild_fewer_rows"
        self.rebuild(t, "CREATE TABLE {0}_new(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL)".format(t),
                     "INSERT INTO {0}_new SELECT id, upper(a), b + 1, c FROM {0} WHERE id % 2".format(t))

    def rebuild_generated(self):
        self.rebuild("sc_rebuild_generated", "CREATE TABLE sc_rebuild_generated_new(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, "
                     "twice INTEGER AS (b * 2) STORED)",
                     "INSERT INTO sc_rebuild_generated_new(id, a, b) SELECT id, a, b FROM sc_rebuild_generated")

    def rebuild_in_steps(self):
        """The same without a transaction: rows that others write in between are lost at the source as well."""
        t = "sc_rebuild_in_steps"
        self.write(t)
        self.sql("PRAGMA foreign_keys = OFF")
        for change in ("CREATE TABLE {0}_new(id INTEGER PRIMARY KEY, a TEXT, b TEXT, extra INTEGER DEFAULT 1)",
                       "INSERT INTO {0}_new(id, a, b) SELECT id, a, b FROM {0}", "DROP TABLE {0}",
                       "ALTER TABLE {0}_new RENAME TO {0}"):
            self.sql(change.format(t))
        self.sql("PRAGMA foreign_keys = ON")
        self.gap(t)

    def rebuild_in_steps_slowly(self):
        t = "sc_rebuild_in_steps_slowly"
        self.write(t)
        for change in ("CREATE TABLE {0}_new(id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT '', c REAL)",
                       "INSERT INTO {0}_new SELECT id, coalesce(a, ''), c FROM {0}", "DROP TABLE {0}",
                       "ALTER TABLE {0}_new RENAME TO {0}"):
            self.sql(change.format(t))
            time.sleep(0.15)
        self.gap(t)

    def rebuild_old_renamed(self):
        """The other order: the old table goes out of the way first."""
        t = "sc_rebuild_old_renamed"
        self.write(t)
        self.sql("BEGIN IMMEDIATE")
        for change in ("ALTER TABLE {0} RENAME TO {0}_old",
                       "CREATE TABLE {0}(id INTEGER PRIMARY KEY, a TEXT, b INTEGER NOT NULL DEFAULT 0, z TEXT)",
                       "INSERT INTO {0}(id, a, b) SELECT id, a, coalesce(b, 0) FROM {0}_old", "DROP TABLE {0}_old"):
            self.sql(change.format(t))
        self.write(t)
        self.sql("COMMIT")
        self.gap(t)

    def rebuild_rolled_back(self):
        t = "sc_rebuild_rolled_back"
        self.write(t)
        self.sql("BEGIN IMMEDIATE")
        self.sql("CREATE TABLE {0}_new(id INTEGER PRIMARY KEY, a INTEGER)".format(t))
        self.sql("INSERT INTO {0}_new SELECT id, b FROM {0}".format(t))
        self.sql("DROP TABLE " + t)
        self.sql("ALTER TABLE {0}_new RENAME TO {0}".format(t))
        self.write(t)
        self.sql("ROLLBACK")
        self.gap(t)

    def rebuild_and_rows_mixed(self):
        t = "sc_rebuild_and_rows_mixed"
        self.sql("BEGIN IMMEDIATE")
        self.write(t)
        for change in ("CREATE TABLE {0}_new(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c TEXT)",
                       "INSERT INTO {0}_new SELECT * FROM {0}", "UPDATE {0}_new SET c = 'in between' WHERE id % 3 = 0",
                       "DROP TABLE {0}", "ALTER TABLE {0}_new RENAME TO {0}", "DELETE FROM {0} WHERE id % 5 = 0",
                       "ALTER TABLE {0} ADD COLUMN d TEXT DEFAULT 'd'"):
            self.sql(change.format(t))
        self.write(t)
        self.sql("COMMIT")
        self.gap(t)

    def rebuild_twice(self):
        self.to("rebuild_twice", "id INTEGER PRIMARY KEY, a TEXT, b TEXT, c REAL")
        self.to("rebuild_twice", "id INTEGER PRIMARY KEY, b INTEGER, c REAL", "id, CAST(b AS INTEGER), c")

    def index_changed(self):
        t = "sc_index_changed"
        self.around(t, "CREATE INDEX {0}_i ON {0}(a)".format(t), "DROP INDEX {0}_i".format(t),
                    "CREATE INDEX {0}_i ON {0}(b DESC, a)".format(t), "REINDEX {0}".format(t))

    def index_unique_partial(self):
        t = "sc_index_unique_partial"
        self.around(t, "CREATE UNIQUE INDEX {0}_u ON {0}(b) WHERE id < 0".format(t))
        self.sql("INSERT OR REPLACE INTO %s(id, a, b) VALUES (-1, 'x', 5), (-2, 'y', 5)" % t)
        self.gap(t)

    def index_unique_expression(self):
        t = "sc_index_unique_expression"
        self.around(t, "CREATE UNIQUE INDEX {0}_u ON {0}(id + 1)".format(t))

    def create_typed(self):
        t = "sc_create_typed_2"
        self.sql("CREATE TABLE %s(id INTEGER PRIMARY KEY, flag BOOLEAN, born DATE, seen DATETIME, zoned TIMESTAMP, price DECIMAL(12,2), "
                 "n NUMERIC, small TINYINT, word NVARCHAR(60), body CLOB, bits VARBINARY(9) , ratio DOUBLE, odd, blob BLOB)" % t)
        self.gap(t)

    def create_and_drop_in_transaction(self):
        t = "sc_create_and_drop_in_transaction"
        self.sql("BEGIN IMMEDIATE")
        self.sql("CREATE TABLE {0}_2(id INTEGER PRIMARY KEY, a TEXT)".format(t))
        self.write(t + "_2", rows=20)
        self.sql("DROP TABLE {0}_2".format(t))
        self.write(t)
        self.sql("COMMIT")
        self.sql("CREATE TABLE {0}_3(id INTEGER PRIMARY KEY, a TEXT)".format(t))
        self.write(t + "_3")
        self.sql("DROP TABLE {0}_3".format(t))
        self.gap(t)

    def create_in_a_ring(self):
        """Tables that refer to each other; the first names one that is not there yet."""
        t = "sc_create_in_a_ring"
        self.sql("CREATE TABLE {0}_2(id INTEGER PRIMARY KEY, up INTEGER REFERENCES {0}_3(id) DEFERRABLE INITIALLY DEFERRED)".format(t))
        self.sql("CREATE TABLE {0}_3(id INTEGER PRIMARY KEY, up INTEGER REFERENCES {0}_2(id))".format(t))
        self.sql("BEGIN IMMEDIATE")
        self.sql("INSERT INTO {0}_2 VALUES (1, 2)".format(t))
        self.sql("INSERT INTO {0}_3 VALUES (2, 1)".format(t))
        self.sql("COMMIT")
        self.gap(t)

    def drop_and_create_other_kind(self):
        t = "sc_drop_and_create_other_kind"
        self.around(t, "DROP TABLE " + t, "CREATE TABLE %s(k TEXT NOT NULL, n INTEGER NOT NULL, v REAL, PRIMARY KEY (k, n)) WITHOUT ROWID" % t)

    def two_tables_in_transaction(self):
        t = "sc_two_tables_in_transaction"
        self.sql("BEGIN IMMEDIATE")
        self.write(t)
        self.sql("ALTER TABLE %s ADD COLUMN x1 INTEGER DEFAULT 3" % t)
        self.write(t + "_2")
        self.sql("ALTER TABLE %s_2 RENAME COLUMN a TO aa" % t)
        self.write(t)
        self.write(t + "_2")
        self.sql("COMMIT")
        self.gap(t, t + "_2")

    def savepoints_rolled_back(self):
        t = "sc_savepoints_rolled_back"
        self.sql("BEGIN IMMEDIATE")
        self.sql("SAVEPOINT s")
        self.sql("DROP TABLE " + t)
        self.sql("ROLLBACK TO s")
        self.write(t)
        self.sql("SAVEPOINT s2")
        self.sql("ALTER TABLE %s ADD COLUMN stays INTEGER DEFAULT 4" % t)
        self.write(t)
        self.sql("RELEASE s2")
        self.sql("COMMIT")
        self.gap(t)

    def temporary_table(self):
        t = "sc_temporary_table"
        self.around(t, "CREATE TEMP TABLE {0}_tmp(a)".format(t), "INSERT INTO temp.{0}_tmp VALUES (1)".format(t),
                    "ALTER TABLE temp.{0}_tmp ADD COLUMN b".format(t), "DROP TABLE temp.{0}_tmp".format(t),
                    "CREATE TABLE IF NOT EXISTS {0}(z)".format(t))

    def maintenance(self):
        self.around("sc_maintenance", "ANALYZE", "REINDEX", "PRAGMA application_id = 77", "PRAGMA optimize")

    OWN = {
        "drop_columns_several": ["{t}(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL)"],
        "rename_column_used": ["{t}(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, code INTEGER UNIQUE)",
                               "{t}_child(id INTEGER PRIMARY KEY, up INTEGER REFERENCES {t}(code) ON UPDATE CASCADE ON DELETE CASCADE)"],
        "swap_table_names": ["{t}(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL)", "{t}_2(k TEXT PRIMARY KEY, z BLOB)"],
        "swap_tables_of_same_shape": ["{t}(id INTEGER PRIMARY KEY, a TEXT)", "{t}_2(id INTEGER PRIMARY KEY, a TEXT)"],
        "rebuild_with_rowid": ["{t}(k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID"],
        "rebuild_key_added": ["{t}(a TEXT, b INTEGER)"],
        "rebuild_unique_removed": ["{t}(id INTEGER PRIMARY KEY, code TEXT UNIQUE, b INTEGER)"],
        "rebuild_reference_removed": ["{t}(id INTEGER PRIMARY KEY, up INTEGER REFERENCES sc_parent(id) ON DELETE CASCADE)"],
        "two_tables_in_transaction": ["{t}(id INTEGER PRIMARY KEY, a TEXT, b INTEGER)", "{t}_2(id INTEGER PRIMARY KEY, a TEXT)"],
    }
    NAMED = ["add_column_typed", "add_column_check", "add_column_after_delete_all", "drop_column_last", "drop_columns_several",
             "drop_and_add_column", "rename_column_case", "rename_column_used", "rename_table_used", "rename_back_and_forth",
             "swap_table_names", "swap_tables_of_same_shape", "rebuild_strict", "rebuild_without_rowid", "rebuild_with_rowid",
             "rebuild_strict_without_rowid", "rebuild_autoincrement", "rebuild_int_to_text", "rebuild_text_to_int",
             "rebuild_to_date", "rebuild_to_decimal", "rebuild_to_blob", "rebuild_untyped", "rebuild_key_to_text",
             "rebuild_key_added", "rebuild_key_removed", "rebuild_key_renumbered", "rebuild_unique_added",
             "rebuild_unique_removed", "rebuild_default", "rebuild_check_and_collation", "rebuild_reference_added",
             "rebuild_reference_removed", "rebuild_several_changes", "rebuild_fewer_rows", "rebuild_generated",
             "rebuild_in_steps", "rebuild_in_steps_slowly", "rebuild_old_renamed", "rebuild_rolled_back",
             "rebuild_and_rows_mixed", "rebuild_twice", "index_changed", "index_unique_partial", "index_unique_expression",
             "create_typed", "create_and_drop_in_transaction", "create_in_a_ring", "drop_and_create_other_kind",
             "two_tables_in_transaction", "savepoints_rolled_back", "temporary_table", "maintenance"]
