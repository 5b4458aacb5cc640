# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is measured, and how: one function for each group of rows. A measure gets the bench (its
programs, options, CPUs) and a lab of the kind that it asks for, and gives rows.

Product and peer alternate within each repetition, so that both see the same minute of the machine.
"""

import os
import time
from functools import partial

from . import paired, proc, tools
from .row import Row

MEASURES = []


def measure(lab, *keys):
    """Registers a function that yields the rows with these keys, in a lab of that kind (a key of
    LABS) or, with None, in none."""

    def register(function):
        MEASURES.append((lab, keys, function))
        return function

    return register


LABS = {
    "pinned": {"containers": 1, "fast_cpu": True},
    "spin": {"containers": 1, "fast_cpu": True, "mode": "spin"},
    "pair": {"containers": 2},
    "socket": {"containers": 1, "mode": "socket"},
    "many": {"containers": 32},
    "hosts": {"containers": 1, "hosts": 2},
}

PINNED = "one process on CPU {0}, fast thread on CPU {1}"
FREE = f"three busy threads, {os.cpu_count()} CPUs, the scheduler places them"


# ---- one process, two QPs ----------------------------------------------------------------------

def _latency(bench, lab, key, mode):
    inline, plain, peer, detail = [], [], [], []
    a, b = bench.cpus
    for _ in bench.repetitions():
        peer.append(proc.run_json([bench.program("peer_handoff"), "-a", a, "-b", b,
                                   "-n", bench.scale(2000000)])["median_ns"])
        for values, flags in ((inline, ["-i"]), (plain, [])):
            got = proc.run_json(lab.inside("h0c0", bench.program("verbs_lat"), "-c", a,
                                           "-n", bench.scale(300000), *flags))
            values.append(got["median_ns"])
            detail.append(dict(got, inline=bool(flags)))
    where = PINNED.format(a, b)
    limits = {"must": 4, "aim": 3}
    return [
        Row(key, f"8-byte WRITE, post to completion, inline{mode}", "ns", inline,
            "spin hand-off, round trip", peer, where=where, detail={"runs": detail}, **limits),
        Row(key + "-sge", f"8-byte WRITE, post to completion, from an SGE{mode}", "ns", plain,
            "spin hand-off, round trip", peer, where=where, **limits),
    ]


@measure("pinned", "write-latency", "write-latency-sge")
def write_latency(bench, lab):
    return _latency(bench, lab, "write-latency", "")


@measure("spin", "write-latency-spin", "write-latency-spin-sge")
def write_latency_spin(bench, lab):
    return _latency(bench, lab, "write-latency-spin", ", spin mode")


@measure("pinned", "write-rate", "write-rate-sge", "write-rate-16", "write-rate-list")
def write_rate(bench, lab):
    variants = (
        ("write-rate", "every WR inline and signalled", ["-i"]),
        ("write-rate-sge", "every WR from an SGE and signalled", []),
        ("write-rate-16", "inline, one of 16 signalled", ["-i", "-s", "16"]),
        ("write-rate-list", "inline, one of 16 signalled, 16 a post",
         ["-i", "-s", "16", "-l", "16"]),
    )
    samples = {key: [] for key, _, _ in variants}
    detail = {key: [] for key, _, _ in variants}
    for _ in bench.repetitions():
        for key, _, flags in variants:
            got = proc.run_json(lab.inside("h0c0", bench.program("verbs_rate"), "-c", bench.cpus[0],
                                           "-o", 128, "-p", 3, "-t", bench.scale(300), *flags))
            rates = sorted(phase["alone"] for phase in got["phases"])
            samples[key].append(rates[1] / 1e6)
            detail[key].append(got["phases"])
    return [Row(key, f"8-byte WRITEs, one QP, 128 outstanding, {what}", "M/s", samples[key],
                must=5, aim=15, sense=">=", on="value", where=PINNED.format(*bench.cpus),
                note="*_median: of windows of 512 WRs, hardly moved by other programs",
                detail={"runs": detail[key]})
            for key, what, _ in variants]


@measure("pinned", "idle-qps")
def idle_qps(bench, lab):
    alone, beside = [], []
    num = 4096
    got = proc.run_json(lab.inside("h0c0", bench.program("verbs_rate"), "-c", bench.cpus[0], "-i",
                                   "-o", 128, "-p", bench.reps, "-t", bench.scale(500), "-q", num,
                                   timeout=120), timeout=125)
    for phase in got["phases"]:
        alone.append(phase["alone"] / 1e6)
        beside.append(phase["idle"] / 1e6)
    return [Row("idle-qps", f"8-byte WRITEs of one QP beside {num} idle ones", "M/s", beside,
                "the same QP alone", alone, must=0.95, aim=0.99, sense=">=",
                where=PINNED.format(*bench.cpus))]


@measure("pinned", "registration", "registration-again")
def registration(bench, lab):
    cases = {"fresh": [], "again": []}
    for _ in bench.repetitions():
        got = proc.run_json(lab.inside("h0c0", bench.program("verbs_reg"), "-c", bench.cpus[0],
                                       "-n", bench.scale(500)))
        for case, samples in cases.items():
            samples.append(got[case])
    rows = []
    for case, key, what, limits in (
            ("fresh", "registration", "a new mapping each time", {"must": 4, "aim": 2}),
            ("again", "registration-again", "the same buffer each time", {"must": 2, "aim": 0.2})):
        samples = cases[case]
        rows.append(Row(key, f"register and deregister 1 MB of touched memory, {what}", "us",
                        [(s["reg_ns"] + s["dereg_ns"]) / 1e3 for s in samples],
                        "copying 1 MB (warm)", [s["copy_ns"] / 1e3 for s in samples],
                        where=f"one thread on CPU {bench.cpus[0]}",
                        detail={"runs": samples}, **limits))
    return rows


@measure("pair", "registration-1g", "registration-1g-back", "registration-1g-again")
def registration_large(bench, lab):
    """1 GB of touched private memory on either side; passes of WRITEs over all of it."""
    size, runs = 1 << 30, []
    for _ in bench.repetitions():
        runs.append(proc.run_json(lab.inside("h0c0", bench.program("verbs_first"), "-s", size,
                                             "-l", 5, "-n", 1, timeout=120), timeout=125))
    return [
        Row("registration-1g", "register 1 GB of touched memory", "ms",
            [r["reg_ns"] / 1e6 for r in runs], must=50, aim=5, on="value", where=FREE,
            detail={"runs": runs}),
        Row("registration-1g-back", "deregister it, after it was used in five passes", "ms",
            [r["dereg_ns"] / 1e6 for r in runs], "copying 1 GB", [r["copy_ns"] / 1e6 for r in runs],
            where=FREE),
        Row("registration-1g-again", "WRITEs over it, the second pass", "GB/s",
            [size / r["pass_ns"][1] for r in runs], "the fifth pass",
            [size / r["pass_ns"][4] for r in runs], must=0.8, aim=1, sense=">=", where=FREE),
    ]


@measure("pair", "first-message", "first-message-1m")
def first_message(bench, lab):
    rows = []
    for key, size, times in (("first-message", 64 << 20, 8), ("first-message-1m", 1 << 20, 100)):
        runs = []
        for _ in bench.repetitions():
            if bench.wanted(key):
                runs.append(proc.run_json(lab.inside(
                    "h0c0", bench.program("verbs_first"), "-s", size, "-m", size, "-l", 1, "-n", times,
                    timeout=60), timeout=65))
        if not runs:
            continue
        limits = {"must": 4, "aim": 2} if size == 64 << 20 else {}
        rows.append(Row(key, f"the first message of {_size_name(size)}: register both sides, WRITE",
                        "ms", [(2 * r["reg_ns"] + r["pass_ns"][0]) / 1e6 for r in runs],
                        f"copying {_size_name(size)} (not warm)", [r["copy_ns"] / 1e6 for r in runs],
                        where=FREE, detail={"runs": runs}, **limits))
    return rows


# ---- two containers ------------------------------------------------------------------------------

BW_SIZES = (65536, 262144, 1048576)
BW_PROGRAMS = ("ib_write_bw", "ib_read_bw", "ib_send_bw")


def _iters(bench, size):
    return max(500, bench.scale(8 * 2**30) // size)


def _size_name(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


@measure("pair", *(f"{p[3:]}-{s >> 10}k" for p in BW_PROGRAMS for s in BW_SIZES))
def bandwidth(bench, lab):
    got = {(p, s): [] for p in BW_PROGRAMS for s in BW_SIZES}
    peer = {(p, s): [] for p in BW_PROGRAMS for s in BW_SIZES}
    for _ in bench.repetitions():
        for program, size in got:
            if not bench.wanted(f"{program[3:]}-{size >> 10}k"):
                continue
            peer[program, size].append(_memcpy(bench, size))
            got[program, size].append(
                tools.perftest_bw(lab, program, size, _iters(bench, size)) / 1e9)
    return [Row(f"{p[3:]}-{s >> 10}k", f"{p}, {_size_name(s)}", "GB/s", values,
                "memcpy of one core", peer[p, s], must=0.6, aim=0.85, sense=">=",
                where=FREE if p == "ib_send_bw" else f"two busy threads, {os.cpu_count()} CPUs, not pinned")
            for (p, s), values in got.items() if values]


def _memcpy(bench, size):
    """GB/s of one core over perftest's working set: one source and one destination buffer."""
    got = proc.run_json([bench.program("peer_memcpy"), "-c", bench.cpus[1],
                         "-t", bench.scale(300), size])
    return got[str(size)] / 1e9


@measure("pair", "bandwidth-plot")
def bandwidth_plot(bench, lab):
    """No rows of its own: the points of bandwidth.png."""
    if bench.quick:
        return []
    sizes = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20]
    series = {"memcpy of one core": [(s, _memcpy(bench, s)) for s in sizes]}
    for program in BW_PROGRAMS:
        series[program] = [
            (s, tools.perftest_bw(lab, program, s, min(100000, _iters(bench, s))) / 1e9)
            for s in sizes]
    series["UCX, shared memory, put"] = [
        (s, tools.ucx(lab, "shm", "ucp_put_bw", s, max(200, (4 << 30) // s))["rate"] / 1e9)
        for s in sizes]
    bench.plots["bandwidth"] = series
    return []


@measure("pair", "write_lat-median", "write_lat-p99", "send_lat-median", "send_lat-p99")
def latency(bench, lab):
    programs = ("ib_write_lat", "ib_send_lat")
    got = {p: [] for p in programs}
    peer = []
    iters = bench.scale(100000)
    for _ in bench.repetitions():
        peer.append(tools.sockperf(lab, 1 if bench.quick else 3))
        for program in programs:
            got[program].append(tools.perftest_lat(lab, program, 8, iters))
    rows = []
    for program in programs:
        for field, must, aim in (("median", 0.6, 0.4), ("p99", 1.5, 1.0)):
            rows.append(Row(f"{program[3:]}-{field}", f"{program}, 8 bytes, {field}", "us",
                            [g[field] for g in got[program]], f"sockperf TCP, {field}",
                            [p[field] for p in peer], must=must, aim=aim, where=FREE,
                            detail={"runs": got[program], "peer_runs": peer}))
    if not bench.quick:
        bench.plots["latency"] = {
            **{p: tools.perftest_samples(lab, p, 8, 20000) for p in programs},
            "sockperf, TCP": tools.sockperf_samples(lab, 2),
        }
    return rows


@measure("pair", "peer-tcp", "peer-ucx-shm-put", "peer-ucx-shm-tag", "peer-ucx-tcp-tag",
         "peer-ucx-shm-bw", "peer-ucx-tcp-bw")
def other_ways(bench, lab):
    """Other ways between the same two containers; for information."""
    bulk = max(1000, bench.scale(20000))
    small = bench.scale(200000)
    ways = (
        ("peer-tcp", "iperf3, one TCP stream", "GB/s",
         lambda: tools.iperf3(lab, 1 if bench.quick else 3) / 1e9),
        ("peer-ucx-shm-put", "UCX, shared memory, put of 8 bytes", "us",
         lambda: tools.ucx(lab, "shm", "ucp_put_lat", 8, small)["us"]),
        ("peer-ucx-shm-tag", "UCX, shared memory, tagged message of 8 bytes", "us",
         lambda: tools.ucx(lab, "shm", "tag_lat", 8, small)["us"]),
        ("peer-ucx-tcp-tag", "UCX, TCP, tagged message of 8 bytes", "us",
         lambda: tools.ucx(lab, "tcp", "tag_lat", 8, small // 10)["us"]),
        ("peer-ucx-shm-bw", "UCX, shared memory, put of 64 KB", "GB/s",
         lambda: tools.ucx(lab, "shm", "ucp_put_bw", 65536, bulk)["rate"] / 1e9),
        ("peer-ucx-tcp-bw", "UCX, TCP, tagged messages of 64 KB", "GB/s",
         lambda: tools.ucx(lab, "tcp", "tag_bw", 65536, bulk)["rate"] / 1e9),
    )
    rows = []
    for key, name, unit, take in ways:
        if not bench.wanted(key):
            continue
        try:
            rows.append(Row(key, name, unit, [take() for _ in bench.repetitions()],
                            where="two processes, not pinned"))
        except proc.Failure as why:
            rows.append(Row.failed(key, name, str(why)))
    return rows


# ---- modes ---------------------------------------------------------------------------------------

@measure("socket", "socket-rtt", "socket-rtt-poll")
def socket_mode(bench, lab):
    events, polled, peer, detail = [], [], [], []
    rounds = bench.scale(50000)
    for _ in bench.repetitions():
        peer.append(proc.run_json([bench.program("peer_unix"), "-n", rounds])["median_ns"] / 1e3)
        for values, flags in ((events, ["-e"]), (polled, [])):
            got = proc.run_json(lab.inside("h0c0", bench.program("verbs_rtt"), "-n", rounds,
                                           *flags))
            values.append(got["median_ns"] / 1e3)
            detail.append(dict(got, events=bool(flags)))
    name = "socket mode, 64-byte SEND, round trip"
    return [
        Row("socket-rtt", f"{name}, both sleep in ibv_get_cq_event", "us", events,
            "Unix socket, round trip", peer, must=3, aim=2, detail={"runs": detail},
            where="two processes and the router, not pinned"),
        Row("socket-rtt-poll", f"{name}, both poll", "us", polled, "Unix socket, round trip", peer,
            where="two processes and the router, not pinned"),
    ]


@measure("many", "idle-cpu")
def idle_cpu(bench, lab):
    seconds = 3 if bench.quick else 10
    clients = []
    try:
        for i in range(lab.containers):
            client = proc.Background(
                lab.inside(f"h0c{i}", bench.program("verbs_idle"), "-t", 300, timeout=310),
                keep_stdin=True)
            clients.append(client)
        for client in clients:
            if "attached" not in client.child.stdout.readline():
                client.finish(5)
                raise proc.Failure("verbs_idle did not attach")
        time.sleep(2)
        values, ticks, threads = [], [], {}
        for _ in bench.repetitions():
            before, ticks0 = lab.router_cpu_ns()
            start = time.monotonic()
            time.sleep(seconds)
            after, ticks1 = lab.router_cpu_ns()
            elapsed = time.monotonic() - start
            for name, ns in after.items():
                threads.setdefault(name, []).append(ns - before.get(name, 0))
            values.append(100 * sum(v - before.get(k, 0) for k, v in after.items())
                          / (elapsed * 1e9))
            ticks.append((ticks1 - ticks0) / os.sysconf("SC_CLK_TCK"))
    finally:
        for client in clients:
            client.kill()
    return [Row("idle-cpu", f"CPU of an idle router with {lab.containers} attached containers",
                "% of a core", values, must=0.02, aim=0.005, on="value",
                where=f"{lab.containers} clients of 4 QPs that have worked and sleep",
                note=f"over {seconds} s each",
                detail={"ns_by_thread": threads, "seconds_by_stat": ticks})]


# ---- instructions --------------------------------------------------------------------------------

@measure("pinned", "instructions-post", "instructions-poll")
def instructions_library(bench, lab):
    """Callgrind counts what ffl executes for one post and one completion: no noise, one run."""
    rows = []
    for key, function, what in (("instructions-post", "bench_post", "ibv_post_send"),
                                ("instructions-poll", "bench_poll", "ibv_poll_cq, a completion")):
        if not bench.wanted(key):
            continue
        values, detail = [], {}
        for inline in (True, False):
            args = [bench.program("verbs_rate"), "-I", bench.scale(12800), "-w", 3000,
                    *(["-i"] if inline else [])]
            ran, got = tools.callgrind(
                args, function, lambda cmd: lab.inside("h0c0", *cmd, timeout=200))
            detail["inline" if inline else "sge"] = ran / got["operations"]
            if inline:
                values.append(ran / got["operations"])
        rows.append(Row(key, f"instructions of {what}, 8-byte inline WRITE", "instr", values,
                        where="library, callgrind", detail=detail))
    return rows


ROUTER_OPS = (
    ("instructions-router", "8-byte WRITE, inline, signalled", ["-i"]),
    ("instructions-router-sge", "8-byte WRITE from an SGE, signalled", []),
    ("instructions-router-16", "8-byte WRITE, inline, one of 16 signalled", ["-i", "-s", "16"]),
    ("instructions-router-send", "8-byte SEND, inline, signalled", ["-i", "-o", "send"]),
    ("instructions-router-read", "8-byte READ, signalled", ["-o", "read"]),
)


@measure("pinned", "counters-rate")
def counters_rate(bench, lab):
    """What a program sees of what counters cost: the same router with and without them."""

    def rate(build):
        os.environ["FF_BUILD"] = str(build)
        try:
            lab.lab("restart", "router", "h0")
        finally:
            del os.environ["FF_BUILD"]
        got = proc.run_json(lab.inside("h0c0", bench.program("verbs_rate"), "-c", bench.cpus[0], "-i",
                                       "-o", 128, "-p", 1, "-t", 300))
        return (got["phases"][0]["alone_median"] / 1e6,)

    a, b, noisy = paired.measure(partial(rate, bench.build), partial(rate, bench.program("bare")),
                                 30 if bench.quick else 120, 0.02)
    bench.noisy += noisy
    lab.lab("restart", "router", "h0")
    return [Row("counters-rate", f"8-byte WRITEs, one QP, all counters and histograms on ({len(a)} pairs)",
                "M/s", [x for x, in a], "a router compiled without them", [x for x, in b], must=0.97,
                sense=">=", where=PINNED.format(*bench.cpus), interval=paired.interval)]


COUNTED = (("", "8-byte WRITE", ["-i"]), ("-send", "64-byte SEND", ["-i", "-o", "send", "-z", 64]))


@measure(None, "counters-cost", "counters-cost-send", "counters-instructions",
         "counters-instructions-send")
def counters_cost(bench, _lab):
    """The fast path as it is, and compiled without counters, histograms, traces and probes, of the
    cheapest requests; and with counters = basic, for information."""
    rows = []
    for suffix, what, flags in COUNTED:
        full, bare = ([bench.program(p), *flags] for p in ("fast_turn", "fast_turn_bare"))

        def rate(command):
            got = proc.run_json(["taskset", "-c", bench.cpus[1], *command, "-n", 400000])
            return (1e3 / got["ns_per_op"],)

        if bench.wanted(f"counters-cost{suffix}"):
            a, b, noisy = paired.measure(partial(rate, full), partial(rate, bare),
                                         20 if bench.quick else 100, 0.005)
            bench.noisy += noisy
            rows.append(Row(f"counters-cost{suffix}", f"{what}s, fast path alone, all counters and "
                            f"histograms on ({len(a)} pairs)", "M/s", [x for x, in a],
                            "compiled without them", [x for x, in b], sense=">=",
                            where="one thread, everything in its cache", interval=paired.interval))
        if bench.wanted(f"counters-instructions{suffix}"):
            ran = {}
            for name, command in (("full", full), ("basic", [*full, "-b"]), ("bare", bare)):
                total, got = tools.callgrind([*command, "-n", 25600], "fast_turn")
                ran[name] = total / got["operations"]
            rows.append(Row(f"counters-instructions{suffix}", f"{what}, the same: instructions", "instr",
                            [ran["full"]], "compiled without them", [ran["bare"]],
                            where="fast path alone, callgrind", detail=ran))
    return rows


@measure(None, *(key for key, _, _ in ROUTER_OPS))
def instructions_router(bench, _lab):
    """The fast path alone (fast_turn.c): instructions by callgrind, and time without it."""
    rows = []
    for key, name, flags in ROUTER_OPS:
        if not bench.wanted(key):
            continue
        command = [str(bench.program("fast_turn")), *flags]
        timed = proc.run_json([*command, "-n", bench.scale(2000000)])
        ran, got = tools.callgrind([*command, "-n", "25600"], "fast_turn")
        rows.append(Row(key, f"instructions of the router, {name}", "instr",
                        [ran / got["operations"]], where="fast path alone, callgrind",
                        note=f"{timed['ns_per_op']:.1f} ns each, one core, everything in its cache",
                        detail=timed))
    return rows
