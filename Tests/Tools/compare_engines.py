#!/usr/bin/python3
"""Compare the tables of two databases, SQLite or PostgreSQL, independently of any replication.

    compare_engines.py sqlite:shop.db "postgresql:///shop?host=/tmp/pg"

A is the source, B the target. Names are matched without regard to case; at PostgreSQL `public.` does not
count, and other schemas are joined with `_`. A generated column needs no partner.

Equal means between

    two SQLite files          what compare.py says: storage classes and bytes;
    two PostgreSQL databases  the same text of every value, under pinned settings;
    PostgreSQL to SQLite      integers and booleans (0, 1) as INTEGER, floats bit by bit as REAL or 'NaN', bytea as
                              BLOB, and anything else as TEXT of the same bytes;
    SQLite to PostgreSQL      the same value by the PostgreSQL column's type: numbers by value, instants whatever
                              their spelling, text and blobs byte by byte.

A difference prints table, key, column and both values. Exit status: 0 equal, 1 different, 2 cannot compare.
"""
import argparse
import collections
import datetime
import decimal
import fnmatch
import hashlib
import json
import marshal
import re
import struct
import sys
import urllib.parse

import compare
import libpq

# Rows without a partner beyond this many are only counted.
KEPT_PER_SIDE = 20000


def path_of(url):
    """The file of a SQLite URL or plain path; None for PostgreSQL."""
    if url.startswith(("postgresql://", "postgres://")):
        return None
    if not url.startswith("sqlite:"):
        return url
    rest = url[len("sqlite:"):]
    return urllib.parse.unquote(rest[2:] if rest.startswith("///") else rest)


class Column:
    def __init__(self, name, kind="", generated=False, key=0):
        self.name, self.kind, self.generated, self.key = name, kind, generated, key


# ---- the two engines

class SQLiteSide:
    engine = "sqlite"

    def __init__(self, label, path):
        self.side = compare.Side(label, path)
        self.label = label

    def tables(self):
        return {name.lower(): name for name in self.side.tables([])}

    def columns(self, table):
        return [Column(name, (declared or "").upper(), hidden in (2, 3), pk)
                for name, declared, hidden, pk in self.side.query(
                    "SELECT name, type, hidden, pk FROM pragma_table_xinfo(?) ORDER BY cid", table)
                if hidden in (0, 2, 3)]

    def rows(self, table, columns):
        """Lists of (storage class, value), as compare.py reads them: text as bytes."""
        for row in self.side.rows(table, [c.name for c in columns]):
            yield [(row[i + 1].decode(), row[i]) for i in range(0, len(row), 2)]


class PostgresSide:
    engine = "postgres"

    def __init__(self, label, url):
        self.label = label
        self.db = libpq.Connection(url, "compare")
        self.db.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.db.run("SET LOCAL search_path = pg_catalog")

    def tables(self):
        found = {}
        for schema, name, kind in self.db.texts("""
                SELECT nspname, relname, relkind FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
                WHERE relkind IN ('r', 'p') AND NOT relispartition AND relpersistence <> 't'
                  AND nspname NOT IN ('pg_catalog', 'information_schema', 'cairn', 'cairn_ddl') AND nspname NOT LIKE 'pg\\_%'
                ORDER BY 1, 2"""):
            folded = (name if schema == "public" else schema + "_" + name).lower()
            if folded in found:
                raise compare.CannotCompare("%s: two tables are called %s" % (self.label, folded))
            found[folded] = (schema, name, kind)
        return found

    def relation(self, table):
        schema, name, kind = table
        return "%s%s.%s" % ("ONLY " if kind == "r" else "", libpq.quote(schema), libpq.quote(name))

    def regclass(self, table):
        return libpq.literal("%s.%s" % (libpq.quote(table[0]), libpq.quote(table[1]))) + "::regclass"

    def columns(self, table):
        """With the name of the type, or of what a domain rests on; arrays and the like are `other`."""
        rows = self.db.texts("""
            WITH RECURSIVE base(oid, root) AS (
              SELECT oid, oid FROM pg_type WHERE typtype <> 'd'
              UNION ALL SELECT t.oid, b.root FROM pg_type t JOIN base b ON t.typbasetype = b.oid WHERE t.typtype = 'd')
            SELECT attname, CASE WHEN r.typtype = 'b' AND r.typnamespace = 'pg_catalog'::regnamespace AND r.typelem = 0
                                 THEN r.typname ELSE 'other' END,
              attgenerated <> '', coalesce(array_position(i.indkey::int2[], attnum) + 1, 0)
            FROM pg_attribute a JOIN base b ON b.oid = atttypid JOIN pg_type r ON r.oid = b.root
            LEFT JOIN pg_index i ON i.indrelid = attrelid AND i.indisprimary
            WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum""" % self.regclass(table))
        return [Column(name, kind, generated == "t", int(key)) for name, kind, generated, key in rows]

    def rows(self, table, columns):
        yield from self.db.copy("SELECT %s FROM %s" % (
            ", ".join(libpq.quote(c.name) for c in columns), self.relation(table)))


# ---- values

def double(text):
    return struct.pack(">d", float(text))


def single(value):
    try:
        return struct.pack(">f", value)
    except OverflowError:
        return struct.pack(">d", value)


def number(text):
    """A decimal by its value; None for what is no number."""
    try:
        value = decimal.Decimal(text)
    except (decimal.InvalidOperation, ValueError):
        return None
    if value.is_nan():
        return "NaN"
    if value.is_infinite():
        return str(value)
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    if not stripped:
        return "0"
    return "%s%se%d" % ("-" if sign else "", stripped, exponent + len(text) - len(stripped))


STAMP = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
                   r"(Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?( BC)?\Z")
CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?\Z")


def instant(text, has_zone):
    """One spelling of a timestamp; with a zone (UTC where none is given), of the instant."""
    found = STAMP.match(text)
    if not found:
        return text
    year, month, day, hour, minute, second, fraction, zone, bc = found.groups()
    fraction = (fraction or "").rstrip("0")
    parts = [int(part or 0) for part in (year, month, day, hour, minute, second)]
    if zone in ("Z", "+00", "+0000", "+00:00"):
        zone = None
    if zone and has_zone and not bc and len(year) == 4:
        try:
            moment = datetime.datetime(*parts)
        except ValueError:
            return text
        digits = zone[1:].replace(":", "").ljust(6, "0")
        offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:]))
        try:
            moment = moment - offset if zone[0] == "+" else moment + offset
        except OverflowError:
            return text
        parts, zone = list(moment.timetuple()[:6]), None
    return "%04d-%02d-%02d %02d:%02d:%02d.%s%s%s" % (*parts, fraction, zone or "", bc or "")


def clock(text):
    found = CLOCK.match(text)
    if not found:
        return text
    hour, minute, second, fraction = found.groups()
    return "%s:%s:%s.%s" % (hour, minute, second or "00", (fraction or "").rstrip("0"))


def parsed_json(text):
    try:
        return json.dumps(json.loads(text, parse_float=decimal.Decimal, parse_int=decimal.Decimal), sort_keys=True,
                          default=lambda d: number(str(d)))
    except (ValueError, TypeError, RecursionError):
        return text


INTEGERS = ("int2", "int4", "int8", "oid")
BOOLEANS = {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}


def of_postgres(text, kind):
    """A value of PostgreSQL by what it means."""
    if text is None:
        return None
    if kind == "bytea":
        return ("blob", bytes.fromhex(text[2:].decode()))
    if kind == "float8":
        return ("float", double(text))
    if kind == "float4":
        return ("single", single(float(text)))
    if kind == "bool":
        return ("bool", text == b"t")
    if kind in INTEGERS:
        return ("number", text.decode())
    if kind == "numeric":
        return ("number", number(text.decode()))
    if kind == "timestamp":
        return ("stamp", instant(text.decode(), False))
    if kind == "timestamptz":
        return ("stamp", instant(text.decode(), True))
    if kind == "time":
        return ("clock", clock(text.decode()))
    if kind == "jsonb":
        return ("json", parsed_json(text.decode()))
    return ("text", text)


def of_sqlite(value, kind):
    """A value of SQLite by what it means in a PostgreSQL column; what cannot be there keeps its storage class."""
    storage, content = value
    if storage == "null":
        return None
    odd = (storage + "!", content)
    if storage == "blob":
        return ("blob", content) if kind == "bytea" else odd
    if storage == "text":
        if kind == "bytea":
            return odd
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return odd
        if kind == "bool":
            return ("bool", BOOLEANS[text]) if text in BOOLEANS else odd
        if kind in INTEGERS or kind == "numeric":
            found = number(text)
            return odd if found is None else ("number", found if kind == "numeric" else text)
        if kind in ("float4", "float8"):
            try:
                return ("float", double(text)) if kind == "float8" else ("single", single(float(text)))
            except ValueError:
                return odd
        if kind in ("timestamp", "timestamptz"):
            return ("stamp", instant(text, kind == "timestamptz"))
        if kind == "time":
            return ("clock", clock(text))
        if kind == "jsonb":
            return ("json", parsed_json(text))
        return ("text", content)
    if kind == "float8":
        return ("float", double(content)) if float(content) == content else odd
    if kind == "float4":
        return ("single", single(content)) if struct.unpack(">f", struct.pack(">f", content))[0] == content else odd
    if storage == "real":
        if kind == "numeric":
            return ("number", number(repr(content)))
        return odd if kind in INTEGERS + ("bool", "bytea") else ("text", repr(content).encode())
    if kind == "bool":
        return ("bool", bool(content)) if content in (0, 1) else odd
    if kind == "numeric":
        return ("number", number(str(content)))
    return ("number", str(content)) if kind in INTEGERS else ("text", b"%d" % content)


def as_stored(text, kind):
    """Returns the value that SQLite must hold for one of PostgreSQL: storage class and content."""
    if text is None:
        return ("null", None)
    if kind == "bool":
        return ("integer", int(text == b"t"))
    if kind in INTEGERS:
        return ("integer", int(text))
    if kind in ("float4", "float8"):
        if text == b"NaN":
            return ("text", text)
        return ("real", double(text) if kind == "float8" else single(float(text)))
    if kind == "bytea":
        return ("blob", bytes.fromhex(text[2:].decode()))
    return ("text", text)


def stored(value, kind):
    if value[0] == "real":
        return ("real", single(value[1]) if kind == "float4" else struct.pack(">d", value[1]))
    return value


def pairing(a, b):
    """How values of A and of B become comparable: two functions of (value, kind of the PostgreSQL column)."""
    if a.engine == "postgres" and b.engine == "postgres":
        return (lambda v, k: v), (lambda v, k: v)
    if a.engine == "postgres":
        return as_stored, stored
    return of_sqlite, of_postgres


def show(value):
    if value is None or value == ("null", None):
        return "NULL"
    if isinstance(value, tuple):
        storage, value = value
        shown = compare.show_value(value, storage.rstrip("!").encode())
        return "%s %s" % (storage.rstrip("!"), shown)
    text = value[:120].decode("utf-8", "backslashreplace")
    return repr(text) + ("..." if len(value) > 120 else "")


# ---- rows

def digest(values):
    # As compare.py: format 2 has no references between objects.
    return hashlib.blake2b(marshal.dumps(values, 2), digest_size=16).digest()


def compare_rows(a, b, name, tables, pairs, report):
    """Every row of A has a partner in B and the other way round; rows that have none are paired by their key."""
    table_a, table_b = tables
    columns = ([p[0] for p in pairs], [p[1] for p in pairs])
    kinds = [(q if b.engine == "postgres" else p).kind for p, q in pairs]
    convert = pairing(a, b)
    sides = ((a, table_a, columns[0], 1, convert[0]), (b, table_b, columns[1], -1, convert[1]))
    # digest -> rows in A minus rows in B; entries that reach 0 are removed.
    balance = {}
    counts = []
    for side, table, mine, step, means in sides:
        count = 0
        for row in side.rows(table, mine):
            count += 1
            key = digest([means(v, k) for v, k in zip(row, kinds)])
            left = balance.get(key, 0) + step
            if left:
                balance[key] = left
            else:
                del balance[key]
        counts.append(count)
    if not balance:
        return counts[0]
    alone = []
    for side, table, mine, step, means in sides:
        rows = []
        for row in side.rows(table, mine):
            values = [means(v, k) for v, k in zip(row, kinds)]
            key = digest(values)
            if balance.get(key, 0) * step > 0:
                balance[key] -= step
                if len(rows) < KEPT_PER_SIDE:
                    rows.append((row, values))
        alone.append(rows)
    key = [i for i, (p, q) in enumerate(pairs) if p.key] or [i for i, (p, q) in enumerate(pairs) if q.key]
    report_alone(a, b, name, [p.name for p, _ in pairs], key, alone, report)
    return counts[0]


def spelling_free(one, two):
    """Two texts that are one real in two spellings (text columns print reals as the writer does)."""
    if not (isinstance(one, tuple) and isinstance(two, tuple) and one[0] == two[0] == "text"):
        return False
    try:
        return b"e" in one[1] + two[1] and struct.pack(">d", float(one[1])) == struct.pack(">d", float(two[1]))
    except ValueError:
        return False


def report_alone(a, b, name, columns, key, alone, report):
    partners = collections.defaultdict(list)
    if key:
        for row, values in alone[1]:
            partners[repr([values[i] for i in key])].append((row, values))
    for row, values in alone[0]:
        label = ", ".join("%s=%s" % (columns[i], show(row[i])) for i in (key or range(len(columns))))
        found = partners.get(repr([values[i] for i in key])) if key else None
        if not found:
            report.add(name, a.label, "row", label)
            continue
        other, others = found.pop()
        for i, (one, two) in enumerate(zip(values, others)):
            if one != two and not spelling_free(one, two):
                report.add(name, "both", "value",
                           "%s: column %s: A %s, B %s" % (label, columns[i], show(row[i]), show(other[i])))
    rest = [r for rows in partners.values() for r in rows] if key else alone[1]
    for row, _ in rest:
        report.add(name, b.label, "row",
                   ", ".join("%s=%s" % (columns[i], show(row[i])) for i in (key or range(len(columns)))))


# ---- the schema of PostgreSQL

def postgres_schema(side, table):
    """Facts that a table of the same shape shares, by kind; names of constraints and indexes do not count."""
    c = side.regclass(table)
    texts = side.db.texts
    facts = {
        "column": texts("""
            SELECT attnum - (SELECT count(*) FROM pg_attribute d WHERE d.attrelid = a.attrelid AND d.attnum > 0
                             AND d.attisdropped AND d.attnum < a.attnum), attname, format_type(atttypid, atttypmod),
              attnotnull, attidentity, attgenerated, pg_get_expr(adbin, adrelid),
              CASE WHEN attcollation <> typcollation THEN attcollation::regcollation::text END
            FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
            WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped""" % c),
        "constraint": texts("""
            SELECT contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s AND contype <> 't'""" % c),
        "index": texts("""
            SELECT regexp_replace(pg_get_indexdef(indexrelid), ' INDEX .* ON ', ' INDEX ON ')
            FROM pg_index WHERE indrelid = %s""" % c),
        "type": texts("""
            SELECT DISTINCT format_type(t.oid, NULL), t.typtype, format_type(nullif(t.typbasetype, 0), t.typtypmod), t.typnotnull,
              (SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid),
              (SELECT string_agg(pg_get_constraintdef(oid), ',' ORDER BY 1) FROM pg_constraint WHERE contypid = t.oid),
              (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ',' ORDER BY attnum)
               FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0)
            FROM pg_attribute a JOIN pg_type e ON e.oid = a.atttypid
            JOIN pg_type t ON t.oid IN (e.oid, e.typelem)
            WHERE a.attrelid = %s AND attnum > 0 AND t.typnamespace <> 'pg_catalog'::regnamespace AND t.typelem = 0
            """ % c),
    }
    return {kind: collections.Counter(tuple(f) for f in found) for kind, found in facts.items()}


def compare_schemas(a, b, name, tables, report):
    of_a, of_b = postgres_schema(a, tables[0]), postgres_schema(b, tables[1])
    for kind in of_a:
        for side, rest in ((a, of_a[kind] - of_b[kind]), (b, of_b[kind] - of_a[kind])):
            for fact in sorted(rest.elements(), key=repr):
                report.add(name, side.label, kind, " | ".join("-" if f is None else f for f in fact))


# ---- all

def compare_databases(a, b, patterns, exact):
    report = compare.Report()
    in_a, in_b = a.tables(), b.tables()
    if patterns:
        def wanted(names):
            return {n: t for n, t in names.items() if any(fnmatch.fnmatchcase(n, p.lower()) for p in patterns)}
        in_a, in_b = wanted(in_a), wanted(in_b)
    for side, mine, others in ((a, in_a, in_b), (b, in_b, in_a)):
        for name in mine:
            if name not in others:
                report.add(name, side.label, "table", "only on this side")
    rows = tables = 0
    for name in in_a:
        if name not in in_b:
            continue
        tables += 1
        both = (in_a[name], in_b[name])
        columns_a = {c.name.lower(): c for c in a.columns(both[0])}
        columns_b = {c.name.lower(): c for c in b.columns(both[1])}
        for side, mine, others in ((a, columns_a, columns_b), (b, columns_b, columns_a)):
            for column in mine.values():
                if column.name.lower() not in others and not column.generated:
                    report.add(name, side.label, "column", "only on this side: " + column.name)
        if exact:
            compare_schemas(a, b, name, both, report)
        pairs = [(c, columns_b[n]) for n, c in columns_a.items() if n in columns_b]
        # Tables that share no column have been reported as such.
        rows += compare_rows(a, b, name, both, pairs, report) if pairs else 0
    return report, tables, rows


def open_side(label, url):
    path = path_of(url)
    return PostgresSide(label, url) if path is None else SQLiteSide(label, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B")
    parser.add_argument("--tables", metavar="P,...", help="only tables matching these patterns")
    parser.add_argument("--exact", action="store_true",
                        help="two PostgreSQL databases: also columns, types, defaults, constraints and indexes")
    args = parser.parse_args()
    paths = path_of(args.a), path_of(args.b)
    if None not in paths:
        sys.argv[1:] = list(paths) + (["--tables", args.tables] if args.tables else [])
        return compare.main()
    if args.exact and paths != (None, None):
        parser.error("--exact is for two PostgreSQL databases")
    patterns = [p for p in (args.tables or "").split(",") if p]
    try:
        a, b = open_side("A", args.a), open_side("B", args.b)
        report, tables, rows = compare_databases(a, b, patterns, args.exact)
        if patterns and not tables and not report.differences:
            raise compare.CannotCompare("no table matches " + args.tables)
    except (compare.CannotCompare, compare.sqlite3.Error, libpq.Error, UnicodeError) as error:
        print("cannot compare: %s" % error, file=sys.stderr)
        return 2
    if not report.differences:
        print("equal: %d tables, %d rows" % (tables, rows))
        return 0
    for d in report.differences:
        if d["kind"] == "value":
            print("%s: %s" % (d["table"], d["what"]))
        elif d["kind"] == "table":
            print("%s: table only in %s" % (d["table"], d["side"]))
        else:
            print("%s: only in %s: %s: %s" % (d["table"], d["side"], d["kind"], d["what"]))
    for table in report.total:
        if report.total[table] > report.shown[table]:
            print("%s: and %d more differences" % (table, report.total[table] - report.shown[table]))
    print("different: %d tables compared, %d with differences" % (tables, len(report.total)))
    return 1


if __name__ == "__main__":
    sys.exit(main())
