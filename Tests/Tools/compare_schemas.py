#!/usr/bin/python3
"""Compare the schemas of two databases, SQLite or PostgreSQL, as far as docs/reference/types.md says that they are
carried.

    compare_schemas.py sqlite:shop.db "postgresql:///shop?host=/tmp/pg"

A is the source, B the target. For each table, columns (whatever their order) are compared with type and NOT NULL, and
the key. So are further unique keys over plain columns, plain indexes by their columns, and foreign keys with their
actions. The schema of A is first translated by the type contract, which this file knows by itself. Names of constraints
and indexes do not count. Between two databases of one engine types must be spelled the same. There, further facts
(defaults, CHECKs, identities, collations, order) are compared too and printed as `detail`, which does not count as
different.

Exit status: 0 equal, 1 different, 2 cannot compare.
"""
import argparse
import collections
import fnmatch
import re
import sys

import compare
import libpq
from compare_engines import PostgresSide, SQLiteSide, path_of


class Facts:
    """The facts of a table, in names of one spelling."""

    def __init__(self):
        self.columns = {}       # name -> (type, NOT NULL)
        self.key = ()
        self.uniques = set()    # frozensets of names
        self.indexes = set()    # tuples of names
        self.references = set()  # (names, table, names, on delete, on update)
        self.optional = set()   # uniques that may be there or not
        self.details = set()
        self.identity = None    # the columns of REPLICA IDENTITY USING INDEX


# ---- SQLite

def sqlite_facts(side, table):
    facts = Facts()
    query = side.side.query
    rows = query("SELECT name, type, \"notnull\", pk, dflt_value, hidden FROM pragma_table_xinfo(?) ORDER BY cid", table)
    rows = [r for r in rows if r[5] != 1]
    declared = {r[0].lower(): (r[1] or "") for r in rows}
    key = [r[0].lower() for r in sorted(rows, key=lambda r: r[3]) if r[3]]
    sql = query("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", table)[0][0]
    without_rowid, strict = query("SELECT wr, strict FROM pragma_table_list WHERE name = ? AND schema = 'main'", table)[0]
    facts.generated = {r[0].lower() for r in rows if r[5] in (2, 3)}
    facts.columns = {r[0].lower(): (r[1] or "", bool(r[2]) or bool(r[3] and without_rowid)) for r in rows
                     if r[0].lower() not in facts.generated}
    facts.key = tuple(key)
    facts.rowid_key = len(key) == 1 and not without_rowid and declared[key[0]].upper() == "INTEGER"
    facts.nullable_key = bool(key) and not facts.rowid_key and not without_rowid and not all(r[2] for r in rows if r[3])
    facts.nocase = set()
    for name, unique, origin, partial in query("SELECT name, \"unique\", origin, partial FROM pragma_index_list(?)", table):
        if origin == "pk" or partial or name.lower().startswith("cairn_"):
            continue
        parts = query("SELECT name, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", name)
        if any(part is None for part, _ in parts) or any(part.lower() in facts.generated for part, _ in parts):
            continue
        names = tuple(part.lower() for part, _ in parts)
        if any(collation.upper() != "BINARY" for _, collation in parts):
            facts.nocase.add(frozenset(names) if unique else names)
        if unique:
            facts.uniques.add(frozenset(names))
        else:
            facts.indexes.add(names)
    keys = collections.defaultdict(list)
    for number, parent, mine, theirs, on_update, on_delete in query(
            "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete FROM pragma_foreign_key_list(?) ORDER BY id, seq", table):
        keys[number].append((parent, mine, theirs, on_delete, on_update))
    for parts in keys.values():
        parent = parts[0][0]
        theirs = [p[2] for p in parts]
        if None in theirs:
            theirs = [n for n, in query("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", parent)]
        if not query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(?)", parent):
            continue
        facts.references.add((tuple(p[1].lower() for p in parts), parent.lower(), tuple(t.lower() for t in theirs),
                              parts[0][3], parts[0][4]))
    facts.details.add(("create", compare.normal_sql(sql)))
    facts.details.add(("order", " ".join(declared)))
    return facts


# ---- PostgreSQL

ACTIONS = {"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}


def folded(schema, name):
    return (name if schema == "public" else schema + "_" + name).lower()


def postgres_facts(side, table):
    facts = Facts()
    texts, where = side.db.texts, side.regclass(table)
    rows = texts("""
        WITH RECURSIVE base(oid, root, modifier) AS (
          SELECT oid, oid, -1 FROM pg_type WHERE typtype <> 'd'
          UNION ALL SELECT t.oid, b.root, CASE WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE b.modifier END
          FROM pg_type t JOIN base b ON t.typbasetype = b.oid WHERE t.typtype = 'd')
        SELECT attnum, attname, format_type(atttypid, atttypmod), format_type(b.root, b.modifier), attnotnull, attgenerated <> '',
          attidentity, pg_get_expr(adbin, adrelid)
        FROM pg_attribute a JOIN base b ON b.oid = atttypid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum""" % where)
    names = {r[0]: r[1].lower() for r in rows}
    facts.generated = {r[1].lower() for r in rows if r[5] == "t"}
    facts.columns = {r[1].lower(): (r[2], r[4] == "t") for r in rows}
    facts.base = {r[1].lower(): r[3] if r[2] != r[3] and not r[2].startswith(r[3].split("(")[0]) else r[2] for r in rows}
    facts.details.update(("column", r[1], r[6], r[5], r[7]) for r in rows)
    facts.details.add(("order", " ".join(r[1] for r in rows)))
    for primary, identity, unique, valid, method, numbers, count, expressions, predicate, distinct in texts("""
            SELECT indisprimary, indisreplident, indisunique, indisvalid, amname, indkey::text, indnkeyatts, indexprs IS NOT NULL,
              indpred IS NOT NULL, NOT indnullsnotdistinct
            FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am m ON m.oid = relam
            WHERE indrelid = %s AND NOT indisexclusion""" % where):
        if expressions == "t" or predicate == "t" or valid == "f" or method != "btree":
            continue
        columns = tuple(names[n] for n in numbers.split()[:int(count)])
        if primary == "t":
            facts.key = columns
        if identity == "t":
            facts.identity = columns
        if primary == "t":
            continue
        if unique == "t":
            (facts.uniques if distinct == "t" else facts.optional).add(frozenset(columns))
        else:
            facts.indexes.add(columns)
    for mine, theirs, schema, parent, on_delete, on_update, parent_id in texts("""
            SELECT conkey::int[]::text, confkey::int[]::text, nspname, relname, confdeltype, confupdtype, confrelid
            FROM pg_constraint k JOIN pg_class c ON c.oid = confrelid JOIN pg_namespace n ON n.oid = relnamespace
            WHERE contype = 'f' AND conparentid = 0 AND conrelid = %s""" % where):
        of_parent = dict(texts("SELECT attnum, attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0" % parent_id))
        facts.references.add((tuple(names[n] for n in mine.strip("{}").split(",")), folded(schema, parent),
                              tuple(of_parent[n].lower() for n in theirs.strip("{}").split(",")), ACTIONS[on_delete], ACTIONS[on_update]))
    facts.details.update(("constraint", kind, text) for kind, text in texts(
        "SELECT contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s AND contype <> 't'" % where))
    return facts


# ---- the contract

def to_sqlite(kind):
    kind = kind.split("(")[0]
    if kind in ("smallint", "integer", "bigint", "oid", "boolean"):
        return "INTEGER"
    if kind in ("real", "double precision"):
        return ""
    return "BLOB" if kind == "bytea" else "TEXT"


def to_postgres(declared):
    kind = re.sub(r"\s+", " ", declared.strip().upper())
    arguments = re.search(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", kind)
    plain = re.sub(r"\s*\(.*\)", "", kind)
    if plain in ("BOOL", "BOOLEAN"):
        return "boolean"
    if "INT" in plain:
        return "bigint"
    if plain in ("DATETIME", "TIMESTAMP"):
        return "timestamp without time zone"
    if plain in ("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"):
        return "timestamp with time zone"
    if plain in ("DATE", "JSON", "UUID"):
        return plain.lower()
    if plain == "TIME":
        return "time without time zone"
    if plain in ("DECIMAL", "NUMERIC"):
        return "numeric(%s,%s)" % (arguments.group(1), arguments.group(2) or 0) if arguments else "numeric"
    if plain == "MONEY":
        return "numeric"
    if "CHAR" in plain and plain != "TEXT":
        return "character varying(%s)" % arguments.group(1) if arguments else "text"
    if plain in ("BLOB", "BINARY", "VARBINARY"):
        return "bytea"
    if any(word in plain for word in ("REAL", "FLOA", "DOUB")):
        return "double precision"
    return "text"


def translated(facts, source, target, tables):
    """Returns the facts that the source's table is to have at the target."""
    out = Facts()
    out.key, out.indexes, out.uniques, out.optional = facts.key, set(facts.indexes), set(facts.uniques), set(facts.optional)
    out.references = set(facts.references)
    if facts.identity and source != target:
        # These identify rows; the key is another unique one then.
        out.uniques.add(frozenset(out.key))
        out.key = facts.identity
    if source == target:
        out.columns, out.details = dict(facts.columns), facts.details
        return out
    if target == "sqlite":
        out.columns = {n: (to_sqlite(facts.base[n]), required) for n, (_, required) in facts.columns.items() if n not in facts.generated}
        if facts.key and any(to_sqlite(facts.base[n]) == "" for n in facts.key):
            out.columns.update({n: (None, True) for n in facts.key})
    else:
        out.columns = {n: (to_postgres(declared), required) for n, (declared, required) in facts.columns.items()}
        if facts.nullable_key:
            out.key = ()
            out.uniques.add(frozenset(facts.key))
        untyped = {n for n, (declared, _) in facts.columns.items() if declared.upper() in ("", "ANY")}
        out.uniques = {u for u in out.uniques if u not in facts.nocase and not u & untyped}
        out.indexes = {i for i in out.indexes if i not in facts.nocase}
    for gone in facts.generated:
        out.uniques = {u for u in out.uniques if gone not in u}
        out.indexes = {i for i in out.indexes if gone not in i}
    return out


def compare_facts(name, wanted, found, engines, report):
    for column in sorted(set(wanted.columns) | set(found.columns)):
        if column not in found.columns:
            report(name, "column %s is missing at the target" % column)
        elif column not in wanted.columns:
            if column not in found.generated:
                report(name, "column %s is only at the target" % column)
        else:
            (kind, required), (other, other_required) = wanted.columns[column], found.columns[column]
            if kind is not None and kind != other:
                report(name, "column %s: type %s, expected %s" % (column, other or "(none)", kind or "(none)"))
            if required != other_required and column not in wanted.key and column not in found.key:
                report(name, "column %s: %s" % (column, "NOT NULL is missing at the target" if required else "NOT NULL only at the target"))
    if wanted.key != found.key:
        report(name, "key (%s), expected (%s)" % (", ".join(found.key), ", ".join(wanted.key)))
    key = frozenset(wanted.key)
    uniques = {u for u in wanted.uniques if u != key}, {u for u in found.uniques if u != key}
    for u in uniques[0] - uniques[1]:
        report(name, "unique key (%s) is missing at the target" % ", ".join(sorted(u)))
    for u in uniques[1] - uniques[0] - wanted.optional:
        report(name, "unique key (%s) is only at the target" % ", ".join(sorted(u)))
    for index in wanted.indexes - found.indexes:
        report(name, "index (%s) is missing at the target" % ", ".join(index))
    for index in found.indexes - wanted.indexes:
        report(name, "index (%s) is only at the target" % ", ".join(index))
    for sign, rest in (("missing", wanted.references - found.references), ("only", found.references - wanted.references)):
        for mine, parent, theirs, on_delete, on_update in rest:
            report(name, "foreign key (%s) to %s(%s) on delete %s on update %s is %s at the target" % (
                ", ".join(mine), parent, ", ".join(theirs), on_delete, on_update, sign))


def compare_schemas(a, b, patterns=()):
    """Differences and details, each a list of (table, text)."""
    differences, details = [], []
    in_a, in_b = a.tables(), b.tables()
    if patterns:
        in_a, in_b = ({n: t for n, t in names.items() if any(fnmatch.fnmatchcase(n, p.lower()) for p in patterns)} for names in (in_a, in_b))
    read = {"sqlite": sqlite_facts, "postgres": postgres_facts}
    for name in sorted(set(in_a) | set(in_b)):
        if name not in in_b or name not in in_a:
            differences.append((name, "table only in %s" % ("A" if name in in_a else "B")))
            continue
        of_a, of_b = read[a.engine](a, in_a[name]), read[b.engine](b, in_b[name])
        compare_facts(name, translated(of_a, a.engine, b.engine, in_a), of_b, (a.engine, b.engine),
                      lambda table, text: differences.append((table, text)))
        if a.engine == b.engine:
            for side, rest in (("A", of_a.details - of_b.details), ("B", of_b.details - of_a.details)):
                details += [(name, "only in %s: %s" % (side, " | ".join(str(f) for f in fact))) for fact in sorted(rest, key=repr)]
    return differences, details, len(set(in_a) & set(in_b))


def open_side(label, url):
    path = path_of(url)
    return PostgresSide(label, url) if path is None else SQLiteSide(label, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B")
    parser.add_argument("--tables", metavar="P,...", help="only tables matching these patterns")
    parser.add_argument("--details", action="store_true", help="print details too")
    args = parser.parse_args()
    try:
        a, b = open_side("A", args.a), open_side("B", args.b)
        differences, details, tables = compare_schemas(a, b, [p for p in (args.tables or "").split(",") if p])
    except (compare.CannotCompare, compare.sqlite3.Error, libpq.Error, UnicodeError) as error:
        print("cannot compare: %s" % error, file=sys.stderr)
        return 2
    for table, text in differences:
        print("%s: %s" % (table, text))
    if args.details:
        for table, text in details:
            print("%s: detail: %s" % (table, text))
    print("%s: %d tables, %d differences, %d details" % ("different" if differences else "equal", tables, len(differences), len(details)))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
