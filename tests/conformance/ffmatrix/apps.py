# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs on top of other libraries: UCX, MPI, pyverbs, sockets through librspreload."""

import glob
import os
import subprocess

from ffbench import proc
from .stage import CLIENT, Program, lines, want

RC, UD = "rc_verbs,ud_verbs,self", "ud_verbs,self"
HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.abspath(os.path.join(HERE, "../../.."))


def ucx_env(tls):
    return {"UCX_TLS": tls, "UCX_NET_DEVICES": "ff0:1", "UCX_LOG_LEVEL": "error"}


def ucx_info(on):
    yield "-d"
    out = on.client("ucx_info", "-d")
    for transport in ("rc_verbs", "ud_verbs"):
        want(lines(out, rf"Transport: {transport}\n.*Device: ff0:1$"), f"no {transport} on ff0")


def ucx_perftest(on):
    for tls, test, size, iters in (
            (RC, "tag_lat", 8, 1000), (RC, "tag_bw", 65536, 1000), (RC, "stream_bw", 65536, 1000),
            (RC, "ucp_am_bw", 4096, 1000), (RC, "ucp_put_bw", 1048576, 100),
            (RC, "ucp_get", 1048576, 100), (RC, "ucp_fadd", 8, 1000), (UD, "tag_lat", 8, 1000),
            (UD, "tag_bw", 65536, 1000)):
        yield f"UCX_TLS={tls} -t {test} -s {size}"
        args = ["ucx_perftest", "-p", on.new_port(), "-t", test, "-s", size, "-n", iters, "-w", 10,
                "-f"]
        _, said = on.pair(args, [*args, on.address], env=ucx_env(tls), min_bytes=size * iters)
        want(lines(said, rf"^\s*{iters}(?:\s+[\d.]+){{7}}\s*$"), "no report of its iterations")


def mpi(on):
    program, rsh = on.path("mpi_ring"), on.path("rsh")
    proc.run(["mpicc", "-O2", "-o", program, os.path.join(TREE, "tests/lib/mpi_ring.c")])
    with open(rsh, "w", encoding="ascii") as f:
        f.write(f'#!/bin/sh\nhost=$1\nshift\nexec {on.lab.tool} exec "$host" -- /bin/sh -c "$*"\n')
    os.chmod(rsh, 0o755)
    for tls, ranks in ((RC, 1), (RC, 2), (UD, 2)):
        yield f"UCX_TLS={tls}, {ranks} ranks in each container"
        before = on.bytes_moved()
        exported = [w for k, v in ucx_env(tls).items() for w in ("-x", f"{k}={v}")]
        out = proc.run(
            ["nsenter", f"--net=/proc/{on.lab.net_pid("h0")}/ns/net", "mpirun",
             "-H", f"{on.far}:{ranks},{CLIENT}:{ranks}",
             "--mca", "oob_tcp_if_include", on.address.rpartition(".")[0] + ".0/24",
             "--mca", "plm_rsh_agent", rsh, "--mca", "plm_rsh_no_tree_spawn", "1",
             "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self",
             "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any",
             *exported, program],
            env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        found = lines(out, rf"^mpi_ring: {2 * ranks} ranks on 2 hosts, (\d+) bytes of each")
        want(found, "not what it prints")
        moved = on.bytes_moved() - before
        want(moved >= 2 * ranks * int(found[0]), f"the router moved {moved} bytes only")


def pyverbs(on):
    """tests/lib/pyverbs_pair.py with the package as tests/lib/pyverbs.sh unpacks it."""
    script = 'TREE=$0; . "$TREE/tests/lib/pyverbs.sh" && root=$(pyverbs_root) && pyverbs_packages "$root"'
    packages = proc.run(["bash", "-c", script, TREE], 60).strip()
    for kind in ("RC", "UC", "UD", "ONESIDED"):
        yield kind
        args = ["/usr/bin/python3", os.path.join(TREE, "tests/lib/pyverbs_pair.py"), kind,
                on.new_port()]
        _, said = on.pair(args, [*args, on.address], env={"PYTHONPATH": packages},
                          min_bytes=100 * 1000)
        want(f"{kind}: 100 " in said and " verified" in said, "its data were not verified")


def sockets(on):
    """A program that knows nothing of RDMA; its peers of HTTP are in tests/system/rs_http.sh."""
    (preload,) = glob.glob("/usr/lib/*/rsocket/librspreload.so*")[:1] or [None]
    want(preload, "no librspreload here")
    env = {"LD_PRELOAD": preload}
    for options in ("-n 50M", "-n 50M -R", "-n 50M -P 3"):
        yield options
        server = on.server("iperf3", "-s", "-1", "-B", on.address, "-p", on.new_port(), env=env,
                           ready=lambda: on.stats(on.far)["cm_listeners"] > 0)
        try:
            before = on.bytes_moved()
            said = on.client("iperf3", "-c", on.address, "-p", on.port, *options.split(), env=env)
            moved = on.bytes_moved() - before
        finally:
            server.kill()
        want("iperf Done" in said, f"not done: {said[-200:]!r}")
        want(moved >= 50 << 20, f"the router moved {moved} bytes only")


PROGRAMS = [
    Program("ucx_info", "ucx-utils", "both transports on ff0", ucx_info),
    Program("ucx_perftest", "ucx-utils", "iterations reported, bytes counted", ucx_perftest),
    Program("an MPI program", "openmpi-bin", "all data verified, bytes counted", mpi),
    Program("a pyverbs program", "python3-pyverbs", "all data verified, bytes counted", pyverbs),
    Program("iperf3 on librspreload", "librdmacm1", "done, by rsockets: bytes counted", sockets),
]
