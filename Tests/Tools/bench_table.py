#!/usr/bin/env python3
"""Prints what cairn-bench said as the table of docs/explanation/benchmarks.md.

usage: bench_table.py FILE...    files of JSON lines; of two lines about one workload and pair the later one counts
"""
import json
import sys


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}".rstrip("0").rstrip(".")


def spread(figures):
    if figures["min"] == figures["max"]:
        return number(figures["median"])
    return f"{number(figures['median'])} ({number(figures['min'])} to {number(figures['max'])})"


def rate(competitor):
    """The rate of a competitor; for latency, each of its metrics."""
    if competitor is None:
        return ""
    if "median" in competitor:
        return spread(competitor)
    return ", ".join(f"{name} {spread(competitor[name])}" for name in sorted(competitor) if name != "unit")


def ratios(line):
    found = []
    for name, figures in line["ratios"].items():
        text = f"{figures['median']:.2f}"
        if line["rounds"] > 1:
            text += f" ({figures['min']:.2f} to {figures['max']:.2f})"
        found.append(f"{name} {text}")
    return ", ".join(found)


def main(paths):
    lines = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for text in file:
                line = json.loads(text)
                lines[line["workload"], line["pair"]] = line
    print("| | pair | unit | cairn | native | cairn by the others | memory, MiB | trail by log |")
    print("|---|---|---|---|---|---|---|---|")
    for (workload, pair), line in sorted(lines.items()):
        memory = f"{line['memory_mib']:.0f}" if "memory_mib" in line else ""
        trail = f"{line['trail_to_wal']:.2f}" if "trail_to_wal" in line else ""
        cells = [workload, pair, line["cairn"]["unit"], rate(line["cairn"]), rate(line.get("native")), ratios(line)]
        print("| " + " | ".join(cells + [memory, trail]) + " |")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    main(sys.argv[1:])
