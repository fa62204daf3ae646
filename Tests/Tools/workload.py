#!/usr/bin/python3
"""An ordinary program that writes at random to any SQLite database.

It reads the schema, then runs random transactions on the tables it finds, with
every kind of statement that changes rows. It knows nothing of replication and
never touches tables named cairn_* or sqlite_*, virtual tables or their shadow
tables. The same seed and process number give the same statements as long as
the database answers the same (with several processes, the same interleaving).
Only columns left to a default like CURRENT_TIMESTAMP then hold other values.

Constraint errors are part of the game: the statement fails, the transaction
goes on. A busy error rolls the transaction back and draws a new one.

With --fitting, values are those that the declared type means. These are dates
in a DATE column, 0 and 1 in BOOLEAN, no more digits than DECIMAL(10,2) has, and
valid text. Temporary triggers of its own refuse all others.

Unless --no-schema is given, about one transaction in fifty is a small schema
change, on objects of its own only. These are an index workload_ix_<process>_<n>
on a user table, and a table workload_t_<process>. User tables keep their shape.

Prints one JSON line at the end. Exit status: 0 done; 1 the database answered
something this program should never see (an error that names cairn, corruption).
"""
import argparse
import collections
import fnmatch
import json
import os
import random
import re
import signal
import sqlite3
import sys
import time

MARKS = "workload_marks"
TRANSACTIONS_PER_CONNECTION = 40
# Key values stay far from 2**63: once the largest rowid is used, SQLite picks
# rowids at random (not repeatable) or, with AUTOINCREMENT, refuses inserts.
LARGEST_ROWID = 10 ** 15

NAMES = ["Alba", "Zoë", "O'Hara", 'say "hi"', "Łódź", "港", "naïve", "Ω", "x" * 300,
         "semi;colon", "--dash", "new\nline", "tab\t", "%_", "NULL", "0", "1.0", " 7 ", "é", "e\u0301",
         "🚢", "nul\0inside", ""]
ODD = ["''", "' '", "x''", "x'00'", "x'00ff80'", "9223372036854775807", "(-9223372036854775808)",
       "9007199254740993", "4294967296", "-1", "0", "0.0", "1e308", "-1e308", "4.9e-324", "0.1",
       "1e999", "-0.0", "'12'", "'12.0'", "'1e2'", "' 3'", "'abc'", "x'31'", "TRUE",
       "CAST(x'c328ff' AS TEXT)", "CAST(x'610062' AS TEXT)", "zeroblob(5000)"]


def quote(name):
    return '"' + name.replace('"', '""') + '"'


def fits_text(content, length):
    """Whether the bytes of a text are valid, without NUL, and not too long."""
    try:
        text = bytes(content).decode()
    except UnicodeDecodeError:
        return False
    return "\0" not in text and (length is None or len(text) <= length)


def fitting(value, declared):
    """SQL that holds when the value is one that the declared type means."""
    declared = (declared or "").upper()
    numbers = [int(n) for n in re.findall(r"\d+", declared)]
    word = declared.split("(")[0].strip()
    text = "typeof(%s) = 'text' AND fits_text(CAST(%s AS BLOB), %%s)" % (value, value)
    if word.startswith("BOOL"):
        rule = "typeof(%s) = 'integer' AND %s IN (0, 1)" % (value, value)
    elif "INT" in word:
        rule = "typeof(%s) = 'integer'" % value
    elif word in ("DATETIME", "TIMESTAMP"):
        rule = "typeof(%s) = 'text' AND datetime(%s) IS %s AND %s >= '0001'" % ((value,) * 4)
    elif word == "DATE":
        rule = "typeof(%s) = 'text' AND date(%s) IS %s AND %s >= '0001'" % ((value,) * 4)
    elif word == "TIME":
        rule = "typeof(%s) = 'text' AND time(%s) IS %s" % (value, value, value)
    elif word in ("DECIMAL", "NUMERIC"):
        rule = "typeof(%s) IN ('integer', 'real') AND abs(%s) < 1e300" % (value, value)
        if numbers:
            scale = numbers[1] if len(numbers) > 1 else 0
            rule += " AND abs(%s) < 1e%d AND round(%s, %d) = %s" % (value, numbers[0] - scale, value, scale, value)
    elif any(w in word for w in ("REAL", "FLOA", "DOUB")):
        rule = "typeof(%s) = 'real'" % value
    elif word == "BLOB":
        rule = "typeof(%s) = 'blob'" % value
    elif word:
        rule = text % (numbers[0] if numbers else "NULL")
    else:
        rule = "(typeof(%s) IN ('integer', 'real') AND abs(%s) < 1e300 OR %s)" % (value, value, text % "NULL")
    return "(%s IS NULL OR %s)" % (value, rule)


class Busy(Exception):
    """The transaction cannot go on: another process holds a lock."""


class Gone(Exception):
    """SQLite rolled the whole transaction back (OR ROLLBACK, RAISE(ROLLBACK))."""


class SchemaChanged(Exception):
    pass


class Unexpected(Exception):
    pass


class Column:
    def __init__(self, name, declared, notnull, default, pk, generated):
        self.name, self.q, self.declared = name, quote(name), (declared or "").upper()
        self.notnull, self.default, self.pk, self.generated = notnull, default, pk, generated
        t = (declared or "").upper()
        # The affinity rules of sqlite.org/datatype3.html, section 3.1.
        if "INT" in t:
            self.affinity = "integer"
        elif any(w in t for w in ("CHAR", "CLOB", "TEXT")):
            self.affinity = "text"
        elif not t or "BLOB" in t:
            self.affinity = "blob"
        elif any(w in t for w in ("REAL", "FLOA", "DOUB")):
            self.affinity = "real"
        else:
            self.affinity = "numeric"
        self.parent = None       # (table, column) of a foreign key
        self.unique = False      # part of the primary key or a unique index
        self.is_rowid = False


class Table:
    def __init__(self, db, name):
        self.name, self.q = name, quote(name)
        self.columns = [Column(n, t, nn, d, pk, hidden in (2, 3)) for n, t, nn, d, pk, hidden in
                        db.execute("SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM "
                                   "pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid", (name,))]
        by_name = {c.name: c for c in self.columns}
        self.writable = [c for c in self.columns if not c.generated]
        self.without_rowid = bool(db.execute(
            "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?",
            (name,)).fetchone()[0])
        key = sorted((c for c in self.columns if c.pk), key=lambda c: c.pk)
        self.key = key
        indexes = db.execute("SELECT name, origin, partial FROM pragma_index_list(?) "
                             "WHERE \"unique\" ORDER BY name", (name,)).fetchall()
        if (len(key) == 1 and not self.without_rowid
                and not any(origin == "pk" for _, origin, _ in indexes)):
            key[0].is_rowid = True
        # Each unique key: its columns, and the text an ON CONFLICT clause needs.
        self.uniques = []
        if key and key[0].is_rowid:
            self.uniques.append((key, key[0].q))
        for index, origin, partial in indexes:
            parts = db.execute("SELECT name, coll FROM pragma_index_xinfo(?) WHERE key "
                               "ORDER BY seqno", (index,)).fetchall()
            columns = [by_name.get(n) for n, _ in parts]
            for c in columns:
                if c:
                    c.unique = True
            if not partial and all(columns):
                self.uniques.append((columns, ", ".join(
                    "%s COLLATE %s" % (quote(n), quote(coll)) for n, coll in parts)))
        for c in key:
            c.unique = True
        for parent, mine, theirs, seq in db.execute(
                "SELECT \"table\", \"from\", \"to\", seq FROM pragma_foreign_key_list(?) "
                "ORDER BY id, seq", (name,)).fetchall():
            if theirs is None:     # REFERENCES without columns: the parent's primary key
                row = db.execute("SELECT name FROM pragma_table_info(?) WHERE pk = ?",
                                 (parent, seq + 1)).fetchone()
                theirs = row and row[0]
            known = db.execute("SELECT 1 FROM pragma_table_info(?) WHERE name = ?",
                               (parent, theirs)).fetchone()
            if known and mine in by_name:
                by_name[mine].parent = (parent, theirs)
        # The address of one row: rowid under a name no column hides, or the key.
        taken = {c.name.lower() for c in self.columns}
        alias = [a for a in ("rowid", "_rowid_", "oid") if a not in taken]
        if self.without_rowid:
            self.address = ", ".join(c.q for c in key)
        elif key and key[0].is_rowid:
            self.address = key[0].q
        else:
            self.address = alias[0] if alias else self.columns[0].q
        self.plain = [c for c in self.writable if not c.unique] or self.writable


class Program:
    def __init__(self, args):
        self.args = args
        self.rng = random.Random(args.seed * 1000003 + args.process)
        self.patterns = [p for p in (args.tables or "").split(",") if p]
        self.counts = collections.Counter()      # statements that worked, by kind
        self.failed = collections.Counter()      # constraint errors, by kind
        self.errors = collections.Counter()      # any other error, by text
        self.cairn_errors = []
        self.committed = self.rolled_back = self.busy = 0
        self.stale = False                       # the schema must be read again
        self.fresh = args.process * 1000000      # source of values that no other process uses
        self.stop = False
        self.db = None
        self.tables = []

    # ---- connection and schema

    def connect(self):
        if self.db:
            self.db.close()
        self.db = sqlite3.connect(self.args.db, timeout=self.args.timeout_ms / 1000,
                                  isolation_level=None)
        # Values read back are only reused as values, so damage to odd text is fine.
        self.db.text_factory = lambda b: b.decode("utf-8", "replace")
        self.db.execute("PRAGMA recursive_triggers = %d" % (self.rng.random() < 0.4))
        self.db.execute("PRAGMA foreign_keys = %d" % (self.rng.random() < 0.6))
        if self.args.fitting:
            self.refuse_misfits()

    def read_schema(self):
        self.stale = False
        while True:
            try:
                found = []
                for name, in self.db.execute(
                        "SELECT name FROM pragma_table_list WHERE schema = 'main' "
                        "AND type = 'table' ORDER BY name").fetchall():
                    if name.lower().startswith(("cairn_", "sqlite_")) or name == MARKS:
                        continue
                    if self.patterns and not any(fnmatch.fnmatchcase(name, p)
                                                 for p in self.patterns):
                        continue
                    try:
                        table = Table(self.db, name)
                    except TypeError:        # dropped since the list was read
                        continue
                    if table.writable:
                        found.append(table)
                self.tables = found
                if self.args.fitting:
                    self.refuse_misfits()
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                self.busy += 1

    def refuse_misfits(self):
        """Temporary triggers: other programs, and the file, do not see them."""
        self.db.create_function("fits_text", 2, fits_text)
        for number, table in enumerate(self.tables):
            rule = " AND ".join(fitting("new." + c.q, c.declared) for c in table.writable)
            for event in ("INSERT", "UPDATE"):
                name = "fit_%d_%s" % (number, event.lower())
                self.db.execute("DROP TRIGGER IF EXISTS temp." + name)
                self.db.execute("CREATE TEMP TRIGGER %s AFTER %s ON main.%s WHEN NOT (%s) BEGIN "
                                "SELECT RAISE(ABORT, 'does not fit'); END" % (name, event, table.q, rule))

    # ---- running statements

    def run(self, kind, sql, values=()):
        """Run one statement; returns the cursor, or None after a constraint error."""
        inside = self.db.in_transaction
        try:
            cursor = self.db.execute(sql, values)
            self.counts[kind] += 1
            return cursor
        except (sqlite3.IntegrityError, sqlite3.DataError) as error:
            self.note_cairn(error, sql)
            self.failed[kind] += 1
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
            self.note_cairn(error, sql)
            text = str(error)
            if is_busy(error):
                raise Busy(text)
            if "malformed" in text or "not a database" in text or "disk I/O" in text:
                raise Unexpected(text)
            if any(w in text for w in ("no such table", "no such column", "has no column named",
                                       "generated column", "already exists", "no such index",
                                       "schema has changed", "does not match any PRIMARY KEY",
                                       "foreign key mismatch", "values for")):
                self.stale = True
                # An error that stays after rereading (a foreign key to a table that does
                # not exist) is a failed statement like others.
                if self.errors[text] < 3:
                    self.errors[text] += 1
                    raise SchemaChanged(text)
            self.errors[text] += 1
        if inside and not self.db.in_transaction:
            raise Gone()
        return None

    def note_cairn(self, error, sql):
        if "cairn" in str(error).lower():
            self.cairn_errors.append("%s: %s" % (error, sql[:200]))

    # ---- values: each is SQL text of one value

    def fresh_number(self):
        self.fresh += 1
        return self.fresh

    def literal(self, value):
        if isinstance(value, str):
            if "\0" in value:    # SQL text ends at a NUL
                return "CAST(x'%s' AS TEXT)" % value.encode().hex()
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, bytes):
            return "x'%s'" % value.hex()
        return repr(value)

    def offset(self):
        """Mostly near the start: far offsets are slow, and clashes are wanted."""
        return self.rng.randrange(self.rng.choice((5, 30, 200)))

    def existing(self, table, column, n=None):
        """A value present in a column; NULL if the table has fewer rows."""
        return "(SELECT %s FROM %s LIMIT 1 OFFSET %d)" % (
            column.q, table.q, self.offset() if n is None else n)

    def odd(self):
        return self.rng.choice(ODD)

    def fitting_value(self, column):
        """A value that the declared type means."""
        r, word = self.rng, column.declared.split("(")[0].strip()
        if word.startswith("BOOL"):
            return str(r.randrange(2))
        if word in ("DATE", "DATETIME", "TIMESTAMP"):
            day = "%04d-%02d-%02d" % (r.randrange(1, 10000), r.randrange(1, 13), r.randrange(1, 29))
            return self.literal(day if word == "DATE" else "%s %02d:%02d:%02d" % (
                day, r.randrange(24), r.randrange(60), r.randrange(60)))
        if word == "TIME":
            return self.literal("%02d:%02d:%02d" % (r.randrange(24), r.randrange(60), r.randrange(60)))
        if word == "BLOB":
            return self.literal(r.getrandbits(64).to_bytes(8, "big") * r.choice((0, 1, 1, 40, 800)))
        if word in ("DECIMAL", "NUMERIC"):
            return repr(r.randrange(1000) / 10)
        if column.affinity == "text" or word and column.affinity in ("numeric", "blob"):
            return self.literal(r.choice([n for n in NAMES if "\0" not in n]) + str(r.randrange(1000)))
        return None

    def typical(self, column):
        r = self.rng
        if self.args.fitting and r.random() < 0.95:
            value = self.fitting_value(column)
            if value is not None:
                return value
        if column.affinity in ("integer", "numeric"):
            if column.affinity == "numeric" and r.random() < 0.5:
                return repr(r.randrange(100000) / 100)
            return str(r.choice((r.randrange(2), r.randrange(50), r.randrange(100000),
                                 -r.randrange(1000), r.randrange(2 ** 40))))
        if column.affinity == "real":
            return repr(r.choice((r.randrange(100), r.uniform(-1000, 1000), r.gauss(0, 1e-5))))
        if column.affinity == "text" or r.random() < 0.5:
            text = r.choice(NAMES)
            return self.literal(text + str(r.randrange(1000)) if r.random() < 0.5 else text)
        return self.literal(r.getrandbits(64).to_bytes(8, "big") * r.choice((0, 1, 1, 40, 800)))

    def new_key(self, column):
        """A value for a key column: mostly new, sometimes one that may clash."""
        r = self.rng
        if column.is_rowid:
            return str(r.choice((r.randrange(1, 600), self.fresh_number(), -r.randrange(1, 600),
                                 LARGEST_ROWID - r.randrange(10 ** 14))))
        if r.random() < 0.08:
            return self.odd()
        if column.affinity == "text":
            return self.literal("%s%d" % (r.choice(("k", "K", "ключ", "")), self.fresh_number()))
        return str(r.choice((self.fresh_number(), r.randrange(600))))

    def value(self, table, column):
        r = self.rng
        if column.parent and r.random() < 0.92:
            parent, theirs = column.parent
            if not column.notnull and r.random() < 0.15:
                return "NULL"
            return "(SELECT %s FROM %s LIMIT 1 OFFSET %d)" % (
                quote(theirs), quote(parent), self.offset())
        if column.unique:
            return self.new_key(column)
        if not column.notnull and r.random() < 0.1:
            return "NULL"
        choice = r.random()
        if choice < (0.02 if self.args.fitting else 0.12):
            return self.odd()
        # Values of the same column satisfy whatever CHECK there is.
        if choice < 0.35:
            return self.existing(table, column)
        return self.typical(column)

    def new_row(self, table, auto):
        """(columns, values) of a row to insert."""
        r = self.rng
        columns, values = [], []
        # Half the rows are varied copies of another row, for tables with strict CHECKs.
        model = self.offset() if r.random() < 0.5 else None
        for c in table.writable:
            if c.is_rowid and auto:
                if r.random() < 0.7:
                    continue
                values.append("NULL")
            elif c.default is not None and r.random() < 0.3:
                continue
            elif model is not None and not c.unique and r.random() < 0.8:
                values.append(self.existing(table, c, model))
            else:
                values.append(self.value(table, c))
            columns.append(c)
        return columns, values

    def where(self, table, rows=1):
        """A condition that holds for up to that many rows."""
        inner = "SELECT %s FROM %s LIMIT %d OFFSET %d" % (
            table.address, table.q, rows, self.offset())
        if self.rng.random() < 0.3 and not table.without_rowid:
            # The newest rows instead of the oldest.
            inner = "SELECT %s FROM %s ORDER BY 1 DESC LIMIT %d OFFSET %d" % (
                table.address, table.q, rows, self.offset())
        return "(%s) IN (%s)" % (table.address, inner)

    # ---- statements

    def insert_text(self, table, verb, auto):
        columns, values = self.new_row(table, auto)
        if not columns:
            return "%s INTO %s DEFAULT VALUES" % (verb, table.q), columns
        return "%s INTO %s(%s) VALUES (%s)" % (
            verb, table.q, ", ".join(c.q for c in columns), ", ".join(values)), columns

    def insert_auto(self, table):
        self.run("insert", self.insert_text(table, "INSERT", True)[0])

    def insert_key(self, table):
        self.run("insert_key", self.insert_text(table, "INSERT", False)[0])

    def insert_values(self, table):
        columns, first = self.new_row(table, True)
        if not columns:
            return
        rows = [first] + [[self.value(table, c) if not c.is_rowid else "NULL" for c in columns]
                          for _ in range(self.rng.randrange(1, 12))]
        self.run("insert_values", "INSERT INTO %s(%s) VALUES %s" % (
            table.q, ", ".join(c.q for c in columns),
            ", ".join("(%s)" % ", ".join(r) for r in rows)))

    def insert_select(self, table, rows=None, kind="insert_select", verb="INSERT"):
        """Copy rows of the table into itself, under keys moved by one fresh step."""
        rows = rows or self.rng.randrange(2, 30)
        self.fresh += 1000000
        step = self.fresh
        columns, values = [], []
        for c in table.writable:
            if c.is_rowid:
                continue
            columns.append(c)
            if not c.unique:
                values.append(c.q)
            elif c.parent and len(table.writable) > 1:
                values.append(c.q)       # moving it would leave its parent
            elif c.affinity == "text":
                values.append("%s || '/%d'" % (c.q, step))
            else:
                values.append("%s + %d" % (c.q, step))
        if not columns:
            return
        self.run(kind, "%s INTO %s(%s) SELECT %s FROM %s LIMIT %d OFFSET %d" % (
            verb, table.q, ", ".join(c.q for c in columns), ", ".join(values),
            table.q, rows, self.offset()))

    def replace_key(self, table):
        """REPLACE a row that is there, found by a primary or a secondary unique key."""
        if not table.uniques:
            return self.run("insert_or_replace",
                            self.insert_text(table, "INSERT OR REPLACE", True)[0])
        key, _ = self.rng.choice(table.uniques)
        n = self.offset()
        values = [self.existing(table, c, n) if c in key
                  else "NULL" if c.is_rowid
                  else self.value(table, c) for c in table.writable]
        verb = self.rng.choice(("REPLACE", "INSERT OR REPLACE"))
        kind = "replace_primary" if key == table.key else "replace_secondary"
        self.run(kind, "%s INTO %s(%s) VALUES (%s)" % (
            verb, table.q, ", ".join(c.q for c in table.writable), ", ".join(values)))

    def replace_many(self, table):
        """One REPLACE that hits several old rows through different unique keys."""
        values = [self.existing(table, c) if c.unique else self.value(table, c)
                  for c in table.writable]
        self.run("replace_many", "REPLACE INTO %s(%s) VALUES (%s)" % (
            table.q, ", ".join(c.q for c in table.writable), ", ".join(values)))

    def insert_or(self, table):
        word = self.rng.choice(("IGNORE", "IGNORE", "IGNORE", "FAIL", "ABORT", "ROLLBACK"))
        # OR ROLLBACK ends the transaction when it clashes, so it stays rare.
        if word == "ROLLBACK" and self.rng.random() < 0.7:
            word = "IGNORE"
        verb = "INSERT OR " + word
        if self.rng.random() < 0.3:
            columns = table.writable
            rows = ["(%s)" % ", ".join(self.existing(table, c) if c.unique and i % 2
                                       else self.value(table, c) for c in columns)
                    for i in range(4)]
            sql = "%s INTO %s(%s) VALUES %s" % (
                verb, table.q, ", ".join(c.q for c in columns), ", ".join(rows))
        else:
            sql = self.insert_text(table, verb, self.rng.random() < 0.3)[0]
        self.run("insert_or_" + word.lower(), sql)

    def upsert(self, table):
        r = self.rng
        if not table.uniques or r.random() < 0.1:
            return self.run("upsert_any", self.insert_text(
                table, "INSERT", False)[0] + " ON CONFLICT DO NOTHING")
        key, target = r.choice(table.uniques)
        n = self.offset()
        columns = table.writable
        values = [self.existing(table, c, n) if c in key and r.random() < 0.8
                  else self.value(table, c) for c in columns]
        sql = "INSERT INTO %s(%s) VALUES (%s) ON CONFLICT(%s) DO " % (
            table.q, ", ".join(c.q for c in columns), ", ".join(values), target)
        if r.random() < 0.25:
            self.run("upsert_nothing", sql + "NOTHING")
            return
        # Now and then the update also moves the key.
        pool = table.plain if r.random() < 0.85 else table.writable
        changed = r.sample(pool, min(len(pool), r.randrange(1, 4)))
        sql += "UPDATE SET " + ", ".join(
            "%s = %s" % (c.q, r.choice(("excluded." + c.q, "%s.%s" % (table.q, c.q),
                                        self.value(table, c)))) for c in changed)
        if r.random() < 0.2:
            sql += " WHERE excluded.%s IS NOT %s.%s" % (
                changed[0].q, table.q, changed[0].q)
        self.run("upsert_update", sql)

    def update_values(self, table):
        r = self.rng
        changed = r.sample(table.plain, min(len(table.plain), r.randrange(1, 4)))
        rows = r.choice((1, 1, 1, 5, 40))
        self.run("update" if rows == 1 else "update_range", "UPDATE %s SET %s WHERE %s" % (
            table.q, ", ".join("%s = %s" % (c.q, self.value(table, c)) for c in changed),
            self.where(table, rows)))

    def update_key(self, table):
        """Give rows another key: one row a new value, or several a shifted one."""
        r = self.rng
        keys = [c for c in table.writable if c.unique]
        if not keys:
            return self.update_values(table)
        c = r.choice(keys)
        if r.random() < 0.3 and (c.affinity != "text"):
            self.run("update_key_range", "UPDATE %s SET %s = %s + %d WHERE %s" % (
                table.q, c.q, c.q, r.choice((1, -1, 1000, self.fresh_number())),
                self.where(table, r.randrange(2, 30))))
        else:
            self.run("update_key", "UPDATE %s SET %s = %s WHERE %s" % (
                table.q, c.q, self.value(table, c), self.where(table)))

    def update_nothing(self, table):
        c = self.rng.choice(table.writable)
        self.run("update_noop", "UPDATE %s SET %s = %s WHERE %s" % (
            table.q, c.q, c.q, self.where(table, self.rng.choice((1, 20)))))

    def update_or_replace(self, table):
        """Move a row onto a key another row has, which deletes that one."""
        keys = [c for c in table.writable if c.unique]
        c = self.rng.choice(keys or table.writable)
        word = self.rng.choice(("REPLACE", "REPLACE", "REPLACE", "IGNORE", "FAIL"))
        self.run("update_or_" + word.lower(), "UPDATE OR %s %s SET %s = %s WHERE %s" % (
            word, table.q, c.q, self.existing(table, c), self.where(table, self.rng.choice((1, 3)))))

    def swap(self, table):
        """Two rows exchange a unique value, through a temporary one."""
        singles = [key[0] for key, _ in table.uniques if len(key) == 1 and not key[0].generated]
        if not singles:
            return self.update_key(table)
        c = self.rng.choice(singles)
        cursor = self.run("read", "SELECT %s FROM %s WHERE %s IS NOT NULL LIMIT 2 OFFSET %d" % (
            c.q, table.q, c.q, self.offset()))
        pair = cursor.fetchall() if cursor else []
        if len(pair) < 2:
            return self.insert_auto(table)
        one, two = pair[0][0], pair[1][0]
        if c.affinity == "text":
            other = "tmp%d" % self.fresh_number()
        else:
            other = -LARGEST_ROWID - self.fresh_number()
        sql = "UPDATE %s SET %s = ? WHERE %s = ?" % (table.q, c.q, c.q)
        for new, old in ((other, one), (one, two), (two, other)):
            if self.run("swap", sql, (new, old)) is None:
                return

    def delete_one(self, table):
        self.run("delete", "DELETE FROM %s WHERE %s" % (table.q, self.where(table)))

    def delete_range(self, table, rows=None):
        rows = rows or self.rng.randrange(2, 40)
        self.run("delete_range", "DELETE FROM %s WHERE %s" % (table.q, self.where(table, rows)))

    def delete_insert(self, table):
        """The same row deleted and inserted again, maybe changed: nothing or an update."""
        cursor = self.run("read", "SELECT %s FROM %s LIMIT 1 OFFSET %d" % (
            ", ".join(c.q for c in table.writable), table.q, self.offset()))
        row = cursor.fetchone() if cursor else None
        if not row:
            return self.insert_auto(table)
        key = table.key or table.writable
        if self.run("delete", "DELETE FROM %s WHERE %s" % (
                table.q, " AND ".join("%s IS ?" % c.q for c in key)),
                [row[table.writable.index(c)] for c in key]) is None:
            return
        row = list(row)
        if self.rng.random() < 0.5:
            row[table.writable.index(self.rng.choice(table.plain))] = self.rng.choice(NAMES)
        self.run("reinsert", "INSERT INTO %s(%s) VALUES (%s)" % (
            table.q, ", ".join(c.q for c in table.writable), ", ".join("?" * len(row))), row)

    def big(self, table):
        """A thousand rows at once."""
        choice = self.rng.random()
        if choice < 0.5:
            # Doubling, because the table may have few rows to copy.
            for _ in range(6):
                self.insert_select(table, self.rng.choice((200, 500)), "big_insert",
                                   "INSERT OR IGNORE")
        elif choice < 0.75:
            c = self.rng.choice(table.plain)
            self.run("big_update", "UPDATE %s SET %s = %s WHERE %s" % (
                table.q, c.q, self.value(table, c), self.where(table, 1000)))
        else:
            for _ in range(1000):
                self.insert_auto(table)

    # ---- transactions

    def statement(self):
        r = self.rng
        table = r.choice(self.tables)
        # Keep every table between a few rows and a few thousand.
        cursor = self.run("read", "SELECT count(*) FROM (SELECT 1 FROM %s LIMIT 3001)" % table.q)
        size = cursor.fetchone()[0] if cursor else 0
        if size < 12:
            r.choice((self.insert_auto, self.insert_key, self.insert_values))(table)
        elif size > 3000 and r.random() < 0.4:
            # Not on tables that came with more rows than this program would make.
            self.delete_range(table, r.choice((30, 400)))
        else:
            choices = ((self.insert_auto, 12), (self.insert_key, 10), (self.insert_values, 6),
                       (self.insert_select, 4), (self.replace_key, 8), (self.replace_many, 3),
                       (self.insert_or, 6), (self.upsert, 10), (self.update_values, 14),
                       (self.update_key, 8), (self.update_nothing, 3),
                       (self.update_or_replace, 5), (self.swap, 4), (self.delete_one, 10),
                       (self.delete_range, 3), (self.delete_insert, 3))
            r.choices([c for c, _ in choices], [w for _, w in choices])[0](table)

    def statements(self, depth=0):
        r = self.rng
        for _ in range(r.choice((1, 1, 2, 3, 5, 8))):
            if depth < 3 and r.random() < 0.12:
                name = "sp%d" % depth
                self.run("savepoint", "SAVEPOINT " + name)
                self.statements(depth + 1)
                if r.random() < 0.5:
                    self.run("rollback_to", "ROLLBACK TO " + name)
                    if r.random() < 0.5:
                        self.statement()
                self.run("release", "RELEASE " + name)
            else:
                self.statement()

    def change_schema(self):
        """A schema change on an object of this program's own."""
        r, me = self.rng, self.args.process
        mine = "workload_t_%d" % me
        have = any(t.name == mine for t in self.tables)
        choice = r.random()
        if choice < 0.6 or self.patterns:
            name = quote("workload_ix_%d_%d" % (me, r.randrange(3)))
            table = r.choice(self.tables)
            c = r.choice(table.columns)
            self.run("drop_index", "DROP INDEX IF EXISTS " + name)
            if r.random() < 0.7:
                self.run("create_index", "CREATE INDEX %s ON %s(%s)" % (name, table.q, c.q))
        elif not have:
            self.run("create_table", "CREATE TABLE %s(%s, a TEXT, b)" % (mine, r.choice((
                "id INTEGER PRIMARY KEY", "id INT UNIQUE", "id TEXT PRIMARY KEY"))))
            for i in range(5):
                self.run("insert", "INSERT INTO %s VALUES (?, ?, ?)" % mine, (i, "a%d" % i, i / 4))
        elif choice < 0.9:
            self.run("add_column", "ALTER TABLE %s ADD COLUMN c%d %s" % (
                mine, self.fresh_number(), r.choice(("", "TEXT", "INTEGER NOT NULL DEFAULT 7"))))
            self.run("update", "UPDATE %s SET a = a || '+'" % mine)
        else:
            self.run("drop_table", "DROP TABLE " + mine)
        return True

    def transaction(self, seq):
        """One transaction. True committed, False rolled back, None nothing to count."""
        r = self.rng
        schema = not self.args.no_schema and r.random() < 0.02
        if not schema and not self.args.mark and r.random() < 0.1:
            # Without BEGIN: every statement commits by itself.
            self.statement()
            return True
        self.run("begin", "BEGIN " + r.choices(("IMMEDIATE", "DEFERRED", "EXCLUSIVE"), (6, 3, 1))[0])
        if schema:
            self.change_schema()
        elif r.random() < 0.02:
            self.big(r.choice(self.tables))
        else:
            self.statements()
        if self.args.mark:
            self.run("mark", "INSERT INTO %s VALUES (?, ?)" % MARKS, (self.args.process, seq))
        if r.random() < 0.1:
            self.db.execute("ROLLBACK")
            if schema:
                self.read_schema()
            return False
        if self.run("commit", "COMMIT") is None:
            # A deferred foreign key is still broken.
            return False
        if schema:
            self.read_schema()
        return True

    def start_marks(self):
        """The table that ties what --log acknowledges to what the database holds."""
        if not self.args.mark:
            return 0
        while True:
            try:
                if not self.db.execute("SELECT 1 FROM sqlite_master WHERE name = ?",
                                       (MARKS,)).fetchone():
                    self.db.execute("CREATE TABLE IF NOT EXISTS %s(process INTEGER, seq INTEGER, "
                                    "PRIMARY KEY (process, seq))" % MARKS)
                return self.db.execute("SELECT coalesce(max(seq), 0) FROM %s WHERE process = ?"
                                       % MARKS, (self.args.process,)).fetchone()[0]
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise

    def main(self):
        args = self.args
        self.connect()
        seq = self.start_marks()
        self.read_schema()
        if not self.tables:
            print("no tables to write to", file=sys.stderr)
            return 2
        log = open(args.log, "ab") if args.log else None
        start = time.monotonic()
        done, problem = 0, None
        while (not self.stop and not problem
               and (args.transactions is None or done < args.transactions)
               and (args.seconds is None or time.monotonic() - start < args.seconds)):
            if done % TRANSACTIONS_PER_CONNECTION == TRANSACTIONS_PER_CONNECTION - 1:
                self.connect()
            outcome = None
            try:
                outcome = self.transaction(seq + 1)
                done += 1
            except Busy:
                self.busy += 1
            except Gone:
                outcome = False
                done += 1
            except SchemaChanged:
                # The changes of the transaction so far go; the next one knows the new schema.
                done += 1
                outcome = False
            except Unexpected as error:
                problem = str(error)
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            if outcome:
                seq += 1
                self.committed += 1
                if log:
                    log.write(b"%d\n" % seq)
                    log.flush()
                    os.fsync(log.fileno())
            elif outcome is False:
                self.rolled_back += 1
            if (self.stale or not outcome) and not problem:
                # After a rollback also without need: it is cheap, and finds new tables.
                self.read_schema()
                if not self.tables:
                    problem = "no tables left"
            if args.pause_ms:
                time.sleep(args.pause_ms / 1000)
        if problem is None and self.cairn_errors:
            problem = self.cairn_errors[0]
        elapsed = time.monotonic() - start
        print(json.dumps({
            "process": args.process, "seed": args.seed, "committed": self.committed,
            "rolled_back": self.rolled_back, "busy": self.busy, "last_seq": seq,
            "seconds": round(elapsed, 2),
            "per_second": round(done / elapsed, 1) if elapsed else 0,
            "statements": dict(sorted(self.counts.items())),
            "constraint_errors": dict(sorted(self.failed.items())),
            "other_errors": dict(self.errors.most_common(20)),
            "cairn_errors": len(self.cairn_errors), "problem": problem}, ensure_ascii=False))
        return 1 if problem else 0


def is_busy(error):
    text = str(error)
    return "locked" in text or "busy" in text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("db", metavar="DB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--process", type=int, default=0, help="number of this process")
    parser.add_argument("--transactions", type=int, help="stop after this many (rolled back ones too)")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--tables", metavar="P,...", help="only tables matching these patterns")
    parser.add_argument("--fitting", action="store_true", help="only values that the declared types mean")
    parser.add_argument("--no-schema", action="store_true", help="no schema changes at all")
    parser.add_argument("--pause-ms", type=float, default=0, help="wait after each transaction")
    parser.add_argument("--timeout-ms", type=int, default=5000, help="busy timeout")
    parser.add_argument("--log", metavar="FILE", help="append the number of each commit, synced")
    parser.add_argument("--mark", action="store_true",
                        help="each transaction also inserts (process, seq) into " + MARKS)
    args = parser.parse_args()
    if args.transactions is None and args.seconds is None:
        parser.error("give --transactions, --seconds or both")
    if not os.path.isfile(args.db):
        parser.error("no such database: " + args.db)
    program = Program(args)

    def stop(signum, frame):
        program.stop = True
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return program.main()


if __name__ == "__main__":
    sys.exit(main())
