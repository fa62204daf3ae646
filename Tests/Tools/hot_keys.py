#!/usr/bin/python3
"""Write to a few rows of a database, SQLite or PostgreSQL, that others write to as well, at other nodes.

    hot_keys.py sqlite:shop.db --node a --seed 1 --seconds 5
    hot_keys.py "postgresql:///shop?host=/tmp/pg" --node b --seed 2 --transactions 100 --pause-ms 20

Table `hot` has a few keys, which are inserted, updated, deleted and changed. To `once` rows are only added, each with a
key of its own, so that their number shows whether each transaction came once. `--schema` makes the tables and ends.
Without it, the program waits until they are there. Prints how many rows it committed to `once`; SIGTERM ends it. A
statement that the database refuses (a deadlock, a key that is taken) is rolled back and not counted.
"""
import argparse
import random
import signal
import sqlite3
import sys
import time

import libpq

SCHEMA = ("CREATE TABLE hot(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER, note TEXT)",
          "CREATE TABLE once(node TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (node, number))",
          "INSERT INTO hot VALUES (1, 'first', 0, NULL), (2, 'first', 0, NULL), (3, 'first', 0, NULL)")
KEYS = 6


class SQLite:
    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=20, isolation_level=None)

    def run(self, sql):
        self.db.execute(sql)


def connect(url):
    return SQLite(url.removeprefix("sqlite:").removeprefix("//")) if url.startswith("sqlite:") else libpq.Connection(url)


def statements(node, step, random):
    """The statements of one transaction; rows by rising keys, so that programs never wait in a circle."""
    made = []
    for key in sorted(random.sample(range(1, KEYS + 1), random.choice((1, 1, 2, 3)))):
        kind = random.randrange(10)
        name = "'%s %d'" % (node, step)
        if kind < 2:
            made.append("INSERT INTO hot VALUES (%d, %s, %d, NULL) ON CONFLICT (id) DO NOTHING" % (key, name, step))
        elif kind == 2:
            made.append("DELETE FROM hot WHERE id = %d" % key)
        elif kind < 6:
            made.append("UPDATE hot SET name = %s WHERE id = %d" % (name, key))
        elif kind < 8:
            made.append("UPDATE hot SET stock = stock + %d, note = NULL WHERE id = %d" % (step % 7, key))
        elif kind == 8:
            made.append("UPDATE hot SET note = %s WHERE id = %d" % (name, key))
        else:
            made.append("UPDATE hot SET id = id + %d WHERE id = %d AND NOT EXISTS "
                        "(SELECT 1 FROM hot WHERE id = %d)" % (KEYS, key, key + KEYS))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--schema", action="store_true")
    parser.add_argument("--node", default="a")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--transactions", type=int, default=1 << 40)
    parser.add_argument("--pause-ms", type=float, default=10)
    options = parser.parse_args()
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    db = connect(options.url)
    if options.schema:
        for statement in SCHEMA:
            db.run(statement)
        return
    limit = time.monotonic() + options.seconds
    while not ended:
        try:
            db.run("SELECT count(*) FROM once")
            break
        except (sqlite3.Error, libpq.Error):
            time.sleep(0.01)
    chance = random.Random("%d %s" % (options.seed, options.node))
    committed = step = 0
    while not ended and time.monotonic() < limit and step < options.transactions:
        step += 1
        try:
            # Who writes at once never has to give up what it has read.
            db.run("BEGIN IMMEDIATE" if isinstance(db, SQLite) else "BEGIN")
            db.run("INSERT INTO once VALUES ('%s', %d)" % (options.node, step))
            for statement in statements(options.node, step, chance):
                db.run(statement)
            db.run("COMMIT")
            committed += 1
        except (sqlite3.Error, libpq.Error) as error:
            print(error, file=sys.stderr)
            try:
                db.run("ROLLBACK")
            except (sqlite3.Error, libpq.Error):
                pass
        time.sleep(chance.uniform(0, options.pause_ms * 2) / 1000)
    print(committed)


if __name__ == "__main__":
    main()
