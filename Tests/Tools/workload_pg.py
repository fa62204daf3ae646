#!/usr/bin/python3
"""An ordinary program that writes at random to any PostgreSQL database.

It reads the catalog, then runs random transactions on the tables it finds. These have inserts, upserts, and updates:
also of keys, to NULL, of a few columns beside large ones that stay as they are. They also have swaps of unique values,
deletes, seldom a truncate, and savepoints that are rolled back. Whole transactions are rolled back too, and some are
big. It knows nothing of replication and touches no schema named cairn. Values come from the type of the column, with
its edge values.

Constraint errors are part of the game: each statement has a savepoint, the transaction goes on. A deadlock, a
serialisation failure or a lost connection draws a new transaction; after a lost connection it connects again.
The server gives the values of sequences and clocks; all else is drawn from the seed and the process number.

Prints one JSON line at the end. Exit status: 0 done; 1 the server answered something this program should never see
(an error that names cairn or a replica identity, damage); 2 nothing to write to.
"""
import argparse
import collections
import fnmatch
import json
import os
import random
import re
import signal
import sys
import time

import libpq
from libpq import literal, quote

MARKS = "workload_marks"

NAMES = ["Alba", "Zoë", "O'Hara", 'say "hi"', "Łódź", "港", "naïve", "Ω", "x" * 300, "semi;colon", "--dash",
         "new\nline", "tab\t", "%_", "NULL", "0", "1.0", " 7 ", "e\u0301", "🚢", "back\\slash", "\\N", "\\.", "", " "]
STAMPS = ["2024-02-29 23:59:59.999999", "infinity", "-infinity", "0044-03-15 12:00:00 BC", "294276-12-31 23:59:59.5",
          "1970-01-01 00:00:00", "2000-01-01 00:00:00.000001"]
EDGES = {
    "int2": ["0", "-1", "32767", "-32768"],
    "int4": ["0", "-1", "2147483647", "-2147483648"],
    "int8": ["0", "-1", "9223372036854775807", "-9223372036854775808", "9007199254740993"],
    "numeric": ["0", "1.10", "-0.5", "100", "NaN", "Infinity", "-Infinity", "12345678901234567890.123456789012345678901"],
    "float4": ["0", "-0", "NaN", "Infinity", "-Infinity", "1e-40", "0.1", "3.4028235e38"],
    "float8": ["0", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "0.1", "1.7976931348623157e308", "1e-310"],
    "bool": ["true", "false"],
    "timestamp": STAMPS, "timestamptz": [s if "inf" in s else s.replace(" BC", "+05:30 BC") if "BC" in s else s + "+05:30"
                                         for s in STAMPS],
    "date": ["2024-02-29", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31", "1970-01-01"],
    "time": ["00:00:00", "24:00:00", "12:34:56.789012"],
    "timetz": ["00:00:00+00", "24:00:00+05:30", "12:34:56.789012-08"],
    "interval": ["1 mon 2 days -03:00:00", "0", "-1 year", "178000000 years", "00:00:00.000001"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"],
    "json": ['{"b": 1, "a": 2, "a": 3}', '"\\u0000"', "null", "[1.50,  2]"],
    "jsonb": ['{"b": 1, "a": 2, "a": 3}', "null", "[1.50,  2]", '{"deep": {"er": ["é", 1e3]}}'],
    "inet": ["10.0.0.1/8", "::1", "192.168.1.0/24"], "cidr": ["10.0.0.0/8", "::/0"], "macaddr": ["08:00:2b:01:02:03"],
    "money": ["12.34", "-0.01", "92233720368547758.07"],
    "int4range": ["[1,5]", "empty", "(,)", "[3,)"], "int8range": ["[1,5]", "empty"], "numrange": ["[1.10,2.5)", "empty"],
    "tstzrange": ['["2024-01-01 00:00:00+00","2024-02-01 00:00:00+02")', "empty"], "daterange": ["[2024-01-01,2024-02-01]"],
    "tsrange": ["[2024-01-01,2024-02-01]"], "int4multirange": ["{[1,3],[7,9]}", "{}"],
    "point": ["(1,2)", "(-0.1,1e300)"], "box": ["(1,2),(0,0)"], "circle": ["<(1,2),3>"], "line": ["{1,2,3}"],
    "lseg": ["[(1,2),(3,4)]"], "path": ["[(1,2),(3,4)]", "((1,2),(3,4))"], "polygon": ["((1,2),(3,4),(5,6))"],
    "xml": ["<a>b</a>", "x<!-- c -->"], "tsvector": ["'a':1A 'b'", ""], "tsquery": ["'a' & 'b'"],
    "oid": ["0", "4294967295"], "pg_lsn": ["0/0", "16/B374D848"],
}


class Column:
    def __init__(self, row):
        (self.name, self.type, self.category, self.element, notnull, default, self.identity, generated, modifier,
         labels, self.full_type) = row
        self.q = quote(self.name)
        self.notnull, self.default, self.generated = notnull == "t", default == "t", generated == "t"
        self.modifier = int(modifier)
        self.labels = labels.split("\x1f") if labels else None
        self.parent = None
        self.unique = False

    @property
    def is_number(self):
        return self.type in ("int2", "int4", "int8", "numeric", "float4", "float8", "oid")

    @property
    def is_text(self):
        return self.type in ("text", "varchar", "bpchar")


class Table:
    def __init__(self, db, oid, schema, name):
        self.oid, self.name = oid, name if schema == "public" else schema + "." + name
        self.q = quote(schema) + "." + quote(name)
        self.columns = [Column(row) for row in db.texts("""
            WITH RECURSIVE base(oid, root, modifier) AS (
              SELECT oid, oid, -1 FROM pg_type WHERE typtype <> 'd'
              UNION ALL SELECT t.oid, b.root, greatest(t.typtypmod, b.modifier) FROM pg_type t
                JOIN base b ON t.typbasetype = b.oid WHERE t.typtype = 'd')
            SELECT attname, r.typname, r.typcategory, e.typname, attnotnull, atthasdef, attidentity, attgenerated <> '',
              greatest(atttypmod, modifier),
              (SELECT string_agg(enumlabel, E'\\x1f' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = r.oid),
              format_type(atttypid, atttypmod)
            FROM pg_attribute a JOIN base b ON b.oid = atttypid JOIN pg_type r ON r.oid = b.root
            LEFT JOIN pg_type e ON e.oid = r.typelem AND r.typcategory = 'A'
            WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum""" % oid)]
        by_name = {c.name: c for c in self.columns}
        # Columns that are always drawn from a sequence are not given.
        self.writable = [c for c in self.columns if not c.generated]
        self.given = [c for c in self.writable if c.identity != "a"]
        # Those that are checked at commit cannot be named by ON CONFLICT.
        self.key, self.uniques, self.arbiters = [], [], []
        for is_primary, is_immediate, names in db.texts("""
                SELECT indisprimary, indimmediate, (SELECT string_agg(attname, E'\\x1f' ORDER BY ord) FROM
                    unnest(indkey::int2[]) WITH ORDINALITY k(num, ord) JOIN pg_attribute ON attrelid = indrelid AND attnum = num)
                FROM pg_index WHERE indrelid = %s AND indisunique AND indpred IS NULL AND indexprs IS NULL""" % oid):
            columns = [by_name[n] for n in names.split("\x1f")]
            if is_primary == "t":
                self.key = columns
            self.uniques.append(columns)
            if is_immediate == "t":
                self.arbiters.append(columns)
            for c in columns:
                c.unique = True
        for parent, mine, theirs in db.texts("""
                SELECT confrelid::regclass::text, a.attname, b.attname FROM pg_constraint
                CROSS JOIN unnest(conkey, confkey) k(mine, theirs)
                JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = mine
                JOIN pg_attribute b ON b.attrelid = confrelid AND b.attnum = theirs
                WHERE contype = 'f' AND conrelid = %s""" % oid):
            by_name[mine].parent = (parent, quote(theirs))
        self.plain = [c for c in self.given if not c.unique] or self.given
        self.large = [c for c in self.plain if (c.is_text and c.modifier < 0) or c.type in ("bytea", "json", "jsonb")]


class Program:
    def __init__(self, args):
        self.args = args
        self.rng = random.Random(args.seed * 1000003 + args.process)
        self.counts = collections.Counter()
        self.failed = collections.Counter()
        self.errors = collections.Counter()
        self.problem = None
        self.committed = self.rolled_back = self.again = self.reconnected = 0
        self.unknown = 0
        self.fresh = args.process * 1000000
        self.stop = False
        self.db = None
        self.tables = []

    # ---- connection and catalog

    def connect(self):
        limit = time.monotonic() + 60
        while True:
            if self.db is not None:
                self.db.close()
            self.db = None
            try:
                self.db = libpq.Connection(self.args.url, "workload")
                self.db.run("SET search_path = pg_catalog; SET deadlock_timeout = '200ms'"
                            if self.is_superuser() else "SET search_path = pg_catalog")
                return
            except libpq.Error as error:
                if time.monotonic() > limit or self.stop:
                    raise
                self.errors["connect: " + str(error)[:80]] += 1
                time.sleep(0.05)

    def is_superuser(self):
        return self.db.texts("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") == [["t"]]

    def read_catalog(self):
        patterns = [p for p in (self.args.tables or "").split(",") if p]
        self.tables = []
        for oid, schema, name in self.db.texts("""
                SELECT c.oid, nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
                WHERE relkind IN ('r', 'p') AND NOT relispartition AND relpersistence <> 't'
                  AND nspname NOT IN ('pg_catalog', 'information_schema', 'cairn', 'cairn_ddl') AND nspname NOT LIKE 'pg\\_%'
                ORDER BY 2, 3"""):
            if name == MARKS or (patterns and not any(fnmatch.fnmatchcase(name, p) for p in patterns)):
                continue
            table = Table(self.db, oid, schema, name)
            if table.given:
                self.tables.append(table)

    # ---- statements

    class Again(Exception):
        """The transaction cannot go on, through no fault of its statements."""

    def run(self, kind, sql):
        """One statement under a savepoint; the rows it touched, or None after an error that is part of the game."""
        try:
            self.db.run("SAVEPOINT s")
            touched = self.db.run(sql)
            self.db.run("RELEASE s")
            self.counts[kind] += 1
            return touched
        except libpq.Error as error:
            self.judge(error, kind, sql)
            self.db.run("ROLLBACK TO s")
            return None

    def judge(self, error, kind, sql):
        text = str(error)
        if self.db.is_lost or error.state in ("40001", "40P01", "57P01", "57P02", "57P03", "") or error.state[:2] == "08":
            raise self.Again(text)
        # Values, which are random text, may be in the detail.
        known = re.sub(r"\nDETAIL:.*?(?=\nCONTEXT:|$)", "", text, flags=re.DOTALL)
        if "cairn" in known.lower() or "replica identity" in known or error.state[:2] in ("XX", "58", "53"):
            self.problem = self.problem or "%s: %s" % (text[:300], sql[:200])
        if error.state[:2] in ("23", "22"):
            self.failed[kind] += 1
        else:
            self.errors["%s %s" % (error.state, text.split("\n")[0][:100])] += 1

    # ---- values: each is SQL text

    def fresh_number(self):
        self.fresh += 1
        return self.fresh

    def offset(self):
        return self.rng.randrange(self.rng.choice((5, 30, 200)))

    def existing(self, table, column):
        return "(SELECT %s FROM %s LIMIT 1 OFFSET %d)" % (column.q, table.q, self.offset())

    def noise(self, length):
        """Text that does not compress, so that it is stored out of line."""
        return "".join(self.rng.choices("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ +/é港", k=length))

    def element(self, kind, modifier=-1, labels=None):
        """Text of a value of that type."""
        r = self.rng
        if labels:
            return r.choice(labels)
        if kind in EDGES and r.random() < 0.25 and not (kind == "numeric" and modifier >= 0):
            return r.choice(EDGES[kind])
        if kind in ("int2", "int4", "int8", "oid"):
            return str(r.choice((r.randrange(2), r.randrange(50), r.randrange(30000))))
        if kind == "numeric":
            if modifier >= 0:
                precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7ff
                return "%d.%0*d" % (r.randrange(10 ** min(precision - scale, 6)), max(scale, 1),
                                    r.randrange(10 ** scale) if scale else 0)
            return r.choice(("%d.%d0" % (r.randrange(1000), r.randrange(100)), str(r.randrange(10 ** 30)), "1.10"))
        if kind in ("float4", "float8"):
            return repr(r.choice((r.randrange(100) / 4, r.uniform(-1000, 1000))))
        if kind == "bool":
            return r.choice(("true", "false"))
        if kind in ("timestamp", "timestamptz", "date", "time", "timetz"):
            day = "%04d-%02d-%02d" % (r.randrange(1900, 2100), r.randrange(1, 13), r.randrange(1, 29))
            hour = "%02d:%02d:%02d.%06d" % (r.randrange(24), r.randrange(60), r.randrange(60), r.randrange(10 ** 6))
            return {"date": day, "time": hour, "timetz": hour + "+02"}.get(kind, day + " " + hour)
        if kind == "interval":
            return "%d mons %d days %d seconds" % (r.randrange(-20, 20), r.randrange(40), r.randrange(90000))
        if kind == "uuid":
            return "%08x-0000-4000-8000-%012x" % (r.getrandbits(32), r.getrandbits(48))
        if kind in ("json", "jsonb"):
            return json.dumps({"n": r.randrange(100), "s": r.choice(NAMES[:20])}, ensure_ascii=r.random() < 0.5)
        if kind == "bytea":
            return "\\x" + r.getrandbits(64).to_bytes(8, "big").hex() * r.choice((0, 1, 4))
        if kind in ("bit", "varbit"):
            return "".join(r.choices("01", k=modifier if modifier > 0 else 5))
        if kind in EDGES:
            return r.choice(EDGES[kind])
        limit = modifier - 4 if modifier > 4 else 400
        text = r.choice(NAMES) + (str(r.randrange(1000)) if r.random() < 0.5 else "")
        return text[:limit]

    def value(self, table, column, large=0.03):
        r = self.rng
        if column.parent and r.random() < 0.95:
            if not column.notnull and r.random() < 0.15:
                return "NULL"
            return "(SELECT %s FROM %s LIMIT 1 OFFSET %d)" % (column.parent[1], column.parent[0], self.offset())
        if column.unique:
            return self.new_key(table, column)
        if not column.notnull and r.random() < 0.1:
            return "NULL"
        if r.random() < 0.15 or column.category in ("C", "U") and column.type not in EDGES and column.type not in (
                "bytea", "bool", "varbit"):
            return self.existing(table, column)
        if column in table.large and r.random() < large:
            return self.large_value(column)
        if column.category == "A":
            return self.array(column)
        return literal(self.element(column.type, column.modifier, column.labels)) + "::" + column.full_type

    def array(self, column):
        r = self.rng
        if column.labels or column.element is None:
            return "NULL"
        elements = [r.choice(("NULL", None)) for _ in range(r.randrange(5))]
        words = ["NULL" if e else '"%s"' % self.element(column.element).replace("\\", "\\\\").replace('"', '\\"')
                 for e in elements]
        bounds = "[0:%d]=" % (len(words) - 1) if words and r.random() < 0.1 else ""
        return literal(bounds + "{" + ",".join(words) + "}") + "::" + column.full_type

    def large_value(self, column):
        """More than 8 kB, which PostgreSQL keeps out of line: an update of other columns then leaves it out."""
        size = self.rng.choice((9000, 20000, 100000))
        if column.type == "bytea":
            return "'\\x%s'" % self.rng.randbytes(size).hex()
        text = self.noise(size)
        if column.type in ("json", "jsonb"):
            text = json.dumps({"large": text})
        return literal(text)

    def new_key(self, table, column):
        r = self.rng
        if column.type in ("int2", "int4", "int8", "numeric", "oid"):
            if column.type == "int2":
                return str(r.randrange(-32768, 32768))
            return str(r.choice((self.fresh_number(), r.randrange(600), r.randrange(10 ** 8, 2 * 10 ** 9))))
        if column.is_text:
            word = "%s%d" % (r.choice(("k", "K", "ключ", "")), self.fresh_number())
            return literal(word if column.modifier < 0 else word[-(column.modifier - 4):])
        if not column.notnull and r.random() < 0.1:
            return "NULL"
        return literal(self.element(column.type, column.modifier, column.labels)) + "::" + column.full_type

    def where(self, table, rows=1):
        return "ctid = ANY(ARRAY(SELECT ctid FROM %s %s LIMIT %d OFFSET %d))" % (
            table.q, "ORDER BY 1 DESC" if self.rng.random() < 0.3 else "", rows, self.offset())

    # ---- kinds of statements

    def insert_text(self, table, rows=1):
        r = self.rng
        columns = [c for c in table.given if not ((c.default or c.identity) and r.random() < 0.6)]
        always = [c for c in table.writable if c.identity == "a"] if r.random() < 0.1 else []
        columns += always
        if not columns:
            return "INSERT INTO %s DEFAULT VALUES" % table.q
        values = ", ".join("(%s)" % ", ".join(
            str(self.fresh_number() + 10 ** 6) if c in always else self.value(table, c, 0.1) for c in columns)
            for _ in range(rows))
        return "INSERT INTO %s(%s)%s VALUES %s" % (
            table.q, ", ".join(c.q for c in columns), " OVERRIDING SYSTEM VALUE" if always else "", values)

    def insert(self, table):
        self.run("insert", self.insert_text(table))

    def insert_many(self, table):
        self.run("insert_many", self.insert_text(table, self.rng.randrange(2, 12)))

    def insert_select(self, table, rows=None, kind="insert_select"):
        """Rows of the table once more, under new keys."""
        self.fresh += 1000000
        columns, values = [], []
        for c in table.given:
            if c.unique and (c.default or c.identity):
                continue
            columns.append(c.q)
            if not c.unique or c.parent:
                values.append(c.q)
            elif c.is_text and c.modifier < 0:
                values.append("%s || '/%d'" % (c.q, self.fresh))
            elif c.type in ("int8", "numeric"):
                values.append("%s + %d" % (c.q, self.fresh))
            elif c.type == "int4":
                values.append("(random() * 2000000000)::int")
            elif c.type == "uuid":
                values.append("gen_random_uuid()")
            else:
                values.append(c.q)
        if columns:
            self.run(kind, "INSERT INTO %s(%s) SELECT %s FROM %s LIMIT %d OFFSET %d ON CONFLICT DO NOTHING" % (
                table.q, ", ".join(columns), ", ".join(values), table.q, rows or self.rng.randrange(2, 30), self.offset()))

    def upsert(self, table):
        r = self.rng
        keys = [u for u in table.arbiters if all(c in table.given for c in u)]
        if not keys:
            return self.insert(table)
        key = r.choice(keys)
        columns = table.given
        sql = "INSERT INTO %s AS t(%s) VALUES (%s) ON CONFLICT (%s) DO " % (
            table.q, ", ".join(c.q for c in columns),
            ", ".join(self.existing(table, c) if c in key and r.random() < 0.8 else self.value(table, c) for c in columns),
            ", ".join(c.q for c in key))
        c = r.choice(table.plain)
        self.run("upsert", sql + ("NOTHING" if r.random() < 0.2 else "UPDATE SET %s = excluded.%s" % (c.q, c.q)))

    def update(self, table):
        r = self.rng
        pool = table.plain
        if table.large and r.random() < 0.6:
            # The large columns stay as they are.
            pool = [c for c in table.plain if c not in table.large] or pool
        changed = r.sample(pool, min(len(pool), r.randrange(1, 4)))
        rows = r.choice((1, 1, 1, 5, 40))
        self.run("update" if rows == 1 else "update_range", "UPDATE %s SET %s WHERE %s" % (
            table.q, ", ".join("%s = %s" % (c.q, self.value(table, c)) for c in changed), self.where(table, rows)))

    def update_large(self, table):
        if not table.large:
            return self.update(table)
        c = self.rng.choice(table.large)
        self.run("update_large", "UPDATE %s SET %s = %s WHERE %s" % (
            table.q, c.q, self.large_value(c), self.where(table)))

    def update_key(self, table):
        keys = [c for c in table.given if c.unique]
        if not keys:
            return self.update(table)
        c = self.rng.choice(keys)
        self.run("update_key", "UPDATE %s SET %s = %s WHERE %s" % (
            table.q, c.q, self.value(table, c), self.where(table)))

    def update_nothing(self, table):
        c = self.rng.choice(table.given)
        self.run("update_noop", "UPDATE %s SET %s = %s WHERE %s" % (table.q, c.q, c.q, self.where(table, 20)))

    def swap(self, table):
        """Two rows exchange a unique value through a temporary one, or the whole run moves by one."""
        singles = [u[0] for u in table.uniques if len(u) == 1 and u[0] in table.given and (
            u[0].type in ("int4", "int8", "numeric") or u[0].is_text and u[0].modifier < 0)]
        if not singles:
            return self.update_key(table)
        c = self.rng.choice(singles)
        pair = self.db.texts("SELECT %s::text FROM %s WHERE %s IS NOT NULL LIMIT 2 OFFSET %d" % (
            c.q, table.q, c.q, self.offset()))
        if len(pair) < 2:
            return self.insert(table)
        one, two = pair[0][0], pair[1][0]
        other = "tmp%d" % self.fresh_number() if c.is_text else str(-1 - self.fresh_number())
        sql = "; ".join("UPDATE %s SET %s = %s WHERE %s = %s" % (table.q, c.q, literal(new), c.q, literal(old))
                        for new, old in ((other, one), (one, two), (two, other)))
        self.run("swap", sql)

    def delete(self, table):
        self.run("delete", "DELETE FROM %s WHERE %s" % (table.q, self.where(table)))

    def delete_range(self, table, rows=None):
        self.run("delete_range", "DELETE FROM %s WHERE %s" % (
            table.q, self.where(table, rows or self.rng.randrange(2, 40))))

    def delete_insert(self, table):
        """A row deleted and inserted again within the transaction."""
        columns = ", ".join(c.q for c in table.writable)
        self.run("delete_insert", "WITH gone AS MATERIALIZED (SELECT %s FROM %s LIMIT 1 OFFSET %d) SELECT 1 FROM gone; "
                 "CREATE TEMP TABLE moved ON COMMIT DROP AS SELECT %s, ctid AS workload_ctid FROM %s LIMIT 1 OFFSET %d; "
                 "DELETE FROM %s WHERE ctid IN (SELECT workload_ctid FROM moved); "
                 "INSERT INTO %s(%s) OVERRIDING SYSTEM VALUE SELECT %s FROM moved; DROP TABLE moved" % (
                     columns, table.q, 0, columns, table.q, self.offset(), table.q, table.q, columns, columns))

    def truncate(self, table):
        self.run("truncate", "TRUNCATE %s%s" % (table.q, self.rng.choice(("", " CASCADE", " RESTART IDENTITY CASCADE"))))

    def big(self, table):
        """A thousand rows at once."""
        choice = self.rng.random()
        if choice < 0.5:
            for _ in range(6):
                self.insert_select(table, self.rng.choice((200, 500)), "big_insert")
        elif choice < 0.8:
            c = self.rng.choice(table.plain)
            self.run("big_update", "UPDATE %s SET %s = %s WHERE %s" % (
                table.q, c.q, self.value(table, c), self.where(table, 1000)))
        else:
            for _ in range(50):
                self.run("big_insert_many", self.insert_text(table, 20))

    # ---- transactions

    def statement(self):
        r = self.rng
        table = r.choice(self.tables)
        size = int(self.db.texts("SELECT count(*) FROM (SELECT 1 FROM %s LIMIT 3001) x" % table.q)[0][0])
        if size < 12:
            r.choice((self.insert, self.insert_many))(table)
        elif size > 3000 and r.random() < 0.4:
            self.delete_range(table, r.choice((30, 400)))
        elif self.args.truncate and r.random() < 0.002:
            self.truncate(table)
        else:
            choices = ((self.insert, 16), (self.insert_many, 8), (self.insert_select, 4), (self.upsert, 10),
                       (self.update, 22), (self.update_large, 3), (self.update_key, 8), (self.update_nothing, 3),
                       (self.swap, 4), (self.delete, 10), (self.delete_range, 3), (self.delete_insert, 2))
            r.choices([c for c, _ in choices], [w for _, w in choices])[0](table)

    def statements(self, depth=0):
        r = self.rng
        for _ in range(r.choice((1, 1, 2, 3, 5, 8))):
            if depth < 3 and r.random() < 0.12:
                name = "level%d" % depth
                self.db.run("SAVEPOINT " + name)
                self.statements(depth + 1)
                if r.random() < 0.5:
                    self.db.run("ROLLBACK TO " + name)
                    self.counts["rollback_to"] += 1
                    if r.random() < 0.5:
                        self.statement()
                self.db.run("RELEASE " + name)
            else:
                self.statement()

    def transaction(self, seq):
        """True committed, False rolled back."""
        r = self.rng
        self.db.run("BEGIN")
        if r.random() < 0.02:
            self.big(r.choice(self.tables))
        else:
            self.statements()
        if self.args.mark:
            self.db.run("INSERT INTO public.%s VALUES (%d, %d)" % (MARKS, self.args.process, seq))
        if r.random() < 0.1:
            self.db.run("ROLLBACK")
            return False
        try:
            self.committing = True
            self.db.run("COMMIT")
            self.committing = False
        except libpq.Error as error:
            if self.db.is_lost:
                raise
            self.committing = False
            # A deferred constraint is broken, or another transaction won.
            self.failed["commit"] += 1
            if error.state[:2] not in ("23", "40"):
                self.errors["%s %s" % (error.state, str(error)[:100])] += 1
            return False
        return True

    def patiently(self, work):
        """Does it on a connection; on another one where that is lost meanwhile."""
        while True:
            try:
                if self.db is None or self.db.is_lost:
                    self.connect()
                return work()
            except libpq.Error:
                if self.db is None or not self.db.is_lost or self.stop:
                    raise

    def start_marks(self):
        if not self.args.mark:
            return 0
        try:
            self.db.run("CREATE TABLE IF NOT EXISTS public.%s(process int, seq int, PRIMARY KEY (process, seq))" % MARKS)
        except libpq.Error as error:
            # If two processes create it at once, one gets this error.
            if error.state[:2] not in ("23", "42"):
                raise
        return self.last_mark()

    def last_mark(self):
        return int(self.db.texts("SELECT coalesce(max(seq), 0) FROM public.%s WHERE process = %d" % (
            MARKS, self.args.process))[0][0])

    def main(self):
        args = self.args
        seq = self.patiently(self.start_marks)
        self.patiently(self.read_catalog)
        if not self.tables:
            print("no tables to write to", file=sys.stderr)
            return 2
        log = open(args.log, "ab") if args.log else None
        start, done = time.monotonic(), 0
        while (not self.stop and not self.problem
               and (args.transactions is None or done < args.transactions)
               and (args.seconds is None or time.monotonic() - start < args.seconds)):
            outcome = None
            self.committing = False
            try:
                outcome = self.transaction(seq + 1)
                done += 1
            except self.Again as error:
                self.again += 1
                self.errors["again: " + str(error).split("\n")[0][:80]] += 1
            except libpq.Error as error:
                if not self.db.is_lost and error.state[:2] not in ("40", "57"):
                    self.problem = str(error)
                self.again += 1
            if self.db.is_lost:
                self.reconnected += 1
                last = self.patiently(self.last_mark) if args.mark else self.patiently(lambda: 0)
                if self.committing:
                    # Whether it has committed is known only by its mark.
                    self.unknown += 1
                    if last > seq:
                        outcome = True
            elif self.db.in_transaction:
                self.db.run("ROLLBACK")
            if outcome:
                seq += 1
                self.committed += 1
                if log:
                    log.write(b"%d\n" % seq)
                    log.flush()
                    os.fsync(log.fileno())
            elif outcome is False:
                self.rolled_back += 1
            if args.pause_ms:
                time.sleep(args.pause_ms / 1000)
        elapsed = time.monotonic() - start
        print(json.dumps({
            "process": args.process, "seed": args.seed, "committed": self.committed, "rolled_back": self.rolled_back,
            "again": self.again, "reconnected": self.reconnected, "unknown_commits": self.unknown, "last_seq": seq,
            "seconds": round(elapsed, 2), "per_second": round(done / elapsed, 1) if elapsed else 0,
            "statements": dict(sorted(self.counts.items())), "constraint_errors": dict(sorted(self.failed.items())),
            "other_errors": dict(self.errors.most_common(20)), "problem": self.problem}, ensure_ascii=False))
        return 1 if self.problem else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--process", type=int, default=0, help="number of this process")
    parser.add_argument("--transactions", type=int, help="stop after this many (rolled back ones too)")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--tables", metavar="P,...", help="only tables matching these patterns")
    parser.add_argument("--truncate", action="store_true", help="now and then truncate a table")
    parser.add_argument("--pause-ms", type=float, default=0, help="wait after each transaction")
    parser.add_argument("--log", metavar="FILE", help="append the number of each commit, synced")
    parser.add_argument("--mark", action="store_true",
                        help="each transaction also inserts (process, seq) into " + MARKS)
    args = parser.parse_args()
    if args.transactions is None and args.seconds is None:
        parser.error("give --transactions, --seconds or both")
    program = Program(args)

    def stop(signum, frame):
        program.stop = True
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return program.main()


if __name__ == "__main__":
    sys.exit(main())
