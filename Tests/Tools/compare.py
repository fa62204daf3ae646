#!/usr/bin/python3
"""Compare the user tables of two SQLite files, independently of any replication.

Equal means: the same tables, the same columns, and the same multiset of rows.
Two values are the same only if both storage class and content are (text as
bytes, reals bit by bit, generated columns included). The order of rows and of
columns, and the rowid of tables that do not show it, do not count.

Exit status: 0 equal, 1 different, 2 cannot compare.
"""
import argparse
import collections
import fnmatch
import hashlib
import json
import marshal
import os
import re
import sqlite3
import sys
import urllib.parse

SHOWN_PER_TABLE = 10
# Tables beyond this many rows are compared in several passes, each over a
# fraction of the digests. So memory stays bounded (about 150 bytes a row).
ROWS_PER_PASS = 2000000


class CannotCompare(Exception):
    pass


def quote(name):
    return '"' + name.replace('"', '""') + '"'


class Side:
    """One database, opened read-only and held in one read transaction."""

    def __init__(self, label, path):
        self.label = label
        if not os.path.isfile(path):
            raise CannotCompare("%s: no such file: %s" % (label, path))
        uri = "file:" + urllib.parse.quote(os.path.abspath(path)) + "?mode=ro"
        self.db = sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)
        # Without this, Python would decode text and fail on invalid UTF-8.
        self.db.text_factory = bytes
        self.db.execute("BEGIN")
        # BEGIN alone takes no snapshot; the first read does.
        self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def query(self, sql, *args):
        """Rows of a schema query, with text decoded."""
        return [tuple(v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else v
                      for v in row) for row in self.db.execute(sql, args)]

    def tables(self, patterns):
        found = []
        for name, in self.query("SELECT name FROM pragma_table_list "
                                "WHERE schema = 'main' AND type = 'table' ORDER BY name"):
            if name.lower().startswith(("cairn_", "sqlite_")):
                continue
            if patterns and not any(fnmatch.fnmatchcase(name, p) for p in patterns):
                continue
            found.append(name)
        return found

    def columns(self, table):
        # hidden: 0 ordinary, 2 virtual generated, 3 stored generated.
        return [name for name, hidden in self.query(
            "SELECT name, hidden FROM pragma_table_xinfo(?) ORDER BY cid", table)
            if hidden in (0, 2, 3)]

    def count(self, table):
        return self.db.execute("SELECT count(*) FROM " + quote(table)).fetchone()[0]

    def rows(self, table, columns):
        """Yield (v1, type1, v2, type2, ...): bytes alone would not distinguish text from blob."""
        wanted = ", ".join("%s, typeof(%s)" % (quote(c), quote(c)) for c in columns)
        # NOT INDEXED: a damaged or stale index must not supply the values.
        return self.db.execute("SELECT %s FROM %s NOT INDEXED" % (wanted, quote(table)))


def digest(row):
    # Marshal format 2 writes integers, byte strings and the eight bytes of each
    # real exactly, and (unlike later formats) no references between objects.
    return hashlib.blake2b(marshal.dumps(row, 2), digest_size=16).digest()


def show_value(value, kind):
    if kind == b"null":
        return "NULL"
    if kind == b"blob":
        text = value[:40].hex()
        return "x'%s%s'" % (text, "..." if len(value) > 40 else "")
    if kind == b"text":
        text = value[:120].decode("utf-8", "backslashreplace")
        return repr(text) + ("..." if len(value) > 120 else "")
    return repr(value)


def show_row(row, columns):
    return {c: show_value(row[2 * i], row[2 * i + 1]) for i, c in enumerate(columns)}


class Report:
    def __init__(self):
        self.differences = []
        self.total = collections.Counter()   # by table, also those not shown
        self.shown = collections.Counter()

    def add(self, table, side, kind, what, count=1):
        self.total[table] += count
        if self.shown[table] < SHOWN_PER_TABLE:
            self.shown[table] += 1
            self.differences.append({"table": table, "side": side, "kind": kind, "what": what})

    def add_uncounted(self, table, count):
        self.total[table] += count


def compare_rows(a, b, table, columns, report):
    biggest = max(a.count(table), b.count(table))
    passes = biggest // ROWS_PER_PASS + 1
    for part in range(passes):
        # digest -> rows in A minus rows in B; entries that reach 0 are removed.
        balance = {}
        for side, step in ((a, 1), (b, -1)):
            for row in side.rows(table, columns):
                key = digest(row)
                if passes > 1 and key[0] % passes != part:
                    continue
                left = balance.get(key, 0) + step
                if left:
                    balance[key] = left
                else:
                    del balance[key]
        if not balance:
            continue
        # Only now read again, to show the rows that have no partner.
        for side, step in ((a, 1), (b, -1)):
            for row in side.rows(table, columns):
                key = digest(row)
                left = balance.get(key, 0)
                if left * step > 0:
                    balance[key] = left - step
                    # Share the few lines shown between both sides.
                    if step == 1 and report.shown[table] >= SHOWN_PER_TABLE // 2:
                        report.add_uncounted(table, 1)
                    else:
                        report.add(table, side.label, "row", show_row(row, columns))
    return a.count(table)


def normal_sql(sql):
    """SQL text without comments and with one blank between tokens."""
    if sql is None:
        return None
    tokens = re.findall(r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`"""
                        r"""|\[[^\]]*\]|[\w$]+|\S""", sql, re.S)
    return " ".join(t for t in tokens if not t.startswith(("--", "/*")))


def schema_of(side, table):
    """The schema of a table as {kind: list of comparable facts}."""
    columns = side.query("SELECT name, type, \"notnull\", pk, dflt_value, hidden "
                         "FROM pragma_table_xinfo(?) ORDER BY cid", table)
    indexes = []
    for name, unique, origin, partial in side.query(
            "SELECT name, \"unique\", origin, partial FROM pragma_index_list(?)", table):
        if name.lower().startswith("cairn_"):
            continue
        parts = side.query("SELECT name, \"desc\", coll, key FROM pragma_index_xinfo(?) "
                           "ORDER BY seqno", name)
        sql = side.query("SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?", name)
        # The names of automatic indexes carry a number that means nothing.
        shown = "(automatic)" if name.lower().startswith("sqlite_") else name
        indexes.append((shown, unique, origin, partial, tuple(parts),
                        normal_sql(sql[0][0]) if sql else None))
    keys = collections.defaultdict(list)
    for row in side.query("SELECT id, seq, \"table\", \"from\", \"to\", on_update, on_delete, "
                          "match FROM pragma_foreign_key_list(?) ORDER BY id, seq", table):
        keys[row[0]].append(row[1:])
    sql = side.query("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", table)
    return {"column": list(enumerate(columns)), "index": indexes,
            "foreign key": [tuple(k) for k in keys.values()],
            "create": [normal_sql(r[0]) for r in sql]}


def compare_schema(a, b, table, report):
    of_a, of_b = schema_of(a, table), schema_of(b, table)
    for kind in of_a:
        in_a, in_b = collections.Counter(of_a[kind]), collections.Counter(of_b[kind])
        for side, rest in ((a, in_a - in_b), (b, in_b - in_a)):
            for fact in sorted(rest.elements(), key=repr):
                report.add(table, side.label, kind, fact)


def compare(a, b, patterns, with_schema):
    report = Report()
    in_a, in_b = a.tables(patterns), b.tables(patterns)
    for side, mine, others in ((a, in_a, set(in_b)), (b, in_b, set(in_a))):
        for table in mine:
            if table not in others:
                report.add(table, side.label, "table", "only on this side")
    rows = tables = 0
    for table in in_a:
        if table not in set(in_b):
            continue
        tables += 1
        columns_a, columns_b = a.columns(table), b.columns(table)
        for side, mine, others in ((a, columns_a, columns_b), (b, columns_b, columns_a)):
            for column in mine:
                if column not in others:
                    report.add(table, side.label, "column", "only on this side: " + column)
        if with_schema:
            compare_schema(a, b, table, report)
        # Rows with different columns are different anyway.
        if set(columns_a) == set(columns_b):
            rows += compare_rows(a, b, table, columns_a, report)
    return report, tables, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A.db")
    parser.add_argument("b", metavar="B.db")
    parser.add_argument("--tables", metavar="P,...", help="only tables matching these patterns")
    parser.add_argument("--schema", action="store_true",
                        help="also compare column declarations, indexes, foreign keys, CREATE text")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    patterns = [p for p in (args.tables or "").split(",") if p]
    try:
        a, b = Side("A", args.a), Side("B", args.b)
        report, tables, rows = compare(a, b, patterns, args.schema)
        if patterns and not tables and not report.differences:
            raise CannotCompare("no table matches " + args.tables)
    except (CannotCompare, sqlite3.Error, UnicodeError) as error:
        if args.json:
            print(json.dumps({"equal": None, "error": str(error)}))
        print("cannot compare: %s" % error, file=sys.stderr)
        return 2
    equal = not report.differences
    if args.json:
        print(json.dumps({"equal": equal, "tables": tables, "rows": rows,
                          "differences": report.differences, "totals": report.total}))
    elif equal:
        print("equal: %d tables, %d rows" % (tables, rows))
    else:
        for table in report.total:
            for d in report.differences:
                if d["table"] == table:
                    what = d["what"]
                    if isinstance(what, dict):
                        what = ", ".join("%s=%s" % item for item in what.items())
                    print("%s: only in %s: %s: %s" % (table, d["side"], d["kind"], what)
                          if d["kind"] != "table" else "%s: table only in %s" % (table, d["side"]))
            hidden = report.total[table] - report.shown[table]
            if hidden:
                print("%s: and %d more differences" % (table, hidden))
        print("different: %d tables compared, %d with differences" % (tables, len(report.total)))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
