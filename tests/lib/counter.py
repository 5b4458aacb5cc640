# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""counter.py CONTAINER NAME... < `ffctl --json stats`: numbers of one container, counters of its
traffic or counts of its objects (sessions, qps, mrs ...)."""
import json
import sys

container, *names = sys.argv[1:]
(entry,) = [c for c in json.load(sys.stdin) if c["name"] == container]
print(*({**entry, **entry["counters"]}[name] for name in names))
