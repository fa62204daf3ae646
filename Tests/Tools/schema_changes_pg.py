#!/usr/bin/python3
"""A program that changes its schema in PostgreSQL, step by step, while it and another go on writing.

--init creates the tables with data first. Every step has its own tables, named after it with --prefix in front. So
steps can run alone, in any order, or in several calls (--start, --count). Each step writes rows before the change, with
it if it is a transaction, and immediately after it. Meanwhile a second connection writes to the same tables without a
pause, whatever their columns are at that moment. After --settle-ms the step writes once more.

    schema_changes_pg.py URL --init --count 0     create the tables only
    schema_changes_pg.py URL                      run all steps on them
    schema_changes_pg.py URL --only swap_table_names --init

Prints one JSON line per step; `stop` in it says that a replication may stop for that step. Exit status: 0 no step
failed, 1 some did, 2 usage.
"""
import argparse
import itertools
import json
import random
import sys
import threading
import time

import libpq
from libpq import literal, quote

STEPS = []          # (name, statements that make its tables, function, may stop)

BASE = "CREATE TABLE {t}(id bigint PRIMARY KEY, a text, b int, c numeric(10,2), at timestamptz, big text)"
CHILD = "CREATE TABLE {t}_child(id bigint PRIMARY KEY, note text, parent_id bigint)"


def step(*setup, stop=False):
    """Declares a step. {t} is its table, {p} the prefix."""
    def add(function):
        STEPS.append((function.__name__, setup or (BASE,), function, stop))
        return function
    return add


def simple(name, *statements, setup=(BASE,), after="{t}", stop=False):
    """A step that writes, runs the statements one after the other, and writes at once."""
    STEPS.append((name, setup, lambda x: x.around(*statements, after=after), stop))


# Errors that a program has to expect while another one changes the schema under it.
EXPECTED = ("40P01", "40001", "55P03", "42P01", "42703", "42704", "42804", "42P10", "0A000", "XX000", "428C9", "42P07", "3F000")


# ---- rows

class Columns:
    """The columns of a table at this moment."""

    def __init__(self, db, table):
        where = literal(table) + "::regclass"
        self.rows = db.texts("""
            SELECT attname, t.typname, t.typtype, attnotnull, atthasdef, attidentity, attgenerated, atttypmod,
              (SELECT string_agg(enumlabel, E'\\x1f' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid),
              (SELECT string_agg(u.typname, ',' ORDER BY x.attnum) FROM pg_attribute x JOIN pg_type u ON u.oid = x.atttypid
               WHERE t.typtype = 'c' AND x.attrelid = t.typrelid AND x.attnum > 0 AND NOT x.attisdropped),
              coalesce((SELECT e.typname FROM pg_type e WHERE e.oid = t.typelem AND t.typcategory = 'A'), ''),
              EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = attrelid AND i.indisunique AND attnum = ANY (i.indkey))
              OR EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conrelid = attrelid AND k.contype = 'x' AND attnum = ANY (k.conkey)),
              (SELECT format('(SELECT %%I FROM %%I.%%I ORDER BY random() LIMIT 1)', f.attname, s.nspname, p.relname)
               FROM pg_constraint k JOIN pg_attribute f ON f.attrelid = k.confrelid AND f.attnum = k.confkey[1]
               JOIN pg_class p ON p.oid = k.confrelid JOIN pg_namespace s ON s.oid = p.relnamespace
               WHERE k.conrelid = a.attrelid AND k.contype = 'f' AND k.conkey[1] = a.attnum LIMIT 1),
              EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = attrelid AND i.indisunique AND i.indexprs IS NOT NULL)
            FROM pg_attribute a JOIN pg_type o ON o.oid = atttypid
            JOIN pg_type t ON t.oid = coalesce(nullif(o.typbasetype, 0), o.oid)
            WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum""" % where)


def word(r):
    return r.choice(("ebb", "flood", "Ørsta", "it's", "", "港", "back\\slash", "tab\t")) + str(r.randrange(1000))


def value(r, name, kind, typtype, modifier, labels, parts, element, unique):
    """The text of a random value; new in practice where it has to be unique."""
    if labels:
        return r.choice(labels.split("\x1f"))
    if typtype == "c":
        return "(%s)" % ",".join('"%s"' % value(r, "", p, "b", -1, None, None, "", False).replace("\\", "\\\\").replace('"', '""')
                                 for p in parts.split(","))
    if element:
        return "{%s}" % ",".join(value(r, "", element, "b", -1, None, None, "", False) if "int" in element or element == "numeric"
                                 else '"w%d"' % r.randrange(100) for _ in range(r.randrange(3)))
    if name == "region":
        return str(r.randrange(100))
    if kind in ("int4", "int8", "oid"):
        return str(r.getrandbits(31 if kind == "int4" else 45) if unique else r.randrange(10000))
    if kind == "int2":
        return str(r.randrange(30000))
    if kind == "numeric":
        digits = ((modifier - 4) >> 16) if modifier > 0 else 12
        scale = ((modifier - 4) & 0x7FF) if modifier > 0 else 3
        return "%d.%s" % (r.randrange(10 ** max(min(digits - scale, 9), 1)), str(r.randrange(10 ** min(scale, 6))).zfill(min(scale, 6))
                          ) if scale else str(r.randrange(10 ** min(digits, 9)))
    if kind in ("float4", "float8"):
        return repr(r.choice((-0.0, 0.0, r.randrange(100000) / 8, 1e300 if kind == "float8" else 1e30)))
    if kind == "bool":
        return r.choice("tf")
    if kind in ("timestamp", "timestamptz"):
        return "20%02d-%02d-%02d %02d:%02d:%02d.%06d" % (r.randrange(100), r.randrange(1, 13), r.randrange(1, 29), r.randrange(24),
                                                         r.randrange(60), r.randrange(60), r.getrandbits(19))
    if kind == "date":
        return "20%02d-%02d-%02d" % (r.randrange(100), r.randrange(1, 13), r.randrange(1, 29))
    if kind == "uuid":
        return "%032x" % r.getrandbits(128)
    if kind == "bytea":
        return "\\x" + r.getrandbits(80).to_bytes(10, "big").hex()
    if kind in ("json", "jsonb"):
        return json.dumps({"k": r.randrange(100), "w": word(r)}, ensure_ascii=False)
    if kind == "interval":
        return "%d days %02d:00:00" % (r.randrange(100), r.randrange(24))
    if kind == "int4range":
        low = r.getrandbits(30)
        return "[%d,%d)" % (low, low + 1)
    if name == "big" and r.random() < 0.3:
        return "%x" % r.getrandbits(4 * r.randrange(3000, 9000))
    text = "%d-%s" % (r.getrandbits(45), kind[0]) if unique else word(r)
    return text[:modifier - 4] if modifier > 0 else text


def row(r, columns, keyless=False):
    """Names and SQL of values for an insert."""
    names, values = [], []
    for name, kind, typtype, notnull, default, identity, generated, mod, labels, parts, element, unique, parent, expr in columns:
        if generated or identity == "a" or ((default == "t" or identity) and r.random() < 0.3):
            continue
        names.append(quote(name))
        if parent:
            values.append(parent)
        elif notnull != "t" and unique != "t" and r.random() < 0.08:
            values.append("NULL")
        else:
            values.append(literal(value(r, name, kind, typtype, int(mod), labels, parts, element, unique == "t" or expr == "t")))
    return names, values


def owner(prefix, name):
    """The step that a table belongs to."""
    if not name.startswith(prefix):
        return None
    found = [n for n, _, _, _ in STEPS if name[len(prefix):].startswith(n)]
    return max(found, key=len, default=None)


class Program:
    """One connection of a program that writes to whatever columns there are."""

    def __init__(self, url, rng):
        self.db = libpq.Connection(url, "schema_changes")
        self.db.run("SET lock_timeout = '60s'")
        self.rng = rng
        self.rows = 0

    def tables(self, prefix, step):
        """The tables of a step, quoted. regclass would print the number of a table that has just been dropped."""
        return [quoted for quoted, schema, name in self.db.texts("""
            SELECT format('%%I.%%I', nspname, relname), nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
            WHERE relkind IN ('r', 'p') AND NOT relispartition AND relpersistence <> 't' AND nspname <> 'pg_catalog'
            AND %s IN (left(relname, %d), left(nspname, %d))""" % (literal(prefix), len(prefix), len(prefix)))
            if owner(prefix, name if schema == "public" else schema) == step]

    def write(self, table, rows=3):
        """Insert rows, change one by some columns, delete one; within whatever transaction is open."""
        r = self.rng
        columns = Columns(self.db, table).rows
        for _ in range(rows):
            names, values = row(r, columns)
            if names:
                self.attempt("INSERT INTO %s(%s) VALUES (%s)" % (table, ", ".join(names), ", ".join(values)))
            else:
                self.attempt("INSERT INTO %s DEFAULT VALUES" % table)
        one = "(tableoid, ctid) = (SELECT tableoid, ctid FROM %s ORDER BY random() LIMIT 1)" % table
        names, values = row(r, columns)
        pairs = [p for p, c in zip(zip(names, values), names) if r.random() < 0.6]
        plain = {quote(c[0]) for c in columns if c[11] == "f"}
        pairs = [p for p in pairs if p[0] in plain or r.random() < 0.15]
        if pairs:
            self.attempt("UPDATE %s SET %s WHERE %s" % (table, ", ".join("%s = %s" % p for p in pairs), one))
        if r.random() < 0.5:
            self.attempt("DELETE FROM %s WHERE %s AND (SELECT count(*) FROM %s) > 12" % (table, one, table))

    def attempt(self, sql):
        """Constraint errors are part of the game, also within a transaction."""
        nested = self.db.in_transaction
        if nested:
            self.db.run("SAVEPOINT one")
        try:
            self.rows += self.db.run(sql)
        except libpq.Error as error:
            if error.state[:2] not in ("23",):
                raise
            if nested:
                self.db.run("ROLLBACK TO one")
        if nested:
            self.db.run("RELEASE one")


class Writer(threading.Thread):
    """Writes to the tables of a step until it is stopped."""

    def __init__(self, url, seed, prefix, step):
        super().__init__(daemon=True)
        self.program = Program(url, random.Random(seed))
        self.prefix, self.step, self.error = prefix, step, None
        self.ended = threading.Event()

    def run(self):
        while not self.ended.is_set():
            try:
                tables = self.program.tables(self.prefix, self.step) + [self.prefix + "steady"]
                table = self.program.rng.choice(tables)
                together = self.program.rng.random() < 0.5
                if together:
                    self.program.db.run("BEGIN")
                self.program.write(table, rows=self.program.rng.randrange(3))
                if together:
                    self.program.db.run("COMMIT")
            except libpq.Error as error:
                if error.state not in EXPECTED and error.state[:2] not in ("22", "23"):
                    self.error = str(error)
                if "cairn" in str(error):
                    self.error = str(error)
                if self.program.db.in_transaction:
                    self.program.db.run("ROLLBACK")
            except Exception as error:       # a thread must not die in silence
                self.error = repr(error)
                return
            self.ended.wait(self.program.rng.random() * 0.02)


class Context(Program):
    """The step that runs."""

    def __init__(self, url, prefix):
        super().__init__(url, random.Random(0))
        self.prefix, self.name = prefix, ""

    def fill(self, text):
        return text.replace("{t}", self.prefix + self.name).replace("{p}", self.prefix)

    def retried(self, work):
        for attempt in itertools.count():
            try:
                return work()
            except libpq.Error as error:
                if self.db.in_transaction:
                    self.db.run("ROLLBACK")
                if error.state not in ("40P01", "40001", "55P03") or attempt == 20:
                    raise
                time.sleep(0.01 * (attempt + 1))

    def ddl(self, *statements):
        for statement in statements:
            self.retried(lambda: self.db.run(self.fill(statement)))

    def put(self, table="{t}", rows=3):
        self.retried(lambda: self.write(self.fill(table), rows))

    def tx(self, *parts, end="COMMIT"):
        """A transaction of statements and functions."""
        def work():
            self.db.run("BEGIN")
            for part in parts:
                if callable(part):
                    part()
                else:
                    self.db.run(self.fill(part))
            self.db.run(end)
        self.retried(work)

    def rows_of(self, table="{t}", rows=2):
        """For tx(): rows written in the middle of it."""
        return lambda: self.write(self.fill(table), rows)

    def around(self, *statements, after="{t}"):
        self.put()
        self.ddl(*statements)
        self.put(after)
        self.put(after, rows=1)


# ---- columns that come

simple("add_column", "ALTER TABLE {t} ADD COLUMN extra text")
simple("add_column_default", "ALTER TABLE {t} ADD COLUMN grade int DEFAULT 7, ADD COLUMN word varchar(12) DEFAULT 'it''s'")
simple("add_column_not_null", "ALTER TABLE {t} ADD COLUMN grade int NOT NULL DEFAULT 7")
simple("add_column_default_now", "ALTER TABLE {t} ADD COLUMN made timestamptz NOT NULL DEFAULT now()")
simple("add_column_default_clock", "ALTER TABLE {t} ADD COLUMN made timestamptz DEFAULT clock_timestamp()")
simple("add_column_default_random", "ALTER TABLE {t} ADD COLUMN lot float8 DEFAULT random()")
simple("add_column_default_nextval", "CREATE SEQUENCE {t}_s", "ALTER TABLE {t} ADD COLUMN n bigint DEFAULT nextval('{t}_s')")
simple("add_column_serial", "ALTER TABLE {t} ADD COLUMN n serial")
simple("add_column_identity", "ALTER TABLE {t} ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY")
simple("add_column_identity_default", "ALTER TABLE {t} ADD COLUMN n int GENERATED BY DEFAULT AS IDENTITY (START 100 INCREMENT 5)")
simple("add_column_uuid", "ALTER TABLE {t} ADD COLUMN u uuid NOT NULL DEFAULT gen_random_uuid()")
simple("add_column_generated", "ALTER TABLE {t} ADD COLUMN twice int GENERATED ALWAYS AS (b * 2) STORED")
simple("add_column_array", "ALTER TABLE {t} ADD COLUMN tags text[] DEFAULT '{a,NULL,\"NULL\"}', ADD COLUMN j jsonb DEFAULT '{\"a\": 1.50}'")
simple("add_column_reference", "ALTER TABLE {t}_child ADD COLUMN up bigint REFERENCES {t}(id) ON DELETE CASCADE ON UPDATE CASCADE",
       setup=(BASE, CHILD), after="{t}_child")
simple("add_column_unique", "ALTER TABLE {t} ADD COLUMN code text UNIQUE")
simple("add_column_not_null_volatile_and_unique", "ALTER TABLE {t} ADD COLUMN code uuid NOT NULL UNIQUE DEFAULT gen_random_uuid()")
simple("add_column_domain", "CREATE DOMAIN {t}_d AS int DEFAULT 3 CHECK (VALUE >= 0)", "ALTER TABLE {t} ADD COLUMN d {t}_d")
simple("add_columns_in_steps", *["ALTER TABLE {t} ADD COLUMN x%d text DEFAULT 'v%d'" % (i, i) for i in range(5)])
simple("add_column_from_do_block", "DO $$ BEGIN EXECUTE 'ALTER TABLE {t} ADD COLUMN inner_one int DEFAULT 5'; "
       "UPDATE {t} SET inner_one = b; EXECUTE 'ALTER TABLE {t} ADD COLUMN inner_two int'; END $$")


@step()
def add_column_to_empty(x):
    x.tx("DELETE FROM {t}", "ALTER TABLE {t} ADD COLUMN n bigint NOT NULL", x.rows_of())
    x.put()


@step()
def add_column_with_new_type(x):
    x.put()
    x.tx("CREATE TYPE {t}_mood AS ENUM ('sad', 'fine')", "ALTER TABLE {t} ADD COLUMN mood {t}_mood DEFAULT 'fine'", x.rows_of())
    x.put()


# ---- columns that go

simple("drop_column_middle", "ALTER TABLE {t} DROP COLUMN b")
simple("drop_column_last", "ALTER TABLE {t} DROP COLUMN big")
simple("drop_column_indexed", "ALTER TABLE {t} DROP COLUMN b", setup=(BASE, "CREATE INDEX {t}_i ON {t}(a, b)", "CREATE INDEX {t}_k ON {t}(c)"))
simple("drop_column_unique", "ALTER TABLE {t} DROP COLUMN code", setup=(BASE, "ALTER TABLE {t} ADD code text UNIQUE"))
simple("drop_column_referenced", "ALTER TABLE {t} DROP COLUMN other CASCADE",
       setup=(BASE, "ALTER TABLE {t} ADD other bigint GENERATED BY DEFAULT AS IDENTITY UNIQUE",
              "CREATE TABLE {t}_child(id bigint PRIMARY KEY, up bigint REFERENCES {t}(other))"))
simple("drop_columns_several", "ALTER TABLE {t} DROP COLUMN a, DROP COLUMN c, DROP COLUMN at")
simple("drop_and_add_column", "ALTER TABLE {t} DROP COLUMN b", "ALTER TABLE {t} ADD COLUMN b text DEFAULT 'new'")
simple("drop_and_add_column_at_once", "ALTER TABLE {t} DROP COLUMN b, ADD COLUMN b text DEFAULT 'new'")
simple("drop_and_add_same_column", "ALTER TABLE {t} DROP COLUMN b, ADD COLUMN b int")
simple("drop_type_cascade", "DROP TYPE {t}_mood CASCADE",
       setup=("CREATE TYPE {t}_mood AS ENUM ('sad', 'fine')", BASE, "ALTER TABLE {t} ADD COLUMN mood {t}_mood"))


@step()
def drop_and_add_column_in_transaction(x):
    x.put()
    x.tx(x.rows_of(), "ALTER TABLE {t} DROP COLUMN b", x.rows_of(), "ALTER TABLE {t} ADD COLUMN b date", x.rows_of())
    x.put()


# ---- names

simple("rename_column", "ALTER TABLE {t} RENAME COLUMN a TO \"a new name\"")
simple("rename_key_column", "ALTER TABLE {t} RENAME COLUMN id TO number")
simple("rename_column_case", "ALTER TABLE {t} RENAME COLUMN a TO \"A\"")
simple("rename_table", "ALTER TABLE {t} RENAME TO {t}_2", after="{t}_2")
simple("rename_table_odd", "ALTER TABLE {t} RENAME TO \"{t} Ø \"\"x\"\"\"", after="\"{t} Ø \"\"x\"\"\"")
simple("rename_table_back_and_forth", "ALTER TABLE {t} RENAME TO {t}_2", "ALTER TABLE {t}_2 RENAME TO {t}")
simple("rename_table_and_reuse_name", "ALTER TABLE {t} RENAME TO {t}_old", "CREATE TABLE {t}(k text PRIMARY KEY, v float8)")
simple("rename_parent", "ALTER TABLE {t} RENAME TO {t}_2", after="{t}_child",
       setup=(BASE, "CREATE TABLE {t}_child(id bigint PRIMARY KEY, up bigint REFERENCES {t}(id) ON DELETE SET NULL)"))
simple("rename_constraint", "ALTER TABLE {t} RENAME CONSTRAINT {t}_pkey TO {t}_key")
simple("rename_type", "ALTER TYPE {t}_mood RENAME TO {t}_temper",
       setup=("CREATE TYPE {t}_mood AS ENUM ('sad', 'fine')", BASE, "ALTER TABLE {t} ADD COLUMN mood {t}_mood"))
simple("set_schema", "CREATE SCHEMA {t}_s", "ALTER TABLE {t} SET SCHEMA {t}_s", after="{t}_s.{t}")
simple("set_schema_and_back", "CREATE SCHEMA {t}_s", "ALTER TABLE {t} SET SCHEMA {t}_s", "ALTER TABLE {t}_s.{t} SET SCHEMA public")


@step("CREATE SCHEMA {t}_s", "CREATE TABLE {t}_s.{t}(id bigint PRIMARY KEY, a text)")
def rename_schema(x):
    x.put("{t}_s.{t}")
    x.ddl("ALTER SCHEMA {t}_s RENAME TO {t}_s2")
    x.put("{t}_s2.{t}")


@step()
def swap_column_names(x):
    x.put()
    x.tx("ALTER TABLE {t} RENAME a TO tmp", "ALTER TABLE {t} RENAME big TO a", "ALTER TABLE {t} RENAME tmp TO big", x.rows_of())
    x.put()


@step()
def swap_column_names_of_other_types(x):
    x.put()
    x.tx(x.rows_of(), "ALTER TABLE {t} RENAME a TO tmp", "ALTER TABLE {t} RENAME b TO a", x.rows_of(), "ALTER TABLE {t} RENAME tmp TO b")
    x.put()


@step(BASE, "CREATE TABLE {t}_2(id bigint PRIMARY KEY, z text)")
def swap_table_names(x):
    x.put()
    x.put("{t}_2")
    x.tx("ALTER TABLE {t} RENAME TO {t}_3", "ALTER TABLE {t}_2 RENAME TO {t}", "ALTER TABLE {t}_3 RENAME TO {t}_2",
         x.rows_of(), x.rows_of("{t}_2"))
    x.put()
    x.put("{t}_2")


@step(BASE, BASE.replace("{t}", "{t}_2"))
def swap_tables_of_same_shape(x):
    x.put()
    x.tx(x.rows_of(), "ALTER TABLE {t} RENAME TO {t}_3", x.rows_of("{t}_3"), "ALTER TABLE {t}_2 RENAME TO {t}", x.rows_of(),
         "ALTER TABLE {t}_3 RENAME TO {t}_2", x.rows_of("{t}_2"))
    x.put()
    x.put("{t}_2")


# ---- types

def retype(name, declared, change, extra=()):
    simple("retype_" + name, "ALTER TABLE {t} ALTER COLUMN v TYPE " + change, setup=(
        *extra, "CREATE TABLE {t}(id bigint PRIMARY KEY, v %s, w text)" % declared))


retype("int_bigint", "int", "bigint")
retype("bigint_int", "bigint", "int USING (v %% 1000000)::int".replace("%%", "%"))
retype("int_text", "int", "text")
retype("text_int", "text", "int USING length(v)")
retype("int_numeric", "int", "numeric(12,2)")
retype("int_bool", "int", "bool USING v > 5000")
retype("bool_int", "bool", "int USING v::int")
retype("varchar_wider", "varchar(20)", "varchar(200)")
retype("varchar_text", "varchar(20)", "text")
retype("varchar_narrower", "varchar(20)", "varchar(3) USING left(v, 3)")
retype("text_varchar", "text", "varchar(4) USING left(v, 4)")
retype("varchar_char", "varchar(20)", "char(24)")
retype("numeric_more_scale", "numeric(10,2)", "numeric(14,4)")
retype("numeric_less_scale", "numeric(10,2)", "numeric(10,1)")
retype("numeric_free", "numeric(10,2)", "numeric")
retype("float_numeric", "float8", "numeric USING round(least(v, 1e9)::numeric, 3)")
retype("real_double", "real", "double precision")
retype("timestamptz_text", "timestamptz", "text")
retype("text_timestamptz", "text", "timestamptz USING '2024-01-01'::timestamptz + length(v) * interval '1 us'")
retype("timestamp_timestamptz", "timestamp", "timestamptz USING v AT TIME ZONE 'Asia/Tokyo'")
retype("timestamptz_precision", "timestamptz", "timestamptz(0)")
retype("timestamp_date", "timestamp", "date")
retype("text_enum", "text", "{t}_mood USING CASE WHEN length(v) % 2 = 0 THEN 'even' ELSE 'odd' END::{t}_mood",
       ("CREATE TYPE {t}_mood AS ENUM ('even', 'odd')",))
retype("enum_text", "{t}_mood", "text", ("CREATE TYPE {t}_mood AS ENUM ('even', 'odd')",))
retype("text_bytea", "text", "bytea USING convert_to(v, 'UTF8')")
retype("bytea_text", "bytea", "text USING encode(v, 'base64')")
retype("json_jsonb", "json", "jsonb")
retype("text_jsonb", "text", "jsonb USING to_jsonb(v)")
retype("int_array", "int", "int[] USING ARRAY[v]")
retype("text_uuid", "text", "uuid USING md5(v)::uuid")
retype("interval_text", "interval", "text")
retype("collation", "text", "text COLLATE \"C\"")
simple("retype_key", "ALTER TABLE {t} ALTER COLUMN id TYPE bigint", setup=("CREATE TABLE {t}(id int PRIMARY KEY, a text)",))
simple("retype_key_to_text", "ALTER TABLE {t} ALTER COLUMN id TYPE text", setup=("CREATE TABLE {t}(id int PRIMARY KEY, a text)",))
simple("retype_generated", "ALTER TABLE {t} DROP COLUMN g, ALTER b TYPE bigint, ADD COLUMN g bigint GENERATED ALWAYS AS (b * 3) STORED",
       setup=(BASE, "ALTER TABLE {t} ADD g int GENERATED ALWAYS AS (b * 2) STORED"))
simple("drop_generated_add_plain", "ALTER TABLE {t} DROP COLUMN g, ADD COLUMN g int",
       setup=(BASE, "ALTER TABLE {t} ADD g int GENERATED ALWAYS AS (b * 2) STORED"))
simple("drop_plain_add_generated", "ALTER TABLE {t} DROP COLUMN g, ADD COLUMN g int GENERATED ALWAYS AS (b * 2) STORED",
       setup=(BASE, "ALTER TABLE {t} ADD g int"))
simple("drop_expression", "ALTER TABLE {t} ALTER g DROP EXPRESSION",
       setup=(BASE, "ALTER TABLE {t} ADD g int GENERATED ALWAYS AS (b * 2) STORED"))


@step("CREATE TABLE {t}(id bigint PRIMARY KEY, v int, w text)")
def retype_within_transaction(x):
    x.put()
    x.tx(x.rows_of(), "ALTER TABLE {t} ALTER v TYPE text USING 'n' || v", x.rows_of(), "ALTER TABLE {t} ALTER v TYPE int USING length(v)",
         x.rows_of(), "UPDATE {t} SET v = v + 1")
    x.put()


ENUM = ("CREATE TYPE {t}_mood AS ENUM ('sad', 'fine')", BASE, "ALTER TABLE {t} ADD COLUMN mood {t}_mood")


@step(*ENUM)
def enum_add_value(x):
    x.put()
    x.ddl("ALTER TYPE {t}_mood ADD VALUE 'angry' BEFORE 'fine'", "UPDATE {t} SET mood = 'angry' WHERE id < 5")
    x.put()


@step(*ENUM)
def enum_rename_value(x):
    x.put()
    x.ddl("ALTER TYPE {t}_mood RENAME VALUE 'sad' TO 'blue'")
    x.put()


COMPOSITE = ("CREATE TYPE {t}_c AS (street text, no int)", BASE, "ALTER TABLE {t} ADD COLUMN home {t}_c")


@step(*COMPOSITE)
def composite_add_attribute(x):
    x.put()
    x.ddl("ALTER TYPE {t}_c ADD ATTRIBUTE town text")
    x.put()


@step(*COMPOSITE)
def composite_rename_attribute(x):
    x.put()
    x.ddl("ALTER TYPE {t}_c RENAME ATTRIBUTE no TO number")
    x.put()


@step(*COMPOSITE)
def composite_drop_attribute(x):
    x.put()
    x.ddl("ALTER TYPE {t}_c DROP ATTRIBUTE street")
    x.put()


@step(*COMPOSITE)
def composite_attributes_in_one_statement(x):
    x.put()
    x.ddl("ALTER TYPE {t}_c DROP ATTRIBUTE no, ADD ATTRIBUTE no numeric(20,3), ADD ATTRIBUTE town text")
    x.put()


@step(*COMPOSITE, BASE.replace("{t}", "{t}_2"), "ALTER TABLE {t}_2 ADD COLUMN homes {t}_c")
def composite_of_two_tables(x):
    x.put("{t}_2")
    x.tx(x.rows_of(), "ALTER TYPE {t}_c DROP ATTRIBUTE street", x.rows_of("{t}_2"), "ALTER TYPE {t}_c RENAME ATTRIBUTE no TO number",
         "ALTER TYPE {t}_c ADD ATTRIBUTE town text", x.rows_of(), x.rows_of("{t}_2"))
    x.put("{t}_2")


simple("domain_constraint", "ALTER DOMAIN {t}_d DROP CONSTRAINT {t}_d_check", "ALTER DOMAIN {t}_d ADD CHECK (VALUE > -5)",
       "ALTER DOMAIN {t}_d SET DEFAULT 9", "UPDATE {t} SET d = -3 WHERE id < 5", setup=("CREATE DOMAIN {t}_d AS int CHECK (VALUE >= 0)", BASE, "ALTER TABLE {t} ADD d {t}_d"))
simple("domain_to_base", "ALTER TABLE {t} ALTER d TYPE int",
       setup=("CREATE DOMAIN {t}_d AS int CHECK (VALUE >= 0)", BASE, "ALTER TABLE {t} ADD d {t}_d"))

# ---- defaults, NOT NULL, keys, constraints

simple("set_default", "ALTER TABLE {t} ALTER a SET DEFAULT 'd', ALTER b SET DEFAULT 42", "INSERT INTO {t}(id) VALUES (-1)",
       "ALTER TABLE {t} ALTER a DROP DEFAULT")
simple("set_not_null", "UPDATE {t} SET b = 0 WHERE b IS NULL; ALTER TABLE {t} ALTER b SET NOT NULL")
simple("drop_not_null", "ALTER TABLE {t} ALTER n DROP NOT NULL", "INSERT INTO {t}(id) VALUES (-1)",
       setup=(BASE, "ALTER TABLE {t} ADD n int NOT NULL DEFAULT 1"))
simple("change_key", "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (n)",
       setup=(BASE, "ALTER TABLE {t} ADD n bigint GENERATED BY DEFAULT AS IDENTITY"))
simple("key_of_more_columns", "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, n)",
       setup=(BASE, "ALTER TABLE {t} ADD n int NOT NULL DEFAULT 1"))
simple("key_of_fewer_columns", "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id)",
       setup=("CREATE TABLE {t}(id bigint, n int DEFAULT 3, a text, PRIMARY KEY (n, id))",))
simple("key_by_new_column", "ALTER TABLE {t} ADD n bigserial, DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (n), DROP COLUMN id")
simple("key_instead_of_whole_row", "ALTER TABLE {t} ADD PRIMARY KEY (id); ALTER TABLE {t} REPLICA IDENTITY DEFAULT",
       setup=("CREATE TABLE {t}(id bigint GENERATED BY DEFAULT AS IDENTITY UNIQUE, a text)", "ALTER TABLE {t} REPLICA IDENTITY FULL"))
simple("whole_row_instead_of_key", "ALTER TABLE {t} REPLICA IDENTITY FULL; ALTER TABLE {t} DROP CONSTRAINT {t}_pkey")
simple("add_unique", "ALTER TABLE {t} ADD UNIQUE (code)", setup=(BASE, "ALTER TABLE {t} ADD code uuid DEFAULT gen_random_uuid()"))
simple("drop_unique", "ALTER TABLE {t} DROP CONSTRAINT {t}_code_key", "UPDATE {t} SET code = 'same' WHERE id < 9",
       setup=(BASE, "ALTER TABLE {t} ADD code text UNIQUE"))
simple("unique_deferrable", "ALTER TABLE {t} ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED", "UPDATE {t} SET n = n + 1",
       setup=(BASE, "ALTER TABLE {t} ADD n bigint GENERATED BY DEFAULT AS IDENTITY"))
simple("unique_nulls_not_distinct", "ALTER TABLE {t} ADD UNIQUE NULLS NOT DISTINCT (code)",
       setup=(BASE, "ALTER TABLE {t} ADD code uuid DEFAULT gen_random_uuid()"))
simple("add_check", "ALTER TABLE {t} ADD CHECK (b >= 0) NOT VALID", "ALTER TABLE {t} VALIDATE CONSTRAINT {t}_b_check",
       "ALTER TABLE {t} DROP CONSTRAINT {t}_b_check")
simple("add_exclusion", "ALTER TABLE {t} ADD EXCLUDE USING gist (r WITH &&)", setup=(BASE, "ALTER TABLE {t} ADD r int4range"))
simple("add_foreign_key", "UPDATE {t}_child SET parent_id = NULL; ALTER TABLE {t}_child ADD CONSTRAINT {t}_fk FOREIGN KEY (parent_id) "
       "REFERENCES {t}(id) ON DELETE CASCADE NOT VALID", "DELETE FROM {t}_child WHERE parent_id NOT IN (SELECT id FROM {t})",
       "ALTER TABLE {t}_child VALIDATE CONSTRAINT {t}_fk", "DELETE FROM {t} WHERE id IN (SELECT parent_id FROM {t}_child LIMIT 2)",
       setup=(BASE, CHILD), after="{t}_child")
simple("drop_foreign_key", "ALTER TABLE {t}_child DROP CONSTRAINT {t}_fk", "DELETE FROM {t} WHERE id IN (SELECT up FROM {t}_child LIMIT 2)",
       setup=(BASE, "CREATE TABLE {t}_child(id bigint PRIMARY KEY, up bigint CONSTRAINT {t}_fk REFERENCES {t}(id))"), after="{t}_child")
simple("change_foreign_key", "ALTER TABLE {t}_child DROP CONSTRAINT {t}_fk, ADD CONSTRAINT {t}_fk FOREIGN KEY (up) REFERENCES {t}(id) "
       "ON DELETE SET NULL ON UPDATE CASCADE", "UPDATE {t} SET id = id + 1000000 WHERE id IN (SELECT up FROM {t}_child LIMIT 1)",
       setup=(BASE, "CREATE TABLE {t}_child(id bigint PRIMARY KEY, up bigint CONSTRAINT {t}_fk REFERENCES {t}(id))"), after="{t}_child")

# ---- replica identity

simple("identity_full_and_back", "ALTER TABLE {t} REPLICA IDENTITY FULL", "UPDATE {t} SET b = 1", "ALTER TABLE {t} REPLICA IDENTITY DEFAULT")
simple("identity_by_index", "ALTER TABLE {t} REPLICA IDENTITY USING INDEX {t}_n_key", "UPDATE {t} SET n = n + 1000 WHERE id < 5",
       setup=(BASE, "ALTER TABLE {t} ADD n bigint GENERATED BY DEFAULT AS IDENTITY UNIQUE"))

# ---- indexes

simple("index", "CREATE INDEX {t}_i ON {t}(b, a DESC)", "CREATE INDEX {t}_k ON {t}(at)", "ALTER INDEX {t}_i RENAME TO {t}_j", "DROP INDEX {t}_k")
simple("index_unique", "CREATE UNIQUE INDEX {t}_u ON {t}(code)", "UPDATE {t} SET code = gen_random_uuid() WHERE id < 3",
       setup=(BASE, "ALTER TABLE {t} ADD code uuid DEFAULT gen_random_uuid()"))
simple("index_unique_dropped", "DROP INDEX {t}_u", "UPDATE {t} SET code = 'same' WHERE id < 9",
       setup=(BASE, "ALTER TABLE {t} ADD code text", "CREATE UNIQUE INDEX {t}_u ON {t}(code)"))
simple("index_unique_partial", "CREATE UNIQUE INDEX {t}_u ON {t}(b) WHERE id < 0", "INSERT INTO {t}(id, b) VALUES (-1, 5)")
simple("index_unique_expression", "CREATE UNIQUE INDEX {t}_u ON {t}(lower(code::text))",
       setup=(BASE, "ALTER TABLE {t} ADD code uuid DEFAULT gen_random_uuid()"))
simple("index_concurrently", "CREATE INDEX CONCURRENTLY {t}_i ON {t}(b)", "REINDEX INDEX CONCURRENTLY {t}_i", "CREATE INDEX CONCURRENTLY {t}_k ON {t}(a)",
       "DROP INDEX CONCURRENTLY {t}_k")
simple("index_becomes_constraint", "CREATE UNIQUE INDEX {t}_u ON {t}(code)", "ALTER TABLE {t} ADD CONSTRAINT {t}_uu UNIQUE USING INDEX {t}_u",
       setup=(BASE, "ALTER TABLE {t} ADD code uuid DEFAULT gen_random_uuid()"))

# ---- tables that come and go

simple("create_table", "CREATE TABLE {t}_2(id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, a text UNIQUE, b bytea NOT NULL DEFAULT '\\x00')",
       after="{t}_2")


@step()
def create_table_in_transaction(x):
    x.tx("CREATE TABLE {t}_2(a int, b int, v text, PRIMARY KEY (a, b))", x.rows_of("{t}_2", 20), "ALTER TABLE {t}_2 ADD w float8",
         x.rows_of("{t}_2", 5))
    x.put("{t}_2")


@step()
def create_table_as(x):
    x.put()
    x.tx("CREATE TABLE {t}_2 AS SELECT id, a || '!' AS a, b * 1.5 AS b FROM {t}", "ALTER TABLE {t}_2 ADD PRIMARY KEY (id)", x.rows_of("{t}_2"))
    x.put("{t}_2")


@step()
def create_table_as_whole_row(x):
    x.put()
    x.tx("CREATE TABLE {t}_2 AS SELECT a, b FROM {t}", "ALTER TABLE {t}_2 REPLICA IDENTITY FULL", x.rows_of("{t}_2"))
    x.put("{t}_2")


simple("create_table_like", "CREATE TABLE {t}_2(LIKE {t} INCLUDING ALL)", after="{t}_2",
       setup=(BASE, "CREATE INDEX {t}_i ON {t}(b)", "ALTER TABLE {t} ALTER a SET DEFAULT 'x'"))
simple("create_table_with_types", "CREATE DOMAIN {t}_d AS text CHECK (VALUE <> 'never')", "CREATE TYPE {t}_m AS ENUM ('x', 'y')",
       "CREATE TABLE {t}_2(id {t}_m, d {t}_d, k int, PRIMARY KEY (k, id))", after="{t}_2")
simple("create_table_odd_names", "CREATE TABLE \"{t} odd \"\"n\"\" ø\"(\"order\" bigint PRIMARY KEY, \"a b\" text, \"say \"\"x\"\"\" int, \"select\" bytea)",
       after="\"{t} odd \"\"n\"\" ø\"")
simple("create_schema_and_table", "CREATE SCHEMA {t}_s CREATE TABLE {t}_2(id bigint PRIMARY KEY, a text)", after="{t}_s.{t}_2")
simple("temporary_table", "CREATE TEMP TABLE {t}_tmp(a int); INSERT INTO {t}_tmp VALUES (1); ALTER TABLE {t}_tmp ADD b int; DROP TABLE {t}_tmp")
simple("unlogged_table_logged", "ALTER TABLE {t}_2 SET LOGGED", after="{t}_2",
       setup=(BASE, "CREATE UNLOGGED TABLE {t}_2(id bigint PRIMARY KEY, a text)"))


@step()
def create_rows_and_drop(x):
    x.tx("CREATE TABLE {t}_2(id bigint PRIMARY KEY)", "INSERT INTO {t}_2 SELECT generate_series(1, 50)", "DROP TABLE {t}_2", x.rows_of())
    x.ddl("CREATE TABLE {t}_3(id bigint PRIMARY KEY); INSERT INTO {t}_3 VALUES (1)", "DROP TABLE {t}_3")
    x.put()


@step(BASE, BASE.replace("{t}", "{t}_2"))
def drop_table(x):
    x.put("{t}_2")
    x.ddl("DROP TABLE {t}_2")
    x.put()


@step(BASE, "CREATE TABLE {t}_child(id bigint PRIMARY KEY, up bigint REFERENCES {t}(id))")
def drop_parent_cascade(x):
    x.put("{t}_child")
    x.ddl("DROP TABLE {t} CASCADE")
    x.put("{t}_child")


@step("CREATE SCHEMA {t}_s", "CREATE TABLE {t}_s.one(id bigint PRIMARY KEY)", "CREATE TABLE {t}_s.two(id bigint PRIMARY KEY)")
def drop_schema_cascade(x):
    x.ddl("INSERT INTO {t}_s.one SELECT generate_series(1, 9)", "DROP SCHEMA {t}_s CASCADE")


simple("drop_and_create", "DROP TABLE {t}", "CREATE TABLE {t}(code text PRIMARY KEY, price numeric(8,2), qty int)")
simple("drop_and_create_same_columns", "DROP TABLE {t}", BASE)


@step()
def drop_and_create_in_transaction(x):
    x.put()
    x.tx(x.rows_of(), "DROP TABLE {t}", "CREATE TABLE {t}(id text PRIMARY KEY, z int)", x.rows_of(rows=15))
    x.put()


@step()
def drop_and_create_same_in_transaction(x):
    x.put()
    x.tx(x.rows_of(), "DROP TABLE {t}", BASE, x.rows_of(rows=15))
    x.put()


@step(BASE, "CREATE TABLE {t}_child(id bigint PRIMARY KEY, up bigint REFERENCES {t}(id))")
def rebuild_by_hand(x):
    """As tools do it that know no ALTER: a new table, the rows, the names."""
    x.put()
    x.tx("LOCK TABLE {t}", "CREATE TABLE {t}_new(id bigint PRIMARY KEY, a text NOT NULL, b bigint, c numeric(10,2))",
         "INSERT INTO {t}_new SELECT id, coalesce(a, ''), b, c FROM {t}", "DROP TABLE {t} CASCADE",
         "ALTER TABLE {t}_new RENAME TO {t}", "DELETE FROM {t}_child WHERE up NOT IN (SELECT id FROM {t})",
         "ALTER TABLE {t}_child ADD FOREIGN KEY (up) REFERENCES {t}(id)", x.rows_of())
    x.put()


# ---- partitions

PARTED = ("CREATE TABLE {t}(id bigint, region int, a text, PRIMARY KEY (id, region)) PARTITION BY RANGE (region)",
          "CREATE TABLE {t}_low PARTITION OF {t} FOR VALUES FROM (0) TO (50)", "CREATE TABLE {t}_rest PARTITION OF {t} DEFAULT")
simple("create_partitioned", "CREATE TABLE {t}_2(id bigint, region int, a text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
       "CREATE TABLE {t}_2a PARTITION OF {t}_2 FOR VALUES IN (1, 2, 3)", "CREATE TABLE {t}_2b PARTITION OF {t}_2 DEFAULT", after="{t}_2")
simple("partitioned_add_column", "ALTER TABLE {t} ADD COLUMN extra text DEFAULT 'p'", "ALTER TABLE {t} RENAME COLUMN a TO aa", setup=PARTED)
simple("partition_detach", "ALTER TABLE {t} DETACH PARTITION {t}_low", setup=PARTED)
simple("partition_drop", "DROP TABLE {t}_low", setup=PARTED)
simple("partition_truncate", "TRUNCATE {t}_low", setup=PARTED)


@step(*PARTED)
def partition_attach(x):
    x.put()
    x.tx("CREATE TABLE {t}_more(id bigint, region int NOT NULL, a text, PRIMARY KEY (id, region))",
         "INSERT INTO {t}_more SELECT g, 100 + g % 50, 'attached' FROM generate_series(1, 40) g",
         "ALTER TABLE {t} ATTACH PARTITION {t}_more FOR VALUES FROM (100) TO (150)", x.rows_of())
    x.ddl("UPDATE {t} SET region = region + 50 WHERE region BETWEEN 100 AND 105")
    x.put()


# ---- transactions

@step()
def truncate_with_change(x):
    x.put()
    x.tx(x.rows_of(), "TRUNCATE {t}", x.rows_of(), "ALTER TABLE {t} ADD COLUMN t2 text DEFAULT 'x'", x.rows_of(), "TRUNCATE {t}",
         x.rows_of())
    x.put()


simple("several_in_one_statement", "ALTER TABLE {t} ADD n1 int DEFAULT 1, DROP COLUMN c, ALTER b TYPE bigint, ALTER a SET DEFAULT 'z', "
       "ADD CHECK (b >= 0), ADD n2 timestamptz DEFAULT clock_timestamp()")


@step()
def rows_and_changes_mixed(x):
    x.put()
    x.tx(x.rows_of(rows=4), "ALTER TABLE {t} ADD mid text NOT NULL DEFAULT 'm'", x.rows_of(rows=4), "ALTER TABLE {t} RENAME b TO bb",
         x.rows_of(rows=4), "ALTER TABLE {t} DROP COLUMN c", x.rows_of(rows=4), "UPDATE {t} SET mid = 'all'")
    x.put()


@step(BASE, BASE.replace("{t}", "{t}_2"))
def two_tables_in_transaction(x):
    x.tx("LOCK TABLE {t}, {t}_2", x.rows_of(), "ALTER TABLE {t} ADD x1 int DEFAULT 3", "ALTER TABLE {t}_2 DROP COLUMN b", x.rows_of(),
         x.rows_of("{t}_2"))
    x.put()
    x.put("{t}_2")


@step()
def rolled_back(x):
    x.put()
    x.tx("ALTER TABLE {t} ADD never text", x.rows_of(), "CREATE TABLE {t}_never(a int)", "DROP TABLE {t}", end="ROLLBACK")
    x.put()


@step()
def savepoint_rolled_back(x):
    x.tx(x.rows_of(), "SAVEPOINT s", "ALTER TABLE {t} RENAME a TO undone", x.rows_of(), "ROLLBACK TO s", x.rows_of(),
         "SAVEPOINT s2", "ALTER TABLE {t} ADD stays int DEFAULT 4", x.rows_of(), "RELEASE s2", x.rows_of(),
         "SAVEPOINT s3", "DROP TABLE {t}", "ROLLBACK TO s3", x.rows_of())
    x.put()


@step()
def large_values_untouched(x):
    """Values out of line that updates leave alone, before and after a change."""
    x.ddl("UPDATE {t} SET big = (SELECT string_agg(md5(g::text || id), '') FROM generate_series(1, 200) g)")
    x.tx("UPDATE {t} SET b = 1", "ALTER TABLE {t} ADD big2 text", "UPDATE {t} SET b = 2", "UPDATE {t} SET big2 = big WHERE id < 9",
         "UPDATE {t} SET b = 3", "ALTER TABLE {t} RENAME big TO bigger", "UPDATE {t} SET id = id + 100000 WHERE id < 6")
    x.put()


@step()
def chain(x):
    """Many changes of one table, each with rows at once."""
    name = "{t}"
    for change in ("ALTER TABLE %s ADD n1 text", "ALTER TABLE %s RENAME a TO a2", "ALTER TABLE %s RENAME TO {t}_2", "ALTER TABLE %s ADD n2 float8",
                   "CREATE INDEX {t}_i ON %s(n1)", "ALTER TABLE %s RENAME TO {t}_3", "ALTER TABLE %s RENAME n1 TO a", "DROP INDEX {t}_i",
                   "ALTER TABLE %s ALTER b TYPE numeric(12,1)", "ALTER TABLE %s DROP n2", "ALTER TABLE %s RENAME TO {t}"):
        x.ddl(change % name if "%s" in change else change)
        if "RENAME TO" in change:
            name = change.rsplit(" ", 1)[1]
        x.put(name)


# ---- what changes nothing

simple("view_trigger_function", "CREATE VIEW {t}_v AS SELECT id, a FROM {t}", "CREATE FUNCTION {t}_f() RETURNS trigger LANGUAGE plpgsql AS "
       "$$ BEGIN NEW.b := 77; RETURN NEW; END $$", "CREATE TRIGGER g BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_f()",
       "CREATE MATERIALIZED VIEW {t}_mv AS SELECT count(*) FROM {t}", "REFRESH MATERIALIZED VIEW {t}_mv", "INSERT INTO {t}_v VALUES (-7, 'by view')",
       "ALTER TABLE {t} DISABLE TRIGGER g", "DROP VIEW {t}_v")
simple("comment", "COMMENT ON TABLE {t} IS 'it''s'", "COMMENT ON COLUMN {t}.a IS 'x'")
simple("storage", "ALTER TABLE {t} SET (fillfactor = 70), ALTER big SET STORAGE EXTERNAL, ALTER b SET STATISTICS 500")
simple("row_security", "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON {t} USING (b > 0)", "ALTER TABLE {t} DISABLE ROW LEVEL SECURITY")
simple("rewritten", "VACUUM FULL {t}", "CLUSTER {t} USING {t}_pkey", "REINDEX TABLE {t}", "VACUUM {t}", "ANALYZE {t}")
simple("owner_and_grant", "GRANT SELECT ON {t} TO PUBLIC", "ALTER TABLE {t} OWNER TO CURRENT_USER")
simple("sequence", "ALTER SEQUENCE {t}_n_seq RESTART 5000 INCREMENT 3", "SELECT setval('{t}_n_seq', 9000)", "ALTER SEQUENCE {t}_n_seq OWNED BY NONE",
       "ALTER SEQUENCE {t}_n_seq RENAME TO {t}_z", setup=(BASE, "ALTER TABLE {t} ADD n serial"))
simple("identity_changes", "ALTER TABLE {t} ALTER n SET GENERATED BY DEFAULT RESTART 700", "ALTER TABLE {t} ALTER n DROP IDENTITY",
       "ALTER TABLE {t} ALTER n DROP NOT NULL", setup=(BASE, "ALTER TABLE {t} ADD n int GENERATED ALWAYS AS IDENTITY"))


# ---- running

def initialise(x, steps, seed):
    x.rng = random.Random(seed)
    x.db.run(x.fill("CREATE TABLE {p}steady(id bigint PRIMARY KEY, a text, b int, big text)"))
    for name, setup, _, _ in steps:
        x.name = name
        x.db.run("BEGIN")
        for statement in setup:
            x.db.run(x.fill(statement))
        for table in x.tables(x.prefix, name):
            names = [c[0] for c in Columns(x.db, table).rows]
            if names[:2] == ["id", "a"] and "big" in names:
                x.db.run("INSERT INTO %s(id, a, b) SELECT g, 'row ' || g, g FROM generate_series(1, 20) g" % table)
                x.db.run("INSERT INTO %s(id, a, b, c, at) VALUES (21, NULL, NULL, NULL, NULL), (22, '', 0, 0, 'infinity')" % table)
            x.write(table, rows=12)
        x.db.run("COMMIT")


def run(x, url, index, args):
    name, _, function, stop = STEPS[index]
    x.name, x.rows = name, 0
    x.rng = random.Random("%d:%s" % (args.seed, name))
    line = {"step": name, "index": index, "status": "ok"}
    writer = Writer(url, "w%d:%s" % (args.seed, name), x.prefix, name)
    writer.start()
    try:
        function(x)
        time.sleep(args.settle_ms / 1000)
        for table in x.tables(x.prefix, name):
            x.put(table)
    except libpq.Error as error:
        line["status"], line["error"] = "error", "%s %s" % (error.state, error)
        if x.db.in_transaction:
            x.db.run("ROLLBACK")
    writer.ended.set()
    writer.join()
    if writer.error:
        line["status"], line["error"] = "error", "the other program: " + writer.error
    writer.program.db.close()
    line.update(rows_written=x.rows + writer.program.rows, tables=x.tables(x.prefix, name), stop=stop)
    print(json.dumps(line, ensure_ascii=False), flush=True)
    return line["status"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL", nargs="?")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default="sc_", help="of the names of all tables, types and schemas")
    parser.add_argument("--init", action="store_true", help="create the tables with data first")
    parser.add_argument("--settle-ms", type=float, default=0, help="pause after each change")
    parser.add_argument("--start", type=int, default=0, metavar="K", help="first step, from 0")
    parser.add_argument("--count", type=int, metavar="M", help="number of steps (default: all)")
    parser.add_argument("--only", metavar="STEP,...", help="only these steps")
    parser.add_argument("--list", action="store_true", help="list the steps and stop")
    args = parser.parse_args()
    if args.list:
        for index, (name, *_) in enumerate(STEPS):
            print(index, name)
        return 0
    if not args.url:
        parser.error("URL is missing")
    names = [s[0] for s in STEPS]
    if args.only:
        try:
            chosen = [names.index(n) for n in args.only.split(",")]
        except ValueError as error:
            parser.error(str(error))
    else:
        chosen = list(range(len(STEPS)))
    try:
        x = Context(args.url, args.prefix)
        if args.init:
            initialise(x, [STEPS[i] for i in chosen], args.seed)
            print(json.dumps({"step": "init", "status": "ok", "rows_written": x.rows}), flush=True)
    except libpq.Error as error:
        print("cannot begin: %s" % error, file=sys.stderr)
        return 2
    end = None if args.count is None else args.start + args.count
    results = [run(x, args.url, index, args) for index in chosen[args.start:end]]
    return 1 if "error" in results else 0


if __name__ == "__main__":
    sys.exit(main())
