# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Connections, rdma_cm, rsockets and UCX over the router: the rows that measures.py has not."""

import statistics
import sys
from functools import partial

from . import paired, proc, tools
from .measures import FREE, measure
from .row import Row


@measure("pair", "qp-setup", "qp-create-many", "qp-destroy-many")
def connection_setup(bench, lab):
    runs = [proc.run_json(lab.inside("h0c0", bench.program("verbs_setup"),
                                     "-n", bench.scale(500), "-q", 10000))
            for _ in bench.repetitions()]
    where = "one process, not pinned"
    rows = [Row("qp-setup", "two RC QPs: created, connected, both in RTS", "us",
                [r["pair_ns"] / 1e3 for r in runs], must=100, on="value", where=where,
                detail={"runs": runs})]
    for what in ("create", "destroy"):
        rows.append(Row(f"qp-{what}-many", f"{what} an RC QP beside 10,000 others", "us",
                        [r["many"][f"{what}_ns"] / 1e3 for r in runs], "beside none",
                        [r["few"][f"{what}_ns"] / 1e3 for r in runs], must=1.5, aim=1.1,
                        where=where))
    return rows


@measure("pair", "cmtime")
def cm_connections(bench, lab):
    runs = [tools.cmtime(lab, 1000) for _ in bench.repetitions()]
    return [Row("cmtime", "cmtime, 1,000 connections: all steps up to established, each", "us",
                [sum(us for step, us in r.items() if step not in ("disconnect", "destroy"))
                 for r in runs], must=200, aim=20, on="value", where=FREE,
                detail={"runs": runs})]


def _bw_and_cpu(lab, program, *options):
    """GB/s, and ns of the router's fast thread for each message. That thread works all the time here,
    so its CPU time says what a message costs also where others take the CPU away from it."""
    def fast_ns():
        control = f"/{lab.router_pid()}" # the thread of that name; the fast one has nearly all else
        return sum(ns for name, ns in lab.router_cpu_ns()[0].items() if not name.endswith(control))

    # a third of a second at 25 GB/s: long enough to forget the start, short enough for many
    iters = 131072
    for left in reversed(range(10)):
        before = fast_ns()
        try:
            bw = tools.perftest_bw(lab, program, 65536, iters, *options) / 1e9
        except tools.NoClock as why:
            if not left:
                raise
            print(f"bench: {why}; once more", file=sys.stderr)
        else:
            return bw, (fast_ns() - before) / iters
    return None


@measure("pair", "write_bw-R", "write_bw-R-cpu", "send_bw-R", "send_bw-R-cpu")
def bandwidth_by_cm(bench, lab):
    """-R: addresses are resolved and QPs connected by rdma_cm, the data path is the same. But perftest
    synchronizes its sides over the connection then, and its reader polls: the server of ib_write_bw
    uses a core for that, where it waits on a socket without -R."""
    rows = []
    for program in ("ib_write_bw", "ib_send_bw"):
        key = f"{program[3:]}-R"
        if not bench.wanted(key) and not bench.wanted(key + "-cpu"):
            continue
        by_cm, plain, noisy = paired.measure(partial(_bw_and_cpu, lab, program, "-R"),
                                             partial(_bw_and_cpu, lab, program),
                                             20 if bench.quick else 150, 0.02)
        bench.noisy += noisy
        rows.append(Row(key, f"{program} -R, 64 KB ({len(plain)} pairs)", "GB/s",
                        [bw for bw, _ in by_cm], "without -R", [bw for bw, _ in plain], must=0.98,
                        sense=">=", where=FREE, interval=paired.interval))
        rows.append(Row(key + "-cpu", f"{program} -R, 64 KB: the router's CPU time for a message",
                        "ns", [ns for _, ns in by_cm], "without -R", [ns for _, ns in plain],
                        must=1.02, where=FREE, interval=paired.interval))
    return rows


@measure("pair", "rstream-bw", "rstream-copies", "rstream-meet", "rstream-lat")
def rsockets(bench, lab):
    """rstream-copies: what is left to gain without making fewer copies. ib_send_bw's bytes stay in
    the cache of the one core that copies them; a stream's have to get to the core of the receiver.
    rstream-meet: what a router would make of a stream that copies from buffer to buffer while both
    programs are in their calls. Where that is much faster than through the rings, build it."""
    bw, lat, send_bw, send_lat, copies = [], [], [], [], []
    ways = {"rings": [], "meet": []}
    a, b = bench.cpus
    for _ in bench.repetitions():
        copies.append(proc.run_json([bench.program("peer_stream"), "-a", a, "-b", b,
                                     "-n", bench.scale(2000)])["bytes_per_s"] / 1e9)
        for way, rates in ways.items():
            rates.append(proc.run_json([bench.program("peer_meet"), "-k", way,
                                        "-n", bench.scale(2000)])["bytes_per_s"] / 1e9)
        send_bw.append(tools.perftest_bw(lab, "ib_send_bw", 65536,
                                         max(2000, bench.scale(131072))) / 1e9)
        bw.append(tools.rstream(lab, 65536, 10, max(1000, bench.scale(20000)))["rate"] / 1e9)
        send_lat.append(tools.perftest_lat(lab, "ib_send_lat", 64, bench.scale(50000))["median"])
        lat.append(tools.rstream(lab, 64, 1, bench.scale(50000))["us"])
    limit = 1 + 1 / statistics.median(send_lat)
    return [
        Row("rstream-bw", "rstream, 64 KB", "GB/s", bw, "ib_send_bw, 64 KB", send_bw, must=0.8,
            sense=">=", where=FREE),
        Row("rstream-copies", "rstream, 64 KB, and its copies alone", "GB/s", bw,
            "three copies on two cores, no router", copies, where=FREE),
        Row("rstream-meet", "64 KB from buffer to buffer, both programs waiting (not built)", "GB/s",
            ways["meet"], "through two rings, as rsockets", ways["rings"], where=FREE),
        Row("rstream-lat", "rstream, 64 bytes, one way (limit: ib_send_lat + 1 us)", "us", lat,
            "ib_send_lat, 64 bytes", send_lat, must=round(limit, 2), where=FREE),
    ]


@measure("pair", "ucx-bw", "ucx-lat")
def ucx(bench, lab):
    """UCX over the router's device against UCX over TCP, tagged messages."""
    bw, lat, tcp_bw, tcp_lat = [], [], [], []
    for _ in bench.repetitions():
        for transport, bws, lats in (("tcp", tcp_bw, tcp_lat), ("rc_verbs", bw, lat)):
            bws.append(tools.ucx(lab, transport, "tag_bw", 65536,
                                 max(1000, bench.scale(20000)))["rate"] / 1e9)
            lats.append(tools.ucx(lab, transport, "tag_lat", 8, bench.scale(50000))["us"])
    return [
        Row("ucx-bw", "UCX over rc_verbs, tagged messages of 64 KB", "GB/s", bw,
            "UCX over TCP", tcp_bw, must=1.5, sense=">=", where=FREE),
        Row("ucx-lat", "UCX over rc_verbs, tagged message of 8 bytes", "us", lat, "UCX over TCP",
            tcp_lat, must=0.7, where=FREE),
    ]
