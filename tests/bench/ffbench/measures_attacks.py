# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What one client can take from all others, by tests/hostile: time of the control thread in one call, and
memory of the router.
"""

import os
import re

from . import proc
from .measures import measure
from .row import Row

WAITS = {
    "mappings": "a claim on 60,000 mappings is registered",
    "end": "a session with 60,000 MRs ends",
}
ATTEMPTS_NOTE = "each value is the best of up to eight attempts: the machine has other work, too"


@measure("hostile", *(f"control-wait-{kind}" for kind in WAITS))
def control_wait(bench, lab):
    """The longest that a small control call takes while another client's is served."""
    rows = []
    for kind, what in WAITS.items():
        if not bench.wanted(f"control-wait-{kind}"):
            continue
        values = []
        for _ in bench.repetitions():
            out = proc.run(lab.inside("h0c1", bench.program("calls_long"), kind, timeout=120), 130)
            values.append(int(re.search(r"another waited (\d+) us", out).group(1)))
        rows.append(Row(f"control-wait-{kind}", f"longest wait of a control call while {what}", "us", values,
                        must=5000, on="value", note=ATTEMPTS_NOTE))
    return rows


@measure("hostile", "router-memory")
def router_memory(bench, _lab):
    """In a lab of its own: the router changes its cgroup."""
    env = dict(os.environ, MEMORY_ATTACK=str(bench.program("memory")), BUILD=str(bench.build))
    test = bench.build.parent / "tests/system/memory.sh"
    values = []
    for _ in bench.repetitions():
        out = proc.run([test], 130, env)
        values.append(int(re.search(r"the router held (-?\d+) kB more", out).group(1)))
    return [Row("router-memory", "memory that a client in a 64 MB cgroup has the router hold beyond it", "kB",
                values, must=1024 + 2048, aim=1024, on="value",
                note="with the touched rings of the four sessions that there are at once")]
