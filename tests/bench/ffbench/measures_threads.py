# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Several fast threads, each with a core of its own, as has every program that they serve: what they do together
against what one does. A machine gives the rows that it has the cores for."""

import json
import os
import pathlib
import statistics

from . import proc, tools
from .lab import Lab
from .measures import measure
from .row import Row

ROOT = pathlib.Path(__file__).resolve().parents[3]
COUNTS = (2, 4, 6)
PHASES = 5
WHERE = "each fast thread and each program on a CPU of its own"


def _cpus():
    """Those that we may use, one of each core before the second of any."""
    seen, order = {}, []
    for cpu in sorted(os.sched_getaffinity(0)):
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = path.read_text(encoding="ascii") if path.exists() else str(cpu)
        order.append((seen.setdefault(core, 0), cpu))
        seen[core] += 1
    return [cpu for _, cpu in sorted(order)]


class _Threads:
    """A lab whose router has `num` fast threads, with so many containers for each, and the CPUs of all."""

    def __init__(self, num, programs, containers):
        cpus = _cpus()
        self.threads, self.rest = cpus[:num], cpus[num:num * (1 + programs)]
        self.lab = Lab(ROOT, containers=num * containers)

    def __enter__(self):
        self.lab.__enter__()
        try:
            with open(self.lab.dir / "h0/ffr.conf", "a", encoding="ascii") as conf:
                conf.write(f"fast_threads = {len(self.threads)}\n"
                           f"fast_cpu = {{{', '.join(map(str, self.threads))}}}\n")
            self.lab.lab("restart", "router", "h0")
        except BaseException:
            self.lab.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        self.lab.__exit__(*exc)


def _together(programs):
    try:
        return [program.finish(60) for program in programs]
    finally:
        for program in programs:
            program.kill()


def _writes(bench, num):
    """M/s of `num` containers, in each a program with two QPs"""
    with _Threads(num, 1, 1) as t:
        outs = _together([
            proc.Background(t.lab.inside(f"h0c{i}", bench.program("verbs_rate"), "-c", t.rest[i], "-i", "-o", 128,
                                         "-s", 16, "-p", PHASES, "-t", bench.scale(1000)))
            for i in range(num)])
    # containers come to their threads in the first phases
    return sum(statistics.median(p["alone"] for p in json.loads(out)["phases"][1:]) for out in outs) / 1e6


def _bandwidth(bench, num):
    """GB/s of `num` pairs of containers, ib_write_bw of 64 KB for so many seconds"""
    seconds = 2 if bench.quick else 4
    with _Threads(num, 2, 2) as t:
        pairs = [tools.perftest_start(t.lab, f"h0c{2 * i}", f"h0c{2 * i + 1}", t.rest[2 * i:2 * i + 2],
                                      "ib_write_bw", "-s", 65536, "-D", seconds, "--report_gbits")
                 for i in range(num)]
        outs = _together([client for _, client in pairs])
        for server, _ in pairs:
            server.kill()
    return sum(tools.perftest_rate(out, "ib_write_bw") for out in outs) / 1e9


def _rows(bench, key, name, unit, take, programs):
    counts = [n for n in COUNTS if n * (1 + programs) < len(_cpus()) and bench.wanted(f"{key}-{n}")]
    one, many = [], {n: [] for n in counts}
    for _ in bench.repetitions() if counts else ():
        one.append(take(bench, 1))
        for n in counts:
            many[n].append(take(bench, n))
    return [Row(f"{key}-{n}", f"{name}, {n} fast threads", unit, many[n], "one fast thread, one of them", one,
                where=WHERE) for n in counts]


@measure(None, *(f"threads-rate-{n}" for n in COUNTS))
def threads_rate(bench, lab):
    return _rows(bench, "threads-rate", "8-byte WRITEs of as many containers", "M/s", _writes, 1)


@measure(None, *(f"threads-bw-{n}" for n in COUNTS))
def threads_bandwidth(bench, lab):
    return _rows(bench, "threads-bw", "ib_write_bw 64 KB of as many pairs of containers", "GB/s", _bandwidth, 2)
