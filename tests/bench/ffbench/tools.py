# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs of others: perftest, sockperf, iperf3, ucx_perftest, valgrind - how each is started
as a pair between two containers, and what its output means."""

import itertools
import json
import re
import tempfile
import time

from . import proc

_ports = itertools.count(18600)


def _listening(lab, where, port, server, env=None):
    """Starts the server, and waits until it listens."""
    background = proc.Background(server, env)
    try:
        proc.wait_for(f"{' '.join(server)}: listening", lambda: background.ended() or lab.listens(where, port))
        if background.ended():
            background.finish(1)
            raise proc.Failure(f"{' '.join(server)}: the server has gone")
    except BaseException:
        background.kill()
        raise
    return background


def _pair(lab, port, server, client, timeout, env=None, where=None):
    """Starts the server (in lab.server, or `where`) and runs the client; the client's output."""
    background = _listening(lab, where or lab.server, port, server, env)
    try:
        return proc.run(client, timeout, env)
    finally:
        background.kill()


def _cm_pair(server, client, timeout):
    """The same for a server that listens with rdma_cm, which nothing outside it shows: the client
    is started again as long as it is refused."""
    background = proc.Background(server)
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                return proc.run(client, timeout)
            except proc.Failure:
                if background.ended() or time.monotonic() > deadline:
                    raise
    finally:
        background.kill()


def _after(out, header, what):
    """The numbers of the line that follows the one with `header`."""
    lines = out.splitlines()
    for i, line in enumerate(lines):
        if header in line:
            for row in lines[i + 1:]:
                if re.match(r"\s*\d", row):
                    return [float(x) for x in row.split()]
    raise proc.Failure(f"{what}: no figures in its output")


def perftest(lab, program, size, iters, *options, timeout=60):
    port = next(_ports)
    args = [program, "-F", "-p", port, "-s", size, "-n", iters, *options]
    server = lab.inside(lab.server, *args, timeout=timeout)
    client = lab.inside(lab.client, *args, lab.ip(lab.server), timeout=timeout)
    if "-R" in options:
        return _cm_pair(server, client, timeout)
    return _pair(lab, port, server, client, timeout)


def perftest_rate(out, program):
    """bytes per second, the average over a run with --report_gbits"""
    rate = _after(out, "BW average[Gb/sec]", program)[3] * 1e9 / 8
    if not rate:
        raise NoClock(f"{program} could not tell the frequency of its clock")
    return rate


def perftest_start(lab, server, client, cpus, program, *options):
    """Both programs, running, each on its CPU of the two: (server, client)"""
    port = next(_ports)
    args = [program, "-F", "-p", port, *options]
    listener = _listening(lab, server, port, lab.inside(server, "taskset", "-c", cpus[0], *args))
    return listener, proc.Background(lab.inside(client, "taskset", "-c", cpus[1], *args, lab.ip(server)))


def perftest_lat(lab, program, size, iters):
    """us, half of a round trip: {"median", "p99", "p999", "max"}"""
    numbers = _after(perftest(lab, program, size, iters), "t_typical[usec]", program)
    _, _, _, worst, median, _, _, p99, p999 = numbers[:9]
    return {"median": median, "p99": p99, "p999": p999, "max": worst}


def perftest_samples(lab, program, size, iters):
    """us, each half round trip (perftest's -H), for a distribution"""
    out = perftest(lab, program, size, iters, "-H")
    return [float(m) for m in re.findall(r"^\d+, ([\d.e+-]+)$", out, re.M)]


class NoClock(proc.Failure):
    """perftest compares the CPU's cycle counter with the time of day before a run; where the CPU is
    taken away meanwhile the two do not correlate, and all of its figures are 0."""


def perftest_bw(lab, program, size, iters, *options):
    """bytes per second, the average over the run"""
    return perftest_rate(perftest(lab, program, size, iters, "--report_gbits", *options), program)


def sockperf(lab, seconds, samples_file=None):
    """Blocking TCP ping-pong of sockperf's smallest message (14 bytes); us, half round trip."""
    port = next(_ports)
    limit = seconds + 15
    where = ["--tcp", "-i", lab.ip(lab.server), "-p", port]
    log = ["--full-log", samples_file] if samples_file else []
    out = _pair(lab, port,
                lab.on_net(lab.server, "sockperf", "server", *where, timeout=limit),
                lab.on_net(lab.client, "sockperf", "ping-pong", *where, "-m", 14, "-t", seconds, *log,
                           timeout=limit), limit + 5)
    found = dict(re.findall(r"percentile ([\d.]+)\s*=\s*([\d.]+)", out))
    try:
        return {"median": float(found["50.000"]), "p99": float(found["99.000"]),
                "p999": float(found["99.900"])}
    except KeyError:
        raise proc.Failure("sockperf: no percentiles in its output") from None


def sockperf_samples(lab, seconds):
    """us, each half round trip"""
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as log:
        sockperf(lab, seconds, log.name)
        return [float(m) for m in re.findall(r"^\d+, [\d.]+, [\d.]+, ([\d.]+)", log.read(), re.M)]


def iperf3(lab, seconds, server=None, client=None):
    """One TCP stream, between containers or hosts; bytes per second received"""
    server, client = server or lab.server, client or lab.client
    port = next(_ports)
    limit = seconds + 15
    out = _pair(lab, port,
                lab.on_net(server, "iperf3", "-s", "-1", "-p", port, timeout=limit),
                lab.on_net(client, "iperf3", "-J", "-c", lab.ip(server), "-p", port, "-t", seconds,
                           timeout=limit), limit + 5, where=server)
    return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8


def peer_tcp(lab, program, rounds, server, client, *options):
    """8 bytes there and back over TCP between two hosts, or containers; us, half of a round trip, and the
    CPU time of both programs for a whole one"""
    port = next(_ports)
    out = _pair(lab, port, lab.on_net(server, program, "-l", port, *options),
                lab.on_net(client, program, "-c", lab.ip(server), "-p", port, "-n", rounds, *options),
                60, where=server)
    got = json.loads(out)
    return {"median": got["median_ns"] / 1e3, "p99": got["p99_ns"] / 1e3, "cpu": got["cpu_ns"] / 1e3}


def verbs_rtt(lab, program, rounds, *options):
    """64 bytes there and back by SEND; us, a round trip, and the CPU time of both programs for it"""
    port = next(_ports)
    got = json.loads(_pair(
        lab, port, lab.inside(lab.server, program, "-l", port, *options),
        lab.inside(lab.client, program, "-c", lab.ip(lab.server), "-p", port, "-n", rounds, *options),
        60))
    return {"median": got["median_ns"] / 1e3, "p99": got["p99_ns"] / 1e3, "cpu": got["cpu_ns"] / 1e3}


# rsockets in the place of sockets, and a waiting call sleeps at once: a file for that in an /etc of its own
RSOCKETS = """mount -t tmpfs tmpfs /mnt && mkdir -p /mnt/rdma/rsocket && echo 0 >/mnt/rdma/rsocket/polling_time &&
mount -t overlay overlay -o lowerdir=/mnt:/etc /etc && LD_PRELOAD=$(echo /usr/lib/*/rsocket/librspreload.so) exec "$@"
"""


def rsockets_rtt(lab, program, rounds, *options):
    """peer_tcp over rsockets that do not poll; us, a round trip"""
    port = next(_ports)

    def on(where, *cmd):
        return lab.inside(where, "unshare", "--mount", "sh", "-c", RSOCKETS, "sh", program, *cmd, *options)

    got = json.loads(_cm_pair(on(lab.server, "-l", port),
                              on(lab.client, "-c", lab.ip(lab.server), "-p", port, "-n", rounds), 60))
    return 2 * got["median_ns"] / 1e3


_QPERF_UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6}


def qperf(lab, test, seconds, *options):
    """us: the latency that one of qperf's tests finds, 64 bytes; over TCP or over the router, by its name"""
    port = next(_ports)
    out = _pair(lab, port, lab.inside(lab.server, "qperf", "-lp", port),
                lab.inside(lab.client, "qperf", "-lp", port, lab.ip(lab.server), "-t", seconds, "-m", 64,
                           *options, test), seconds + 30)
    found = re.search(r"latency\s*=\s*([\d.]+) (\w+)", out)
    if not found:
        raise proc.Failure(f"qperf {test}: no latency in its output")
    return float(found[1]) * _QPERF_UNITS[found[2]]


def verbs_fair(lab, program, *options):
    """{"bytes_per_s", "jain", "least", "most"}"""
    port = next(_ports)
    return json.loads(_pair(lab, port, lab.inside(lab.server, program, "-l", port),
                            lab.inside(lab.client, program, "-c", lab.ip(lab.server), "-p", port,
                                       *options), 60))


def ucx(lab, transport, test, size, iters, timeout=60):
    """ucx_perftest over shared memory or TCP, never over our device, or over rc_verbs (connected
    over ud_verbs), only over it; {"us": median of a message, "rate": bytes per second}"""
    port = next(_ports)
    env = {"UCX_TLS": {"shm": "posix,self", "tcp": "tcp,self",
                   "rc_verbs": "rc_verbs,ud_verbs,self"}
           [transport], "UCX_LOG_LEVEL": "error", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    if transport == "rc_verbs":
        args = ["ucx_perftest", "-p", port]
        return _ucx_figures(test, _pair(
            lab, port, lab.inside(lab.server, *args, timeout=timeout),
            lab.inside(lab.client, *args, "-t", test, "-s", size, "-n", iters, "-f", lab.ip(lab.server),
                       timeout=timeout), timeout, env))
    # UCX looks for interfaces in /sys, which has to be the container's
    own_sys = ["unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh",
               "ucx_perftest", "-p", port]
    out = _pair(lab, port, lab.on_net(lab.server, *own_sys, timeout=timeout),
                lab.on_net(lab.client, *own_sys, "-t", test, "-s", size, "-n", iters, "-f",
                           lab.ip(lab.server), timeout=timeout), timeout, env)
    return _ucx_figures(test, out)


def _ucx_figures(test, out):
    # iterations; time: median, average, overall; MB (2^20) per s: average, overall; messages per s
    found = re.findall(r"^\s*\d+((?:\s+[\d.]+){7})\s*$", out, re.M)
    if not found:
        raise proc.Failure(f"ucx_perftest {test}: no figures in its output")
    numbers = [float(x) for x in found[-1].split()]
    return {"us": numbers[0], "rate": numbers[3] * 2**20}


def rstream(lab, size, count, iters, timeout=60):
    """`count` messages one way, then as many back, `iters` times; {"us": a message, "rate": bytes
    per second}"""
    port = next(_ports)
    args = ["rstream", "-p", port, "-S", size, "-C", count, "-I", iters]
    out = _cm_pair(lab.inside(lab.server, *args, timeout=timeout),
                   lab.inside(lab.client, *args, "-s", lab.ip(lab.server), timeout=timeout), timeout)
    found = re.search(r"s\s+([\d.]+)\s+([\d.]+)\s*$", out.rstrip())
    if not found:
        raise proc.Failure("rstream: no figures in its output")
    return {"us": float(found[2]), "rate": float(found[1]) * 1e9 / 8}


def cmtime(lab, connections, timeout=60):
    """us for each connection: {step: us}"""
    port = next(_ports)
    args = ["cmtime", "-c", connections, "-p", port]
    out = _cm_pair(lab.inside(lab.server, *args, timeout=timeout),
                   lab.inside(lab.client, *args, "-s", lab.ip(lab.server), timeout=timeout), timeout)
    found = re.findall(r"^([a-z ]+?)\s*:\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+([\d.]+)\s*$", out, re.M)
    if not found:
        raise proc.Failure("cmtime: no figures in its output")
    return {step: float(us) for step, us in found}


def callgrind(command, function, wrap=lambda cmd: cmd, timeout=300):
    """Instructions that `command` executes inside `function`, and what it printed."""
    cmd = wrap(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                "--collect-atstart=no", f"--toggle-collect={function}", *command])
    program = proc.Background(cmd)
    out = program.finish(timeout)
    found = re.search(r"Collected : (\d+)", program.stderr)
    if not found or int(found[1]) == 0:
        raise proc.Failure(f"callgrind collected nothing in {function}()")
    return int(found[1]), json.loads(out)
