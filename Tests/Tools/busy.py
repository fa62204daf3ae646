#!/usr/bin/python3
"""A program that does not wait: one-row transactions in a tight loop, with busy
timeout 0, in WAL mode. Counts how often SQLite answers SQLITE_BUSY.

Run alone it must see none, so every one seen comes from another process.
Prints {"attempts": n, "busy": n, "per_second": n, ...}.
"""
import argparse
import json
import sqlite3
import sys
import time


def is_busy(error):
    text = str(error)
    return "locked" in text or "busy" in text


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("db", metavar="DB")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--transactions", type=int, help="stop after this many attempts")
    parser.add_argument("--setup", action="store_true",
                        help="only switch to WAL and create the table busy_log")
    args = parser.parse_args()
    if args.seconds is None and args.transactions is None and not args.setup:
        parser.error("give --seconds, --transactions or both")

    # Setting up may wait; only the loop is measured without patience.
    db = sqlite3.connect(args.db, timeout=30, isolation_level=None)
    mode = db.execute("PRAGMA journal_mode").fetchone()[0]
    if mode != "wal":
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        print("cannot switch to WAL mode", file=sys.stderr)
        return 2
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'busy_log'").fetchone():
        db.execute("CREATE TABLE IF NOT EXISTS busy_log("
                   "id INTEGER PRIMARY KEY, at REAL NOT NULL, note TEXT)")
    if args.setup:
        return 0
    # Rows already there were counted by an earlier run.
    first = db.execute("SELECT count(*) FROM busy_log").fetchone()[0]
    db.execute("PRAGMA busy_timeout = 0")

    attempts = committed = 0
    busy = {"BEGIN": 0, "INSERT": 0, "COMMIT": 0}
    longest = 0.0
    start = time.monotonic()
    while ((args.seconds is None or time.monotonic() - start < args.seconds)
           and (args.transactions is None or attempts < args.transactions)):
        attempts += 1
        began = time.monotonic()
        stage = "BEGIN"
        try:
            db.execute("BEGIN IMMEDIATE")
            stage = "INSERT"
            db.execute("INSERT INTO busy_log(at, note) VALUES (?, ?)", (began, "n%d" % attempts))
            stage = "COMMIT"
            db.execute("COMMIT")
            committed += 1
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            busy[stage] += 1
            if db.in_transaction:
                db.execute("ROLLBACK")
        longest = max(longest, time.monotonic() - began)
    elapsed = time.monotonic() - start
    present = db.execute("SELECT count(*) FROM busy_log").fetchone()[0] - first
    print(json.dumps({
        "attempts": attempts, "busy": sum(busy.values()),
        "per_second": round(attempts / elapsed, 1) if elapsed else 0,
        "committed": committed, "present": present, "busy_at": busy,
        "longest_ms": round(longest * 1000, 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
