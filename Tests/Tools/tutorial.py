#!/usr/bin/python3
"""Runs the commands of a page and compares what they print with the page.

    tutorial.py PAGE --bin FOLDER [--library FOLDER] [--postgres FOLDER] [--show]
    tutorial.py PAGE --list

Exit status: 0 all commands printed what the page says, 1 one did not (shown with both texts), 64 usage.

The page is Markdown. Its ```console blocks are run from top to bottom in a temporary HOME:

    $ command          is run by bash, in the folder in which the command before it ended; lines that begin with "> "
                       belong to it. The lines up to the next command are what it prints, errors included.
    ^C                 ends the program that runs in this terminal, and the lines after it are the rest of its output.
    …                  is any text in a line; a line of its own, any lines.

Words after "console" say how:

    a number           is the terminal (1 unless it is given).
    running            says that the last command goes on running.
    again              repeats each command until it prints what the page says, for 60 seconds at most.
    fails              says that the exit status of the last command is not 0.
    not-run            says that the block is only shown.
    another word       is the name of the machine, for pages with several.

A ```toml block whose first line is "# PATH", or a ```c block with "/* FILE */" there, is written to that file of the
machine. A line "<!-- after PAGE#SECTION … -->" runs the blocks of those sections of other pages before those of this
one. Blocks in a comment of the page are run too: they wait, or carry a file to another machine.

--list prints the number of blocks that are run or written, then the line and first line of each other block.

A machine is a folder: HOME, or a folder of the machine's name in it. Folders of a machine such as /etc/cairn are in that
folder; /usr/local/share/doc/cairn is the folder of Cairn's sources. The programs in standins/ replace sudo, systemctl
and journalctl, and point cairn to the machine's /etc/cairn. A name such as hq.example, before a port, is 127.0.0.1.

Times, durations, rates, positions, identifiers and hashes differ from run to run and are compared by their form. The
page's /home/ann is the temporary HOME, and each port 74NN of the page is a free port. `docs` and `conf` in HOME are those of
Cairn. With --postgres, psql and the rest find the server whose socket is in FOLDER, /run/postgresql in the page.
"""
import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STANDINS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standins")
HOME = "/home/ann"
# The place where `make install` puts the documents and examples.
INSTALLED = "/usr/local/share/doc/cairn"
# Folders that a page has of its own, on each of its machines.
OWN = r"/(?:etc/cairn|etc/systemd|var/lib/cairn|srv)(?![\w-])"
# Words of a console block that do not name a machine.
WORDS = {"running", "again", "fails", "not-run"}
# Texts that differ from run to run, longest first: a pattern, and its replacement in both texts.
FORMS = [
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
    (r"\b[0-9a-f]{64}\b", "HASH"),
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"\b[0-9a-f]{8}:[0-9a-f]{8}\b", "POSITION"),
    (r"-[0-9a-f]{8}(?=[/,\s]|$)", "-DIGITS"),
    (r"\b[\d,]+(\.\d+)? (µs|ms|s|min|h|rows/s|[KMG]iB|bytes)\b", "AMOUNT"),
    (r"\bprocess \d+", "process N"),
]


def plain(text):
    for pattern, name in FORMS:
        text = re.sub(pattern, name, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def matches(expected, printed):
    lines = [".*" if line == "…" else ".*".join(re.escape(part) for part in line.split("…"))
             for line in plain(expected).split("\n")]
    pattern = ""
    for index, line in enumerate(plain(expected).split("\n")):
        if line == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += lines[index].replace(".*", r"[^\n]*") + r"\n"
    return re.fullmatch(pattern, plain(printed) + "\n") is not None


def blocks(page):
    """Yields (line number, words after the fence, lines) of each fenced block."""
    words, lines, begin = None, [], 0
    for number, line in enumerate(page.split("\n"), 1):
        if line.startswith("```"):
            if words is None:
                words, lines, begin = line[3:].split(), [], number
            else:
                yield begin, words, lines
                words = None
        elif words is not None:
            lines.append(line)


def section(page, name):
    """Returns the lines of a section, by the anchor of its heading, with those before it left empty."""
    found, level, is_code = [], 0, False
    for line in page.split("\n"):
        is_code ^= line.startswith("```")
        heading = None if is_code else re.match(r"(#+) (.*)", line)
        if heading and level and len(heading[1]) <= level:
            break
        if heading and re.sub(r"[^\w -]", "", heading[2].lower()).replace(" ", "-") == name:
            level = len(heading[1])
        found.append(line if level else "")
    if not level:
        raise ValueError("there is no section " + name)
    return "\n".join(found)


def path_of(lines):
    """Returns the path that the first line, a comment, names."""
    found = re.match(r"# ([~/]\S*)$|/\* ([\w.]+) \*/$", lines[0])
    return found and (found[1] or found[2])


def is_run(words, lines):
    if words[:1] in (["toml"], ["c"]):
        return bool(lines) and path_of(lines) is not None
    return words[:1] == ["console"] and "not-run" not in words


def machine_of(words):
    return next((word for word in words[1:] if not word.isdigit() and word not in WORDS), "")


def steps(lines):
    """Yields (command or None for ^C, expected output) of a console block."""
    command, output = None, []
    started = False
    for line in lines:
        if line.startswith("$ ") or line == "^C":
            if started:
                yield command, "\n".join(output)
            started, output = True, []
            command = None if line == "^C" else line[2:]
        elif line.startswith("> ") and started and not output and command is not None:
            command += "\n" + line[2:]
        elif not started:
            raise ValueError("output without a command: " + line)
        else:
            output.append(line)
    if started:
        yield command, "\n".join(output)


class Run:
    def __init__(self, options):
        # A short path: sockets are in it.
        self.home = os.path.realpath(tempfile.mkdtemp(prefix="tut"))
        for name in ("docs", "conf"):
            os.symlink(os.path.join(ROOT, name), os.path.join(self.home, name))
        self.show = options.show
        self.ports = {}
        self.hosts = {}
        self.roots = {}
        self.folders = {}
        self.running = {}
        self.postgres = options.postgres
        path = ":".join([STANDINS, options.bin, "/usr/local/bin", "/usr/bin", "/bin"])
        self.environment = {
            "HOME": self.home, "PATH": path, "LC_ALL": "C.UTF-8", "TZ": "UTC", "TMPDIR": self.home, "PGUSER": "postgres",
            "PGCONNECT_TIMEOUT": "10", "CAIRN_BIN": os.path.abspath(options.bin), "RUNNER": str(os.getpid())}
        if options.postgres:
            self.environment["PGHOST"] = options.postgres
            self.environment["PGPORT"] = os.environ.get("PGPORT", "5432")
        if options.library:
            description = open(os.path.join(ROOT, "Sources/C/CCairn/cairn.pc"), encoding="utf-8").read()
            for name, value in (
                    ("@LIBDIR@", options.library), ("@INCLUDEDIR@", ROOT + "/Sources/C/CCairn/include"),
                    ("@PREFIX@", "/usr"), ("@VERSION@", "0"),
                    ("-lcairn", "-lCairnC -Wl,-rpath,%s -Wl,--allow-shlib-undefined" % options.library)):
                description = description.replace(name, value)
            os.mkdir(self.home + "/.pkgconfig")
            with open(self.home + "/.pkgconfig/cairn.pc", "w", encoding="utf-8") as file:
                file.write(description)
            self.environment["PKG_CONFIG_PATH"] = self.home + "/.pkgconfig"

    def port(self, match):
        if match[0] not in self.ports:
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                self.ports[match[0]] = str(one.getsockname()[1])
        return self.ports[match[0]]

    def host(self, match):
        port = self.port(re.match("74..", match[2]))
        self.hosts[port] = match[1] + ":" + match[2]
        return "127.0.0.1:" + port

    def root(self, machine):
        if machine not in self.roots:
            self.roots[machine] = os.path.join(self.home, machine) if machine else self.home
            os.makedirs(self.roots[machine], exist_ok=True)
        return self.roots[machine]

    def here(self, text, root):
        """Returns what the page says, as it is in this run."""
        text = text.replace(INSTALLED, ROOT)
        text = re.sub(r"(?<![\w.])(?=%s)" % OWN, root, text)
        if self.postgres:
            text = text.replace("/run/postgresql", self.postgres)
        text = re.sub(r"\b([\w-]+\.example):(74\d\d)\b", self.host, text)
        return re.sub(r"\b74\d\d\b", self.port, text.replace(HOME, root))

    def there(self, text):
        """Returns what a program printed, as the page says it."""
        for port, host in self.hosts.items():
            text = text.replace("127.0.0.1:" + port, host)
        for page, own in self.ports.items():
            text = re.sub(r"\b%s\b" % own, page, text)
        for root in sorted(self.roots.values(), key=len, reverse=True):
            text = re.sub(r"%s(?=%s)" % (re.escape(root), OWN), "", text).replace(root, HOME)
        return text.replace(self.postgres, "/run/postgresql") if self.postgres else text

    def folder(self, terminal):
        return self.folders.get(terminal, self.root(terminal[0]))

    def start(self, terminal, command):
        output = tempfile.TemporaryFile("w+", encoding="utf-8", errors="backslashreplace", dir=self.home)
        read, write = os.pipe()
        root = self.root(terminal[0])
        script = "%s\nstatus=$?\npwd >&%d\nexit $status" % (self.here(command, root), write)
        process = subprocess.Popen(
            ["/bin/bash", "-c", script], cwd=self.folder(terminal), env=dict(self.environment, HOME=root, MACHINE=root),
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, pass_fds=[write], start_new_session=True)
        os.close(write)
        return process, output, read

    def text(self, output):
        output.flush()
        size = os.fstat(output.fileno()).st_size
        return self.there(os.pread(output.fileno(), size, 0).decode("utf-8", "backslashreplace"))

    def run(self, terminal, command, seconds=120):
        process, output, read = self.start(terminal, command)
        self.running["now"] = (process, output, read)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None, self.text(output)
        del self.running["now"]
        with os.fdopen(read) as file:
            self.folders[terminal] = file.read().strip() or self.folder(terminal)
        return process.returncode, self.text(output)

    def end(self):
        for process, _, _ in self.running.values():
            for sign in (signal.SIGINT, signal.SIGKILL):
                try:
                    os.killpg(process.pid, sign)
                    process.wait(20)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        for root in self.roots.values():
            if os.path.exists(root + "/.unit"):
                subprocess.run(
                    [STANDINS + "/systemctl", "stop", "cairnd"], env=dict(self.environment, MACHINE=root), check=False)
        shutil.rmtree(self.home, ignore_errors=True)

    def step(self, terminal, words, command, expected, last):
        """Returns what is wrong, or None."""
        if command is None:
            if terminal not in self.running:
                return "nothing runs in terminal %s" % (terminal,)
            process, output, _ = self.running.pop(terminal)
            begin = len(self.text(output))
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "it did not end"
            printed = self.text(output)[begin:]
            return None if matches(expected, printed) else "printed:\n" + printed
        if terminal in self.running:
            # It was killed by a command in another terminal.
            process, _, _ = self.running.pop(terminal)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                self.running[terminal] = (process, None, None)
                return "terminal %s is still running" % (terminal,)
        if "running" in words and last:
            self.running[terminal] = self.start(terminal, command)
            process, output, _ = self.running[terminal]
            limit = time.monotonic() + 60
            while time.monotonic() < limit:
                printed = self.text(output)
                if matches(expected, printed) and process.poll() is None:
                    return None
                if process.poll() is not None:
                    return "it ended with %d and printed:\n%s" % (process.returncode, self.text(output))
                time.sleep(0.05)
            return "printed:\n" + printed
        limit = time.monotonic() + (60 if "again" in words else 0)
        while True:
            status, printed = self.run(terminal, command)
            if self.show:
                print(printed, end="")
            wanted = (status != 0) if "fails" in words and last else (status == 0)
            if wanted and matches(expected, printed):
                return None
            if time.monotonic() >= limit:
                return "exit status %s, printed:\n%s" % (status, printed)
            time.sleep(0.2)


    def write(self, words, lines):
        root = self.root(machine_of(words))
        path = os.path.join(root, self.here(path_of(lines).replace("~/", root + "/"), root))
        if not path.startswith(self.home + "/"):
            raise ValueError("a page may not write " + path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if path.startswith(root + "/etc/cairn/"):
            # The installation makes it.
            os.makedirs(root + "/var/lib/cairn", 0o750, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.here("\n".join(lines), root) + "\n")

    def block(self, page, number, words, lines, show):
        """Runs a block; returns how many commands it has, or None if one printed another text than the page."""
        if words[0] != "console":
            self.write(words, lines)
            return 0
        terminal = (machine_of(words), next((word for word in words if word.isdigit()), "1"))
        all_steps = list(steps(lines))
        for index, (command, expected) in enumerate(all_steps):
            if show:
                print("[%s] $ %s" % (" ".join(terminal).strip(), command or "^C"), flush=True)
            wrong = self.step(terminal, words, command, expected, index == len(all_steps) - 1)
            if wrong:
                print("%s:%d: terminal %s: $ %s\nexpected:\n%s\n%s" % (
                    page, number, " ".join(terminal).strip(), command or "^C", expected, wrong))
                return None
        return len(all_steps)


def texts(path):
    """Yields (name of the page, text whose blocks are run), those of the sections that come before it first."""
    page = open(path, encoding="utf-8").read()
    for words in re.findall(r"^<!-- after (.+) -->$", page, re.MULTILINE):
        for word in words.split():
            other, name = word.split("#")
            other = os.path.join(os.path.dirname(path), other)
            yield other, section(open(other, encoding="utf-8").read(), name)
    yield path, page


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page")
    parser.add_argument("--bin", help="the folder of cairn and cairnd")
    parser.add_argument("--library", help="the folder of libCairnC.so, for programs in C")
    parser.add_argument("--postgres", help="the folder of a server's socket")
    parser.add_argument("--show", action="store_true", help="print what is run, and what it prints")
    parser.add_argument("--list", action="store_true", help="print which blocks are run and which are not")
    options = parser.parse_args()
    if options.list:
        found = list(blocks(open(options.page, encoding="utf-8").read()))
        print(sum(is_run(words, lines) for _, words, lines in found))
        for number, words, lines in found:
            if not is_run(words, lines):
                print("%d: %s" % (number, lines[0] if lines else ""))
        return 0
    if not options.bin:
        parser.error("--bin is needed")
    os.umask(0o022)
    run = Run(options)
    count = 0
    try:
        for page, text in texts(options.page):
            for number, words, lines in blocks(text):
                if is_run(words, lines):
                    done = run.block(page, number, words, lines, options.show)
                    if done is None:
                        return 1
                    count += done
    finally:
        run.end()
    if count == 0:
        print("%s: no command was run" % options.page)
        return 1
    print("%s: %d commands, all as printed" % (options.page, count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
