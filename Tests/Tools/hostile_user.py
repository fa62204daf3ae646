#!/usr/bin/python3
"""A user who writes hostile text everywhere: Cairn must carry all of it, and run none of it.

    hostile_user.py --cairn .build/debug/cairn --pair pg-sqlite --rounds 3 --seed 1

Each round makes a database whose tables, columns, keys and rows are named and filled with random text. The text has
every block of Unicode, each kind of scalar that joins a quote to its neighbors, control characters, and NUL between two
SQLite files. It also has pieces of SQL that would change the table `canary` if anything ran them. One table has a
scalar of every block in the names of its columns and in its rows. Then the round copies, and follows changes of rows
and of schemas. It executes statements through libcairn that go as statements. It compares, repairs what it has damaged,
shows the trail as SQL for both engines and runs that SQL. The judge is compare_engines.py, which shares no code with
Cairn: the databases must be equal. `canary` must be as it was at both ends and wherever the SQL ran.

Prints a line per round. If all went well, prints the blocks that no name or no row of any target had: they are failures, too.
Exit status: 0 all right, 1 not, 2 usage.
"""
import argparse
import ctypes
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unicodedata

import libpq
import unicode_blocks

HERE = os.path.dirname(os.path.abspath(__file__))
# Scalars that make one cluster with a quote beside them, or that are hard for other reasons.
JOINERS = [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x8E2, 0xD4E, 0x110BD, 0x111C2, 0x1193F, 0x11A3A, 0x300, 0x301, 0x338, 0x5BF,
           0x200C, 0x200D, 0x20DD, 0xFE00, 0xFE0E, 0xFE0F, 0xE0100, 0xE0020, 0x1F3FB, 0x903, 0xE33, 0x1D166, 0x1F1E6, 0x1100, 0x1160,
           0x11A8, 0xAC00, 0xAD, 0x200B, 0x200E, 0x202E, 0x2028, 0x2029, 0xFEFF, 0x94D, 0x915, 0x1F468, 0x2764, 0x85, 0x7F]
QUOTES = "'\"\\`;$[]().-/*:,?%{}|&<>=!#@ "
PAYLOADS = ["; DROP TABLE canary; --", ") TO STDOUT; COMMIT; DROP TABLE canary; --", "; DELETE FROM canary; --",
            "::text); UPDATE canary SET v = 'dead'; --", "$cairn$; DROP TABLE canary; --", "\nDROP TABLE canary;\n", "\r\\! touch pwned\r",
            "\n.shell touch pwned\n", "\n\\! touch pwned\n", "*/ DROP TABLE canary; /*", "\\'; DROP TABLE canary; --", "\r\nDROP TABLE canary;\r\n"]
# Cairn put names between such characters once.
SEPARATORS = "\x1f\x1e.=^"
CANARY = [(1, "tweet"), (2, "'\u0301")]


def name_of(r, taken, walk, limit=40, head=""):
    """A name that no other is equal to, however one folds them."""
    while True:
        text = head or text_of(r, walk, r.choice((4, 8)), controls=r.random() < 0.3)
        if r.random() < 0.4:
            text += r.choice(SEPARATORS) + r.choice("aé'")
        while len(text.encode()) > limit:
            text = text[:-1]
        # A name has no escapes, and the shell of SQLite reads this as one line feed.
        text = text.replace("\r\n", "\r")
        folded = unicodedata.normalize("NFKC", text).casefold()
        if text.strip() and folded.strip() and folded not in taken and not folded.startswith(("sqlite_", "cairn", "pg_")):
            taken.add(folded)
            return text


def text_of(r, walk, most=12, controls=True):
    parts = []
    for _ in range(r.randrange(most + 1)):
        dice = r.random()
        if dice < 0.3:
            parts.append(chr(r.choice(JOINERS)) + r.choice("'\"\\") if r.random() < 0.5 else r.choice("'\"\\") + chr(r.choice(JOINERS)))
        elif dice < 0.5:
            parts.append(r.choice(QUOTES))
        elif dice < 0.58:
            parts.append(r.choice("'\"\\") + chr(r.choice(JOINERS)) + r.choice(PAYLOADS))
        elif dice < 0.65 and controls:
            # C0 without NUL, DEL and C1.
            parts.append(chr(r.choice((r.randrange(1, 32), r.randrange(0x7F, 0xA0)))))
        elif dice < 0.8:
            parts.append(r.choice(("é", "e\u0301", "Å", "\u212b", "A\u030a", "Ω", "\u2126", "ß", "İ", "ı", "ﬁ", "a", "B", "Z", "0")))
        else:
            parts.append(chr(walk.next()))
    return "".join(part if controls else "".join(c for c in part if c >= " ") for part in parts)


class Value(ctypes.Structure):
    """`cairn_value` of cairn.h."""
    _fields_ = [("type", ctypes.c_int), ("integer", ctypes.c_int64), ("real", ctypes.c_double), ("bytes", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Program:
    """A program that executes its statements through libcairn, so that they are captured as statements."""

    def __init__(self, library, path, node):
        self.lib = ctypes.CDLL(library)
        self.lib.cairn_error_message.restype = ctypes.c_char_p
        self.db = ctypes.c_void_p()
        self.check(self.lib.cairn_open(path.encode(), node.encode(), None, ctypes.byref(self.db)))

    def check(self, code):
        if code:
            raise sqlite3.Error("libcairn: %d %s" % (code, self.lib.cairn_error_message().decode("utf-8", "replace")))

    def execute(self, sql, *texts):
        values = (Value * len(texts))(*[Value(3, 0, 0, text.encode(), len(text.encode())) for text in texts])
        self.check(self.lib.cairn_execute(self.db, ctypes.c_char_p(sql.encode()), values, ctypes.c_size_t(len(texts)), None))

    def close(self):
        self.check(self.lib.cairn_close(self.db))


class End:
    """One database, written to and read by programs that know nothing of Cairn."""

    def __init__(self, engine, name, folder, server):
        self.engine = engine
        if engine == "sqlite":
            self.path = os.path.join(folder, name + ".db")
            self.url = "sqlite:" + self.path
            self.db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        else:
            url = "postgresql:///%s?host=%s&user=postgres"
            with libpq.Connection(url % ("postgres", server)) as db:
                # Text sorts by bytes in half of them: there, a chunk of a copy ends after few rows.
                collation = "TEMPLATE template0 LC_COLLATE 'C'" if sum(name.encode()) % 2 else ""
                db.run("CREATE DATABASE %s %s" % (name, collation))
            self.url = url % (name, server)
            self.db = libpq.Connection(self.url)

    def run(self, sql):
        self.db.execute(sql) if self.engine == "sqlite" else self.db.run(sql)

    def text(self, value):
        if value is None:
            return "NULL"
        return "CAST(x'%s' AS TEXT)" % value.encode().hex() if self.engine == "sqlite" else libpq.literal(value)

    def canary(self):
        sql = "SELECT id, v FROM canary ORDER BY id"
        try:
            if self.engine == "sqlite":
                return [(row[0], row[1]) for row in self.db.execute(sql)] == CANARY
            return [(int(row[0]), row[1].decode()) for row in self.db.query(sql)] == CANARY
        except (sqlite3.Error, libpq.Error):
            return False

    def close(self):
        self.db.close()


class Round:
    def __init__(self, args, seed, server):
        self.args, self.seed, self.server = args, seed, server
        self.r = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="cairn-hostile-")
        kinds = args.pair.split("-")
        self.source = End("sqlite" if kinds[0] == "sqlite" else "pg", "source_%d" % seed, self.folder, server)
        self.target = End("sqlite" if kinds[1] == "sqlite" else "pg", "target_%d" % seed, self.folder, server)
        self.bad = []
        self.statements = ""
        self.names, self.values = unicode_blocks.Walk(seed), unicode_blocks.Walk(seed)
        # PostgreSQL has no text with NUL.
        self.nul = args.pair == "sqlite-sqlite"
        self.arrived = {"names": set(), "rows": set()}

    def fail(self, what, done=None):
        more = "" if done is None else ": status %d: %s %s" % (done.returncode, done.stdout[-1500:], done.stderr[-1500:])
        self.bad.append(what + more)

    def name(self, taken, head=""):
        return name_of(self.r, taken, self.names, head=head)

    def value(self, literal=False):
        """A text of a row; with `literal` one for a literal in SQL, which has no NUL."""
        text = text_of(self.r, self.values)
        if self.nul and not literal and self.r.random() < 0.1:
            place = self.r.randrange(len(text) + 1)
            text = text[:place] + "\0" + text[place:]
        return text

    def call(self, *arguments, **options):
        return subprocess.run([self.args.cairn, *arguments], capture_output=True, text=True, timeout=120, cwd=self.folder, errors="replace", **options)

    def ends(self):
        return ["--from", self.source.url, "--to", self.target.url, "--state", os.path.join(self.folder, "state")]

    def make(self):
        taken = self.taken = {"canary", "borders"}
        self.referred = set()
        self.tables = []
        for end in (self.source, self.target):
            end.run("CREATE TABLE canary(id INTEGER PRIMARY KEY, v TEXT)")
            for id, v in CANARY:
                end.run("INSERT INTO canary VALUES (%d, %s)" % (id, end.text(v)))
        for number in range(3):
            columns_taken = set()
            table, columns = self.name(taken), [self.name(columns_taken) for _ in range(4)]
            kind = ("text", "pair", "integer")[number]
            quoted = [libpq.quote(column) for column in columns]
            key = quoted[:2] if kind == "pair" else quoted[:1]
            first = "TEXT" if kind != "integer" else "INTEGER" if self.source.engine == "sqlite" else "BIGINT"
            self.source.run("CREATE TABLE %s(%s %s NOT NULL, %s TEXT%s, %s TEXT, %s TEXT, PRIMARY KEY (%s))" % (
                libpq.quote(table), quoted[0], first, quoted[1], " NOT NULL" if kind == "pair" else "", quoted[2], quoted[3], ", ".join(key)))
            self.tables.append((table, columns, kind, []))
            for _ in range(self.args.rows):
                self.insert(self.tables[-1])
        self.make_of_all_blocks()
        # Whichever row is the last of a chunk: its key ends the statement, if anything lets it.
        joiner, place = chr(self.r.choice(JOINERS)), "public." if self.source.engine == "pg" else ""
        ending = "%s') TO STDOUT; COMMIT; DROP TABLE %scanary; --" % (joiner, place)
        self.source.run("CREATE TABLE borders(id TEXT NOT NULL PRIMARY KEY)")
        count = self.args.border_rows
        for start in range(0, count, 1000):
            self.source.run("INSERT INTO borders VALUES " + ",".join(
                "(%s)" % self.source.text("%06d%s" % (n, ending)) for n in range(start, min(start + 1000, count))))
        # Names in one form of Unicode, which get the other one later.
        self.form = self.r.choice(("NFC", "NFD"))
        table, column, key = (unicodedata.normalize(self.form, name) for name in ("Åse's café", "é", "İd"))
        taken.add(unicodedata.normalize("NFKC", table).casefold())
        self.source.run("CREATE TABLE %s(%s INTEGER PRIMARY KEY, %s TEXT)" % tuple(map(libpq.quote, (table, key, column))))
        self.source.run("INSERT INTO %s VALUES (1, %s)" % (libpq.quote(table), self.source.text(table)))
        # And a name that does.
        name = 'n"%s; DROP TABLE %scanary; --' % (joiner, place)
        self.source.run("CREATE TABLE %s(%s INTEGER PRIMARY KEY, %s TEXT)" % (libpq.quote(name), libpq.quote("k" + name), libpq.quote("v" + name)))
        self.source.run("INSERT INTO %s VALUES (1, %s)" % (libpq.quote(name), self.source.text(ending)))

    def make_of_all_blocks(self):
        """A table that has a scalar of every block in the names of its columns, and in its rows."""
        table, columns, taken = self.name(self.taken), [], set()
        while unicode_blocks.missing("".join(columns)):
            there = unicode_blocks.blocks_of("".join(columns))
            absent = [number for number in range(len(unicode_blocks.BLOCKS)) if number not in there]
            # Seven scalars of four bytes, a quote, and what name_of adds.
            some = [chr(unicode_blocks.scalar_of(number, self.r)) for number in self.r.sample(absent, min(7, len(absent)))]
            some.insert(self.r.randrange(len(some) + 1), self.r.choice("'\"\\"))
            columns.append(self.name(taken, "".join(some)))
        columns.insert(0, self.name(taken))
        type = "INTEGER" if self.source.engine == "sqlite" else "BIGINT"
        self.source.run("CREATE TABLE %s(%s %s PRIMARY KEY, %s)" % (
            libpq.quote(table), libpq.quote(columns[0]), type, ", ".join(libpq.quote(column) + " TEXT" for column in columns[1:])))
        self.tables.append((table, columns, "integer", []))
        every = [chr(self.values.next()) for _ in unicode_blocks.BLOCKS]
        width = -(-len(every) // (len(columns) - 1))
        texts = [self.r.choice("'\"\\").join(every[start:start + width]) for start in range(0, len(every), width)]
        if self.nul:
            texts[-1] += "\0'\0"
        self.insert(self.tables[-1], texts)
        for _ in range(3):
            self.insert(self.tables[-1])

    def key(self, kind):
        if kind == "integer":
            return (self.r.randrange(1 << 40),)
        return tuple(self.value() for _ in range(2 if kind == "pair" else 1))

    def insert(self, table, texts=()):
        name, columns, kind, keys = table
        key = self.key(kind)
        if key in keys:
            return
        keys.append(key)
        self.insert_at(self.source, table, key, texts)

    def insert_at(self, end, table, key, texts=()):
        name, columns, kind, _ = table
        values = [str(key[0]) if kind == "integer" else end.text(key[0])] + [end.text(text) for text in key[1:]]
        values += [end.text(text) for text in texts]
        values += [end.text(self.value() if self.r.random() < 0.9 else None) for _ in range(len(columns) - len(values))]
        end.run("INSERT INTO %s(%s) VALUES (%s)" % (
            libpq.quote(name), ", ".join(libpq.quote(column) for column in columns), ", ".join(values)))

    def where(self, end, table, key):
        terms = [str(key[0]) if table[2] == "integer" else end.text(key[0])] + [end.text(text) for text in key[1:]]
        return " AND ".join("%s = %s" % (libpq.quote(column), term) for column, term in zip(table[1], terms))

    def change(self):
        for _ in range(self.args.rows // 2):
            table = self.r.choice(self.tables)
            dice = self.r.random()
            if dice < 0.4 or not table[3]:
                self.insert(table)
                continue
            key = self.r.choice(table[3])
            where = self.where(self.source, table, key)
            if dice < 0.8:
                self.source.run("UPDATE %s SET %s = %s WHERE %s" % (
                    libpq.quote(table[0]), libpq.quote(table[1][3]), self.source.text(self.value()), where))
            else:
                if key[0] in self.referred:
                    continue
                table[3].remove(key)
                self.source.run("DELETE FROM %s WHERE %s" % (libpq.quote(table[0]), where))

    def alter(self):
        """Changes of the schema, with names and defaults of the same kind."""
        other = "NFD" if self.form == "NFC" else "NFC"
        table, column, key = ([unicodedata.normalize(form, name) for form in (self.form, other)] for name in ("Åse's café", "é", "İd"))
        changes = ["ALTER TABLE %s RENAME TO %s" % tuple(map(libpq.quote, table))]
        for old, new in (column, key):
            changes.append("ALTER TABLE %s RENAME COLUMN %s TO %s" % tuple(map(libpq.quote, (table[1], old, new))))
        for change in changes[:self.r.randrange(1, 4)]:
            self.source.run(change)
        self.source.run("INSERT INTO %s VALUES (2, 'after')" % libpq.quote(table[1]))
        name, columns, kind, keys = self.r.choice(self.tables)
        table = libpq.quote(name)
        taken = {unicodedata.normalize("NFKC", column).casefold() for column in columns}
        added = self.name(taken)
        self.source.run("ALTER TABLE %s ADD COLUMN %s TEXT DEFAULT %s" % (table, libpq.quote(added), self.quoted(self.value(literal=True))))
        if self.r.random() < 0.5:
            renamed = self.name(taken)
            self.source.run("ALTER TABLE %s RENAME COLUMN %s TO %s" % (table, libpq.quote(columns[3]), libpq.quote(renamed)))
            columns[3] = renamed
        index = self.name(self.taken)
        self.source.run("CREATE INDEX %s ON %s(%s, %s)" % (libpq.quote(index), table, libpq.quote(columns[3]), libpq.quote(added)))
        if kind != "pair" and self.r.random() < 0.5:
            # A table that refers to it, made while Cairn looks away.
            child, number = self.name(self.taken), self.name(set())
            own = self.name({unicodedata.normalize("NFKC", number).casefold()})
            type = "TEXT" if kind == "text" else "INTEGER" if self.source.engine == "sqlite" else "BIGINT"
            self.source.run("CREATE TABLE %s(%s INTEGER PRIMARY KEY, %s %s REFERENCES %s(%s))" % (
                libpq.quote(child), libpq.quote(number), libpq.quote(own), type, table, libpq.quote(columns[0])))
            if keys:
                key = self.r.choice(keys)[0]
                self.source.run("INSERT INTO %s VALUES (1, %s)" % (libpq.quote(child), key if kind == "integer" else self.source.text(key)))
                self.referred.add(key)

    def quoted(self, text):
        """A literal, as a definition has it."""
        return "'%s'" % text.replace("'", "''") if self.source.engine == "sqlite" else libpq.literal(text)

    def execute(self):
        """Statements of a program that uses libcairn, with text in parameters and in literals."""
        program = Program(self.args.library, self.source.path, "till")
        try:
            for name, columns, kind, keys in self.tables[:3]:
                table, value, more = libpq.quote(name), libpq.quote(columns[3]), libpq.quote(columns[2])
                program.execute("UPDATE %s SET %s = ? || coalesce(%s, '') WHERE %s IS NOT NULL" % (table, value, value, value), self.value())
                program.execute("UPDATE %s SET %s = %s || %s" % (table, value, value, self.quoted(self.value(literal=True))))
                if kind != "pair":
                    program.execute("UPDATE %s SET %s = ? WHERE %s = ? OR %s > %s" % (
                        table, more, more, more, self.quoted(self.value(literal=True))), self.value(), self.value())
                program.execute("DELETE FROM %s WHERE %s = ?" % (table, value), self.value())
        finally:
            program.close()

    def damage(self):
        """Returns the rows of the target that no program wrote at the source."""
        names = [row[0] for row in self.target.db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'cairn%' AND name <> 'canary'")] \
            if self.target.engine == "sqlite" else [row[0].decode() for row in self.target.db.query(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'canary'")]
        if self.target.engine == "pg":
            # Otherwise a row may stay because another one refers to it.
            self.target.run("SET session_replication_role = replica")
        for name in names:
            table = libpq.quote(name)
            if self.target.engine == "sqlite":
                self.target.run("DELETE FROM %s WHERE rowid IN (SELECT rowid FROM %s LIMIT 2)" % (table, table))
            else:
                self.target.run("DELETE FROM %s WHERE ctid IN (SELECT ctid FROM %s LIMIT 2)" % (table, table))
        if self.target.engine == "pg":
            self.target.run("RESET session_replication_role")
        # The repair updates a row and deletes one, both by hostile keys.
        for table in map(self.at_target, self.tables):
            name, columns, kind, keys = table
            left = self.read(self.target, name, columns[:2 if kind == "pair" else 1])
            if left:
                self.target.run("UPDATE %s SET %s = %s WHERE %s" % (
                    libpq.quote(name), libpq.quote(columns[3]), self.target.text("changed" + self.value()),
                    self.where(self.target, table, self.r.choice(left))))
            key = self.key(kind)
            while key in keys:
                key = self.key(kind)
            self.insert_at(self.target, table, key)

    def at_target(self, table):
        """A table as the target names it: the ASCII letters in names of SQLite are small in PostgreSQL."""
        name, columns, kind, keys = table
        if (self.source.engine, self.target.engine) != ("sqlite", "pg"):
            return table
        small = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
        return name.translate(small), [column.translate(small) for column in columns], kind, keys

    def read(self, end, table, columns):
        """The rows of a table, as tuples of texts."""
        sql = "SELECT %s FROM %s" % (", ".join(map(libpq.quote, columns)), libpq.quote(table))
        rows = end.db.execute(sql).fetchall() if end.engine == "sqlite" else end.db.query(sql)
        return [tuple(value.decode() if isinstance(value, bytes) else value for value in row) for row in rows]

    def note_arrived(self):
        """Notes of which blocks names and rows have come to the target."""
        for name, columns, _, _ in map(self.at_target, self.tables):
            self.arrived["names"] |= unicode_blocks.blocks_of(name + "".join(columns))
            for row in self.read(self.target, name, columns):
                self.arrived["rows"] |= unicode_blocks.blocks_of("".join(str(value) for value in row))

    def judge(self, what, target=None):
        done = subprocess.run([sys.executable, os.path.join(HERE, "compare_engines.py"), self.source.url, target or self.target.url],
                              capture_output=True, text=True, errors="replace")
        if done.returncode:
            self.fail("not equal after " + what, done)
        for end in (self.source, self.target):
            if not end.canary():
                self.fail("the canary of %s is dead after %s" % (end.url, what))
        if os.path.exists(os.path.join(self.folder, "pwned")):
            self.fail("a shell ran after " + what)

    def step(self, what, *arguments, allowed=(0,)):
        done = self.call(*arguments)
        if done.returncode not in allowed:
            self.fail(what, done)
        return done

    def show(self, engine):
        """The trail as SQL, run by the engine's own shell."""
        state = os.path.join(self.folder, "state")
        trail = next(os.path.join(state, name) for name in sorted(os.listdir(state)) if os.path.exists(os.path.join(state, name, "durable")))
        done = subprocess.run([self.args.cairn, "trail", "show", trail, "--sql", engine], capture_output=True,
                              timeout=120, cwd=self.folder)
        if done.returncode not in (0, 1):
            self.fail("trail show --sql " + engine + ": " + done.stderr.decode("utf-8", "replace"))
            return
        end = End("sqlite" if engine == "sqlite" else "pg", "shown_%s_%d" % (engine, self.seed), self.folder, self.server)
        try:
            end.run("CREATE TABLE canary(id INTEGER PRIMARY KEY, v TEXT)")
            script = os.path.join(self.folder, engine + ".sql")
            with open(script, "wb") as file:
                file.write(done.stdout)
            with open(script, "rb") as file:
                command = ["sqlite3", "-bail", end.path] if engine == "sqlite" else ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", end.url]
                ran = subprocess.run(command, stdin=file, capture_output=True, cwd=self.folder)
            if ran.returncode:
                self.fail("%s refuses what trail show prints: %s" % (command[0], ran.stderr.decode("utf-8", "replace")[-1500:]))
            elif not end.canary():
                self.fail("the canary of what is shown is dead")
            else:
                self.judge("trail show --sql " + engine, end.url)
        finally:
            end.close()

    def run(self):
        try:
            self.make()
            self.step("copy", "replicate", *self.ends(), "--existing", "overwrite", "--once")
            if not self.bad:
                self.judge("the first copy")
                self.note_arrived()
            self.change()
            if not self.bad:
                self.step("follow", "replicate", *self.ends(), "--once")
                self.judge("the changes")
            if not self.bad:
                self.alter()
                self.change()
                self.step("follow schema changes", "replicate", *self.ends(), "--once")
                self.judge("the schema changes")
            if not self.bad and self.source.engine == "sqlite" and self.args.library:
                self.execute()
                done = self.step(
                    "statements", "replicate", *self.ends(), "--once", "--replay", "statements", "--local-writes", "refuse")
                self.statements = done.stdout + done.stderr
                replayed = re.search(r"(\d+) of \d+ statements were executed as such", self.statements)
                if not replayed or replayed.group(1) == "0":
                    self.bad.append("no statement was executed as such: " + self.statements[-500:])
                self.judge("the statements")
                # Programs may write to the target again.
                self.step("no refusal", "replicate", *self.ends(), "--once")
            if not self.bad:
                self.step("compare", "compare", *self.ends())
                self.damage()
                self.step("compare of a damaged target", "compare", *self.ends(), allowed=(1,))
                self.step("repair", "compare", *self.ends(), "--repair", allowed=(0, 1))
                self.step("repair", "replicate", *self.ends(), "--once")
                self.judge("the repair")
            if not self.bad:
                for engine in ("sqlite", "postgres") if self.server else ("sqlite",):
                    self.show(engine)
        except (sqlite3.Error, libpq.Error) as error:
            self.fail("the harness itself: %r" % error)
        except subprocess.TimeoutExpired as error:
            self.fail("no end: %s" % error)
        finally:
            if self.source.engine == "pg" or self.target.engine == "pg":
                self.call("detach", self.source.url)
            self.source.close()
            self.target.close()
            if not self.args.keep or not self.bad:
                shutil.rmtree(self.folder, ignore_errors=True)
            if self.server:
                with libpq.Connection("postgresql:///postgres?host=%s&user=postgres" % self.server) as db:
                    for row in db.query("SELECT slot_name FROM pg_replication_slots WHERE NOT active"):
                        db.query("SELECT pg_drop_replication_slot(%s)" % libpq.literal(row[0].decode()))
                    for row in db.query("SELECT datname FROM pg_database WHERE datname ~ '_%d$'" % self.seed):
                        db.run("DROP DATABASE %s WITH (FORCE)" % row[0].decode())
        return self.bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cairn", required=True, metavar="BINARY")
    parser.add_argument("--library", metavar="FILE", help="libcairn.so; without it no statements are executed")
    parser.add_argument("--pair", required=True, choices=("sqlite-sqlite", "sqlite-pg", "pg-sqlite", "pg-pg"))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=60, help="of each table")
    parser.add_argument("--border-rows", type=int, default=5200, help="of a table that is more than one chunk of a copy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", metavar="FOLDER", help="the socket of a PostgreSQL server; without one, one is started")
    parser.add_argument("--keep", action="store_true", help="keep the folders of rounds that fail")
    args = parser.parse_args()
    args.cairn = os.path.abspath(args.cairn)
    args.library = os.path.abspath(args.library) if args.library else None
    server = args.server
    folder = None
    if server is None and "pg" in args.pair:
        folder = tempfile.mkdtemp(prefix="cairn-hostile-pg-")
        server = os.path.join(folder, "pg")
        os.chmod(folder, 0o755)
        subprocess.run([os.path.join(HERE, "pgserver.sh"), "start", server, "--while", str(os.getpid())], check=True)
    bad = 0
    arrived = {"names": set(), "rows": set()}
    for number in range(args.rounds):
        seed = args.seed + number
        round = Round(args, seed, server)
        wrong = round.run()
        for what, blocks in round.arrived.items():
            arrived[what] |= blocks
        print(json.dumps({"pair": args.pair, "seed": seed, "statements": round.statements, "wrong": wrong, "folder": round.folder if wrong else None}), flush=True)
        bad += bool(wrong)
        if bad >= 5:
            break
    unused = {} if bad else {what: unicode_blocks.missing("", blocks) for what, blocks in arrived.items()}
    if not bad:
        print(json.dumps({"pair": args.pair, "blocks": len(unicode_blocks.BLOCKS), "unused": unused}), flush=True)
    if folder:
        subprocess.run([os.path.join(HERE, "pgserver.sh"), "stop", server])
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad or any(unused.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
