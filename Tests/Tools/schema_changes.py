#!/usr/bin/python3
"""A program that changes its schema, step by step, while it goes on writing.

--init creates its tables (sc_*, or what --prefix says) with data first. Every step has its
own tables, so steps can run alone or in several calls (--start, --count). Each step writes
rows before the change, and immediately after it without a pause (through the same
and through another connection). It waits --settle-ms, and writes again.

    schema_changes.py DB --init --count 0     create the tables only
    schema_changes.py DB                      run all steps on them
    schema_changes.py DB --init               both
    schema_changes.py DB --writer             while another connection writes to the same tables without a pause

Triggers that others put on a table can make DROP COLUMN fail with an error that
names them. If that name contains "cairn", --unhook-command is run, the column
dropped, and --rehook-command run. Without these options the step is skipped.
{table} in a command is replaced by the table's name, {db} by the database.

Prints one JSON line per step. Exit status: 0 no step failed, 1 some did, 2 usage.
"""
import argparse
import json
import os
import random
import shlex
import sqlite3
import subprocess
import sys
import threading
import time

from schema_changes_named import NamedSteps


def quote(name):
    return '"' + name.replace('"', '""') + '"'


class Skip(Exception):
    pass


class Changer(NamedSteps):
    def __init__(self, args):
        self.args = args
        self.rng = random.Random(args.seed)
        self.db = self.connect()
        self.other = self.connect()
        self.rows = 0
        self.notes = []
        self.written = []       # tables of this step, in the order of the last writes

    def connect(self):
        db = sqlite3.connect(self.args.db, timeout=self.args.timeout_ms / 1000,
                             isolation_level=None)
        db.execute("PRAGMA foreign_keys = ON")
        return db

    def named(self, text):
        """Names as the steps have them, with the prefix that was asked for."""
        prefix = self.args.prefix
        if prefix == "sc_":
            return text
        return (text.replace("sc_", prefix).replace("SC_", prefix.upper())
                .replace("sc odd", prefix + "odd"))

    def sql(self, text, *values):
        return self.db.execute(self.named(text), values)

    def exists(self, name):
        return bool(self.sql("SELECT 1 FROM sqlite_master WHERE name = ?", self.named(name)).fetchone())

    # ---- rows

    def value(self, name, declared, unique):
        r = self.rng
        kind = (declared or "").upper()
        if unique:
            number = r.getrandbits(50)     # new in practice, and the same for the same seed
            return number if "INT" in kind else "%s-%d" % (name, number)
        if "BOOL" in kind:
            return r.randrange(2)
        if "INT" in kind:
            return r.randrange(10000)
        if "REAL" in kind or "DOUB" in kind:
            return r.randrange(100000) / 8
        if "DEC" in kind or "NUM" in kind:
            return r.randrange(100000) / 4
        if kind.startswith(("DATE", "TIMESTAMP")):
            day = "20%02d-%02d-%02d" % (r.randrange(100), r.randrange(1, 13), r.randrange(1, 29))
            return day if kind == "DATE" else day + " %02d:59:00.%06d" % (r.randrange(24), r.getrandbits(19))
        if "BLOB" in kind or "BINARY" in kind:
            return r.getrandbits(40).to_bytes(5, "big")
        return r.choice(("ebb", "flood", "Ørsta", "it's", "", "港")) + str(r.randrange(1000))

    def write(self, table, rows=3, db=None):
        """Insert rows with every column filled, then change one row and delete one."""
        db = db or self.db
        table = self.named(table)
        self.written = [t for t in self.written if t != table] + [table]
        columns = db.execute("SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden = 0 "
                             "ORDER BY cid", (table,)).fetchall()
        unique = {c for (c,) in db.execute(
            "SELECT x.name FROM pragma_index_list(?) l, pragma_index_info(l.name) x "
            "WHERE l.\"unique\" AND x.name IS NOT NULL", (table,))}
        unique.update(name for name, _, pk in columns if pk)
        # A reference gets a value its parent has.
        parents = {mine: (parent, theirs) for parent, mine, theirs in db.execute(
            "SELECT \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?)", (table,))}
        names = [name for name, _, _ in columns]
        keys = [name for name, _, pk in columns if pk]
        address = ", ".join(quote(k) for k in keys) or "rowid"
        for _ in range(rows):
            values, places = [], []
            for name, declared, pk in columns:
                if name in parents:
                    parent, theirs = parents[name]
                    places.append("(SELECT %s FROM %s LIMIT 1 OFFSET %d)" % (
                        quote(theirs), quote(parent), self.rng.randrange(5)))
                else:
                    places.append("?")
                    values.append(self.value(name, declared, name in unique))
            db.execute("INSERT INTO %s(%s) VALUES (%s)" % (
                quote(table), ", ".join(map(quote, names)), ", ".join(places)), values)
        plain = [c for c in columns if c[0] not in unique and c[0] not in parents]
        if plain:
            # Every plain column, so also one that is new.
            db.execute("UPDATE %s SET %s WHERE (%s) IN (SELECT %s FROM %s LIMIT 1 OFFSET %d)" % (
                quote(table), ", ".join("%s = ?" % quote(c[0]) for c in plain), address, address,
                quote(table), self.rng.randrange(5)),
                [self.value(name, declared, False) for name, declared, _ in plain])
        db.execute("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM %s LIMIT 1 OFFSET %d)" % (
            quote(table), address, address, quote(table), self.rng.randrange(3, 6)))
        self.rows += rows + 2

    def gap(self, *tables):
        """Writes directly after a change, by this connection and by another one."""
        for table in tables:
            self.write(table)
            self.write(table, db=self.other)

    def around(self, table, *changes, **names):
        """Write, change, write at once; `after` is the table's name after the change."""
        self.write(table)
        for change in changes:
            self.sql(change)
        self.gap(names.get("after", table))

    # ---- the steps

    def add_column_nullable(self):
        self.around("sc_add_null", "ALTER TABLE sc_add_null ADD COLUMN extra TEXT")

    def add_column_not_null_default(self):
        self.around("sc_add_notnull",
                    "ALTER TABLE sc_add_notnull ADD COLUMN grade INTEGER NOT NULL DEFAULT 7")
        # One more row that leaves the column to its default.
        self.sql("INSERT INTO sc_add_notnull(a) VALUES ('by default')")

    def add_column_default_expression(self):
        self.around("sc_add_expr",
                    "ALTER TABLE sc_add_expr ADD COLUMN d1 REAL DEFAULT (-2.5)",
                    "ALTER TABLE sc_add_expr ADD COLUMN d2 BLOB DEFAULT (x'00ff')",
                    "ALTER TABLE sc_add_expr ADD COLUMN d3 TEXT DEFAULT (CAST(12 AS TEXT))",
                    "ALTER TABLE sc_add_expr ADD COLUMN d4 TEXT NOT NULL DEFAULT 'it''s'")
        self.sql("INSERT INTO sc_add_expr(a) VALUES ('by default')")

    def add_column_to_empty_table(self):
        # Only an empty table takes a default that is not constant.
        self.sql("BEGIN IMMEDIATE")
        self.sql("DELETE FROM sc_add_empty")
        self.sql("ALTER TABLE sc_add_empty ADD COLUMN at DATETIME DEFAULT CURRENT_TIMESTAMP")
        self.sql("COMMIT")
        self.sql("INSERT INTO sc_add_empty(a) VALUES ('by default')")
        self.gap("sc_add_empty")

    def add_column_reference(self):
        self.around("sc_add_ref", "ALTER TABLE sc_add_ref ADD COLUMN parent_id INTEGER "
                                  "REFERENCES sc_parent(id) ON DELETE SET NULL")
        # The cascade of the parent reaches the new column.
        self.sql("DELETE FROM sc_parent WHERE id IN (SELECT parent_id FROM sc_add_ref "
                 "WHERE parent_id IS NOT NULL LIMIT 1)")

    def add_column_generated(self):
        self.around("sc_add_gen", "ALTER TABLE sc_add_gen ADD COLUMN twice INTEGER "
                                  "GENERATED ALWAYS AS (b * 2) VIRTUAL")

    def add_columns_several(self):
        self.write("sc_add_many")
        for i in range(6):
            self.sql("ALTER TABLE sc_add_many ADD COLUMN x%d TEXT" % i)
            self.sql("UPDATE sc_add_many SET x%d = 'v' || id" % i)
        self.gap("sc_add_many")

    def rename_column(self):
        self.around("sc_rename_col", "ALTER TABLE sc_rename_col RENAME COLUMN a TO \"a new name\"")

    def rename_key_column(self):
        self.around("sc_rename_key", "ALTER TABLE sc_rename_key RENAME COLUMN id TO number")

    def rename_column_chain(self):
        # Two columns exchange their names.
        self.around("sc_rename_swap", "ALTER TABLE sc_rename_swap RENAME COLUMN a TO tmp",
                    "ALTER TABLE sc_rename_swap RENAME COLUMN c TO a",
                    "ALTER TABLE sc_rename_swap RENAME COLUMN tmp TO c")

    def rename_table(self):
        self.around("sc_rename_tab", "ALTER TABLE sc_rename_tab RENAME TO sc_renamed_tab",
                    after="sc_renamed_tab")

    def rename_table_case(self):
        # SQLite refuses a rename that only changes case, so it takes two.
        self.around("sc_rename_case", "ALTER TABLE sc_rename_case RENAME TO sc_rename_tmp",
                    "ALTER TABLE sc_rename_tmp RENAME TO SC_Rename_Case",
                    after="SC_Rename_Case")

    def rename_table_and_reuse_name(self):
        self.around("sc_reuse", "ALTER TABLE sc_reuse RENAME TO sc_reuse_old",
                    "CREATE TABLE sc_reuse(k TEXT PRIMARY KEY, v REAL)", after="sc_reuse")
        self.gap("sc_reuse_old")

    def rename_parent_table(self):
        self.around("sc_rp_parent", "ALTER TABLE sc_rp_parent RENAME TO sc_rp_parent2",
                    after="sc_rp_parent2")
        self.gap("sc_rp_child")

    def drop_column(self):
        self.write("sc_drop_col")
        self.drop("sc_drop_col", "c")
        self.gap("sc_drop_col")

    def drop(self, table, *columns):
        """Drop columns; what captures the table may have to be taken off for it."""
        def statements():
            for column in columns:
                self.sql("ALTER TABLE %s DROP COLUMN %s" % (table, column))
        try:
            return statements()
        except sqlite3.OperationalError as error:
            if "cairn" not in str(error).lower():
                raise
            self.notes.append(str(error))
            if not self.args.unhook_command:
                self.gap(table)
                raise Skip("no --unhook-command")
        self.command(self.args.unhook_command, self.named(table))
        # In between nothing captures the table; the rehook command must see to these rows.
        if not self.args.quiet_unhooked:
            self.write(table, rows=1)
        statements()
        if not self.args.quiet_unhooked:
            self.gap(table)
        if self.args.rehook_command:
            self.command(self.args.rehook_command, self.named(table))

    def rebuild(self, table, create, copy, indexes=()):
        """The procedure of sqlite.org/lang_altertable.html, section 7."""
        self.write(table)
        self.sql("PRAGMA foreign_keys = OFF")
        try:
            self.sql("BEGIN IMMEDIATE")
            try:
                # Programs that write with foreign keys off may have left broken ones.
                before = self.sql("PRAGMA foreign_key_check").fetchall()
                self.sql(create)
                self.sql(copy)
                self.sql("DROP TABLE " + table)
                self.sql("ALTER TABLE %s_new RENAME TO %s" % (table, table))
                for index in indexes:
                    self.sql(index)
                after = self.sql("PRAGMA foreign_key_check").fetchall()
                if len(after) > len(before):
                    raise sqlite3.IntegrityError("foreign keys broken: %s" % after[:3])
                self.sql("COMMIT")
            except BaseException:
                if self.db.in_transaction:
                    self.sql("ROLLBACK")
                raise
        finally:
            self.sql("PRAGMA foreign_keys = ON")
        self.gap(table)

    def rebuild_type(self):
        self.rebuild("sc_rebuild_type",
                     "CREATE TABLE sc_rebuild_type_new(id INTEGER PRIMARY KEY, a TEXT, b TEXT, c REAL)",
                     "INSERT INTO sc_rebuild_type_new SELECT id, a, b, c FROM sc_rebuild_type",
                     ["CREATE INDEX sc_rebuild_type_b ON sc_rebuild_type(b)"])

    def rebuild_not_null(self):
        self.rebuild("sc_rebuild_nn", "CREATE TABLE sc_rebuild_nn_new("
                     "id INTEGER PRIMARY KEY, a TEXT NOT NULL, b INTEGER, c REAL)",
                     "INSERT INTO sc_rebuild_nn_new SELECT id, coalesce(a, ''), b, c FROM sc_rebuild_nn")

    def rebuild_column_order(self):
        self.rebuild("sc_rebuild_ord", "CREATE TABLE sc_rebuild_ord_new("
                     "c REAL, b INTEGER, a TEXT, id INTEGER PRIMARY KEY)",
                     "INSERT INTO sc_rebuild_ord_new(id, a, b, c) SELECT id, a, b, c FROM sc_rebuild_ord")

    def rebuild_other_key(self):
        self.rebuild("sc_rebuild_key", "CREATE TABLE sc_rebuild_key_new("
                     "id INTEGER, a TEXT, b INTEGER, c REAL, PRIMARY KEY (b, id)) WITHOUT ROWID",
                     "INSERT INTO sc_rebuild_key_new SELECT id, a, coalesce(b, 0), c FROM sc_rebuild_key")

    def rebuild_without_a_column(self):
        # The old way to drop a column: no trigger can object.
        self.rebuild("sc_rebuild_drop", "CREATE TABLE sc_rebuild_drop_new("
                     "id INTEGER PRIMARY KEY, a TEXT, c REAL)",
                     "INSERT INTO sc_rebuild_drop_new SELECT id, a, c FROM sc_rebuild_drop")

    def rebuild_parent(self):
        # The rows of the child must survive, although their parent is dropped for a moment.
        self.rebuild("sc_rb_parent", "CREATE TABLE sc_rb_parent_new("
                     "id INTEGER PRIMARY KEY, a TEXT, b TEXT, c REAL)",
                     "INSERT INTO sc_rb_parent_new SELECT id, a, b, c FROM sc_rb_parent")
        self.gap("sc_rb_child")

    def drop_and_create_same_name(self):
        self.around("sc_again", "DROP TABLE sc_again",
                    "CREATE TABLE sc_again(code TEXT PRIMARY KEY, price DECIMAL(8,2), qty INTEGER)")

    def drop_and_create_in_transaction(self):
        self.write("sc_again_tx")
        self.sql("BEGIN IMMEDIATE")
        self.write("sc_again_tx")
        self.sql("DROP TABLE sc_again_tx")
        self.sql("CREATE TABLE sc_again_tx(a INTEGER, b TEXT)")
        self.write("sc_again_tx")
        self.sql("COMMIT")
        self.gap("sc_again_tx")

    def drop_and_create_same_columns(self):
        # Looks the same afterwards, but every old row is gone.
        create, = self.sql("SELECT sql FROM sqlite_master WHERE name = 'sc_again_same'").fetchone()
        self.around("sc_again_same", "DROP TABLE sc_again_same", create)

    def drop_table(self):
        self.write("sc_drop_tab")
        self.sql("DROP TABLE sc_drop_tab")

    def drop_parent_table(self):
        # With foreign keys on, DROP TABLE first deletes all rows: the cascade empties the child.
        self.write("sc_dp_child")
        self.sql("DROP TABLE sc_dp_parent")
        self.sql("DROP TABLE sc_dp_child")

    def create_table_with_rows(self):
        self.sql("CREATE TABLE sc_new(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT UNIQUE, b BLOB)")
        self.gap("sc_new")
        self.sql("BEGIN IMMEDIATE")
        self.sql("CREATE TABLE sc_new_tx(a INT, b INT, PRIMARY KEY (a, b)) WITHOUT ROWID")
        self.write("sc_new_tx", rows=50)
        self.sql("COMMIT")
        self.gap("sc_new_tx")
        self.sql("CREATE TABLE sc_new_strict(id INTEGER PRIMARY KEY, t TEXT, r REAL, x ANY) STRICT")
        self.gap("sc_new_strict")

    def create_table_as_select(self):
        self.sql("CREATE TABLE sc_new_as AS SELECT id, a || '!' AS a, b * 1.5 AS b FROM sc_source")
        self.gap("sc_new_as")

    def create_odd_names(self):
        self.sql("CREATE TABLE \"sc odd \"\"name\"\" ø\"(\"order\" INTEGER PRIMARY KEY, "
                 "\"a b\" TEXT, \"say \"\"x\"\"\" REAL, \"select\" BLOB)")
        self.gap("sc odd \"name\" ø")

    def indexes(self):
        self.around("sc_index", "CREATE INDEX sc_index_b ON sc_index(b, a DESC)",
                    "CREATE INDEX sc_index_expr ON sc_index(lower(a))",
                    "CREATE INDEX sc_index_part ON sc_index(c) WHERE b > 5000")
        self.sql("DROP INDEX sc_index_b")
        self.gap("sc_index")

    def unique_index(self):
        self.around("sc_unique", "UPDATE sc_unique SET b = id",
                    "CREATE UNIQUE INDEX sc_unique_b ON sc_unique(b)")
        # The same row replaced through the new key.
        self.sql("REPLACE INTO sc_unique(a, b) SELECT 'replaced', b FROM sc_unique LIMIT 1")
        # A unique index that comes, serves a REPLACE and goes before anybody looks leaves no trace that could be found.
        time.sleep(1)
        self.sql("DROP INDEX sc_unique_b")
        # Allowed again now: what copies this must not still hold the old key.
        self.sql("INSERT INTO sc_unique(a, b) SELECT 'double', b FROM sc_unique LIMIT 3")
        self.gap("sc_unique")

    def user_trigger(self):
        self.write("sc_trig")
        self.sql("CREATE TRIGGER sc_trig_ins AFTER INSERT ON sc_trig BEGIN "
                 "INSERT INTO sc_trig_log(what, who) VALUES ('insert', new.id); END")
        self.sql("CREATE TRIGGER sc_trig_upd BEFORE UPDATE ON sc_trig BEGIN "
                 "INSERT INTO sc_trig_log(what, who) VALUES ('update', old.id); "
                 "UPDATE sc_trig_log SET what = what || '+' WHERE who = old.id; END")
        self.sql("CREATE TRIGGER sc_trig_del AFTER DELETE ON sc_trig BEGIN "
                 "DELETE FROM sc_trig_log WHERE who = old.id; END")
        self.gap("sc_trig")
        self.sql("DROP TRIGGER sc_trig_upd")
        self.gap("sc_trig")

    def view(self):
        self.sql("CREATE VIEW sc_view AS SELECT id, a FROM sc_viewed WHERE b > 10")
        self.sql("CREATE TRIGGER sc_view_ins INSTEAD OF INSERT ON sc_view BEGIN "
                 "INSERT INTO sc_viewed(a, b) VALUES (new.a, 11); END")
        self.sql("INSERT INTO sc_view(a) VALUES ('through the view')")
        self.gap("sc_viewed")
        self.sql("DROP VIEW sc_view")
        self.gap("sc_viewed")

    def vacuum(self):
        self.write("sc_nokey")
        # Rowids of tables without INTEGER PRIMARY KEY may change; make holes first.
        self.sql("DELETE FROM sc_nokey WHERE rowid % 3 = 0")
        self.sql("VACUUM")
        self.gap("sc_nokey", "sc_vacuum")

    def alter_without_rowid(self):
        self.around("sc_worowid", "ALTER TABLE sc_worowid ADD COLUMN extra TEXT DEFAULT 'e'",
                    "ALTER TABLE sc_worowid RENAME COLUMN v TO val",
                    "ALTER TABLE sc_worowid RENAME COLUMN k TO \"key\"",
                    "ALTER TABLE sc_worowid RENAME TO sc_worowid2", after="sc_worowid2")

    def alter_without_key(self):
        self.around("sc_nokey_alter", "ALTER TABLE sc_nokey_alter ADD COLUMN extra INTEGER DEFAULT 5",
                    "ALTER TABLE sc_nokey_alter RENAME COLUMN a TO aa")
        # One of several equal rows goes.
        for _ in range(4):
            self.sql("INSERT INTO sc_nokey_alter(aa, b, extra) VALUES ('same', 1, 1)")
        self.sql("DELETE FROM sc_nokey_alter WHERE rowid = "
                 "(SELECT max(rowid) FROM sc_nokey_alter WHERE aa = 'same')")

    def alter_generated(self):
        self.around("sc_gen", "ALTER TABLE sc_gen RENAME COLUMN b TO base",
                    "ALTER TABLE sc_gen ADD COLUMN extra TEXT",
                    "ALTER TABLE sc_gen ADD COLUMN g3 TEXT AS (extra || '/' || base)")

    def virtual_table(self):
        try:
            self.sql("CREATE VIRTUAL TABLE sc_fts USING fts5(title, body)")
        except sqlite3.OperationalError as error:
            if "no such module" in str(error):
                raise Skip(str(error))
            raise
        for db in (self.db, self.other):
            for statement in ("INSERT INTO sc_fts VALUES ('Tide', 'spring tide at noon'), ('Fog', 'dense')",
                              "UPDATE sc_fts SET body = 'neap tide' WHERE title = 'Tide'",
                              "DELETE FROM sc_fts WHERE title = 'Fog'"):
                db.execute(self.named(statement))
        self.gap("sc_viewed")
        self.sql("INSERT INTO sc_fts(sc_fts) VALUES ('optimize')")
        self.sql("ALTER TABLE sc_fts RENAME TO sc_fts2")
        self.sql("DROP TABLE sc_fts2")
        self.gap("sc_viewed")

    def user_version(self):
        version, = self.sql("PRAGMA user_version").fetchone()
        self.sql("PRAGMA user_version = %d" % (version + 1))
        self.gap("sc_viewed")

    def rolled_back_change(self):
        self.sql("BEGIN IMMEDIATE")
        self.sql("ALTER TABLE sc_rolled ADD COLUMN never TEXT")
        self.write("sc_rolled")
        self.sql("DROP TABLE sc_rolled_drop")
        self.sql("CREATE TABLE sc_rolled_new(a)")
        self.sql("ROLLBACK")
        self.gap("sc_rolled", "sc_rolled_drop")

    def change_inside_transaction(self):
        self.sql("BEGIN IMMEDIATE")
        self.write("sc_inside")
        self.sql("ALTER TABLE sc_inside ADD COLUMN mid TEXT NOT NULL DEFAULT 'm'")
        self.write("sc_inside")
        self.sql("SAVEPOINT s")
        self.sql("ALTER TABLE sc_inside RENAME COLUMN a TO undone")
        self.write("sc_inside")
        self.sql("ROLLBACK TO s")
        self.sql("ALTER TABLE sc_inside RENAME COLUMN b TO bb")
        self.write("sc_inside")
        self.sql("COMMIT")
        self.gap("sc_inside")

    def chain(self):
        """Many changes of one table, each with rows at once."""
        self.write("sc_chain")
        name = "sc_chain"
        for change in ("ALTER TABLE {0} ADD COLUMN n1 TEXT", "ALTER TABLE {0} RENAME COLUMN a TO a2",
                       "ALTER TABLE {0} RENAME TO sc_chain2", "ALTER TABLE {0} ADD COLUMN n2 REAL",
                       "CREATE INDEX sc_chain_i ON {0}(n1)", "ALTER TABLE {0} RENAME TO sc_chain3",
                       "ALTER TABLE {0} RENAME COLUMN n1 TO a", "DROP INDEX sc_chain_i",
                       "ALTER TABLE {0} RENAME TO sc_chain"):
            self.sql(change.format(name))
            if "RENAME TO" in change:
                name = change.rsplit(" ", 1)[1]
            self.gap(name)

    STEPS = ["add_column_nullable", "add_column_not_null_default", "add_column_default_expression",
             "add_column_to_empty_table", "add_column_reference", "add_column_generated",
             "add_columns_several", "rename_column", "rename_key_column", "rename_column_chain",
             "rename_table", "rename_table_case", "rename_table_and_reuse_name",
             "rename_parent_table", "drop_column", "rebuild_type", "rebuild_not_null",
             "rebuild_column_order", "rebuild_other_key", "rebuild_without_a_column",
             "rebuild_parent", "drop_and_create_same_name", "drop_and_create_in_transaction",
             "drop_and_create_same_columns", "drop_table", "drop_parent_table",
             "create_table_with_rows", "create_table_as_select", "create_odd_names", "indexes",
             "unique_index", "user_trigger", "view", "vacuum", "alter_without_rowid",
             "alter_without_key", "alter_generated", "virtual_table", "user_version",
             "rolled_back_change", "change_inside_transaction", "chain"] + NamedSteps.NAMED

    # ---- tables

    def tables(self):
        """All that have the prefix, children last."""
        return [n for n, in self.db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%' AND "
            "substr(name, 1, ?) = ? ORDER BY name LIKE '%child', name", (len(self.args.prefix), self.args.prefix))]

    ORDINARY = ["sc_add_null", "sc_add_notnull", "sc_add_expr", "sc_add_ref", "sc_add_gen",
                "sc_add_many", "sc_rename_col", "sc_rename_key", "sc_rename_swap", "sc_rename_tab",
                "sc_rename_case", "sc_reuse", "sc_rp_parent", "sc_drop_col", "sc_rebuild_type",
                "sc_rebuild_nn", "sc_rebuild_ord", "sc_rebuild_key", "sc_rebuild_drop",
                "sc_rb_parent", "sc_dp_parent", "sc_again", "sc_again_tx", "sc_again_same",
                "sc_drop_tab", "sc_source", "sc_index", "sc_unique", "sc_trig", "sc_viewed",
                "sc_vacuum", "sc_rolled", "sc_rolled_drop", "sc_inside", "sc_chain", "sc_parent"]

    def init(self):
        self.sql("BEGIN IMMEDIATE")
        for name in self.ORDINARY:
            self.sql("CREATE TABLE %s(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL)" % name)
        for prefix in ("sc_rp", "sc_rb", "sc_dp"):
            self.sql("CREATE TABLE {0}_child(id INTEGER PRIMARY KEY, note TEXT, parent_id INTEGER "
                     "REFERENCES {0}_parent(id) ON DELETE CASCADE ON UPDATE CASCADE)".format(prefix))
        for step in self.NAMED:
            for table in self.OWN.get(step, ["{t}(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL)"]):
                self.sql("CREATE TABLE " + table.replace("{t}", "sc_" + step))
        self.sql("CREATE TABLE sc_add_empty(id INTEGER PRIMARY KEY, a TEXT)")
        self.sql("CREATE TABLE sc_trig_log(seq INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT, who)")
        self.sql("CREATE TABLE sc_nokey(a TEXT, b INTEGER)")
        self.sql("CREATE TABLE sc_nokey_alter(a TEXT, b INTEGER)")
        self.sql("CREATE TABLE sc_worowid(k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID")
        self.sql("CREATE TABLE sc_gen(id INTEGER PRIMARY KEY, b INTEGER, "
                 "g1 INTEGER AS (b + 1) VIRTUAL, g2 TEXT AS ('#' || b) STORED)")
        for name in self.tables():
            if name not in map(self.named, ("sc_add_empty", "sc_trig_log")):
                self.write(name, rows=25)
        self.sql("COMMIT")
        self.sql("INSERT INTO sc_nokey SELECT 'double', 1 FROM sc_source LIMIT 10")
        # Small keys as well, beside the large ones write() makes.
        for name in self.ORDINARY + ["sc_" + n for n in self.NAMED if n not in self.OWN]:
            self.sql("INSERT OR IGNORE INTO %s(id, a, b, c) VALUES (1, 'one', 1, 1.5), "
                     "(2, NULL, NULL, NULL), (3, '', 0, 0.0)" % name)

    def command(self, template, table):
        text = template.replace("{table}", shlex.quote(table)).replace(
            "{db}", shlex.quote(self.args.db))
        result = subprocess.run(text, shell=True, capture_output=True, text=True)
        self.notes.append("%s: exit %d" % (text, result.returncode))
        if result.returncode:
            raise RuntimeError("%s: %s" % (text, (result.stderr or result.stdout).strip()))

    def step(self, index):
        name = self.STEPS[index]
        self.rng = random.Random("%d:%s" % (self.args.seed, name))
        self.rows, self.notes, self.written = 0, [], []
        writer = Writer(self) if self.args.writer else None
        line = {"step": name, "index": index, "status": "ok"}
        try:
            getattr(self, name)()
        except Skip as reason:
            line["status"] = "skipped"
            self.notes.append(str(reason))
        except (sqlite3.Error, RuntimeError) as error:
            line["status"] = "error"
            line["error"] = str(error)
            if self.db.in_transaction:
                self.sql("ROLLBACK")
        time.sleep(self.args.settle_ms / 1000)
        # Written after the dust has settled, to every table the step may have touched.
        if line["status"] != "error":
            try:
                for table in self.touched(name):
                    self.write(table)
            except sqlite3.Error as error:
                line["status"], line["error"] = "error", "after settling: %s" % error
        if writer:
            writer.ended.set()
            writer.join()
            self.rows += writer.rows
            if writer.error:
                line["status"], line["error"] = "error", "the other program: " + writer.error
        line["rows_written"] = self.rows
        line["tables"] = self.written
        if self.notes:
            line["notes"] = self.notes
        print(json.dumps(line, ensure_ascii=False), flush=True)
        return line["status"]

# The tables that a step leaves, for the rows written after settling.
    LEFT = {
        "add_column_nullable": ["sc_add_null"], "add_column_not_null_default": ["sc_add_notnull"],
        "add_column_default_expression": ["sc_add_expr"],
        "add_column_to_empty_table": ["sc_add_empty"], "add_column_reference": ["sc_add_ref"],
        "add_column_generated": ["sc_add_gen"], "add_columns_several": ["sc_add_many"],
        "rename_column": ["sc_rename_col"], "rename_key_column": ["sc_rename_key"],
        "rename_column_chain": ["sc_rename_swap"], "rename_table": ["sc_renamed_tab"],
        "rename_table_case": ["SC_Rename_Case"],
        "rename_table_and_reuse_name": ["sc_reuse", "sc_reuse_old"],
        "rename_parent_table": ["sc_rp_parent2", "sc_rp_child"], "drop_column": ["sc_drop_col"],
        "rebuild_type": ["sc_rebuild_type"], "rebuild_not_null": ["sc_rebuild_nn"],
        "rebuild_column_order": ["sc_rebuild_ord"], "rebuild_other_key": ["sc_rebuild_key"],
        "rebuild_without_a_column": ["sc_rebuild_drop"],
        "rebuild_parent": ["sc_rb_parent", "sc_rb_child"],
        "drop_and_create_same_name": ["sc_again"], "drop_and_create_in_transaction": ["sc_again_tx"],
        "drop_and_create_same_columns": ["sc_again_same"], "drop_table": ["sc_source"],
        "drop_parent_table": ["sc_source"],
        "create_table_with_rows": ["sc_new", "sc_new_tx", "sc_new_strict"],
        "create_table_as_select": ["sc_new_as"], "create_odd_names": ["sc odd \"name\" ø"],
        "indexes": ["sc_index"], "unique_index": ["sc_unique"],
        "user_trigger": ["sc_trig"], "view": ["sc_viewed"], "vacuum": ["sc_nokey", "sc_vacuum"],
        "alter_without_rowid": ["sc_worowid2"], "alter_without_key": ["sc_nokey_alter"],
        "alter_generated": ["sc_gen"], "virtual_table": ["sc_viewed"],
        "user_version": ["sc_viewed"], "rolled_back_change": ["sc_rolled", "sc_rolled_drop"],
        "change_inside_transaction": ["sc_inside"], "chain": ["sc_chain"],
    }

    def touched(self, name):
        if name in self.LEFT:
            return self.LEFT[name]
        return [t for t in ("sc_" + name, "sc_" + name + "_2", "sc_" + name + "_child") if self.exists(t)]


class Writer(threading.Thread):
    """Another program: writes to the tables of the step, and now and then to others, until it is stopped."""

    def __init__(self, changer):
        super().__init__(daemon=True)
        self.changer, self.rows, self.error = changer, 0, None
        self.ended = threading.Event()
        self.start()

    def run(self):
        program = Changer(self.changer.args)
        program.rng = random.Random(self.changer.rng.random())
        while not self.ended.is_set():
            near = list(self.changer.written)[-3:]
            try:
                tables = program.tables()
                table = program.rng.choice(near if near and program.rng.random() < 0.8 else tables)
                # The columns must still be the same when the values come.
                program.sql("BEGIN IMMEDIATE")
                program.write(table, rows=program.rng.randrange(3))
                program.sql("COMMIT")
            except (sqlite3.Error, IndexError) as error:
                if program.db.in_transaction:
                    program.sql("ROLLBACK")
                # Tables and columns that are no longer what they were a moment ago are part of the game.
                if "cairn" in str(error) or "malformed" in str(error) or "disk" in str(error):
                    self.error = str(error)
            self.ended.wait(program.rng.random() * 0.02)
        self.rows = program.rows
        program.db.close()
        program.other.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("db", metavar="DB", nargs="?")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default="sc_", help="of the names of all tables (default sc_)")
    parser.add_argument("--writer", action="store_true", help="another connection writes meanwhile")
    parser.add_argument("--only", metavar="STEP,...", help="only these steps")
    parser.add_argument("--init", action="store_true", help="create the tables with data first")
    parser.add_argument("--settle-ms", type=float, default=0, help="pause after each change")
    parser.add_argument("--start", type=int, default=0, metavar="K", help="first step, from 0")
    parser.add_argument("--count", type=int, metavar="M", help="number of steps (default: all)")
    parser.add_argument("--timeout-ms", type=int, default=10000, help="busy timeout")
    parser.add_argument("--unhook-command", metavar="TEMPLATE")
    parser.add_argument("--rehook-command", metavar="TEMPLATE")
    parser.add_argument("--quiet-unhooked", action="store_true",
                        help="write nothing between the two commands")
    parser.add_argument("--list", action="store_true", help="list the steps and stop")
    args = parser.parse_args()
    steps = Changer.STEPS
    if args.list:
        for index, name in enumerate(steps):
            print(index, name)
        return 0
    if not args.db:
        parser.error("DB is missing")
    if not args.init and not os.path.isfile(args.db):
        parser.error("no such database: " + args.db)
    changer = Changer(args)
    if args.init:
        changer.init()
        print(json.dumps({"step": "init", "status": "ok", "rows_written": changer.rows}), flush=True)
    chosen = range(len(steps))
    if args.only:
        try:
            chosen = [steps.index(name) for name in args.only.split(",")]
        except ValueError as error:
            parser.error(str(error))
    end = None if args.count is None else args.start + args.count
    results = [changer.step(index) for index in chosen[args.start:end]]
    return 1 if "error" in results else 0


if __name__ == "__main__":
    sys.exit(main())
