# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Connections, rdma_cm, rsockets and UCX over the router: the rows that measures.py has not."""

import statistics

from . import proc, tools
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


@measure("pair", "write_bw-R", "send_bw-R")
def bandwidth_by_cm(bench, lab):
    """-R: addresses are resolved and QPs connected by rdma_cm, the data path is the same."""
    rows = []
    for program in ("ib_write_bw", "ib_send_bw"):
        if not bench.wanted(f"{program[3:]}-R"):
            continue
        plain, by_cm = [], []
        iters = max(2000, bench.scale(131072))
        for _ in bench.repetitions():
            plain.append(tools.perftest_bw(lab, program, 65536, iters) / 1e9)
            by_cm.append(tools.perftest_bw(lab, program, 65536, iters, "-R") / 1e9)
        rows.append(Row(f"{program[3:]}-R", f"{program} -R, 64 KB", "GB/s", by_cm, "without -R",
                        plain, must=0.98, sense=">=", where=FREE))
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
