#!/usr/bin/python3
"""Changes schemas under a running replication, and proves that schema and rows are equal at the end.

    schema_soak.py --cairn .build/debug/cairn --pair pg-sqlite --count 200 --seed 7 --kill

Starts what the pair needs (a PostgreSQL server of its own) and `cairn replicate`. Then it runs, one after the other in
random order, the steps of schema_changes.py or schema_changes_pg.py, each with its live writer. With --kill, cairn is
killed (-9) in the middle of each step and started again. At the end cairn is stopped, and run with --once until it has
nothing more to do. Then compare.py, compare_engines.py and compare_schemas.py judge.

A table may wait with `schema-stopped` for a step that declares so (`stop` in its line). Then the statement that cairn
prints is run at the target, and cairn once more. With --ddl-stop every change waits so, and every statement must be
right. Every other end of cairn by itself is reported as `ended`.

Prints a line per event, and a summary as JSON. Exit status: 0 all equal and nothing else seen, 1 something else, 2
usage.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import compare
import compare_engines
import compare_schemas
import libpq

HERE = os.path.dirname(os.path.abspath(__file__))
ERROR = re.compile(r"error \[([a-z-]+)\]: (.*)")


def say(**line):
    print(json.dumps(line, ensure_ascii=False), flush=True)


class Cairn:
    """The replication, as a process that may end."""

    def __init__(self, args, source, target, folder):
        self.args, self.source, self.target, self.folder = args, source, target, folder
        self.child, self.log, self.runs = None, None, 0

    def command(self, *more):
        return [self.args.cairn, "replicate", "--from", self.source, "--to", self.target, "--state",
                os.path.join(self.folder, "state"), *more, *self.args.option]

    def start(self):
        self.runs += 1
        self.log = os.path.join(self.folder, "cairn-%d.log" % self.runs)
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(self.command("--json"), stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def wait_for(self, text, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if text in self.said() or self.child.poll() is not None:
                return self.child.poll() is None
            time.sleep(0.05)
        return False

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def kill(self):
        if self.child.poll() is None:
            os.kill(self.child.pid, signal.SIGKILL)
        self.child.wait()

    def stop(self):
        if self.child.poll() is None:
            os.kill(self.child.pid, signal.SIGTERM)
        try:
            self.child.wait(60)
        except subprocess.TimeoutExpired:
            say(event="hangs", what="cairn does not end within 60 s of SIGTERM")
            self.kill()

    def once(self, *more):
        """Status and output of a run that applies all there is."""
        try:
            done = subprocess.run(self.command("--once", *more), capture_output=True, text=True, errors="replace", timeout=self.args.timeout)
        except subprocess.TimeoutExpired as error:
            return 124, "--once did not end within %d s: %s" % (self.args.timeout, (error.stderr or b"")[-1000:])
        return done.returncode, done.stdout + done.stderr


class Soak:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.rng = random.Random(args.seed)
        engines = args.pair.split("-")
        self.engines = engines
        if "pg" in engines:
            self.server = os.path.join(folder, "pg")
            subprocess.run([os.path.join(HERE, "pgserver.sh"), "start", self.server, "--while", str(os.getpid())], check=True)
        self.source = self.database("source", engines[0])
        self.target = self.database("target", engines[1])
        self.cairn = Cairn(args, self.source, self.target, folder)
        self.tool = [sys.executable, os.path.join(HERE, "schema_changes_pg.py"), self.source] if engines[0] == "pg" else \
            [sys.executable, os.path.join(HERE, "schema_changes.py"), self.path("source"), "--writer",
             "--unhook-command", "%s unhook sqlite:{db} {table}" % args.cairn, "--rehook-command",
             "%s rehook sqlite:{db} {table}" % args.cairn]
        self.steps = [line.split(" ", 1)[1] for line in subprocess.run(
            self.tool[:2] + ["--list"], capture_output=True, text=True, check=True).stdout.splitlines()]
        if args.only:
            self.steps = [s for s in self.steps if s in args.only.split(",")]
        if args.skip:
            self.steps = [s for s in self.steps if s not in args.skip.split(",")]
        self.step_of = {}
        self.may_stop = set()
        self.counts = collections.Counter()
        self.errors = []
        self.ends = collections.Counter()
        self.run_statements = set()

    def path(self, name):
        return os.path.join(self.folder, name + ".db")

    def url(self, name):
        return "postgresql:///%s?host=%s&user=postgres" % (name, self.server)

    def database(self, name, engine):
        if engine == "pg":
            with libpq.Connection(self.url("postgres")) as db:
                db.run("CREATE DATABASE " + name)
            return self.url(name)
        if name == "source":
            db = sqlite3.connect(self.path(name))
            db.execute("PRAGMA journal_mode = WAL")
            db.close()
        return "sqlite:" + self.path(name)

    def run_tool(self, *more, **options):
        return subprocess.Popen(self.tool + list(map(str, more)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    def initialise(self, number):
        child = self.run_tool("--init", "--count", 0, "--prefix", "r%d_" % number, "--seed", self.args.seed + number, "--only", ",".join(self.steps)
                              if self.engines[0] == "pg" else self.steps[0])
        out, _ = child.communicate()
        if child.returncode:
            raise SystemExit("cannot make the tables: " + out)

    def look(self):
        """Notices an end of cairn by itself, and starts it again. The third end with one cause copies all again."""
        if self.cairn.child.poll() is None:
            return
        text = self.cairn.said()
        found = ERROR.search(text)
        what = found.group(0) if found else text[-300:]
        self.ends[what] += 1
        if self.ends[what] == 1:
            say(event="ended", status=self.cairn.child.returncode, what=what)
            self.errors.append("ended: " + what)
        self.counts["ended"] += 1
        if self.ends[what] == 3:
            status, text = self.cairn.once("--existing", "overwrite")
            say(event="copied anew", status=status, what=text[-600:] if status else "")
            self.counts["copied anew"] += 1
        self.cairn.start()
        self.cairn.wait_for('"copied"', 5)

    def one(self, number, step):
        prefix = "r%d_" % number
        settle = self.rng.choice((0, 0, 50, 400, 2500) if not self.args.fast else (0, 0, 50))
        child = self.run_tool("--prefix", prefix, "--seed", self.rng.getrandbits(20), "--only", step, "--settle-ms", settle)
        if self.args.kill:
            time.sleep(self.rng.uniform(0.02, 0.15) if self.rng.random() < 0.3 else self.rng.uniform(0.1, 0.9))
            self.cairn.kill()
            self.counts["kills"] += 1
            time.sleep(self.rng.choice((0, 0, 0.3)))
            self.cairn.start()
        out, _ = child.communicate()
        try:
            line = json.loads(out.splitlines()[-1])
        except (ValueError, IndexError):
            line = {"status": "error", "error": out[-600:]}
        self.counts["steps"] += 1
        self.counts["rows"] += line.get("rows_written", 0)
        if line["status"] != "ok":
            self.counts["step errors"] += 1
            self.errors.append("%s: %s" % (step, line.get("error", line)))
            say(event="step", step=step, prefix=prefix, **{k: v for k, v in line.items() if k != "step"})
        elif self.args.verbose:
            say(event="step", step=step, prefix=prefix, settle=settle)
        if line.get("stop"):
            self.may_stop.add(prefix + step)
        for table in line.get("tables", ()):
            self.step_of[table.replace('"', "").replace(".", "_").lower()] = step
        self.look()

    def owner(self, table):
        """The step whose table this is."""
        table = table.lower().removeprefix("public.").replace(".", "_")
        if table in self.step_of:
            return self.step_of[table]
        rest = re.sub(r"^r\d+_", "", table)
        return max((s for s in self.steps if rest.startswith(s)), key=len, default="?")

    def run(self):
        begun = time.monotonic()
        rounds = -(-self.args.count // len(self.steps))
        self.initialise(0)
        self.cairn.start()
        if not self.cairn.wait_for('"copied"', 120):
            say(event="ended", what=self.cairn.said()[-1500:])
            return 1
        if self.args.ddl_stop:
            self.cairn.stop()
            self.args.option += ["--ddl", "stop"]
            self.cairn.start()
        left = self.args.count
        for number in range(rounds):
            if number:
                self.initialise(number)
            steps = self.rng.sample(self.steps, min(left, len(self.steps)))
            left -= len(steps)
            for index, step in enumerate(steps):
                self.one(number, step)
                if self.args.check_every and (index + 1) % self.args.check_every == 0 and not self.check():
                    return self.finish(begun, {})
                if self.counts["ended"] > 30:
                    return self.finish(begun, {})
        self.check()
        return self.finish(begun, self.different)

    def check(self):
        """Stops, drains, compares, and starts again."""
        self.cairn.stop()
        self.different = collections.defaultdict(list)
        for attempt in range(80):
            status, text = self.cairn.once("--json")
            if status == 0:
                break
            events = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            last = next((e for e in events if e["event"] == "error"), {})
            what = "[%s]: %s" % (last.get("code"), last.get("message", text[-1000:]))
        # The start reports all that waited before; the error reports those that still do.
            names = last.get("table", "").split(", ")
            waiting = list({e["table"]: e for e in events if e["event"] == "waiting" and e["table"] in names}.values())
            if last.get("code") != "schema-stopped" or not self.mend(waiting):
                say(event="once", status=status, what=what, hint=last.get("hint"))
                self.errors.append("--once: status %d: %s" % (status, what))
                self.counts["once failed"] += 1
                break
        if not self.counts["once failed"]:
            self.compare()
        for table, what in self.different.items():
            say(event="different", step=self.owner(table), table=table, what=what[:12])
        if self.args.check_every:
            self.cairn.start()
        return not self.different and not self.counts["once failed"]

    def mend(self, waiting):
        """Runs the statements that tables wait for; only where the step said that it may wait."""
        mended = 0
        for event in waiting:
            table, (first, *lines) = event["table"], event["hint"].split("\n")
            self.counts["waited"] += 1
            if not self.args.ddl_stop and not any(self.owner(table) in step for step in self.may_stop):
                self.errors.append("%s waits, though %s can be translated: %s" % (table, self.owner(table), event["message"]))
            statements = "\n".join(lines).strip()
            if (table, statements) in self.run_statements or not statements:
                what = "is not enough" if statements else "is missing"
                say(event="statement", table=table, step=self.owner(table), what="the statement " + what, waits=event)
                self.errors.append("%s: the statement %s: %s" % (table, what, statements or event["message"]))
                continue
            self.run_statements.add((table, statements))
            mended += 1
            try:
                self.run_at_target(statements)
            except (libpq.Error, sqlite3.Error) as error:
                # Another table may have waited for the same, as they share a type: then this one waits no longer.
                say(event="statement", table=table, step=self.owner(table), what="fails: %s" % error, waits=event)
        return mended > 0

    def run_at_target(self, statements):
        if self.engines[1] == "pg":
            with libpq.Connection(self.target) as db:
                db.run(statements)
        else:
            db = sqlite3.connect(self.path("target"), isolation_level=None)
            try:
                db.executescript(statements)
            finally:
                db.close()

    def unlogged(self):
        if self.engines[0] != "pg":
            return set()
        with libpq.Connection(self.source) as db:
            rows = db.texts("SELECT lower(relname) FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u'")
        return {row[0] for row in rows}

    def compare(self):
        unlogged = self.unlogged()
        a, b = compare_engines.open_side("A", self.source), compare_engines.open_side("B", self.target)
        try:
            if self.engines == ["sqlite", "sqlite"]:
                report, tables, rows = compare.compare(a.side, b.side, [], True)
            else:
                report, tables, rows = compare_engines.compare_databases(a, b, [], False)
            self.counts["compared tables"], self.counts["compared rows"] = tables, rows
            for d in report.differences:
            # Capture cannot see what was never logged.
                if d["table"].lower().split(".")[-1] in unlogged:
                    continue
                self.different[d["table"].lower()].append("%s %s: %s" % (d["side"], d["kind"], str(d["what"])[:400]))
            found, details, _ = compare_schemas.compare_schemas(a, b)
            for table, what in found:
                if "table only" not in what:
                    self.different[table].append("schema: " + what)
            self.details = collections.Counter(self.owner(table) for table, _ in details)
            if self.args.details:
                for table, what in details:
                    say(event="detail", step=self.owner(table), table=table, what=what)
        finally:
            if self.engines[0] == "pg":
                a.db.close()
            if self.engines[1] == "pg":
                b.db.close()

    def finish(self, begun, different):
        if self.cairn.child.poll() is None:
            self.cairn.kill()
        steps = collections.Counter(self.owner(table) for table in different)
        good = not different and not self.errors
        say(event="summary", pair=self.args.pair, seed=self.args.seed, kill=self.args.kill, **self.counts,
            different=dict(steps), details=sum(getattr(self, "details", {}).values()), errors=self.errors[:20],
            seconds=round(time.monotonic() - begun), ok=good)
        return 0 if good else 1


def run_soak(soak_class, args):
    """Returns the exit status. The soak removes its own folder at the end, also when it is ended from outside."""
    args.cairn = os.path.abspath(args.cairn)
    folder = args.keep or tempfile.mkdtemp(prefix="cs.", dir="/tmp")
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o711)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    soak = None
    try:
        soak = soak_class(args, folder)
        return soak.run()
    finally:
        if soak and soak.cairn.child and soak.cairn.child.poll() is None:
            soak.cairn.kill()
        if not args.keep:
            if os.path.isdir(os.path.join(folder, "pg")):
                subprocess.run([os.path.join(HERE, "pgserver.sh"), "stop", os.path.join(folder, "pg")])
            shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cairn", required=True, metavar="BINARY")
    parser.add_argument("--pair", required=True, choices=("sqlite-sqlite", "sqlite-pg", "pg-sqlite", "pg-pg"))
    parser.add_argument("--count", type=int, default=200, help="schema changes (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill", action="store_true", help="kill -9 in the middle of each step")
    parser.add_argument("--ddl-stop", action="store_true",
                        help="replicate with --ddl stop: each change waits for the printed statement, which must be right")
    parser.add_argument("--fast", action="store_true", help="no long pauses after a change")
    parser.add_argument("--only", metavar="STEP,...", help="only these steps")
    parser.add_argument("--skip", metavar="STEP,...", help="not these steps")
    parser.add_argument("--check-every", type=int, metavar="N", help="compare after every N steps too, and end at the first difference")
    parser.add_argument("--option", action="append", default=[], metavar="OPTION", help="a further option of replicate (--option=--ddl=stop)")
    parser.add_argument("--details", action="store_true", help="print what differs beyond the contract, too")
    parser.add_argument("--timeout", type=int, default=180, help="seconds for a run with --once")
    parser.add_argument("--keep", metavar="FOLDER", help="work in this folder, and keep it (the server ends)")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    return run_soak(Soak, args)

if __name__ == "__main__":
    sys.exit(main())
