# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""coverage.py TARGET EXPORT.json - one target's coverage from llvm-cov's summary: a line for each
source file that it runs any of, then one for each group of files. Files of which it runs nothing are
linked in for the others' sake, and not counted."""

import fnmatch
import json
import os
import sys

GROUPS = ("ffr/ctl/*", "ffr/cm/*", "ffr/fast/*", "ffr/soft/*", "ffr/remote/*", "ffr/wire/*", "ffr/peer/*",
          "ffr/keeper/*", "ffr/obj/*", "ffr/mem/*", "ffr/dir/*", "ffo/*", "ffr/*")


def counted(kind, summaries):
    """covered, all, per cent"""
    covered, count = (sum(s[kind][part] for s in summaries) for part in ("covered", "count"))
    return covered, count, 100 * covered / max(1, count)


def show(name, summaries):
    lines, regions = counted("lines", summaries), counted("regions", summaries)
    print(f"  {name:32} lines {lines[0]:6}/{lines[1]:<6} {lines[2]:5.1f} %"
          f"   regions {regions[0]:6}/{regions[1]:<6} {regions[2]:5.1f} %")


def main():
    target, path = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        files = json.load(f)["data"][0]["files"]
    here = os.getcwd() + "/"
    of = {f["filename"].removeprefix(here): f["summary"] for f in files}
    of = {name: s for name, s in sorted(of.items())
          if name.startswith(("ffr/", "ffo/")) and name.endswith(".c") and s["lines"]["covered"]}
    print(f"{target}:")
    for name, summary in of.items():
        show(name, [summary])
    left = set(of)
    for group in GROUPS:
        mine = {n for n in left if fnmatch.fnmatch(n, group)}
        left -= mine
        if mine:
            show(f"= {group}", [of[n] for n in mine])


if __name__ == "__main__":
    main()
