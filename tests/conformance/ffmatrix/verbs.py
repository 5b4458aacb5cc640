# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ibverbs-utils, perftest and qperf."""

from ffbench import proc
from .stage import CLIENT, Program, lines, want


def ibv_devinfo(on):
    for options in ([], ["-v"], ["-l"]):
        yield " ".join(options)
        out = on.client("ibv_devinfo", *options)
        if "-l" in options:
            want("1 HCA found" in out and "ff0" in out, "no ff0 in its list")
        else:
            want("hca_id:\tff0" in out and "PORT_ACTIVE" in out, "no active port of ff0")


def ibv_devices(on):
    yield ""
    want("ff0" in on.client("ibv_devices"), "no ff0 in its list")


def pingpong(name, *tries):
    """1,000 messages of 4 KB there and back (ud: 1 KB), all sizes told by the program."""
    def runs(on):
        for options in tries:
            yield options
            size = 1024 if "ud" in name else 4096
            args = [name, "-g", 0, "-s", size, "-n", 1000, "-p", on.new_port(), *options.split()]
            _, said = on.pair(args, [*args, on.address], min_bytes=2 * 1000 * size)
            want("\nsuccess" in said if "xsrq" in name else
                 lines(said, r"^\d+ bytes in [\d.]+ seconds") and lines(said, r"^\d{4,} iters in "),
                 "no report of 1000 iterations")
    return Program(name, "ibverbs-utils", "1,000 messages each way reported and counted", runs)


def perftest_rows(out):
    """[(size, iterations)] of a report"""
    return [(int(s), int(n)) for s, n in lines(out, r"^\s*(\d+)\s+(\d+)(?:\s+[\d.]+){3,}\s*$")]


def perftest(name, size, iters, *tries):
    def runs(on):
        for options in tries:
            yield options
            given = options.split()
            port = on.new_port()
            args = [name, "-F", "-p", port, "-s", size, "-n", iters, *given]
            if name.startswith("ib_atomic"):
                args[4:6] = []
            before = on.stats(CLIENT)["atomic_ops"]
            qps = int(given[given.index("-q") + 1]) if "-q" in given else 1
            want_bytes = 0 if name.startswith("ib_atomic") else size * iters
            _, said = on.pair(args, [*args, on.address], min_bytes=want_bytes)
            rows = perftest_rows(said)
            want(rows and all(r == (size, iters * qps) for r in rows),
                 f"its report has {rows or 'no rows'}")
            if name.startswith("ib_atomic"):
                done = on.stats(CLIENT)["atomic_ops"] - before
                want(done >= iters, f"the router counted {done} atomics")
    return Program(name, "perftest", "iterations reported, bytes counted", runs)


QPERF_RDMA = (
    "rc_bi_bw", "rc_bw", "rc_lat", "uc_bi_bw", "uc_bw", "uc_lat", "ud_bi_bw", "ud_bw", "ud_lat",
    "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat",
    "rc_rdma_write_poll_lat", "uc_rdma_write_bw", "uc_rdma_write_lat", "uc_rdma_write_poll_lat",
    "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add")


def qperf(on):
    """A second of each; its own errors are lines of the report. XRC is not built in."""
    port = on.new_port()
    server = on.server("qperf", "-lp", port, timeout=600)
    try:
        for options in ("", "-cp1", "-cm1"):
            tests = [t for t in QPERF_RDMA if options != "-cm1" or t.startswith("rc_")]
            yield f"{options} {', '.join(tests)}".strip()
            for test in tests:
                counted = "atomic_ops" if test.endswith(("_mr", "_swap", "_add")) else "tx_bytes"
                before = on.stats(on.far)[counted] + on.stats(CLIENT)[counted]
                said = on.client("qperf", on.address, "-lp", port, "-to", 20, "-t", 1, "-vvs",
                                 *options.split(), test)
                moved = on.stats(on.far)[counted] + on.stats(CLIENT)[counted] - before
                want(lines(said, r"(?:bw|latency|msg_rate)\s+=\s+([1-9][\d.]*|0\.\d+) ")
                     and "_errs" not in said, f"{test}'s report is {said[-300:]!r}")
                want(moved > 0, f"{test}: the router counted no {counted}")
    finally:
        server.kill()


def asyncwatch(on):
    """Sees the port's state when it starts, and ends with the router's death: only that it opens."""
    yield ""
    watch = on.start(on.far, "ibv_asyncwatch", timeout=30)
    try:
        proc.wait_for("ibv_asyncwatch: device open", lambda: on.stats(on.far)["sessions"] > 0)
        want(not watch.ended(), "it has gone")
    finally:
        watch.kill()


PROGRAMS = [
    Program("ibv_devices", "ibverbs-utils", "ff0 listed", ibv_devices),
    Program("ibv_devinfo", "ibverbs-utils", "ff0 with an active port", ibv_devinfo),
    Program("ibv_asyncwatch", "ibverbs-utils", "waits on the open device", asyncwatch),
    pingpong("ibv_rc_pingpong", "", "-c", "-e", "-N", "-t", "-j -N", "-m 4096"),
    pingpong("ibv_uc_pingpong", "", "-c", "-e"),
    pingpong("ibv_ud_pingpong", "", "-c", "-e"),
    pingpong("ibv_srq_pingpong", "", "-c", "-e", "-q 4"),
    pingpong("ibv_xsrq_pingpong", "", "-e"),
    perftest("ib_write_bw", 65536, 1000, "", "-R", "-q 4", "-c UC", "-b", "-I 0"),
    perftest("ib_write_lat", 64, 1000, "", "-R", "-c UC"),
    perftest("ib_read_bw", 65536, 1000, "", "-R", "-q 4", "-o 4"),
    perftest("ib_read_lat", 64, 1000, "", "-R"),
    perftest("ib_send_bw", 1024, 1000, "", "-R", "-c UC", "-c UD", "-c XRC", "-r 256", "-e"),
    perftest("ib_send_lat", 64, 1000, "", "-R", "-c UC", "-c UD", "-c UD -R", "-c XRC", "-e"),
    perftest("ib_atomic_bw", 8, 1000, "", "-R", "-A CMP_AND_SWAP"),
    perftest("ib_atomic_lat", 8, 1000, "", "-R"),
    Program("qperf", "qperf", "figures and no error of all its RDMA tests, bytes counted", qperf),
]
