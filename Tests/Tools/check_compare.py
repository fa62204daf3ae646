#!/usr/bin/python3
"""Judges `cairn compare`: whether it found what plant.py planted, and nothing else.

    plant.py sqlite:copy.db >planted.jsonl
    cairn compare --from ... --to sqlite:copy.db --json --limit 1000000 >found.jsonl
    check_compare.py planted.jsonl found.jsonl

Prints what was not found, what was found and not planted, and where the wrong column was named. A row that was changed
in a table without a key counts as found by a missing and an extra row. Keys are matched by their text, whatever engine
they are shown from. Exit status: 0 exactly what was planted, 1 something else, 2 usage.
"""
import argparse
import collections
import decimal
import json
import re
import sys


def table_name(name):
    return name.replace('"', "").lower().removeprefix("public.").replace(".", "_")


def spelled(value):
    """One spelling of a key's value, and whether it was cut."""
    if value is None:
        return "null", False
    text = str(value)
    cut = text.endswith(("…'", "…"))
    if cut:
        text = text.rstrip("'").removesuffix("…")
    if re.match(r"x'", text):
        text = text[2:].removesuffix("'")
    elif text.startswith("'"):
        text = text[1:] if cut else text[1:-1]
        if text.startswith("\\x"):
            text = text[2:]
    if re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text) and not cut:
        # 0.50 and 0.5 are one number; which of both is shown depends on the engine.
        text = "%g" % float(text) if "e" in text else str(decimal.Decimal(text).normalize())
    return text, cut


def fits(shown, planted):
    """Whether what compare shows of a row is the planted key."""
    planted = {k.lower(): spelled(v)[0] for k, v in planted.items()}
    for name, value in shown.items():
        text, cut = spelled(value)
        if "\ufffd" in text:
            # Text that is not UTF-8: the part before the first such byte has to do.
            continue
        other = planted.get(name.lower())
        if other is None:
            return False
        if text != other and not (cut and other.startswith(text)) and not (text == "NULL" and other == "null"):
            return False
    return True


class Found:
    def __init__(self, path):
        self.by_table = collections.defaultdict(list)
        self.others, self.summary, self.count = [], None, 0
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                try:
                    line = json.loads(text)
                except ValueError:
                    self.others.append("line %d is no JSON: %s" % (number, text.strip()[:200]))
                    continue
                if line.get("event") == "summary":
                    self.summary = line
                if line.get("event") != "difference":
                    continue
                if line["kind"] not in ("missing", "extra", "different"):
                    self.others.append("%s: %s" % (line["table"], line["kind"]))
                    continue
                self.count += 1
                self.by_table[table_name(line["table"])].append(line)
        # By one key value, so that large lists are matched fast.
        self.index = {}
        for table, lines in self.by_table.items():
            index = collections.defaultdict(list)
            for line in lines:
                index[self.handle(line["kind"], line["key"])].append(line)
            self.index[table] = index

    @staticmethod
    def handle(kind, key):
        return kind, tuple(sorted((k.lower(), spelled(v)[0][:8]) for k, v in key.items() if v is not None))

    def take(self, table, kind, key):
        """The reported difference of this row, which then is used up."""
        index = self.index.get(table, {})
        handle = self.handle(kind, key)
        candidates = index.get(handle, []) or [l for h, ls in index.items() if h[0] == kind for l in ls]
        for line in candidates:
            if fits(line["key"], key):
                index[self.handle(kind, line["key"])].remove(line)
                return line
        return None

    def rest(self):
        return [line for index in self.index.values() for lines in index.values() for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planted")
    parser.add_argument("found")
    parser.add_argument("--shown", type=int, default=20, help="how many of each are printed (default 20)")
    args = parser.parse_args()
    with open(args.planted, encoding="utf-8") as file:
        planted = [json.loads(line) for line in file]
    found = Found(args.found)
    missed, wrong = [], []
    for line in planted:
        table = table_name(line["table"])
        if line["keyless"] and line["kind"] == "different":
            hits = found.take(table, "missing", line["key"]), found.take(table, "extra", line["after"])
            if None in hits:
                missed.append(line)
            continue
        hit = found.take(table, line["kind"], line["key"])
        if hit is None:
            missed.append(line)
        elif line["kind"] == "different":
            columns = [c["name"] if isinstance(c, dict) else c for c in hit.get("columns", [])]
            if [c.lower() for c in columns] != [line["column"].lower()]:
                wrong.append((line, columns))
    rest = found.rest()
    for text, lines in (("not found", missed), ("found, but not planted", rest)):
        for line in lines[:args.shown]:
            print("%s: %s" % (text, json.dumps(line, ensure_ascii=False)))
    for line, columns in wrong[:args.shown]:
        print("other columns %s: %s" % (columns, json.dumps(line, ensure_ascii=False)))
    for text in found.others[:args.shown]:
        print("not about a row: " + text)
    kinds = collections.Counter(line["how"] for line in missed)
    print("%d planted, %d not found%s, %d found and not planted, %d with other columns" % (
        len(planted), len(missed), " (%s)" % ", ".join("%d %s" % (n, k) for k, n in kinds.items()) if kinds else "", len(rest), len(wrong)))
    return 1 if missed or rest or wrong or found.others else 0


if __name__ == "__main__":
    sys.exit(main())
