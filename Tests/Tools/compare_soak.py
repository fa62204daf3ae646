#!/usr/bin/python3
"""Runs `cairn compare` again and again while a program writes and `cairn replicate` follows; it must be right each time.

    compare_soak.py --cairn .build/debug/cairn --pair pg-sqlite --rows 2000 --seconds 60 --planted 400 [--repair]

First nothing may be found. Then plant.py plants differences at the target, and exactly these must be found, however
often the comparison runs. The writers only touch rows of their own, in the very tables that have the planted ones.
The keys of these rows are beyond all others, and one of the rows is updated all the time. With --repair,
`cairn compare --repair` mends the differences in the end, and nothing may be left.

Prints a line per comparison, and a summary. Exit status: 0 all right, 1 not, 2 usage.
"""
import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time

import libpq
from schema_soak import HERE, Cairn, run_soak, say


class Writer(threading.Thread):
    """Inserts, updates and deletes rows of its own, in all tables of make_sample.py."""

    def __init__(self, source, number, rate):
        super().__init__(daemon=True)
        self.source, self.number, self.pause = source, number, 1 / rate
        self.ended, self.error, self.transactions = threading.Event(), None, 0
        self.r = random.Random(number)
        self.serial = 0

    def key(self, table, n):
        n = n * 4 + self.number
        return {"by_int": "%d" % (10 ** 9 + n), "by_text": "'w-%d'" % n, "by_pair": "'w', %d" % n,
                "by_uuid": "'ffffffff-0000-0000-0000-%012x'" % n, "by_number": "%d" % (10 ** 13 + n), "keyless": "%d" % (1000 + n),
                "by_bytes": "'\\x%016x'" % n if self.is_postgres else "x'%016x'" % n,
                "by_time": "'2130-01-01 %02d:%02d:%02d.%06d'" % (n // 3600 % 24, n // 60 % 60, n % 60, 1 + n // 86400)}[table]

    def run(self):
        try:
            self.is_postgres = self.source.startswith("postgresql")
            db = libpq.Connection(self.source, "writer") if self.is_postgres else sqlite3.connect(
                self.source.removeprefix("sqlite:"), timeout=30, isolation_level=None)
            run = db.run if self.is_postgres else db.execute
            columns = {"by_int": "id", "by_text": "code", "by_pair": "quay, number", "by_uuid": "id", "by_bytes": "hash",
                       "by_number": "no", "by_time": "at_key", "keyless": "grp"}
            insert = "INSERT INTO {0}({1}, n, s, f, at, v) VALUES ({2}, {3}, 'wörd {3}', {3}.5, '2024-01-01 00:00:00.{4:06d}', 'written')"
            run(insert.format("by_int", "id", self.key("by_int", 0), 0, 1))
            alive = {table: [] for table in columns}
            while not self.ended.is_set():
                run("BEGIN" if self.is_postgres else "BEGIN IMMEDIATE")
                run("UPDATE by_int SET n = n + 1 WHERE id = " + self.key("by_int", 0))
                for _ in range(self.r.randrange(1, 5)):
                    table = self.r.choice(list(columns))
                    where = "(%s) = (%s)" % (columns[table], self.key(table, self.r.choice(alive[table]))) if alive[table] else None
                    dice = self.r.random()
                    if where is None or dice < 0.4:
                        self.serial += 1
                        alive[table].append(self.serial)
                        run(insert.format(table, columns[table], self.key(table, self.serial), self.r.randrange(1000), self.r.randrange(1, 10 ** 6)))
                    elif dice < 0.8:
                        run("UPDATE %s SET s = '%x', at = NULL WHERE %s" % (table, self.r.getrandbits(60), where))
                    else:
                        n = alive[table].pop(self.r.randrange(len(alive[table])))
                        run("DELETE FROM %s WHERE (%s) = (%s)" % (table, columns[table], self.key(table, n)))
                run("COMMIT")
                self.transactions += 1
                self.ended.wait(self.pause)
        except (sqlite3.Error, libpq.Error) as error:
            self.error = str(error)


class Soak:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        engines = args.pair.split("-")
        if "pg" in engines:
            self.server = os.path.join(folder, "pg")
            subprocess.run([os.path.join(HERE, "pgserver.sh"), "start", self.server, "--while", str(os.getpid())], check=True)
        self.source, self.target = self.database("source", engines[0]), self.database("target", engines[1])
        self.cairn = Cairn(args, self.source, self.target, folder)
        self.planted = os.path.join(folder, "planted")
        open(self.planted, "w").close()
        self.bad, self.runs = [], 0

    def database(self, name, engine):
        if engine == "sqlite":
            return "sqlite:" + os.path.join(self.folder, name + ".db")
        url = "postgresql:///%s?host=%s&user=postgres"
        with libpq.Connection(url % ("postgres", self.server)) as db:
            db.run("CREATE DATABASE " + name)
        return url % (name, self.server)

    def tool(self, name, *arguments, **options):
        return subprocess.run([sys.executable, os.path.join(HERE, name), *map(str, arguments)], text=True, **options)

    def compare(self, *more):
        """Status of cairn compare, and what is wrong with what it found."""
        begun = time.monotonic()
        found = os.path.join(self.folder, "found-%d" % self.runs)
        self.runs += 1
        with open(found, "w") as out:
            done = subprocess.run([self.args.cairn, "compare", "--from", self.source, "--to", self.target, "--state",
                                   os.path.join(self.folder, "state"), "--json", "--limit", "1000000", *more],
                                  stdout=out, stderr=subprocess.PIPE, text=True)
        judged = self.tool("check_compare.py", self.planted, found, "--shown", 5, capture_output=True)
        with open(found, encoding="utf-8") as lines:
            last = (lines.read().splitlines() or [""])[-1]
        wanted = 1 if os.path.getsize(self.planted) else 0
        right = judged.returncode == 0 and (more or done.returncode == wanted)
        say(event="compare", more=more, status=done.returncode, seconds=round(time.monotonic() - begun, 1), right=bool(right), judged=judged.stdout.splitlines()[-1:])
        if not right:
            self.bad.append("compare %s: status %d: %s %s %s" % (more, done.returncode, judged.stdout[-1500:], done.stderr[-500:], last[:500]))
            say(event="wrong", what=self.bad[-1])
        return done.returncode

    def run(self):
        self.tool("make_sample.py", self.source, "--rows", self.args.rows, check=True)
        self.cairn.start()
        if not self.cairn.wait_for('"copied"', 300):
            say(event="ended", what=self.cairn.said()[-1000:])
            return 1
        writers = [Writer(self.source, n, self.args.rate / self.args.writers) for n in range(self.args.writers)]
        for writer in writers:
            writer.start()
        end = time.monotonic() + self.args.seconds
        while time.monotonic() < end - self.args.seconds / 2 and not self.bad:
            self.compare()
        with open(self.planted, "w") as out:
            # A row that a writer changes must not be planted: only those that were there before.
            self.tool("plant.py", self.target, "--count", self.args.planted, "--seed", self.args.seed, "--where", "coalesce(v, '') <> 'written'", stdout=out, check=True)
        while time.monotonic() < end and not self.bad:
            self.compare()
        if self.args.repair and not self.bad:
            status = self.compare("--repair")
            if status:
                self.bad.append("--repair exits with %d" % status)
            open(self.planted, "w").close()
            self.compare()
        for writer in writers:
            writer.ended.set()
            writer.join()
            if writer.error:
                self.bad.append("writer: " + writer.error)
        if self.cairn.child.poll() is not None:
            self.bad.append("replicate ended: " + self.cairn.said()[-800:])
        self.cairn.stop()
        if self.args.repair and not self.bad:
            status, text = self.cairn.once()
            equal = self.tool("compare_engines.py", self.source, self.target, capture_output=True)
            if status or equal.returncode:
                self.bad.append("in the end: %d %s %s" % (status, text[-500:], equal.stdout[-1000:]))
        say(event="summary", pair=self.args.pair, seed=self.args.seed, comparisons=self.runs, transactions=sum(w.transactions for w in writers),
            wrong=self.bad, ok=not self.bad)
        return 1 if self.bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cairn", required=True, metavar="BINARY")
    parser.add_argument("--pair", required=True, choices=("sqlite-sqlite", "sqlite-pg", "pg-sqlite", "pg-pg"))
    parser.add_argument("--rows", type=int, default=2000, help="of each of the eight tables")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--planted", type=int, default=400)
    parser.add_argument("--rate", type=float, default=200, help="transactions a second, in all")
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repair", action="store_true")
    parser.add_argument("--keep", metavar="FOLDER", help="work in this folder, and keep it")
    args = parser.parse_args()
    args.option, args.timeout = [], 180
    return run_soak(Soak, args)

if __name__ == "__main__":
    sys.exit(main())
