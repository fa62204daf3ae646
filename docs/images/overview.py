#!/usr/bin/python3
"""Draws overview.svg, the picture in the README: overview.py > overview.svg"""

WIDTH, HEIGHT = 880, 250
INK, PALE, DATABASE, CAIRN = "#24292f", "#57606a", "#ddf4ff", "#dafbe1"


def box(x, y, width, height, color, title, *lines):
    text = ['<rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="%s" stroke="%s"/>' % (x, y, width, height, color, INK)]
    text.append('<text x="%d" y="%d" font-weight="bold">%s</text>' % (x + width / 2, y + 26, title))
    for number, line in enumerate(lines):
        text.append('<text x="%d" y="%d" font-size="12" fill="%s">%s</text>' % (x + width / 2, y + 46 + 16 * number, PALE, line))
    return "\n".join(text)


def arrow(x, y, to_x, label):
    line = '<path d="M%d %d H%d" stroke="%s" stroke-width="2" marker-end="url(#head)" fill="none"/>' % (x, y, to_x - 2, INK)
    return line + '\n<text x="%d" y="%d" font-size="12" fill="%s">%s</text>' % ((x + to_x) / 2, y - 8, PALE, label)


def node(x, width, title):
    frame = '<rect x="%d" y="16" width="%d" height="218" rx="12" fill="none" stroke="%s" stroke-dasharray="5 4"/>' % (x, width, PALE)
    return frame + '\n<text x="%d" y="40" font-size="13" fill="%s">%s</text>' % (x + width / 2, PALE, title)


parts = [
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="15" text-anchor="middle" fill="%s">'
    % (WIDTH, HEIGHT, INK),
    '<title>Capture reads a database and writes a trail; a pump copies the trail to another node; apply writes it to a database</title>',
    '<defs><marker id="head" markerWidth="9" markerHeight="9" refX="7" refY="4" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="%s"/></marker></defs>' % INK,
    '<rect width="%d" height="%d" fill="white"/>' % (WIDTH, HEIGHT),
    node(10, 430, "one machine: the source"),
    node(530, 340, "the same machine, or another one"),
    box(25, 70, 110, 100, DATABASE, "database", "SQLite or", "PostgreSQL"),
    arrow(135, 120, 195, ""),
    box(195, 70, 100, 100, CAIRN, "capture", "committed", "transactions"),
    arrow(295, 120, 335, ""),
    box(335, 70, 95, 100, CAIRN, "trail", "ordered", "files"),
    arrow(430, 120, 545, "pump, TLS"),
    box(545, 70, 75, 100, CAIRN, "trail", "equal", "copy"),
    arrow(620, 120, 655, ""),
    box(655, 70, 80, 100, CAIRN, "apply", "in order,", "once"),
    arrow(735, 120, 760, ""),
    box(760, 70, 100, 100, DATABASE, "database", "SQLite or", "PostgreSQL"),
    '<text x="225" y="205" font-size="12" fill="%s">no driver, no extension, no restart of programs</text>' % PALE,
    '<text x="700" y="205" font-size="12" fill="%s">rows and position in one commit</text>' % PALE,
    "</svg>",
]
print("\n".join(parts))
