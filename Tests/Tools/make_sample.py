#!/usr/bin/python3
"""Makes a database with keys and values of many kinds, the same on every run.

    make_sample.py sqlite:shop.db --rows 1000
    make_sample.py "postgresql:///shop?host=/tmp/pg" --rows 100000 --seed 2

Tables by_int, by_text, by_pair, by_uuid, by_bytes, by_number, by_time and keyless have --rows rows each, and the same
further columns. These are a number, text (mixed case, beyond ASCII, empty, with spaces at its end), bytes, and a float
(0, -0, tiny, huge). Others are an instant with microseconds, an exact number, one without a type, and text of a limited
length. In SQLite and PostgreSQL the rows are the same.

Exit status: 0 done, 2 the tables are there already, or the database cannot be had.
"""
import argparse
import random
import sqlite3
import struct
import sys

import libpq
from compare_engines import path_of

KEYS = {
    "by_int": ("id INTEGER PRIMARY KEY", "id bigint PRIMARY KEY"),
    "by_text": ("code TEXT PRIMARY KEY NOT NULL", "code text COLLATE \"C\" PRIMARY KEY"),
    "by_pair": ("quay TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (quay, number)", "quay text, number integer, PRIMARY KEY (quay, number)"),
    "by_uuid": ("id UUID PRIMARY KEY NOT NULL", "id uuid PRIMARY KEY"),
    "by_bytes": ("hash BLOB PRIMARY KEY NOT NULL", "hash bytea PRIMARY KEY"),
    "by_number": ("no DECIMAL(14,0) PRIMARY KEY NOT NULL", "no numeric(14,0) PRIMARY KEY"),
    "by_time": ("at_key TIMESTAMP PRIMARY KEY NOT NULL", "at_key timestamp PRIMARY KEY"),
    "keyless": ("grp INTEGER", "grp bigint"),
}
LITE = ("n INTEGER, s TEXT, x BLOB, f REAL, at TIMESTAMP, amount DECIMAL(12,2), free", ", v VARCHAR(40)")
POSTGRES = ("n bigint, s text, x bytea, f double precision, at timestamp, amount numeric(12,2), free text", ", v varchar(40)")
WORDS = ("Alba", "alba", "ALBA", "Zoë", "Ørsta", "港", "it's", "", "1", "1 ", "é", "e\u0301", "tab\t", "back\\slash", "x" * 60)


def moment(number):
    """A distinct instant of a number, with microseconds."""
    micro = number * 7919 % 1000000
    second, minute, hour = number // 3 % 60, number // 180 % 60, number // 10800 % 24
    day, month, year = number // 259200 % 28 + 1, number // 7257600 % 12 + 1, 1999 + number // 87091200
    text = "%04d-%02d-%02d %02d:%02d:%02d" % (year, month, day, hour, minute, second)
    return text + (".%06d" % micro).rstrip("0") if micro else text


def key(table, number, r):
    if table == "by_int":
        return [number * 3 - 50]
    if table == "by_text":
        return ["%s-%x" % (r.choice(("a", "A", "b", "Zoë", "zoë", "Ö", "ß", "", "港", "~")), number)]
    if table == "by_pair":
        return [r.choice(("north", "North", "südlich", "")) + str(number % 7), number]
    if table == "by_uuid":
        text = "%032x" % r.getrandbits(128)
        return ["-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))]
    if table == "by_bytes":
        return [r.getrandbits(64).to_bytes(8, "big") + (b"\0" if number % 2 else b"") + struct.pack(">I", number)]
    if table == "by_number":
        return [number * 1000003 % 10 ** 13]
    if table == "by_time":
        return [moment(number)]
    return [r.randrange(10)]


def values(r):
    return [r.choice((None, 0, -1, r.getrandbits(40), 2 ** 63 - 1, -2 ** 63)),
            r.choice((None, r.choice(WORDS) + str(r.randrange(10)), r.choice(WORDS), "word %d " % r.getrandbits(20))),
            r.choice((None, b"", r.getrandbits(200).to_bytes(25, "big"))),
            r.choice((None, 0.0, r.random(), r.random() * 1e300, 5e-324, float(r.randrange(100)))),
            r.choice((None, moment(r.getrandbits(33)), "2024-02-29 23:59:59.999999")),
            r.choice((None, r.randrange(10 ** 10) / 4, 0.5)),
            r.choice((None, "1", "0", "", "one %d" % r.randrange(99), " padded ")),
            r.choice((None, "", "short", "Ørsta %d" % r.randrange(1000)))]


def copy_text(value):
    if value is None:
        return "\\N"
    if isinstance(value, bytes):
        return "\\\\x" + value.hex()
    if isinstance(value, float):
        return repr(value)
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def make_sqlite(path, args):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("BEGIN")
    for table, (lite, _) in KEYS.items():
        parts = lite.split(", PRIMARY KEY")
        db.execute("CREATE TABLE %s(%s, %s%s%s)" % (table, parts[0], *LITE, ", PRIMARY KEY" + parts[1] if len(parts) > 1 else ""))
        insert = None
        for row in rows(table, args):
            insert = insert or "INSERT INTO %s VALUES (%s)" % (table, ", ".join("?" * len(row)))
            db.execute(insert, row)
    db.execute("COMMIT")
    db.close()


def make_postgres(url, args):
    with libpq.Connection(url, "make_sample") as db:
        db.run("BEGIN")
        for table, (_, postgres) in KEYS.items():
            parts = postgres.split(", PRIMARY KEY")
            db.run("CREATE TABLE %s(%s, %s%s%s)" % (table, parts[0], *POSTGRES, ", PRIMARY KEY" + parts[1] if len(parts) > 1 else ""))
            if table == "keyless":
                db.run("ALTER TABLE keyless REPLICA IDENTITY FULL")
            db.put("COPY %s FROM STDIN" % table, ("\t".join(map(copy_text, row)) + "\n" for row in rows(table, args)))
        db.run("COMMIT")


def rows(table, args):
    r = random.Random("%d:%s" % (args.seed, table))
    for number in range(args.rows):
        yield key(table, number, r) + values(r)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--rows", type=int, default=1000, help="of each table (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    path = path_of(args.url)
    try:
        make_postgres(args.url, args) if path is None else make_sqlite(path, args)
    except (sqlite3.Error, libpq.Error) as error:
        print("cannot make the sample: %s" % error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
