# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The tables of docs/figures.md: the rows of a run, in the place of those with their keys.

A table stands between two lines, and what is around it is people's:

    <!-- bench PATTERN...: begin -->
    <!-- bench PATTERN...: end -->

The patterns are of rows' keys. A row goes into the first table with one that matches, and into that of the
pattern `*` where no other does. A row that the run did not measure stays; each says when it was measured, and
below a table stands what is known of those runs. Rows of hostile-* are four to a line: p99 and rate, each
beside a program that burns and beside nobody.
"""

import fnmatch
import re

from . import report

PLAIN = ["measure", "value", "peer", "ratio", "must", "aim", "", "measured", "key"]
HOSTILE = ["while", "p99, us", "beside burning", "ratio", "", "alone",
           "rate, 1/s", "beside burning", "ratio", "", "alone", "measured", "key"]
TABLE = re.compile(r"^<!-- bench (.+): begin -->\n(.*?)^<!-- bench \1: end -->$", re.M | re.S)
HOSTILE_KEY = re.compile(r"(hostile-.+?)-(p99|rate)(-alone)?$")


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def _plain(row):
    name, value, peer, ratio, _, must, aim, verdict = report.cells(row)
    return [name, value, f"{row.peer}: {peer}" if row.peer_values else "", ratio, must, aim, verdict]


def _hostile(rows):
    """rows: by the last part of their keys, of one kind of hostility."""
    cells = [next(iter(rows.values())).name.partition(" while ")[2]]
    for part in ("p99", "rate"):
        row, alone = rows.get(part), rows.get(f"{part}-alone")
        cells += [report.number(row.value), report.number(row.peer_value), f"{report.number(row.ratio)} x",
                  row.verdict] if row else [""] * 4
        cells.append(report.number(alone.peer_value) if alone else "")
    return cells


def _lines(rows, date):
    """{key in the table: line}"""
    lines, hostile = {}, {}
    for row in rows:
        kind = HOSTILE_KEY.match(row.key)
        if row.failure:
            continue
        if kind:
            hostile.setdefault(kind[1], {})[kind[2] + (kind[3] or "")] = row
            lines[kind[1]] = ""
        else:
            lines[row.key] = _line([*_plain(row), date, f"`{row.key}`"])
    for key, parts in hostile.items():
        lines[key] = _line([*_hostile(parts), date, f"`{key}`"])
    return lines


def _table_of(key, tables):
    """The patterns of the table that has this key, or None."""
    narrow = (t for t in tables if t != ["*"] and any(fnmatch.fnmatch(key, p) for p in t))
    return next(narrow, ["*"] if ["*"] in tables else None)


def _table(old, new, run, date, is_hostile):
    """A table with the lines of `new` in it, and the runs of all that it has."""
    lines, runs = {}, {}
    for line in old.splitlines():
        key = re.search(r"\| `([^`]+)` \|$", line)
        if key:
            lines[key[1]] = line
        elif line.startswith("- "):
            runs[line[2:].partition(";")[0]] = line
    lines.update(new)
    if new:
        runs[date] = f"- {run}"
    if not lines:
        return ""
    head = HOSTILE if is_hostile else PLAIN
    used = {line.split(" | ")[-2] for line in lines.values()}
    return "\n".join([_line(head), "|" + "---|" * len(head), *lines.values(), "",
                      *(runs[d] for d in sorted(runs) if d in used)]) + "\n"


def put(text, rows, m):
    """The document with the rows in it."""
    new = _lines(rows, m["date"])
    tables = [t[1].split() for t in TABLE.finditer(text)]

    def replace(table):
        patterns = table[1].split()
        mine = {key: line for key, line in new.items() if _table_of(key, tables) == patterns}
        begin, end = table[0].partition("\n")[0], table[0].rpartition("\n")[2]
        is_hostile = all(p.startswith("hostile-") for p in patterns)
        return f"{begin}\n{_table(table[2], mine, report.one_line(m), m['date'], is_hostile)}{end}"

    return TABLE.sub(replace, text)


def write(rows, m, *paths):
    for path in paths:
        path.write_text(put(path.read_text(encoding="utf-8"), rows, m), encoding="utf-8")
