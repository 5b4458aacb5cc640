# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Between two hosts: the wire against TCP over the same link, many QPs beside one, migration."""

import pathlib
import time

from . import proc, tools
from .measures import measure
from .row import Row

BUSY = "both programs and both routers are busy, not pinned"
SIZES = (65536, 1048576)
PROGRAMS = ("ib_write_bw", "ib_send_bw")


def _key(program, size):
    return f"hosts-{program[3:]}-{size >> 10}k"


@measure("hosts", *(_key(p, s) for p in PROGRAMS for s in SIZES))
def bandwidth_between_hosts(bench, lab):
    got = {(p, s): [] for p in PROGRAMS for s in SIZES if bench.wanted(_key(p, s))}
    peer = {which: [] for which in got}
    for _ in bench.repetitions():
        for program, size in got:
            peer[program, size].append(
                tools.iperf3(lab, 1 if bench.quick else 3, "h1", "h0") / 1e9)
            iters = max(500, bench.scale(4 * 2**30) // size)
            got[program, size].append(tools.perftest_bw(lab, program, size, iters) / 1e9)
    return [Row(_key(p, s), f"{p}, {s >> 10} KB, between hosts", "GB/s", values,
                "iperf3, one stream over the same link", peer[p, s], must=0.6, aim=0.9, sense=">=",
                where=BUSY)
            for (p, s), values in got.items()]


@measure("hosts", "hosts-send_lat", "hosts-send_lat-p99", "hosts-send_lat-busy")
def latency_between_hosts(bench, lab):
    got, peer, busy = [], [], []
    program = bench.program("peer_tcp")
    for _ in bench.repetitions():
        rounds = bench.scale(50000)
        peer.append(tools.peer_tcp(lab, program, rounds, "h1", "h0"))
        busy.append(tools.peer_tcp(lab, program, rounds, "h1", "h0", "-b"))
        got.append(tools.perftest_lat(lab, "ib_send_lat", 8, rounds))
    rows = []
    for key, what, field, peers, limits in (
            ("hosts-send_lat", "median", "median", peer, {"must": 1.5, "aim": 1.0}),
            ("hosts-send_lat-p99", "p99", "p99", peer, {}),
            ("hosts-send_lat-busy", "median", "median", busy, {})):
        name = "TCP ping-pong that polls" if peers is busy else "TCP ping-pong"
        aside = " (and TCP that polls)" if peers is busy else ""
        rows.append(Row(key, f"ib_send_lat, 8 bytes, between hosts, {what}{aside}", "us",
                        [g[field] for g in got], f"{name} over the same link, {what}",
                        [p[field] for p in peers], where=BUSY,
                        detail={"runs": got, "peer_runs": peers}, **limits))
    return rows


@measure("hosts", "hosts-512", "hosts-512-jain")
def many_pairs_between_hosts(bench, lab):
    """One QP with all that 512 have: as many WRITEs under way, the same buffers."""
    one, many = [], []
    program = bench.program("verbs_fair")
    ms = bench.scale(5000)
    for _ in bench.repetitions():
        one.append(tools.verbs_fair(lab, program, "-q", 1, "-w", 128, "-t", ms))
        many.append(tools.verbs_fair(lab, program, "-q", 512, "-w", 4, "-t", ms))
    return [
        Row("hosts-512", "512 QPs between two hosts, WRITEs of 64 KB", "GB/s",
            [m["bytes_per_s"] / 1e9 for m in many], "one QP",
            [o["bytes_per_s"] / 1e9 for o in one], must=0.9, aim=0.98, sense=">=", where=BUSY,
            detail={"one": one, "many": many}),
        Row("hosts-512-jain", "512 QPs between two hosts, Jain's index", "",
            [m["jain"] for m in many], must=0.98, aim=0.999, sense=">=", on="value", where=BUSY,
            note="over bytes of each QP in the same time", detail={"runs": many}),
    ]


# ---- migration -----------------------------------------------------------------------------------

class _Load:
    """ffload between the two containers, its log in a file: it tells when lanes come back."""

    def __init__(self, lab, name, container, *args):
        self.program = pathlib.Path(__file__).parents[3] / "build/tests/system/ffload"
        if not self.program.exists():
            raise proc.Failure("ffload was not built: make system-programs")
        self.log = lab.dir / f"{name}.log"
        self.log.write_text("")
        self.process = proc.Background(
            lab.inside(container, "sh", "-c", f'exec "$0" "$@" 2>{self.log}', self.program, *args,
                       timeout=120))

    def says(self, text):
        if self.process.ended():
            last = self.log.read_text().splitlines()[-1:] or ["no message"]
            raise proc.Failure(f"ffload ended: {last[0]}")
        return text in self.log.read_text()


@measure("hosts", "migration-first")
def migration(bench, lab):
    """A server moves to the other host and back, again and again. Its client tries to connect all
    the time, and is connected when an operation was completed."""
    values, took, port = [], [], 18590
    for _ in bench.repetitions():
        port += 1
        target = "h0" if lab.host_of(lab.server) == "h1" else "h1"
        sink = _Load(lab, "sink", lab.server, "--server", "-p", port)
        proc.wait_for("ffload: listening", lambda s=sink: s.says("listening"))
        load = _Load(lab, "load", lab.client, "-r", "-t", 0, "-q", 1, "-p", port,
                     lab.ip(lab.server))
        try:
            proc.wait_for("traffic", lambda ld=load: ld.says("1 of 1 lanes up"))
            lab.lab("stop", lab.server)
            sink.process.kill()
            lab.lab("ffctl", target, "--", "container", "claim", lab.server)
            proc.wait_for("failure", lambda ld=load: ld.says(" posted"), 30)
            start = time.monotonic()
            lab.lab("start", lab.server, "--on", target)
            took.append((time.monotonic() - start) * 1e3)
            sink = _Load(lab, "sink", lab.server, "--server", "-p", port)
            proc.wait_for("recovery", lambda ld=load: ld.says("back after"), 30)
            values.append((time.monotonic() - start) * 1e3)
        finally:
            load.process.kill()
            sink.process.kill()
    return [Row("migration-first", "offline migration: start to first connection",
                "ms", values, must=1000, aim=300, on="value", where="two hosts, client polls TCP",
                note="of this, until the container was started: starts_ms", detail={"starts_ms": took})]
