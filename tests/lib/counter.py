# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""counter.py CONTAINER NAME < `ffctl --json stats`: one number of one container, a counter of its
traffic or a count of its objects (sessions, qps, mrs ...)."""
import json
import sys

container, name = sys.argv[1:]
(entry,) = [c for c in json.load(sys.stdin) if c["name"] == container]
print(entry["counters"][name] if name in entry["counters"] else entry[name])
