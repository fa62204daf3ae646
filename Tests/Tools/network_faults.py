#!/usr/bin/env python3
"""Nodes of cairnd on a network that fails: links are cut, slowed down and lose packets, programs are killed, disks fill,
certificates are wrong. After each, both ends must hold the same rows, and the fault must be reported in one line.

    network_faults.py --cairn .build/debug/cairn [--cairnd PATH] [--case NAME ...] [--seconds 3] [--seed N] [--list]

Every node is an SQLite file and a cairnd of its own. With root and /dev/net/tun it is in a network namespace of its own
(netlab.py), else on ports of the loopback. There, the cases that need a link are left out, and named. Prints a line a
case; exit status 1 if one failed.
"""
import argparse
import contextlib
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
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from netlab import Lab  # noqa: E402

PORT = 7420


class Failed(Exception):
    pass


class Loopback:
    """Takes the place of the lab if none can be made: all nodes on 127.0.0.1, each with a port of its own."""

    def __init__(self, names):
        self.names = list(names)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def popen(self, _, command, **options):
        return subprocess.Popen(command, **options)

    def run(self, _, command, **options):
        return subprocess.run(command, **options)


class Node:
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.folder = os.path.join(world.folder, name)
        self.conf = os.path.join(self.folder, "conf")
        self.state = os.path.join(self.folder, "state")
        self.database = os.path.join(self.folder, "own.db")
        os.makedirs(os.path.join(self.conf, "conf.d"))
        os.makedirs(self.state)
        self.process, self.sections, self.starts, self.listened = None, [], 0, 0
        if isinstance(world.lab, Lab):
            self.host, self.port = world.lab.address(name), PORT
        else:
            self.host, self.port = "127.0.0.1", world.free_port()

    # Conf

    def add(self, text):
        self.sections.append(text)

    def write_conf(self):
        head = f'[node]\nname = "{self.name}"\nstate = "{self.state}"\n[control]\nsocket = "{self.folder}/control"\n'
        with open(os.path.join(self.conf, "cairn.toml"), "w") as file:
            file.write(head + "\n".join(self.sections) + "\n")

    def captures(self):
        self.add(f'[database.own]\nurl = "sqlite://{self.database}"\n[capture.own]\ndatabase = "own"')
        with contextlib.closing(sqlite3.connect(self.database)) as db:
            db.executescript(
                "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, who TEXT, v TEXT);"
                "CREATE TABLE loose(a, b)")

    def applies(self, origin):
        self.add(
            f'[database.from-{origin}]\nurl = "sqlite://{self.copy_of(origin)}"\n'
            f'[apply.from-{origin}]\ntrail = "{origin}.own"\ndatabase = "from-{origin}"\ntables = ["*"]')

    def copy_of(self, origin):
        return os.path.join(self.folder, f"from-{origin}.db")

    def listens(self, tls=True):
        plain = "" if tls else "insecure = true\n"
        self.add(f'[receive]\nlisten = "{self.host}:{self.port}"\n{plain}')

    def grants(self, peer, push=(), pull=()):
        words = [f"{way} = {json.dumps(list(trails))}" for way, trails in (("push", push), ("pull", pull)) if trails]
        self.add(f"[peer.{peer}]\nmay = {{ {', '.join(words)} }}")

    def pumps(self, other, way, trail, tls=True, more=""):
        """`way` is "to" or "from"."""
        scheme, peer = ("https", f'peer = "{other.name}"\n') if tls else ("http", "insecure = true\n")
        name = f"{way}-{other.name}"
        self.add(
            f'[pump.{name}]\ntrail = {json.dumps(trail)}\n{way} = "{scheme}://{other.host}:{other.port}"\n{peer}{more}')

    def invites(self, other):
        """The line for another node; with the first one, the listener gets a certificate."""
        self.write_conf()
        invited = self.cairn("peer", "invite", other.name, "--address", f"{self.host}:{self.port}", "--json")
        return json.loads(invited.stdout.splitlines()[0])["line"]

    def joins(self, line, another=None):
        """Over the listener of who invited, which runs. `another` gives a second line, as another authority answers."""
        self.write_conf()
        if another:
            refused = self.cairn("peer", "join", line, status=None)
            word = re.search(r"--replace ([0-9a-f]+)", refused.stderr)
            if refused.returncode == 0 or not word:
                raise Failed(f"another authority was taken for the known one: {refused.stdout}{refused.stderr}")
            self.cairn("peer", "join", "--replace", word[1], another())
        else:
            self.cairn("peer", "join", line)

    # Programs

    def cairn(self, *words, status=0):
        place = [] if "--socket" in words else ["--config", self.conf]
        outcome = self.world.lab.run(
            self.name, [self.world.cairn, *words, *place], capture_output=True, text=True, timeout=120)
        if status is not None and outcome.returncode != status:
            raise Failed(f"cairn {' '.join(words)} at {self.name} ended with {outcome.returncode}: {outcome.stderr}")
        return outcome

    def start(self, wait=True):
        self.write_conf()
        environment = dict(os.environ)
        if self.world.clock:
            # Its clock can be set, apart from everybody else's.
            environment.update(LD_PRELOAD=self.world.clock, CLOCK_JUMP=os.path.join(self.folder, "jump"))
        self.starts += 1
        log = open(os.path.join(self.folder, "log"), "ab")
        self.process = self.world.lab.popen(
            self.name, [self.world.cairnd, "--config", self.conf], stdout=log, stderr=log, env=environment)
        log.close()
        if wait:
            self.world.wait(f"{self.name} answers", lambda: self.status() is not None)
            if any(section.startswith("[receive]") for section in self.sections):
                self.world.wait(f"{self.name} listens", lambda: self.log().count("listens on") >= self.listened + 1)
        self.listened = self.log().count("listens on")

    def end(self, how=signal.SIGTERM):
        if self.process is None:
            return 0
        self.process.send_signal(how)
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"{self.name} did not end within 30 s of SIGTERM")
        self.process = None
        return code

    def kill(self):
        self.end(signal.SIGKILL)

    def log(self):
        with open(os.path.join(self.folder, "log")) as file:
            return file.read()

    def status(self):
        outcome = self.cairn("status", "--json", "--socket", f"{self.folder}/control", status=None)
        try:
            return json.loads(outcome.stdout)
        except ValueError:
            return None

    def worker(self, name):
        for worker in (self.status() or {}).get("workers", []):
            if worker["name"] == name:
                return worker
        return {}

    def says(self, *words, seconds=30):
        """Waits for one line of the log that has all the words."""
        def found():
            return any(all(word in line for word in words) for line in self.log().splitlines())
        self.world.wait(f"{self.name} says {' '.join(words)}", found, seconds)

    # Rows

    def rows(self, path):
        if not os.path.exists(path):
            return None
        with contextlib.closing(sqlite3.connect(path, timeout=20)) as db:
            try:
                return [
                    db.execute("SELECT id, who, v FROM item ORDER BY id").fetchall(),
                    db.execute("SELECT a, b FROM loose ORDER BY a, b").fetchall(),
                ]
            except sqlite3.OperationalError:
                return None


class Writer(threading.Thread):
    """A program at a node: random inserts, updates and deletes, some transactions with many rows."""

    def __init__(self, node, seed, pause=0.005):
        super().__init__(daemon=True)
        self.node, self.random, self.pause = node, random.Random(f"{node.name} {seed}"), pause
        self.is_over, self.transactions = threading.Event(), 0
        self.start()

    def run(self):
        with contextlib.closing(sqlite3.connect(self.node.database, timeout=30, isolation_level=None)) as db:
            while not self.is_over.wait(self.pause):
                db.execute("BEGIN IMMEDIATE")
                for _ in range(self.random.choice((1, 1, 3, 200))):
                    key, value = self.random.randrange(3000), "%x" % self.random.getrandbits(self.random.choice((40, 4000)))
                    db.execute(*self.random.choice((
                        ("REPLACE INTO item VALUES (?, ?, ?)", (key, self.node.name, value)),
                        ("UPDATE item SET v = ? WHERE id = ?", (value, key)),
                        ("DELETE FROM item WHERE id = ?", (key,)),
                        ("INSERT INTO loose VALUES (?, ?)", (key % 7, key % 3)),
                    )))
                db.execute("COMMIT")
                self.transactions += 1

    def end(self):
        self.is_over.set()
        self.join(30)


class World:
    def __init__(self, options, lab, folder, seed):
        self.cairn, self.cairnd = options.cairn, options.cairnd
        self.seconds, self.seed, self.lab, self.folder = options.seconds, seed, lab, folder
        self.random, self.nodes, self.ports, self.clock = random.Random(seed), {}, 0, None

    def free_port(self):
        self.ports += 1
        return 21000 + os.getpid() % 400 * 100 + self.ports

    def node(self, name):
        self.nodes[name] = Node(self, name)
        return self.nodes[name]

    def wait(self, what, condition, seconds=40):
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if condition():
                return
            for node in self.nodes.values():
                if node.process and node.process.poll() is not None:
                    raise Failed(f"{node.name} ended with {node.process.returncode}: {node.log()[-1500:]}")
            time.sleep(0.05)
        if not condition():
            logs = "".join(f"\n--- {node.name}\n{node.log()[-1500:]}" for node in self.nodes.values() if node.starts)
            raise Failed(f"not within {seconds} s: {what}{logs}")

    def equal(self, origin, *others, seconds=90):
        """Waits until the others hold what the origin's program wrote, row for row."""
        rows = origin.rows(origin.database)
        if not rows or not rows[0]:
            raise Failed(f"{origin.name} has written nothing")
        for other in others:
            self.wait(
                f"{other.name} has the rows of {origin.name}",
                lambda: other.rows(other.copy_of(origin.name)) == rows, seconds)

    def end(self):
        for node in self.nodes.values():
            if node.process:
                code = node.end()
                if code != 0:
                    raise Failed(f"{node.name} ended with {code}")
        for node in (node for node in self.nodes.values() if node.starts):
            for line in node.log().splitlines():
                if re.search(r"\[bug\]|Fatal error|AddressSanitizer", line):
                    raise Failed(f"{node.name}: {line}")

    def clean(self):
        for node in self.nodes.values():
            if node.process:
                node.process.kill()
                node.process.wait()


# Two nodes: a shop pushes to the headquarters, or these pull from it.

def pair(world, way, joined=True):
    hq, shop = world.node("hq"), world.node("shop")
    shop.captures()
    hq.applies("shop")
    listener, dialler = (hq, shop) if way == "push" else (shop, hq)
    listener.listens()
    listener.grants(dialler.name, **{way: ["shop.own"]})
    dialler.pumps(listener, "to" if way == "push" else "from", "shop.own")
    if joined:
        line = listener.invites(dialler)
        listener.start()
        dialler.joins(line)
    return hq, shop, listener, dialler


def both(test):
    """A case in both directions."""
    def run(world, way):
        hq, shop, listener, dialler = pair(world, way)
        dialler.start()
        writer = Writer(shop, world.seed)
        try:
            world.wait("the first rows are there", lambda: hq.rows(hq.copy_of("shop")) not in (None, [[], []]))
            said = test(world, hq, shop, listener, dialler)
        finally:
            writer.end()
        world.equal(shop, hq)
        return f"{writer.transactions} transactions" + (f", {said}" if said else "")
    return run


@both
def plain_sailing(world, hq, shop, listener, dialler):
    time.sleep(world.seconds)


@both
def link_cut(world, hq, shop, listener, dialler):
    for _ in range(2):
        world.lab.cut("hq", "shop")
        time.sleep(world.seconds)
        world.lab.mend("hq", "shop")
        time.sleep(1)


@both
def slow_link(world, hq, shop, listener, dialler):
    world.lab.set("hq", "shop", delay=0.2)
    time.sleep(world.seconds * 2)


@both
def lossy_link(world, hq, shop, listener, dialler):
    world.lab.set("hq", "shop", delay=0.01, loss=0.05)
    time.sleep(world.seconds * 2)


@both
def half_open(world, hq, shop, listener, dialler):
    world.lab.cut("hq", "shop")
    pump = "pump.to-hq" if dialler is shop else "pump.from-shop"
    begun = time.monotonic()
    dialler.says(pump, "peer-unreachable", seconds=30)
    world.wait("the status says that too", lambda: dialler.worker(pump).get("state") == "retrying", 5)
    told = time.monotonic() - begun
    detail = dialler.worker(pump)["detail"]
    if "peer-unreachable" not in detail or "last contact at" not in detail:
        raise Failed(f"{pump} does not say what is wrong, and since when: {detail}")
    world.wait("the other side knows it, too", lambda: all(
        path["state"] != "connected" for path in listener.status()["paths"]), 40)
    world.lab.mend("hq", "shop")
    world.wait("the pump runs again", lambda: dialler.worker(pump).get("state") == "running", 60)
    return f"told after {told:.1f} s"


@both
def receiver_killed(world, hq, shop, listener, dialler):
    for _ in range(4):
        time.sleep(world.random.uniform(0.1, world.seconds / 2))
        hq.kill()
        hq.start()


@both
def sender_killed(world, hq, shop, listener, dialler):
    for _ in range(4):
        time.sleep(world.random.uniform(0.1, world.seconds / 2))
        shop.kill()
        shop.start()


def disk_full(world, way):
    """The copy's folder is a small file system."""
    hq, shop, _, dialler = pair(world, way, joined=False)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", hq.state], capture_output=True)
    if mounted.returncode != 0:
        return "left out: this machine lets nobody mount"
    try:
        listener = hq if way == "push" else shop
        line = listener.invites(dialler)
        listener.start()
        dialler.joins(line)
        dialler.start()
        writer = Writer(shop, world.seed)
        ballast = os.path.join(hq.state, "ballast")
        with open(ballast, "wb") as file:
            file.write(b"x" * 4_500_000)
        # At both ends: the one that dials, and the one whose disk it is.
        dialler.says("disk-full", seconds=60)
        hq.says("disk-full", seconds=10)
        writer.end()
        os.unlink(ballast)
        subprocess.run(["mount", "-o", "remount,size=200m", hq.state], check=True)
        world.equal(shop, hq)
        hq.says("shop.own", "continues", seconds=10)
        world.end()
    finally:
        world.clean()
        subprocess.run(["umount", "-l", hq.state])
    return f"{writer.transactions} transactions"


def copy(source, target):
    """By another process: who closes a file of a database loses the locks that SQLite has on it in the same process."""
    subprocess.run(["cp", "-a", source, target], check=True)


def restored_backup(world, way):
    """The sender goes back to an older state of database and trail, and another history begins."""
    hq, shop, listener, dialler = pair(world, way)
    dialler.start()
    writer = Writer(shop, world.seed)
    time.sleep(world.seconds)
    shop.end()
    writer.end()
    keep = os.path.join(world.folder, "backup")
    copy(shop.folder, keep)
    shop.start()
    writer = Writer(shop, world.seed + 1)
    time.sleep(world.seconds)
    writer.end()
    world.equal(shop, hq)
    shop.end()
    log = shop.log()
    shutil.rmtree(shop.folder)
    copy(keep, shop.folder)
    with open(os.path.join(shop.folder, "log"), "w") as file:
        file.write(log)
    before = hq.rows(hq.copy_of("shop"))
    writer = Writer(shop, world.seed + 2)
    shop.start()
    dialler.says("trail-forked", seconds=60)
    writer.end()
    if hq.rows(hq.copy_of("shop")) != before:
        raise Failed("rows of the other history were applied")
    return "told, and nothing applied"


# Certificates.

def refused(world, way, mend, *words, before=None):
    """The connection is refused with a word until `mend` was done."""
    hq, shop, listener, dialler = pair(world, way)
    if before:
        before(listener, dialler)
    dialler.start()
    writer = Writer(shop, world.seed)
    dialler.says(*words, seconds=60)
    if hq.rows(hq.copy_of("shop")) is not None:
        raise Failed("rows came over a connection that had to be refused")
    mend(listener, dialler)
    writer.end()
    world.equal(shop, hq)
    return "refused with a word, went on when it was mended"


def revoked(world, way):
    hq, shop, listener, dialler = pair(world, way)
    dialler.start()
    writer = Writer(shop, world.seed)
    world.wait("the first rows are there", lambda: hq.rows(hq.copy_of("shop")) not in (None, [[], []]))
    listener.cairn("peer", "revoke", dialler.name)
    dialler.says("peer-unknown", seconds=60)
    time.sleep(0.5)
    before = hq.rows(hq.copy_of("shop"))
    time.sleep(1)
    writer.end()
    if hq.rows(hq.copy_of("shop")) != before:
        raise Failed("rows went on after the peer was revoked")
    return "refused at once"


def not_granted(world, way):
    def alter(listener, old, new):
        listener.sections = [
            s.replace(old, new) if s.startswith("[peer.") and "nobody" not in s else s for s in listener.sections]

    def forbid(listener, _):
        alter(listener, "shop.own", "shop.x*")
        if way == "push":
        # Some peer must be allowed to push the trail, or its apply would be refused.
            listener.grants("nobody", push=["shop.own"])
        listener.end()
        listener.start()

    def allow(listener, _):
        alter(listener, "shop.x*", "shop.own")
        listener.write_conf()
        listener.cairn("reload")
    return refused(world, way, allow, "peer-refused", before=forbid)


def wrong_name(world, way):
    """The listener proves another name than the one that was asked for."""
    def rename(listener, dialler):
        files = os.path.join(dialler.state, "peers", "joined", listener.name)
        tls = f'tls = {{ certificate = "{files}/node.crt", key = "{files}/node.key", peers = "{files}/ca.crt" }}'
        dialler.sections = [
            re.sub(r'peer = "\w+"', f'peer = "bank"\n{tls}', section) for section in dialler.sections]

    def mend(listener, dialler):
        dialler.sections = [s.replace('peer = "bank"', f'peer = "{listener.name}"') for s in dialler.sections]
        dialler.write_conf()
        dialler.cairn("reload")
    return refused(world, way, mend, "peer-untrusted", before=rename)


def expired(world, way):
    """For the listener it is twenty years later: the certificate of the one that dials counts no more, nor its own."""
    world.clock = os.path.join(world.folder, "libjump.so")
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clock", "jump.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", world.clock, tool], check=True)

    def jump(node, years):
        with open(os.path.join(node.folder, "jump"), "w") as file:
            file.write(str(years * 366 * 86400))
    return refused(
        world, way, lambda listener, _: jump(listener, 0), "peer-", before=lambda listener, _: jump(listener, 20))


def wrong_authority(world, way):
    """The listener is made again, with an authority that the one that dials does not know."""
    def replace(listener, _):
        listener.end()
        shutil.rmtree(os.path.join(listener.state, "peers"))
        listener.invites(world.nodes["hq" if way == "pull" else "shop"])
        listener.start()
    return refused(
        world, way,
        lambda listener, dialler: dialler.joins(listener.invites(dialler), another=lambda: listener.invites(dialler)),
        "peer-untrusted", before=replace)


def token_twice(world, way):
    hq, shop, listener, dialler = pair(world, way, joined=False)
    line = listener.invites(dialler)
    listener.start()
    dialler.joins(line)
    stranger = world.node("stranger")
    stranger.write_conf()
    again = stranger.cairn("peer", "join", line, status=None)
    if again.returncode == 0 or len(again.stderr.strip().splitlines()) > 3:
        raise Failed(f"a token was taken twice: {again.stdout}{again.stderr}")
    return again.stderr.strip().splitlines()[0]


# More nodes.

def row(world):
    """Three in a row: the one in the middle forwards."""
    a, b, c = (world.node(name) for name in ("a", "b", "c"))
    a.captures()
    for node in (b, c):
        node.listens()
        node.applies("a")
    b.grants("a", push=["a.*"])
    c.grants("b", push=["a.*"])
    lines = b.invites(a), c.invites(b)
    b.start()
    c.start()
    a.pumps(b, "to", "a.own")
    b.pumps(c, "to", "a.own")
    a.joins(lines[0])
    b.joins(lines[1])
    a.start()
    b.end()
    b.start()
    return a, b, c


def chain(world, _):
    a, b, c = row(world)
    writer = Writer(a, world.seed)
    for _ in range(2):
        time.sleep(world.seconds / 2)
        b.kill()
        time.sleep(world.seconds / 4)
        b.start()
    writer.end()
    world.equal(a, b, c)
    return f"{writer.transactions} transactions, the one in the middle killed twice"


def chain_restored(world, _):
    """The one in the middle goes back to an older state: it waits for what it lacks, and so does the one after it."""
    a, b, c = row(world)
    writer = Writer(a, world.seed)
    world.wait("the first rows are there", lambda: c.rows(c.copy_of("a")) not in (None, [[], []]))
    b.end()
    keep = os.path.join(world.folder, "backup")
    copy(b.folder, keep)
    b.start()
    time.sleep(world.seconds)
    writer.end()
    world.equal(a, b, c)
    b.end()
    a.end()
    log = b.log()
    shutil.rmtree(b.folder)
    copy(keep, b.folder)
    with open(os.path.join(b.folder, "log"), "w") as file:
        file.write(log)
    b.start()
    b.says("trail-elsewhere", seconds=30)
    writer = Writer(a, world.seed + 1)
    a.start()
    time.sleep(world.seconds / 2)
    writer.end()
    world.equal(a, b, c)
    return f"{writer.transactions} transactions after it"


def chain_asks(world, _):
    """The last one wants all rows again, and asks for them over the one in the middle."""
    a, b, c = row(world)
    writer = Writer(a, world.seed)
    world.wait("the first rows are there", lambda: c.rows(c.copy_of("a")) not in (None, [[], []]))
    writer.end()
    world.equal(a, b, c)
    begun = time.monotonic()
    c.cairn("copy", "from-a")
    a.says("capture.own", "again, requested by ", seconds=30)
    took = time.monotonic() - begun
    if took > 6:
        raise Failed(f"a request took {took:.1f} s over two hops")
    world.equal(a, b, c)
    return f"asked over two hops within {took:.1f} s"


def ring(world, _):
    """Each pushes all that it has to the next, and gets everything of the others, once."""
    names = ["a", "b", "c"]
    nodes = [world.node(name) for name in names]
    for number, node in enumerate(nodes):
        before, after = nodes[number - 1], nodes[(number + 1) % 3]
        node.captures()
        node.listens(tls=False)
        node.grants(before.name, push=["*"])
        node.pumps(after, "to", ["*"], tls=False)
        for other in names:
            if other != node.name:
                node.applies(other)
    for node in nodes:
        node.start()
    writers = [Writer(node, world.seed, 0.02) for node in nodes]
    time.sleep(world.seconds)
    nodes[1].kill()
    nodes[1].start()
    time.sleep(world.seconds)
    for writer in writers:
        writer.end()
    for node in nodes:
        world.equal(node, *(other for other in nodes if other is not node))
    return f"{sum(writer.transactions for writer in writers)} transactions of three"


def hub(world, _):
    """Nine shops push to a hub and pull the trails of all others from it."""
    center = world.node("hub")
    center.listens()
    shops = [world.node(f"s{number}") for number in range(1, 10)]
    for shop in shops:
        center.grants(shop.name, push=[f"{shop.name}.*"], pull=["*", f"!{shop.name}.*"])
    lines = [center.invites(shop) for shop in shops]
    center.start()
    for shop, line in zip(shops, lines):
        shop.captures()
        shop.pumps(center, "to", f"{shop.name}.own")
        shop.pumps(center, "from", ["*"])
        shop.joins(line)
        for other in shops:
            if other is not shop:
                shop.applies(other.name)
    for shop in shops:
        shop.start(wait=False)
    writers = [Writer(shop, world.seed, 0.2) for shop in shops]
    time.sleep(world.seconds)
    center.kill()
    center.start()
    time.sleep(world.seconds)
    for writer in writers:
        writer.end()
    for shop in shops:
        world.equal(shop, *(other for other in shops if other is not shop), seconds=180)
    return f"{sum(writer.transactions for writer in writers)} transactions of nine, eight applies each"


# name: (case, nodes, ways, needs links)
WAYS = ("push", "pull")
CASES = {
    "plain-sailing": (plain_sailing, ["hq", "shop"], WAYS, False),
    "link-cut": (link_cut, ["hq", "shop"], WAYS, True),
    "slow-link": (slow_link, ["hq", "shop"], WAYS, True),
    "lossy-link": (lossy_link, ["hq", "shop"], WAYS, True),
    "half-open": (half_open, ["hq", "shop"], WAYS, True),
    "receiver-killed": (receiver_killed, ["hq", "shop"], WAYS, False),
    "sender-killed": (sender_killed, ["hq", "shop"], WAYS, False),
    "disk-full": (disk_full, ["hq", "shop"], WAYS, False),
    "restored-backup": (restored_backup, ["hq", "shop"], WAYS, False),
    "not-granted": (not_granted, ["hq", "shop"], WAYS, False),
    "revoked": (revoked, ["hq", "shop"], WAYS, False),
    "expired": (expired, ["hq", "shop"], WAYS, False),
    "wrong-authority": (wrong_authority, ["hq", "shop"], WAYS, False),
    "wrong-name": (wrong_name, ["hq", "shop"], WAYS, False),
    "token-twice": (token_twice, ["hq", "shop", "stranger"], ("push",), False),
    "chain": (chain, ["a", "b", "c"], ("",), False),
    "chain-restored": (chain_restored, ["a", "b", "c"], ("",), False),
    "chain-asks": (chain_asks, ["a", "b", "c"], ("",), False),
    "ring": (ring, ["a", "b", "c"], ("",), False),
    "hub": (hub, ["hub"] + [f"s{number}" for number in range(1, 10)], ("",), False),
}


def run(options, name, way, problem):
    case, nodes, _, needs_links = CASES[name]
    if needs_links and problem:
        return f"left out: {problem}"
    folder = tempfile.mkdtemp(prefix="cairn-net-")
    with (Loopback(nodes) if problem else Lab(nodes, options.seed)) as lab:
        world = World(options, lab, folder, options.seed)
        try:
            said = case(world, way)
            world.end()
        except Failed:
            print(f"kept: {folder}", file=sys.stderr)
            raise
        finally:
            world.clean()
    shutil.rmtree(folder, ignore_errors=True)
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cairn", required=True)
    parser.add_argument("--cairnd")
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--way", choices=WAYS, help="only push, or only pull")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each fault lasts")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.cairn = os.path.abspath(options.cairn)
    options.cairnd = os.path.abspath(options.cairnd or os.path.join(os.path.dirname(options.cairn), "cairnd"))
    if options.list:
        print("\n".join(CASES))
        return 0
    problem, failures = Lab.problem(), 0
    print(f"seed {options.seed}" + (f"; no links here: {problem}" if problem else ""))
    for name in options.case or CASES:
        for way in CASES[name][2]:
            if options.way and way and way != options.way:
                continue
            label = f"{name} {way}".strip()
            begun = time.monotonic()
            try:
                print(f"ok {label}: {run(options, name, way, problem)} ({time.monotonic() - begun:.1f} s)", flush=True)
            except Failed as failure:
                failures += 1
                print(f"FAILED {label}: {failure}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
