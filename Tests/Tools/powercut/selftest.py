"""The parts of selftest.sh. `selftest.py WORK` runs them all; the other forms are
the recorded programs it starts."""
import contextlib
import filecmp
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import replay

TRANSACTIONS = 500
CUTS = 60


# ---- recorded programs -----------------------------------------------------

def note(text):
    try:
        os.open("powercut-note-" + text, os.O_RDONLY)
    except FileNotFoundError:
        pass


def run_commits(path, who, journal, synchronous, total, pause):
    """Numbered transactions of several pages, with a note after each commit."""
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA journal_mode=%s" % journal)
    db.execute("PRAGMA synchronous=%s" % synchronous)
    db.execute("PRAGMA wal_autocheckpoint=60")
    db.execute("CREATE TABLE IF NOT EXISTS t(who TEXT, n INT, body BLOB, UNIQUE(who, n))")
    rng = random.Random(who)
    for n in range(1, total + 1):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t VALUES(?,?,?)", (who, n, rng.randbytes(rng.randint(10, 9000))))
        if n % 7 == 0:      # rewrite and free pages too, not only append
            db.execute("UPDATE t SET body=? WHERE who=? AND n=?", (b"x" * rng.randint(0, 20000), who, n // 2))
        db.execute("COMMIT")
        note("%s-%d" % (who, n))
        time.sleep(pause)       # lets a second writer have its turn
    db.close()


def run_churn(path, who, rounds):
    """Every kind of mutation the recorder knows, on this process's own files."""
    rng = random.Random(who)
    top = os.open(path, os.O_RDONLY)
    for n in range(rounds):
        name = os.path.join(path, "%s-%d" % (who, n % 5))
        fd = os.open(name, os.O_RDWR | os.O_CREAT | rng.choice((0, os.O_TRUNC, os.O_APPEND)), 0o640)
        os.write(fd, rng.randbytes(rng.randint(1, 9000)))
        os.pwritev(fd, [b"abc", rng.randbytes(700)], rng.randint(0, 9000))
        os.writev(os.dup(fd), [b"one", b"two"])
        os.ftruncate(fd, rng.randint(0, 20000))
        os.posix_fallocate(fd, rng.randint(0, 20000), rng.randint(1, 9000))
        rng.choice((os.fsync, os.fdatasync))(fd)
        os.closerange(fd, fd + 2)
        os.replace(name, name + "-r")
        if n % 3 == 0:
            os.link(name + "-r", name)
            os.truncate(name, 1234)
            os.unlink(name + "-r")
        box = os.path.join(path, "%s-box" % who)
        os.mkdir(box)
        with open("x", "wb", opener=lambda p, f: os.open(p, f, dir_fd=os.open(box, os.O_RDONLY))) as f:
            f.write(b"in a directory")
        os.rename(box, box + "2")
        os.unlink(os.path.join(box + "2", "x"))
        os.rmdir(box + "2")
        os.fsync(top)


# ---- the checks --------------------------------------------------------------

class Failed(Exception):
    pass


class Run:
    """One recorded run: a base (empty at first), a root, a log."""

    def __init__(self, work, name):
        self.dir = os.path.join(work, name)
        self.root, self.base, self.log, self.out = (
            os.path.join(self.dir, x) for x in ("root", "base", "log", "out"))
        os.makedirs(self.root)
        os.makedirs(self.base)
        self.env = dict(os.environ, LD_PRELOAD=os.path.join(work, "librecorder.so"),
                        POWERCUT_ROOT=self.root, POWERCUT_LOG=self.log)
        self.db = os.path.join(self.root, "data.db")
        self.dropped = self.torn = 0    # over all cuts, to show that they hurt

    def start(self, *args):
        return subprocess.Popen([sys.executable, os.path.abspath(__file__)] + [str(a) for a in args], env=self.env)

    def noted(self, who):
        if not os.path.exists(self.log):
            return 0    # not started yet
        return sum(text.startswith(who + "-") for _, text, _ in replay.notes(self.log))

    def check_live(self):
        """Keeping everything must give exactly the files the programs left."""
        replay.build(self.log, self.base, replay.count(self.log), 0, "keep", self.out)
        have, want = files(self.out), files(self.root)
        if have != want:
            raise Failed("replayed names differ: %s" % sorted(have ^ want))
        for name in have:
            a, b = os.path.join(self.out, name), os.path.join(self.root, name)
            if os.path.isdir(a) != os.path.isdir(b) or os.path.isfile(a) and not filecmp.cmp(a, b, shallow=False):
                raise Failed("replayed contents differ: %s" % name)

    def cuts(self, seed):
        total = replay.count(self.log)
        rng = random.Random(seed)
        return sorted(rng.sample(range(total + 1), min(CUTS, total)))

    def check_cut(self, notes, at, seed):
        """None when the rebuilt database is whole and holds every noted commit."""
        stats = replay.build(self.log, self.base, at, seed, "random", self.out)
        self.dropped += stats["dropped"] + stats["dir_ops_lost"]
        self.torn += stats["torn"]
        rows = set()
        try:
            with contextlib.closing(sqlite3.connect(os.path.join(self.out, "data.db"))) as db:
                result = db.execute("PRAGMA integrity_check").fetchone()[0]
                if result != "ok":
                    return "integrity: " + result
                if db.execute("SELECT 1 FROM sqlite_master WHERE name='t'").fetchone():
                    rows = set(db.execute("SELECT who, n FROM t"))
        except sqlite3.DatabaseError as e:
            return str(e)
        noted = {(w, int(n)) for i, text, _ in notes if i < at for w, n in [text.split("-")]}
        if noted - rows:
            return "lost %s" % sorted(noted - rows)[:3]
        for who in {w for w, _ in rows}:    # commits may be ahead of notes, never with a gap
            numbers = {n for w, n in rows if w == who}
            if numbers != set(range(1, len(numbers) + 1)):
                return "gap in the transactions of %s" % who
        return None

    def check_cuts(self, seed):
        notes = replay.notes(self.log)
        bad = []
        for at in self.cuts(seed):
            why = self.check_cut(notes, at, seed)
            if why:
                bad.append((at, why))
        if not self.dropped or not self.torn:
            raise Failed("the cuts dropped %d and tore %d writes: nothing was tried" % (self.dropped, self.torn))
        return bad, len(notes)

    def summary(self, bad):
        return "%d records, %d of %d cuts harmful (%d operations dropped, %d torn)" % (
            replay.count(self.log), bad, CUTS, self.dropped, self.torn)


def files(top):
    found = set()
    for where, dirs, names in os.walk(top):
        found.update(os.path.relpath(os.path.join(where, x), top) for x in dirs + names if not x.endswith("-shm"))
    return found


def finish(process):
    if process.wait() != 0:
        raise Failed("a recorded program failed: %s" % process.returncode)


def part_single(work, name, journal, synchronous, safe):
    run = Run(work, name)
    finish(run.start("commits", run.db, "w", journal, synchronous, TRANSACTIONS, 0))
    run.check_live()
    bad, notes = run.check_cuts(seed=name)
    if notes != TRANSACTIONS:
        raise Failed("%d notes instead of %d" % (notes, TRANSACTIONS))
    if safe and bad:
        raise Failed("%d of %d cuts are bad, first: %s" % (len(bad), CUTS, bad[0]))
    if not safe and not bad:
        raise Failed("no cut did any harm: unsynced writes are not being dropped")
    return run.summary(len(bad))


def part_two(work):
    run = Run(work, "two")
    # Here the database is older than the recording, unlike in the other parts.
    with contextlib.closing(sqlite3.connect(run.db)) as db:
        db.execute("PRAGMA journal_mode=WAL")
    shutil.copytree(run.root, run.base, dirs_exist_ok=True)
    a = run.start("commits", run.db, "a", "WAL", "FULL", TRANSACTIONS, 0.002)
    b = run.start("commits", run.db, "b", "WAL", "FULL", TRANSACTIONS, 0.002)
    # Kill the second one while both are in the middle of their work.
    while not min(run.noted("a"), run.noted("b")) > TRANSACTIONS // 8:
        if a.poll() is not None or b.poll() is not None:
            raise Failed("a recorded program ended early")
        time.sleep(0.01)
    b.send_signal(signal.SIGKILL)
    if b.wait() != -signal.SIGKILL:
        raise Failed("the second process was not killed midway")
    at_kill = run.noted("a")
    finish(a)
    if at_kill == TRANSACTIONS:
        raise Failed("the first process was done before the kill")
    run.check_live()
    bad, notes = run.check_cuts(seed="two")
    if bad:
        raise Failed("%d of %d cuts are bad, first: %s" % (len(bad), CUTS, bad[0]))
    return "killed after %d commits, %s" % (notes - TRANSACTIONS, run.summary(0))


def part_churn(work):
    """Many kills: neither a dead lock nor a record missing from the log."""
    run = Run(work, "churn")
    rng = random.Random(5)
    kills = 20
    for n in range(kills):
        pair = [run.start("churn", run.root, "k%d%s" % (n, x), 100000) for x in "ab"]
        time.sleep(0.12 + rng.random() * 0.1)
        for p in pair:
            p.send_signal(signal.SIGKILL)
            if p.wait() != -signal.SIGKILL:
                raise Failed("a recorded program failed by itself")
    finish(run.start("churn", run.root, "last", 20))
    run.check_live()
    for n, at in enumerate(run.cuts("churn")):  # any state will do, if only it can be built
        replay.build(run.log, run.base, at, 1, ("random", "drop", "keep")[n % 3], run.out)
    # The same seed must give the same files.
    at = replay.count(run.log) // 2
    again = os.path.join(run.dir, "again")
    replay.build(run.log, run.base, at, 7, "random", run.out)
    replay.build(run.log, run.base, at, 7, "random", again)
    if subprocess.call(["diff", "-r", run.out, again]) != 0:
        raise Failed("the same seed gave two results")
    return "%d records, %d processes killed, replay equals the live files" % (replay.count(run.log), 2 * kills)


def main():
    work = sys.argv[1]
    parts = [
        ("a: WAL, synchronous=FULL", lambda: part_single(work, "full", "WAL", "FULL", True)),
        ("b: WAL, synchronous=OFF", lambda: part_single(work, "off", "WAL", "OFF", False)),
        ("c: DELETE, synchronous=EXTRA", lambda: part_single(work, "extra", "DELETE", "EXTRA", True)),
        # Without a directory sync after the journal's unlink, that unlink must be losable.
        ("c2: DELETE, synchronous=FULL", lambda: part_single(work, "nodirsync", "DELETE", "FULL", False)),
        ("d: two processes, one killed", lambda: part_two(work)),
        ("e: all calls, many kills", lambda: part_churn(work)),
    ]
    failed = 0
    for name, part in parts:
        started = time.time()
        try:
            print("ok    %s: %s (%.1f s)" % (name, part(), time.time() - started), flush=True)
        except (Failed, replay.ReplayError) as e:
            failed = 1
            print("FAIL  %s: %s" % (name, e), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[1] == "commits":
        run_commits(*sys.argv[2:6], int(sys.argv[6]), float(sys.argv[7]))
    elif sys.argv[1] == "churn":
        run_churn(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
