# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs on top of other libraries: UCX, pyverbs, sockets through librspreload."""

import glob
import os
import shutil

from ffbench import proc
from .stage import Program, Skipped, lines, want

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


def pyverbs(on):
    """tests/rig/tools/pyverbs_pair.py with the package as tests/rig/shell/pyverbs.sh unpacks it."""
    script = 'TREE=$0; . "$TREE/tests/rig/shell/pyverbs.sh" && root=$(pyverbs_root) && pyverbs_packages "$root"'
    packages = proc.run(["bash", "-c", script, TREE], 60).strip()
    for kind in ("RC", "UC", "UD", "ONESIDED"):
        yield kind
        args = ["/usr/bin/python3", os.path.join(TREE, "tests/rig/tools/pyverbs_pair.py"), kind,
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


def dapl(on):
    """uDAPL over rdma_cm. dtestx does what InfiniBand adds to it, dapltest looks at the data (-V)."""
    if not shutil.which("dapltest"):
        raise Skipped("Debian's dapl2-utils is not installed")
    with open(on.path("dat.conf"), "w", encoding="ascii") as f:
        f.write('ff u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "eth0 0" ""\n')
    env = {"DAT_OVERRIDE": on.path("dat.conf")}
    for program, proof in (("dtestx", "immed/atomic test PASSED"), ("dtestsrq", "Test Complete")):
        yield program
        on.port = 15828 # where dtestx waits, with TCP
        _, said = on.pair([program, "-P", "ff"], [program, "-P", "ff", "-h", on.address], env=env)
        want(proof in said, f"its report is {said[-200:]!r}")
    for test in ("-T T -V -i 100 -t 2 -w 2 client SR 4096 1 server RR 65536 1 server RW 65536 1",
                 "-T P -i 1000 -p 32 -m p RW 4096 2"):
        yield f"dapltest {test}"
        server = on.server("dapltest", "-T", "S", "-D", "ff", env=env, timeout=60)
        try:
            before = on.bytes_moved()
            said = on.client("dapltest", *test.split()[:2], "-s", on.address, "-D", "ff", *test.split()[2:],
                             env=env)
            moved = on.bytes_moved() - before
        finally:
            server.kill()
        want("End of Work" in said and "ERROR" not in said.upper(), f"its report is {said[-200:]!r}")
        want(moved > 1 << 20, f"the router moved {moved} bytes only")


PROGRAMS = [
    Program("ucx_info", "ucx-utils", "both transports on ff0", ucx_info),
    Program("ucx_perftest", "ucx-utils", "iterations reported, bytes counted", ucx_perftest),
    Program("a pyverbs program", "python3-pyverbs", "all data verified, bytes counted", pyverbs),
    Program("uDAPL's dtestx, dtestsrq, dapltest", "dapl2-utils", "their own checks, bytes counted", dapl),
    Program("iperf3 on librspreload", "librdmacm1", "done, by rsockets: bytes counted", sockets),
]
