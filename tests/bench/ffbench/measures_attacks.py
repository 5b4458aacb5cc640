# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What one client can take from all others, by tests/hostile: time of the control thread in one call, and
memory of the router.
"""

import os
import re
import time

from . import proc
from .measures import measure
from .row import Row

WAITS = {
    "mappings": "a claim on 60,000 mappings is registered",
    "mrs": "a session with 60,000 MRs ends",
    "sessions": "a process with 100 sessions of 600 MRs each dies",
    "forks": "a client registers memory whose address space it holds by fork()",
    "mounts": "a client opens the device while the lock of all mounts is held",
}
HOLES = "another punches holes in {}, mapped 260,000 times"
STALLS = "another's memory {} in 1,600 QPs"
ATTACKS = {
    "crowd-maps": "200 sessions of another register memory",
    "crowd-lookups": "16,000 rdma_cm ids of another look for an address",
    "crowd-files": "another has as many XRC domains as it gets",
    "crowd-hellos": "64 threads of another open the device",
    "holes-rings-4": HOLES.format("its doorbells"),
    "holes-calls-4": HOLES.format("its rings"),
    "holes-file-4": HOLES.format("a registered file"),
    "holes-regs-4": HOLES.format("a file that it registers"),
    "holes-shadow-4": HOLES.format("its shadow pages"),
    "holes-places-4": HOLES.format("its shadow pages while it places more"),
    "stalls-unmapped-100-16": STALLS.format("is not there"),
    "stalls-stalled-100-16": STALLS.format("does not come"),
    "stalls-held-100-16": STALLS.format("is locked"),
    "stalls-moved-100-16": STALLS.format("moves"),
    "stalls-protected-100-16": STALLS.format("may not be used now and then"),
    "stalls-cut-4-16": "files of another are cut off",
    "stalls-punched-4-16": "files of another lose their pages",
    "stalls-frozen-100-16": "processes of another with 1,600 QPs are frozen and thawed",
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
            out = proc.run(lab.inside("h0c1", bench.program("control_wait"), f"wait_{kind}", timeout=180), 190)
            values.append(int(re.search(r"another waited (\d+) us", out).group(1)))
        rows.append(Row(f"control-wait-{kind}", f"longest wait of a control call while {what}", "us", values,
                        must=5000, on="value", note=ATTEMPTS_NOTE))
    return rows


class _Attack:
    """A program of tests/hostile in h0c1 while a measure is taken."""

    def __init__(self, bench, lab, program, *args):
        self.program = proc.Background(lab.inside("h0c1", bench.program(program), *args, timeout=180), keep_stdin=True)

    def __enter__(self):
        if not any("attacks" in line for line in self.program.child.stdout):
            self.program.finish(5)
            raise proc.Failure("the attack did not begin")

    def __exit__(self, *exc):
        self.program.kill()


def _victim(bench, lab):
    """p99 of 8-byte WRITEs, and the p90 of small control calls beside them: us"""
    out = proc.run(["sh", "-c", f"echo {bench.scale(2000)} | " +
                    " ".join(lab.inside("h0c0", bench.program("victim"), timeout=60))], 70)
    _rate, p99, _call50, call90, _longest = map(int, out.split())
    return p99, call90


@measure("hostile", *(f"victim-{key}-{part}" for key in ATTACKS for part in ("p99", "call")))
def victim(bench, lab):
    """What tests/hostile checks to go on, in figures."""
    rows = []
    for key, what in ATTACKS.items():
        if not any(bench.wanted(f"victim-{key}-{part}") for part in ("p99", "call")):
            continue
        alone, beside = [], []
        for _ in bench.repetitions():
            alone.append(_victim(bench, lab))
            with _Attack(bench, lab, *key.split("-")):
                beside.append(_victim(bench, lab))
            if key.startswith("holes"):
                lab.lab("restart", "router", "h0") # which knows of no debt
        for i, (part, name) in enumerate((("p99", "8-byte WRITEs, p99"), ("call", "control calls, p90"))):
            rows.append(Row(f"victim-{key}-{part}", f"{name}, while {what}", "us", [v[i] for v in beside], "alone",
                            [v[i] for v in alone]))
    return rows


@measure("hostile", "backlog-wait")
def backlog_wait(bench, lab):
    """A listener takes 5 ms for a request, and has four of the attacker's before each of the victim's."""
    program = bench.program("backlog")
    values = []
    for _ in bench.repetitions():
        listener = proc.Background(lab.inside("h0c0", program, "listen", timeout=180), keep_stdin=True)
        if "listens" not in listener.child.stdout.readline():
            raise proc.Failure("the listener did not begin")
        with _Attack(bench, lab, "backlog", "flood", "h0c0"):
            begun = time.monotonic()
            proc.run(lab.inside("h0c0", program, "ask", "h0c0", 20, timeout=120), 130)
            values.append((time.monotonic() - begun) * 1000 / 20)
        listener.kill()
    return [Row("backlog-wait", "a request to an rdma_cm listener that another asks for 500 connections at once", "ms",
                values)]


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
