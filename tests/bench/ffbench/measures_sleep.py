# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that sleep for completions, against programs that sleep for TCP: latency, what it costs in CPU time,
and both beside programs that need the CPU themselves."""

import contextlib
from functools import partial

from . import proc, tools
from .measures import LABS, measure
from .row import Row

LABS["sleep-socket"] = {"containers": 2, "mode": "socket"}

PLACES = (("pair", "sleep", "one host", {"must": 1.0, "aim": 0.7}),
          ("sleep-socket", "sleep-socket", "one host, socket mode", {"must": 1.0, "aim": 0.7}),
          ("hosts", "hosts-sleep", "between hosts", {"must": 1.3, "aim": 1.0}))
BESIDE = {"must": 1.3, "aim": 1.0}
CPU = {"must": 2.0, "aim": 1.0}
OTHERS = {"must": 1.5, "aim": 1.0}
FREE = "the scheduler places all; TCP between the same two containers"


@contextlib.contextmanager
def busy_loops(num):
    """Programs that take all the CPU that they get, at ordinary priority."""
    loops = [proc.Background(["sh", "-c", "while :; do :; done"]) for _ in range(num)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()


def _tcp(bench, lab, rounds):
    """A round trip: {"median", "p99", "cpu"}, us"""
    got = tools.peer_tcp(lab, bench.program("peer_tcp"), rounds, lab.server, lab.client, "-s", 64)
    return {"median": 2 * got["median"], "p99": 2 * got["p99"], "cpu": got["cpu"]}


def _verbs(bench, lab, rounds):
    before = lab.routers_cpu_ns()
    got = tools.verbs_rtt(lab, bench.program("verbs_rtt"), rounds, "-e")
    return dict(got, cpu=got["cpu"] + (lab.routers_cpu_ns() - before) / 1e3 / rounds)


def _rtt(bench, lab, key, what, limits):
    alone, beside = [], []
    wants_beside = bench.wanted(f"{key}-busy")
    for _ in bench.repetitions():
        rounds = bench.scale(20000)
        tcp = _tcp(bench, lab, rounds)
        alone.append((_verbs(bench, lab, rounds), tcp))
        if wants_beside:
            with busy_loops(1):
                tcp = _tcp(bench, lab, bench.scale(5000))
                beside.append((_verbs(bench, lab, bench.scale(5000)), tcp))
    rows = []
    for suffix, aside, runs, figure, lim in (
            ("", "", alone, "median", limits), ("-p99", ", p99", alone, "p99", {}),
            ("-cpu", ", CPU time of router and programs", alone, "cpu", CPU),
            ("-busy", ", beside a busy loop", beside, "median", BESIDE)):
        if runs:
            rows.append(Row(key + suffix, f"64-byte SEND, both sleep in ibv_get_cq_event, round trip, {what}{aside}",
                            "us", [v[figure] for v, _ in runs], "TCP ping-pong that sleeps",
                            [t[figure] for _, t in runs], where=FREE, detail={"runs": runs}, **lim))
    return rows


def _register(place, key, what, limits):
    def rows(bench, lab):
        return _rtt(bench, lab, key, what, limits)

    rows.__name__ = f"sleeping_round_trip_{key.replace('-', '_')}"
    measure(place, key, f"{key}-p99", f"{key}-cpu", f"{key}-busy")(rows)


for _place, _key, _what, _limits in PLACES:
    _register(_place, _key, _what, _limits)


# ---- programs of others ----------------------------------------------------------------------------

def _others(bench, lab, key, what):
    seconds = 1 if bench.quick else 2
    ways = (
        (f"{key}-rsockets", "64 bytes over rsockets that do not poll, round trip", "TCP ping-pong that sleeps",
         lambda: tools.rsockets_rtt(lab, bench.program("peer_tcp"), bench.scale(10000), "-s", 64),
         lambda: _tcp(bench, lab, bench.scale(10000))["median"]),
        (f"{key}-qperf", "qperf rc_lat, 64 bytes", "qperf tcp_lat",
         partial(tools.qperf, lab, "rc_lat", seconds), partial(tools.qperf, lab, "tcp_lat", seconds)),
    )
    rows = []
    for row, name, peer, ours, theirs in ways:
        if not bench.wanted(row):
            continue
        values, peers = [], []
        try:
            for _ in bench.repetitions():
                peers.append(theirs())
                values.append(ours())
            rows.append(Row(row, f"{name}, {what}", "us", values, peer, peers, where=FREE, **OTHERS))
        except proc.Failure as why:
            rows.append(Row.failed(row, name, str(why)))
    return rows


@measure("pair", "sleep-rsockets", "sleep-qperf")
def sleeping_programs(bench, lab):
    return _others(bench, lab, "sleep", "one host")


@measure("hosts", "hosts-sleep-rsockets", "hosts-sleep-qperf")
def sleeping_programs_between_hosts(bench, lab):
    return _others(bench, lab, "hosts-sleep", "between hosts")


@measure("pair", "poll-beside-two")
def poll_beside_two(bench, lab):
    """Not asleep, but three pollers that others take the CPU from."""
    values = []
    for _ in bench.repetitions():
        with busy_loops(2):
            values.append(tools.qperf(lab, "rc_rdma_write_poll_lat", 1 if bench.quick else 2))
    return [Row("poll-beside-two", "qperf rc_rdma_write_poll_lat, 64 bytes, beside two busy loops", "us", values,
                must=100, aim=20, on="value", where="the scheduler places all")]
