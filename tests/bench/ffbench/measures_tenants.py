# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Many containers on one router: limits, shares, and what one feels of another."""

import json
import socket
import time

from . import proc, tools
from .measures import LABS, measure
from .row import Row

RATES = (("1 Mbit/s", 125_000), ("100 Mbit/s", 12_500_000), ("1 Gbit/s", 125_000_000),
         ("10 Gbit/s", 1_250_000_000), ("40 Gbit/s", 5_000_000_000))
SIZES = (64, 4096, 65536, 1048576)
BUSY = "one polling process and the router, not pinned"

LABS["limits"] = {"containers": 2}
LABS["limits-spin"] = {"containers": 2, "mode": "spin"}
LABS["limits-socket"] = {"containers": 2, "mode": "socket"}
LABS["tenants"] = {"containers": 4}


class Admin:
    """The router's administrator's socket: ffctl without a process for each call."""

    def __init__(self, lab):
        self.path = str(lab.dir / "h0/admin.sock")

    def call(self, **request):
        with socket.socket(socket.AF_UNIX) as s, s.makefile("rw", encoding="utf-8") as f:
            s.connect(self.path)
            f.write(json.dumps(request) + "\n")
            f.flush()
            answer = json.loads(f.readline())
        if not answer.get("ok"):
            raise proc.Failure(f"{request}: {answer.get('message')}")
        return answer

    def limit(self, container, **limits):
        self.call(op="container_set", name=container, limits=limits)


def flows(bench, lab, *flows, ms, window=64, options=()):
    """Bytes/s of each flow, "container:size"."""
    got = proc.run_json(["env", f"LD_LIBRARY_PATH={bench.build}/lib", bench.program("verbs_flows"),
                         "-d", str(lab.dir / "h0/run/containers"), "-t", str(int(ms)), "-w",
                         str(window), *map(str, options), *flows], timeout=120)
    return [f["bytes"] / f["ns"] * 1e9 for f in got["flows"]]


# ---- limits --------------------------------------------------------------------------------------

def _worst(bench, lab):
    """The largest error over rates and sizes, per cent, and all of them."""
    admin, runs = Admin(lab), []
    for size in SIZES:
        admin.limit("h0c0", tx_rate=0)
        free, = flows(bench, lab, f"h0c0:{size}", ms=500)
        for name, rate in RATES:
            if free < 1.2 * rate:
                continue  # nothing to be held back
            admin.limit("h0c0", tx_rate=rate)
            got, = flows(bench, lab, f"h0c0:{size}", ms=2000)
            runs.append({"size": size, "limit": name, "error_percent": 100 * (got / rate - 1)})
    admin.limit("h0c0", tx_rate=0)
    return max(abs(r["error_percent"]) for r in runs), runs


def _limit_error(bench, lab, key, mode):
    worst, details = [], []
    for _ in bench.repetitions():
        value, runs = _worst(bench, lab)
        worst.append(value)
        details.append(runs)
    return [Row(key, f"limit error over 2 s, {mode} mode: the worst of 1 Mbit/s to 40 Gbit/s, 64 B to "
                     "1 MB", "%", worst, must=1, aim=0.2, on="value", where=BUSY,
                note="combinations that the machine reaches without a limit",
                detail={"runs": details})]


@measure("limits", "limit-error")
def limit_error(bench, lab):
    return _limit_error(bench, lab, "limit-error", "adaptive")


@measure("limits-spin", "limit-error-spin")
def limit_error_spin(bench, lab):
    return _limit_error(bench, lab, "limit-error-spin", "spin")


@measure("limits-socket", "limit-error-socket")
def limit_error_socket(bench, lab):
    return _limit_error(bench, lab, "limit-error-socket", "socket")


@measure("limits", "limit-cpu")
def limit_cpu(bench, lab):
    """CPU time of the router's fast threads for a flow that is limited to 1 Gbit/s."""
    admin, shares = Admin(lab), []
    admin.limit("h0c0", tx_rate=125_000_000)
    for _ in bench.repetitions():
        before, start = sum(lab.router_cpu_ns()[0].values()), time.monotonic_ns()
        flows(bench, lab, "h0c0:65536", ms=2000, options=("-p", 500))
        after, end = sum(lab.router_cpu_ns()[0].values()), time.monotonic_ns()
        shares.append(100 * (after - before) / (end - start))
    admin.limit("h0c0", tx_rate=0)
    return [Row("limit-cpu", "CPU of the router, a flow of 64 KB limited to 1 Gbit/s, adaptive mode",
                "% of a core", shares, must=6, aim=3, on="value",
                where="a process that looks twice in a millisecond")]


def _many(admin, lab, n):
    """n more containers, as far as they are not there; their names."""
    there = {c["name"] for c in admin.call(op="containers")["containers"]}
    names = [f"many{i}" for i in range(n)]
    for i, name in enumerate(names):
        if name not in there:
            admin.call(op="container_add", name=name, tenant="many",
                       ips=[f"10.9.{i >> 8}.{i & 255}"])
    return names


@measure("tenants", "limit-ten")
def limit_ten(bench, lab):
    """Ten flows at once, each with a limit of its own."""
    admin, worst, details = Admin(lab), [], []
    names = _many(admin, lab, 10)
    rates = [1_250_000 * (i + 1) * (10 if i % 2 else 1) for i in range(10)]  # 10 to 1000 Mbit/s
    for name, rate in zip(names, rates):
        admin.limit(name, tx_rate=rate)
    for _ in bench.repetitions():
        got = flows(bench, lab, *(f"{n}:65536" for n in names), ms=2000)
        errors = [100 * (g / r - 1) for g, r in zip(got, rates)]
        worst.append(max(map(abs, errors)))
        details.append(errors)
    for name in names:
        admin.limit(name, tx_rate=0)
    return [Row("limit-ten", "ten flows at once, each limited to 10 to 1,000 Mbit/s: the worst error", "%",
                worst, must=2, aim=0.5, on="value", where=BUSY, detail={"runs": details})]


# ---- shares --------------------------------------------------------------------------------------

@measure("tenants", "share-sizes", "share-sizes-free")
def share_sizes(bench, lab):
    """Two equal containers: under one limit, of their tenant, and with none."""
    admin, rows = Admin(lab), []
    for key, rate, what in (("share-sizes", 62_500_000, "under a limit of 500 Mbit/s for both"),
                            ("share-sizes-free", 0, "without a limit")):
        admin.call(op="tenant_set", tenant="default", limits={"tx_rate": rate})
        small, large = [], []
        for _ in bench.repetitions():
            a, b = flows(bench, lab, "h0c0:64", "h0c1:1048576", ms=bench.scale(5000), window=1024)
            small.append(a / 1e6)
            large.append(b / 1e6)
        limits = {"must": 0.9, "aim": 0.97} if rate else {}
        rows.append(Row(key, f"two equal containers {what}: messages of 64 B", "MB/s", small,
                        "messages of 1 MB", large, sense=">=", where=BUSY, **limits))
    return rows


@measure("tenants", "containers-512", "containers-512-cached", "containers-512-jain")
def containers_512(bench, lab):
    """512 containers against one that goes through as much memory with as many WRs under way. Each
    WR under way has memory of its own on both sides."""
    admin, one, cached, many, jain = Admin(lab), [], [], [], []
    number, size, window = 512, 65536, 4
    names = _many(admin, lab, number)
    loads, each = [f"{n}:{size}" for n in names], window * size
    ms = bench.scale(4000)
    for _ in bench.repetitions():
        alone, = flows(bench, lab, loads[0], ms=ms, window=number * window,
                        options=("-m", number * each, "-W", 500))
        got = flows(bench, lab, *loads, ms=ms, window=window, options=("-m", each, "-W", 500))
        small, = flows(bench, lab, loads[0], ms=ms, window=16)
        one.append(alone / 1e9)
        many.append(sum(got) / 1e9)
        cached.append(small / 1e9)
        jain.append(sum(got) ** 2 / len(got) / sum(g * g for g in got))
    what = f"{number} containers with a QP pair each, WRITEs of 64 KB"
    return [
        Row("containers-512", what, "GB/s", many, "one container, as much memory", one, must=0.9,
            aim=0.98, sense=">=", where=BUSY,
            note=f"{number * window} WRs under way, {3 * number * each >> 20} MB of buffers, on both sides"),
        Row("containers-512-cached", f"{what}; their buffers are in no core's cache", "GB/s", many,
            "one container, 192 KB of buffers", cached, where=BUSY),
        Row("containers-512-jain", f"{number} containers, Jain's index", "", jain, must=0.98, aim=0.999,
            sense=">=", on="value", where=BUSY, note="over bytes of each in the same time"),
    ]


# ---- what one feels of another -------------------------------------------------------------------

class _Noise:
    """Programs in h0c2 (and h0c3) that run while a measure is taken."""

    def __init__(self, lab, commands):
        self.admin = Admin(lab)
        before = self._completed()
        self.programs = [proc.Background(c) for c in commands]
        # perftest fills its gigabytes first, which may take it half a minute
        proc.wait_for("the noise", lambda: self._completed() > before, timeout=90)
        time.sleep(0.5)

    def _completed(self):
        """Requests, and regions that are there."""
        c = self.admin.call(op="stats", name="h0c2")["containers"][0]
        return c["completions"]["success"] + (c["mrs"] if not c["qps"] else 0)

    def __enter__(self):
        return self

    def __exit__(self, kind, *exc):
        ended = any(p.ended() for p in self.programs)
        for p in self.programs:
            p.kill()
        if ended and not kind:
            raise proc.Failure("the noise ended too early")


def _noises(bench, lab):
    """What others do, by the last part of a key: (in words, command lines)."""
    length = 180

    def pair(program, *options):
        return [lab.inside("h0c3", program, *options, timeout=length),
                lab.inside("h0c2", "sh", "-c", "sleep 0.5; exec \"$@\"", "sh", program, *options,
                           "h0c3", timeout=length)]

    return {
        "write": ("another writes 1 GB blocks",
                  pair("ib_write_bw", "-s", 1 << 30, "-n", 5000, "-t", 2)),
        "read": ("another reads 64 KB blocks",
                 pair("ib_read_bw", "-s", 65536, "-n", 50_000_000, "-t", 64)),
        "small": ("another writes 64 B from 64 QPs",
                  pair("ib_write_bw", "-s", 64, "-q", 64, "-n", 50_000_000)),
        "control": ("another registers and deregisters memory",
                    [lab.inside("h0c2", bench.program("verbs_reg"), "-s", 4096, "-n", 1_000_000,
                                timeout=length)]),
    }


@measure("tenants", "noise-write", "noise-read", "noise-small", "noise-control")
def noise(bench, lab):
    """p99 of 8-byte round trips beside others, against the median without them."""
    rounds, rows = bench.scale(100000), []
    for kind, (what, commands) in _noises(bench, lab).items():
        if not bench.wanted(f"noise-{kind}"):
            continue
        idle, busy = [], []
        for _ in bench.repetitions():
            idle.append(tools.perftest_lat(lab, "ib_send_lat", 8, rounds))
            with _Noise(lab, commands):
                busy.append(tools.perftest_lat(lab, "ib_send_lat", 8, rounds))
        # that one posts for 200 us between two polls, on a core with both of the latency test
        limits, note = ({"must": 20, "aim": 5}, "") if kind != "small" else (
            {}, "no limit: its program keeps the core that it shares")
        rows.append(Row(f"noise-{kind}", f"ib_send_lat, 8 bytes, p99 while {what}", "us",
                        [b["p99"] for b in busy], "its median alone", [i["median"] for i in idle],
                        where="five busy threads, two cores, not pinned", note=note,
                        detail={"idle": idle, "busy": busy}, **limits))
    return rows


@measure("tenants", "rate-beside-write", "rate-beside-read", "rate-beside-small",
         "rate-beside-control")
def rate_beside(bench, lab):
    """A flow that has 1 Gbit/s keeps it."""
    admin, rows = Admin(lab), []
    admin.limit("h0c0", tx_rate=125_000_000)
    for kind, (what, commands) in _noises(bench, lab).items():
        if not bench.wanted(f"rate-beside-{kind}"):
            continue
        alone, beside = [], []
        for _ in bench.repetitions():
            alone += [r / 1e6 for r in flows(bench, lab, "h0c0:4096", ms=bench.scale(5000))]
            with _Noise(lab, commands):
                beside += [r / 1e6 for r in flows(bench, lab, "h0c0:4096", ms=bench.scale(5000))]
        rows.append(Row(f"rate-beside-{kind}", f"a flow with a limit of 1 Gbit/s while {what}", "MB/s",
                        beside, "alone", alone, must=0.95, aim=0.99, sense=">=",
                        where="four busy threads, two cores, not pinned"))
    admin.limit("h0c0", tx_rate=0)
    return rows
