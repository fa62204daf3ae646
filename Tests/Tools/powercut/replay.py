#!/usr/bin/env python3
"""Rebuilds the files as a power cut at any point of a recorder log leaves them.

    replay.py count LOG
    replay.py notes LOG
    replay.py build LOG --base DIR --at K --seed S --out DIR2 [--mode random|drop|keep]

DIR is a copy of the recorded root taken before recording started. The result is
DIR plus the first K records. All that was synced by then is there. From the rest,
a seeded random part (mode random), nothing (drop) or everything (keep) is there.
See README.md for the model.
"""
import argparse
import bisect
import collections
import mmap
import os
import random
import shutil
import stat
import struct
import sys

# Keep in step with recorder.c.
HEAD = struct.Struct("<IBQQQIHH")
ALLOC = struct.Struct("<QI")
(CREATE, WRITE, SIZE, ALLOCATE, SYNC, UNLINK, RENAME,
 MKDIR, RMDIR, LINK, NOTE, UNSUPPORTED) = range(1, 13)
ALLOC_ZERO, ALLOC_KEEP_SIZE = 1, 2

SECTOR = 512
NEVER = float("inf")

Record = collections.namedtuple(
    "Record", "index op file offset path path2 data_at data_len ns pid")


class ReplayError(Exception):
    pass


class _Log:
    """The log, mapped: data is read only where a cut needs it."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.size = os.fstat(f.fileno()).st_size
            self.map = mmap.mmap(f.fileno(), self.size, access=mmap.ACCESS_READ) if self.size else b""
        self.view = memoryview(self.map)

    def __iter__(self):
        at, index = 0, 0
        while at + HEAD.size <= self.size:
            length, op, file, offset, ns, pid, n1, n2 = HEAD.unpack_from(self.map, at)
            data_at = at + HEAD.size + n1 + n2
            if at + length > self.size:
                return      # torn tail: a process was killed while appending
            if data_at > at + length or not CREATE <= op <= UNSUPPORTED:
                raise ReplayError("record %d at byte %d is damaged" % (index, at))
            p = at + HEAD.size
            path = os.fsdecode(self.map[p:p + n1]) if n1 else ""
            path2 = os.fsdecode(self.map[p + n1:p + n1 + n2]) if n2 else ""
            yield Record(index, op, file, offset, path, path2, data_at, at + length - data_at, ns, pid)
            at += length
            index += 1


def records(log):
    """All whole records, in order."""
    return iter(_Log(log))


def count(log):
    return sum(1 for _ in _Log(log))


def notes(log):
    """[(index, text, pid)] of the markers. A note is before cut k if index < k."""
    return [(r.index, r.path, r.pid) for r in _Log(log) if r.op == NOTE]


class _Node:
    """One file or directory, whatever its names are."""

    def __init__(self, is_dir, base=None, mode=None, size=0):
        self.is_dir = is_dir
        self.base = base        # where its first contents are, if in the base
        self.mode = mode
        self.size = size        # as the programs saw it; used while indexing
        self.ops = []           # (index, op, offset, data_at, length, extra)
        self.syncs = []         # indices of its fsync/fdatasync records
        self.created = None     # the directory operation that made it


class _DirOp:
    """A change of directory entries: [(directory, name, node or None)]."""

    def __init__(self, index, edits, touches):
        self.index = index
        self.edits = edits
        self.touches = touches  # directories it depends on being in order
        self.durable_at = NEVER


class Index:
    """One pass over the log: what happened to which file, and when it was synced."""

    def __init__(self, log, base):
        self.log = _Log(log)
        self.links = {}             # symlinks of the base, copied as they are
        self.root = _Node(True)
        self.base_children = {}
        self._load(self.root, base)
        self.dir_ops = []
        self.unsupported = []       # (index, text)
        self.count = 0
        self._live = {d: dict(c) for d, c in self.base_children.items()}
        self._inodes = {}
        self._volatile = []         # directory operations not yet durable
        for r in self.log:
            try:
                self._take(r)
            except ReplayError as e:
                raise ReplayError("record %d: %s" % (r.index, e)) from None
            self.count = r.index + 1
        del self._live, self._inodes, self._volatile

    def _load(self, node, path):
        children = self.base_children[node] = {}
        for entry in os.scandir(path):
            st = entry.stat(follow_symlinks=False)
            if entry.name.endswith("-shm"):
                continue
            if stat.S_ISDIR(st.st_mode):
                child = _Node(True, mode=stat.S_IMODE(st.st_mode))
                self._load(child, entry.path)
            elif stat.S_ISREG(st.st_mode):
                child = _Node(False, entry.path, stat.S_IMODE(st.st_mode), st.st_size)
            elif stat.S_ISLNK(st.st_mode):
                child = _Node(False)
                self.links[child] = os.readlink(entry.path)
            else:
                continue
            children[entry.name] = child

    # -- the namespace as the programs saw it

    def _find(self, path):
        node = self.root
        if path != ".":
            for name in path.split("/"):
                node = self._live.get(node, {}).get(name)
                if node is None:
                    return None
        return node

    def _place(self, path):
        parent, _, name = path.rpartition("/")
        directory = self._find(parent or ".")
        if directory is None or not directory.is_dir:
            raise ReplayError("directory of %r is unknown: made without the recorder, or not in the base" % path)
        return directory, name

    def _node(self, r):
        """The file a record is about, by inode, or at first sight by path."""
        by_path = self._find(r.path) if r.path else None
        node = self._inodes.get(r.file)
        if node is None:
            node = by_path
            if node is None and r.path:
                raise ReplayError("%r is unknown: made without the recorder, or not in the base" % r.path)
            self._inodes[r.file] = node
        elif r.path and by_path is not node:
            raise ReplayError("%r is not the file it was: changed without the recorder" % r.path)
        return node

    def _change(self, index, edits, extra=()):
        for directory, name, node in edits:
            if node is None:
                self._live[directory].pop(name, None)
            else:
                self._live[directory][name] = node
        op = _DirOp(index, edits, {e[0] for e in edits}.union(extra))
        self.dir_ops.append(op)
        self._volatile.append(op)
        return op

    def _make_durable(self, index, wanted):
        """Marks the wanted operations, and all earlier ones in the same directories."""
        touched, rest = set(), []
        for op in reversed(self._volatile):
            if wanted(op) or not touched.isdisjoint(op.touches):
                op.durable_at = index
                touched |= op.touches
            else:
                rest.append(op)
        self._volatile = rest[::-1]

    def _take(self, r):
        op = r.op
        if op == NOTE:
            return
        if op == UNSUPPORTED:
            self.unsupported.append((r.index, r.path))
        elif op in (CREATE, MKDIR):
            directory, name = self._place(r.path)
            if name in self._live[directory]:
                raise ReplayError("%r exists already: changed without the recorder" % r.path)
            node = self._inodes[r.file] = _Node(op == MKDIR, mode=r.offset)
            if node.is_dir:
                self._live[node] = {}
            node.created = self._change(r.index, [(directory, name, node)], [node] if node.is_dir else [])
        elif op in (UNLINK, RMDIR):
            node = self._node(r)
            directory, name = self._place(r.path)
            self._change(r.index, [(directory, name, None)], [node] if node.is_dir else [])
        elif op == RENAME:
            node = self._node(r)
            source, target = self._place(r.path), self._place(r.path2)
            self._change(r.index, [source + (None,), target + (node,)])
        elif op == LINK:
            self._change(r.index, [self._place(r.path2) + (self._node(r),)])
        else:
            node = self._node(r)
            if node is None:
                return      # a file that was deleted before it was first seen
            if op == SYNC:
                if node.is_dir:
                    self._make_durable(r.index, lambda o: node in o.touches)
                else:
                    node.syncs.append(r.index)
                    if node.created and node.created.durable_at == NEVER:
                        self._make_durable(r.index, lambda o: o is node.created)
            elif op == WRITE:
                node.ops.append((r.index, op, r.offset, r.data_at, r.data_len, None))
                node.size = max(node.size, r.offset + r.data_len)
            elif op == SIZE:
                node.ops.append((r.index, op, r.offset, 0, 0, r.offset < node.size))
                node.size = r.offset
            elif op == ALLOCATE:
                length, flags = ALLOC.unpack_from(self.log.map, r.data_at)
                node.ops.append((r.index, op, r.offset, 0, length, flags))
                if not flags & ALLOC_KEEP_SIZE:
                    node.size = max(node.size, r.offset + length)

    # -- one cut

    def build(self, at, seed, mode, out):
        if mode not in ("random", "drop", "keep"):
            raise ValueError("mode must be random, drop or keep")
        if not 0 <= at <= self.count:
            raise ValueError("cut %d is outside 0..%d" % (at, self.count))
        for index, text in self.unsupported:
            if index < at:
                raise ReplayError("record %d cannot be replayed: %s" % (index, text))
        rng = random.Random("%s/%s" % (seed, at))
        cut = _Cut(self, at, mode, rng)

        # Directory entries: the durable changes and a prefix of the others.
        past = [o for o in self.dir_ops if o.index < at]
        loose = [o for o in past if not o.durable_at < at]
        kept = {"drop": 0, "keep": len(loose)}.get(mode)
        if kept is None:
            kept = rng.randint(0, len(loose))
        lost = set(loose[kept:])
        children = {d: dict(c) for d, c in self.base_children.items()}
        for o in past:
            if o not in lost:
                for directory, name, node in o.edits:
                    entries = children.setdefault(directory, {})
                    if node is None:
                        entries.pop(name, None)
                    else:
                        entries[name] = node

        if os.path.lexists(out):
            shutil.rmtree(out)
        os.makedirs(out)
        self._write_dir(self.root, out, children, cut, {})
        cut.stats["dir_ops_kept"] = kept
        cut.stats["dir_ops_lost"] = len(loose) - kept
        return cut.stats

    def _write_dir(self, node, path, children, cut, done):
        for name, child in sorted(children.get(node, {}).items()):
            where = os.path.join(path, name)
            if child.is_dir:
                os.mkdir(where)
                self._write_dir(child, where, children, cut, done)
            elif child in self.links:
                os.symlink(self.links[child], where)
            elif child in done:
                os.link(done[child], where)
            else:
                cut.write_file(child, where)
                done[child] = where


class _Cut:
    def __init__(self, index, at, mode, rng):
        self.view = index.log.view
        self.at, self.mode, self.rng = at, mode, rng
        # How much the disk happened to have written back differs from cut to
        # cut: an even chance alone would never show "all but one".
        self.chance = rng.choice((0.1, 0.5, 0.9))
        self.stats = {"kept": 0, "dropped": 0, "torn": 0}

    def write_file(self, node, path):
        if node.base:
            shutil.copyfile(node.base, path)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if node.mode is not None:
                os.fchmod(fd, node.mode | 0o600)
            end = bisect.bisect_left(node.ops, (self.at,))
            last = bisect.bisect_left(node.syncs, self.at)
            durable = bisect.bisect_left(node.ops, (node.syncs[last - 1],)) if last else 0
            if self.mode == "keep":
                durable = end
            self._apply_all(fd, node.ops[:durable])
            if self.mode == "random":
                self._apply_some(fd, node.ops[durable:end])
            elif durable < end:
                self.stats["dropped"] += end - durable
        finally:
            os.close(fd)

    def _apply_all(self, fd, ops):
        # A write that a later one covers exactly leaves no trace: skip it. Logs
        # of databases are mostly such writes.
        seen, useful = set(), []
        for op in reversed(ops):
            if op[1] == WRITE:
                extent = (op[2], op[4])
                if extent in seen:
                    continue
                seen.add(extent)
            useful.append(op)
        for op in reversed(useful):
            self._apply(fd, op)

    def _apply(self, fd, op):
        _, kind, offset, data_at, length, extra = op
        if kind == WRITE:
            os.pwrite(fd, self.view[data_at:data_at + length], offset)
        elif kind == SIZE:
            os.ftruncate(fd, offset)
        else:
            size = os.fstat(fd).st_size
            end = offset + length
            if end > size:
                if extra & ALLOC_KEEP_SIZE:
                    end = size
                else:
                    os.ftruncate(fd, end)
            if extra & ALLOC_ZERO:
                for p in range(offset, end, 1 << 20):
                    os.pwrite(fd, bytes(min(1 << 20, end - p)), p)

    def _apply_some(self, fd, ops):
        rng = self.rng
        # Once a truncation is lost, nothing written later beyond its end can be
        # there. The new blocks would belong to a size the file never got.
        fence = None
        for op in ops:
            _, kind, offset, data_at, length, extra = op
            end = offset + length
            keep = rng.random() < self.chance
            if fence is not None and end > fence:
                keep = False
            if not keep:
                self.stats["dropped"] += 1
                if kind == SIZE and extra:
                    fence = offset if fence is None else min(fence, offset)
                # The new size may reach the disk without the data: a zero tail.
                elif kind == WRITE and fence is None and rng.random() < 0.25:
                    if end > os.fstat(fd).st_size:
                        os.ftruncate(fd, end)
                continue
            self.stats["kept"] += 1
            if kind == SIZE and extra:
                fence = None
            if kind == WRITE and length > SECTOR and rng.random() < 0.25:
                self.stats["torn"] += 1
                self._tear(fd, offset, data_at, length)
            else:
                self._apply(fd, op)

    def _tear(self, fd, offset, data_at, length):
        """Keeps a random subset of the 512-byte sectors of one write."""
        rng, end, p = self.rng, offset + length, offset
        while p < end:
            nxt = min(end, (p // SECTOR + 1) * SECTOR)
            if rng.random() < 0.5:
                a = data_at + p - offset
                os.pwrite(fd, self.view[a:a + nxt - p], p)
            p = nxt
        if rng.random() < 0.5 and end > os.fstat(fd).st_size:
            os.ftruncate(fd, end)


_cache = {}


def index(log, base):
    """The index of a log; the latest one is kept, so that many cuts cost one pass."""
    st = os.stat(log)
    key = (os.path.realpath(log), st.st_ino, st.st_size, st.st_mtime_ns, os.path.realpath(base))
    if key not in _cache:
        _cache.clear()
        _cache[key] = Index(log, base)
    return _cache[key]


def build(log, base, at, seed, mode, out):
    """Writes the state after a cut at `at` to `out` (replaced); returns statistics."""
    return index(log, base).build(at, seed, mode, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(dest="command", required=True)
    for name in ("count", "notes", "build"):
        p = sub.add_parser(name)
        p.add_argument("log")
    p.add_argument("--base", required=True)
    p.add_argument("--at", type=int, required=True)
    p.add_argument("--seed", default="0")
    p.add_argument("--out", required=True)
    p.add_argument("--mode", choices=("random", "drop", "keep"), default="random")
    a = parser.parse_args()
    try:
        if a.command == "count":
            print(count(a.log))
        elif a.command == "notes":
            for i, text, pid in notes(a.log):
                print("%d\t%s\t%d" % (i, text, pid))
        else:
            print(" ".join("%s=%d" % kv for kv in build(a.log, a.base, a.at, a.seed, a.mode, a.out).items()))
    except (ReplayError, ValueError, OSError) as e:
        sys.exit("replay: %s" % e)


if __name__ == "__main__":
    main()
