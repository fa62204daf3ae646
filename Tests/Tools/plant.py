#!/usr/bin/python3
"""Plants differences into a database that equals another one, and says which.

    plant.py sqlite:copy.db --count 1000 --seed 3 >planted.jsonl
    plant.py "postgresql:///copy?host=/tmp/pg" --tables 'order*' >planted.jsonl

Each difference is in a row of its own: a row that is missing or one more; one bit of a number, text or blob.
Other kinds are NULL against empty text; 1 against '1'; a space at the end; one microsecond; -0 against 0. Kinds take
turns over all tables, as far as the table's columns and values allow; keys stay as they are. Each write is read back: a
write that did not change anything is planted otherwise.

Writes without triggers (SQLite: they are off for this connection; PostgreSQL: session_replication_role = replica), in
one transaction. Prints one JSON line for each: table, key, kind (missing, extra, different), how, column, old and new.
For a table without a key, the key is the whole row. check_compare.py reads these lines.

Exit status: 0 as many as asked for, 1 fewer, 2 cannot.
"""
import argparse
import collections
import ctypes
import ctypes.util
import fnmatch
import json
import math
import random
import re
import sqlite3
import struct
import sys

import compare
import libpq
from compare_engines import PostgresSide, path_of
from libpq import literal, quote

MOMENT = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")
HOWS = ("missing", "extra", "one bit", "null and empty", "class", "space at the end", "one microsecond", "sign of zero",
        "null")


class NotHere(Exception):
    """This kind of difference cannot be in that row."""


def flipped(r, value, bits):
    """An integer with one of its lower bits changed."""
    return value ^ (1 << r.randrange(bits))


def flipped_float(r, value):
    if math.isnan(value) or math.isinf(value):
        raise NotHere
    bits, = struct.unpack(">q", struct.pack(">d", value))
    other, = struct.unpack(">d", struct.pack(">q", bits ^ (1 << r.randrange(52))))
    return other


def flipped_text(r, data):
    """One bit of a letter or digit."""
    places = [i for i, b in enumerate(data) if 48 <= b < 58 or 97 <= b < 122]
    if not places:
        raise NotHere
    place = r.choice(places)
    return data[:place] + bytes((data[place] ^ 1,)) + data[place + 1:]


def flipped_bytes(r, data):
    if not data:
        raise NotHere
    place = r.randrange(len(data))
    return data[:place] + bytes((data[place] ^ (1 << r.randrange(8)),)) + data[place + 1:]


def later(text):
    """The same moment and a microsecond, without carrying."""
    found = MOMENT.match(text)
    if not found:
        raise NotHere
    fraction = (found.group(1) or b".")[1:].ljust(6, b"0")[:6]
    if fraction == b"999999":
        raise NotHere
    return text[:19] + b"." + (b"%06d" % (int(fraction) + 1)).rstrip(b"0") + text[found.end():]


def shown(value):
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "x'%s'" % value.hex()
    return value


# ---- SQLite

class Plain:
    """libsqlite3 itself: Python's module cannot turn triggers off."""

    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(ctypes.util.find_library("sqlite3") or "libsqlite3.so.0")
        for name in ("sqlite3_errmsg",):
            getattr(lib, name).restype = ctypes.c_char_p
        self.db = ctypes.c_void_p()
        self.check(lib.sqlite3_open(path.encode(), ctypes.byref(self.db)))
        lib.sqlite3_busy_timeout(self.db, 10000)
        self.check(lib.sqlite3_db_config(self.db, 1003, 0, None))       # SQLITE_DBCONFIG_ENABLE_TRIGGER

    def check(self, status):
        if status not in (0, 100, 101):
            raise sqlite3.OperationalError(self.lib.sqlite3_errmsg(self.db).decode())

    def run(self, sql, values=()):
        """Rows of (storage class, value) of the statement."""
        lib, statement = self.lib, ctypes.c_void_p()
        self.check(lib.sqlite3_prepare_v2(self.db, sql.encode(), -1, ctypes.byref(statement), None))
        try:
            for i, (storage, value) in enumerate(values, 1):
                if storage == "integer":
                    lib.sqlite3_bind_int64(statement, i, ctypes.c_int64(value))
                elif storage == "real":
                    lib.sqlite3_bind_double(statement, i, ctypes.c_double(value))
                elif storage != "null":
                    bind = lib.sqlite3_bind_text if storage == "text" else lib.sqlite3_bind_blob
                    bind(statement, i, value, len(value), ctypes.c_void_p(-1))
            rows = []
            while True:
                status = lib.sqlite3_step(statement)
                self.check(status)
                if status != 100:
                    return rows
                rows.append([self.column(statement, i) for i in range(lib.sqlite3_column_count(statement))])
        finally:
            lib.sqlite3_finalize(statement)

    def column(self, statement, i):
        lib = self.lib
        lib.sqlite3_column_int64.restype, lib.sqlite3_column_double.restype = ctypes.c_int64, ctypes.c_double
        lib.sqlite3_column_blob.restype = ctypes.c_void_p
        kind = lib.sqlite3_column_type(statement, i)
        if kind == 1:
            return "integer", lib.sqlite3_column_int64(statement, i)
        if kind == 2:
            return "real", lib.sqlite3_column_double(statement, i)
        if kind == 5:
            return "null", None
        size = lib.sqlite3_column_bytes(statement, i)
        return "text" if kind == 3 else "blob", ctypes.string_at(lib.sqlite3_column_blob(statement, i), size) if size else b""


def same(one, two):
    """Compares values of SQLite, reals by their bits."""
    return one[0] == two[0] and (struct.pack(">d", one[1]) == struct.pack(">d", two[1]) if one[0] == "real" else one[1] == two[1])


class SQLiteTarget:
    def __init__(self, path):
        self.side = compare.Side("target", path)
        self.db = Plain(path)

    def begin(self):
        self.side.db.execute("COMMIT")
        self.db.run("BEGIN IMMEDIATE")

    def end(self):
        self.db.run("COMMIT")

    def tables(self):
        return [(name, name) for name in self.side.tables([])]

    def open(self, table):
        rows = self.side.query("SELECT name, type, \"notnull\", pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid", table)
        self.columns = [r[0] for r in rows if r[4] == 0]
        self.affinity = {r[0]: (r[1] or "").upper() for r in rows}
        self.key = [r[0] for r in sorted(rows, key=lambda r: r[3]) if r[3]]
        unique = {n for n, in self.side.query("SELECT x.name FROM pragma_index_list(?) l, pragma_index_info(l.name) x WHERE l.\"unique\"", table)}
        self.plain = [c for c in self.columns if c not in self.key and c not in unique]
        self.address = ", ".join(map(quote, self.key)) or "rowid"

    def pick(self, table, count):
        return self.db.run("SELECT %s FROM %s %s ORDER BY random() LIMIT %d" % (self.address, quote(table), self.only, count))

    def where(self):
        return " AND ".join("%s IS ?" % part for part in (map(quote, self.key) if self.key else ["rowid"]))

    def row(self, table, place):
        rows = self.db.run("SELECT %s FROM %s WHERE %s" % (", ".join(map(quote, self.columns)), quote(table), self.where()), place)
        return dict(zip(self.columns, rows[0])) if rows else None

    def changed(self, r, how, column, value):
        """Another value, or NotHere."""
        storage, content = value
        free = self.affinity[column] in ("", "BLOB")
        if how == "one bit":
            if storage == "integer":
                return storage, flipped(r, content, 1 if content in (0, 1) else 31)
            if storage == "real":
                return storage, flipped_float(r, content)
            if storage == "text":
                return storage, flipped_text(r, content)
            if storage == "blob":
                return storage, flipped_bytes(r, content)
        elif how == "null and empty":
            texts = any(word in self.affinity[column] for word in ("CHAR", "TEXT", "CLOB")) or not self.affinity[column]
            if storage == "null" and texts:
                return "text", b""
            if storage == "text" and not content:
                return "null", None
        elif how == "null" and storage != "null":
            return "null", None
        elif how == "class" and free:
            if storage in ("integer", "real"):
                return "text", repr(content).encode()
            if storage == "text" and re.fullmatch(rb"-?[1-9]\d{0,17}", content):
                return "integer", int(content)
            if storage == "blob":
                return "text", content
            if storage == "text":
                return "blob", content
        elif how == "space at the end" and storage == "text":
            return storage, content[:-1] if content.endswith(b" ") else content + b" "
        elif how == "one microsecond" and storage == "text":
            return storage, later(content)
        elif how == "sign of zero" and storage == "real" and content == 0:
            return storage, -content
        raise NotHere

    def set(self, table, place, column, value):
        self.db.run("UPDATE %s SET %s = ? WHERE %s" % (quote(table), quote(column), self.where()), [value, *place])
        return not same(self.row(table, place)[column], value)

    def delete(self, table, place):
        self.db.run("DELETE FROM %s WHERE %s" % (quote(table), self.where()), place)

    def insert_like(self, r, table, row):
        """Another row with a key of its own; its key and place."""
        new = dict(row)
        for column in self.key:
            new[column] = self.other_key(r, table, column, row[column])
        names = list(new)
        self.db.run("INSERT INTO %s(%s) VALUES (%s)" % (quote(table), ", ".join(map(quote, names)), ", ".join("?" * len(names))), list(new.values()))
        return new

    def other_key(self, r, table, column, value):
        storage, content = value
        if storage == "integer":
            return storage, r.getrandbits(40) + 10 ** 12
        if storage == "real":
            return storage, content + r.random()
        if storage == "blob":
            return storage, content + r.getrandbits(64).to_bytes(8, "big")
        if MOMENT.match(content):
            return storage, b"2150" + content[4:]
        if len(content) == 36 and content[8:9] == b"-":
            return storage, b"%08x" % r.getrandbits(32) + content[8:]
        return storage, content + b"~%x" % r.getrandbits(32)

    def say(self, value):
        storage, content = value
        return content.hex() if storage == "blob" else shown(content)

    def describe(self, value):
        storage, content = value
        return "NULL" if storage == "null" else "%s %s" % (storage, content.hex() if storage == "blob" else repr(shown(content)))


# ---- PostgreSQL

class PostgresTarget:
    TEXTS = ("text", "varchar", "bpchar")
    BITS = {"int2": 14, "int4": 30, "int8": 62}

    def __init__(self, url):
        self.side = PostgresSide("target", url)
        self.db = libpq.Connection(url, "plant")

    def begin(self):
        self.side.db.run("COMMIT")
        self.db.run("BEGIN; SET LOCAL session_replication_role = replica")

    def end(self):
        self.db.run("COMMIT")

    def tables(self):
        return [("%s.%s" % (schema, name) if schema != "public" else name, (schema, name, kind))
                for schema, name, kind in self.side.tables().values()]

    def open(self, table):
        self.name = self.side.relation(table).removeprefix("ONLY ")
        columns = [c for c in self.side.columns(table) if not c.generated]
        self.columns = [c.name for c in columns]
        self.kinds = {c.name: c.kind for c in columns}
        self.key = [c.name for c in sorted(columns, key=lambda c: c.key) if c.key]
        unique = {n for n, in self.side.db.texts(
            "SELECT attname FROM pg_attribute a JOIN pg_index i ON i.indrelid = attrelid AND attnum = ANY (i.indkey) "
            "WHERE indisunique AND attrelid = %s" % self.side.regclass(table))}
        self.plain = [c for c in self.columns if c not in self.key and c not in unique]

    def pick(self, table, count):
        address = ", ".join(map(quote, self.key)) or "tableoid, ctid"
        return self.db.query("SELECT %s FROM %s %s ORDER BY random() LIMIT %d" % (address, self.name, self.only, count))

    def where(self, place):
        return " AND ".join("%s = %s" % (name, self.literal(value)) for name, value in
                            zip(map(quote, self.key) if self.key else ["tableoid", "ctid"], place))

    def literal(self, value):
        return "NULL" if value is None else literal(value.decode())

    def row(self, table, place):
        rows = self.db.query("SELECT %s FROM %s WHERE %s" % (", ".join(map(quote, self.columns)), self.name, self.where(place)))
        return dict(zip(self.columns, rows[0])) if rows else None

    def changed(self, r, how, column, value):
        kind = self.kinds[column]
        if value is None:
            if how == "null and empty" and kind in self.TEXTS:
                return b""
            raise NotHere
        if how == "null":
            return None
        if how == "null and empty" and kind in self.TEXTS and not value:
            return None
        if how == "one bit":
            if kind in self.BITS:
                return b"%d" % flipped(r, int(value), self.BITS[kind])
            if kind == "float8":
                return repr(flipped_float(r, float(value))).encode()
            if kind == "bytea":
                return b"\\x" + flipped_bytes(r, bytes.fromhex(value[2:].decode())).hex().encode()
            if kind in self.TEXTS:
                return flipped_text(r, value)
        if how == "space at the end" and kind in ("text", "varchar"):
            return value[:-1] if value.endswith(b" ") else value + b" "
        if how == "one microsecond" and kind in ("timestamp", "timestamptz"):
            return later(value)
        if how == "sign of zero" and kind in ("float4", "float8") and float(value) == 0:
            return b"0" if value.startswith(b"-") else b"-0"
        raise NotHere

    def guarded(self, sql):
        self.db.run("SAVEPOINT one")
        try:
            return self.db.run(sql)
        except libpq.Error as error:
            self.db.run("ROLLBACK TO one")
            raise NotHere from error
        finally:
            self.db.run("RELEASE one")

    def set(self, table, place, column, value):
        before = self.row(table, place)[column]
        ctid = self.guarded("UPDATE %s SET %s = %s WHERE %s" % (self.name, quote(column), self.literal(value), self.where(place)))
        if self.key:
            return self.row(table, place)[column] == before
        return ctid != 1

    def delete(self, table, place):
        self.guarded("DELETE FROM %s WHERE %s" % (self.name, self.where(place)))

    def insert_like(self, r, table, row):
        new = dict(row)
        for column in self.key:
            new[column] = self.other_key(r, self.kinds[column], row[column])
        self.guarded("INSERT INTO %s(%s) OVERRIDING SYSTEM VALUE VALUES (%s)" % (
            self.name, ", ".join(map(quote, new)), ", ".join(map(self.literal, new.values()))))
        return new

    def other_key(self, r, kind, value):
        if kind in ("int2", "int4", "int8"):
            return b"%d" % (10 ** 12 + r.getrandbits(40) if kind == "int8" else 10 ** 9 + r.getrandbits(29) if kind == "int4" else r.randrange(32767))
        if kind == "numeric":
            return b"9%012d" % r.getrandbits(39)
        if kind == "uuid":
            return b"%08x" % r.getrandbits(32) + value[8:]
        if kind == "bytea":
            return value + b"%016x" % r.getrandbits(64)
        if kind in ("timestamp", "timestamptz", "date"):
            return b"2150" + value[4:]
        if kind in ("text", "varchar"):
            return value + b"~%x" % r.getrandbits(32)
        raise NotHere

    def say(self, value):
        return value[2:].decode() if value is not None and value.startswith(b"\\x") else shown(value)

    def describe(self, value):
        return "NULL" if value is None else repr(shown(value))


# ---- planting

def plant(target, table, name, place, how, r, row):
    """One difference in that row, as a line; NotHere where it cannot be."""
    line = {"table": name, "how": how}
    whole = lambda values: {c: target.say(v) for c, v in values.items()}
    keyed = lambda values: {c: target.say(values[c]) for c in target.key} or whole(values)
    line["keyless"] = not target.key
    if how == "missing":
        target.delete(table, place)
        return dict(line, kind="missing", key=keyed(row))
    if how == "extra":
        return dict(line, kind="extra", key=keyed(target.insert_like(r, table, row)))
    for column in r.sample(target.plain, len(target.plain)):
        try:
            value = target.changed(r, how, column, row[column])
            if target.set(table, place, column, value):
                # Not what was wanted: this column cannot hold it. Whatever it holds now goes back.
                target.set(table, place, column, row[column])
                continue
        except NotHere:
            continue
        after = dict(row, **{column: value})
        line.update(kind="different", key=keyed(row), column=column, old=target.describe(row[column]), new=target.describe(value))
        if not target.key:
            line["after"] = whole(after)
        return line
    raise NotHere


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", metavar="P,...", help="only tables matching these patterns")
    parser.add_argument("--where", metavar="CONDITION", help="only rows like these")
    args = parser.parse_args()
    r = random.Random(args.seed)
    path = path_of(args.url)
    try:
        target = PostgresTarget(args.url) if path is None else SQLiteTarget(path)
        patterns = [p for p in (args.tables or "*").split(",") if p]
        tables = [t for t in sorted(target.tables()) if any(fnmatch.fnmatchcase(t[0], p) for p in patterns)]
        target.only = "WHERE " + args.where if args.where else ""
        target.begin()
        left = args.count
        for index, (name, table) in enumerate(tables):
            target.open(table)
            share = left // (len(tables) - index)
            places = target.pick(table, share * 4)
            turns = collections.deque(HOWS)
            while share and places:
                place = places.pop()
                row = target.row(table, place)
                if row is None:
                    continue
                for how in list(turns):
                    try:
                        line = plant(target, table, name, place, how, r, row)
                    except NotHere:
                        continue
                    turns.remove(how)
                    turns.append(how)
                    print(json.dumps(line, ensure_ascii=False))
                    left, share = left - 1, share - 1
                    break
        target.end()
    except (compare.CannotCompare, sqlite3.Error, libpq.Error) as error:
        print("cannot plant: %s" % error, file=sys.stderr)
        return 2
    if left:
        print("%d of %d were planted" % (args.count - left, args.count), file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
