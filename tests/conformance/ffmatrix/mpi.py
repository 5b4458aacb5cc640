# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""MPI and libfabric. tests/rig/verbs/mpi_ring.c checks each byte; fi_pingpong and fabtests check their own."""

import os
import re
import shutil

from ffbench import proc
from .stage import CLIENT, Program, Skipped, by_test, lines, want

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.abspath(os.path.join(HERE, "../../.."))
RC, UD = "rc_verbs,ud_verbs,self", "ud_verbs,self"
MSG, RXM, RXD = "verbs", "verbs;ofi_rxm", "verbs;ofi_rxd"


def remote_shell(on, name):
    """What takes the place of ssh: `NAME [OPTIONS] CONTAINER COMMAND...`, as if from nobody's terminal."""
    path = on.path(name)
    with open(path, "w", encoding="ascii") as f:
        f.write('#!/bin/bash\nwhile [[ $1 == -* ]]; do\n\t[[ $1 != -o ]] || shift\n\tshift\ndone\n'
                f'host=$1\nshift\nexec {on.lab.tool} exec "$host" -- /bin/bash -c "$*" </dev/null\n')
    os.chmod(path, 0o755)
    return path


def launched(on, command, *program):
    """What program says when command(address) has started it in both containers, and the bytes that the router
    moved meanwhile. address is the host's own in the containers' network."""
    here = ["nsenter", f"--net=/proc/{on.lab.net_pid('h0')}/ns/net"]
    (address,) = lines(proc.run([*here, "ip", "-o", "route", "get", on.address]), r" src ([\d.]+)")
    before = on.bytes_moved()
    out = proc.run([*here, *command(address), *program],
                   env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    return out, on.bytes_moved() - before


def compiled(on, compiler, name):
    """tests/rig/verbs/NAME.c, as a program that both containers see."""
    program = on.path(name)
    if not os.path.exists(program):
        proc.run([compiler, "-O2", "-o", program, os.path.join(TREE, f"tests/rig/verbs/{name}.c")])
    return program


def ring(on, mpicc, command):
    """mpi_ring in both containers, by what command(address) starts: each rank's bytes went through the
    router."""
    out, moved = launched(on, command, compiled(on, mpicc, "mpi_ring"))
    found = lines(out, r"^mpi_ring: (\d+) ranks on 2 hosts, (\d+) bytes of each")
    want(found, f"not what it prints: {out[-200:]!r}")
    ranks, each = (int(n) for n in found[0])
    want(moved >= ranks * each, f"the router moved {moved} bytes only")


def mpirun(on, ranks, *options):
    """Open MPI's command, as ring() and launched() want it; rsh is remote_shell()'s."""
    return lambda address: [
        "mpirun.openmpi", "-H", f"{on.far}:{ranks},{CLIENT}:{ranks}",
        "--mca", "oob_tcp_if_include", address.rpartition(".")[0] + ".0/24",
        "--mca", "plm_rsh_agent", remote_shell(on, "rsh"), "--mca", "plm_rsh_no_tree_spawn", "1",
        "--mca", "btl", "self", *options]


def over_ucx(tls):
    return ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "opal_common_ucx_tls", "any",
            "--mca", "opal_common_ucx_devices", "any",
            "-x", f"UCX_TLS={tls}", "-x", "UCX_NET_DEVICES=ff0:1", "-x", "UCX_LOG_LEVEL=error"]


def openmpi(on):
    for tls, ranks in ((RC, 1), (RC, 2), (RC, 4), (UD, 2)):
        yield f"UCX_TLS={tls}, {ranks} ranks in each container"
        ring(on, "mpicc.openmpi", mpirun(on, ranks, *over_ucx(tls)))
    for ranks in (1, 2, 4):
        yield f"--mca pml cm --mca mtl ofi, FI_PROVIDER={RXM}, {ranks} ranks in each container"
        ring(on, "mpicc.openmpi", mpirun(
            on, ranks, "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "osc", "pt2pt",
            "--mca", "mtl_ofi_provider_include", RXM, "-x", f"FI_PROVIDER={RXM}"))


def openshmem(on):
    program = compiled(on, "oshcc", "shmem_ring")
    for pes in (1, 2):
        yield f"UCX_TLS={RC}, {pes} PEs in each container"
        out, moved = launched(on, mpirun(on, pes, "--mca", "spml", "ucx", *over_ucx(RC)), program)
        found = lines(out, r"^shmem_ring: (\d+) PEs, (\d+) bytes of each")
        want(found and int(found[0][0]) == 2 * pes, f"not what it prints: {out[-200:]!r}")
        want(moved >= 2 * pes * int(found[0][1]), f"the router moved {moved} bytes only")


def hpcc(on):
    """HPC Challenge: HPL, PTRANS, RandomAccess, FFT, bandwidth and latency. It judges its own results."""
    want_file = "/usr/share/doc/hpcc/examples/_hpccinf.txt"
    if not os.path.exists(want_file):
        raise Skipped("Debian's hpcc is not installed")
    shutil.copy(want_file, on.path("hpccinf.txt"))
    yield f"UCX_TLS={RC}, 2 ranks in each container"
    _, moved = launched(on, mpirun(on, 2, "-wdir", on.folder, *over_ucx(RC)), "hpcc")
    with open(on.path("hpccoutf.txt"), encoding="ascii") as f:
        said = f.read()
    want("Success=1" in said, "its summary says no Success=1")
    want(re.search(r"^\s*1 tests completed and passed residual checks", said, re.M), "HPL's residual")
    want(not re.search(r"FAILED|[1-9]\d* tests completed and failed", said), "a check of its own failed")
    want(moved > 10 << 20, f"the router moved {moved} bytes only")


def mpich(on):
    rsh = remote_shell(on, "rsh")
    for tls, ranks in ((RC, 1), (RC, 2), (RC, 4), (UD, 2)):
        yield f"UCX_TLS={tls}, {ranks} ranks in each container"
        ring(on, "mpicc.mpich", lambda address, tls=tls, ranks=ranks: [
            "mpiexec.hydra", "-localhost", address, "-disable-hostname-propagation",
            "-launcher", "rsh", "-launcher-exec", rsh,
            "-hosts", f"{on.far}:{ranks},{CLIENT}:{ranks}", "-n", 2 * ranks,
            "-genvnone", "-genv", "PATH", os.environ["PATH"], "-genv", "MPIR_CVAR_NOLOCAL", "1",
            "-genv", "UCX_TLS", tls, "-genv", "UCX_NET_DEVICES", "ff0:1"])


def fi_info(on):
    yield "-p verbs"
    out = on.client("fi_info", "-p", "verbs")
    for kind in ("FI_EP_MSG", "FI_EP_RDM", "FI_EP_DGRAM"):
        want(re.search(rf"domain: ff0.*\n.*\n\s*type: {kind}$", out, re.M), f"no {kind} on ff0")


def fi_pingpong(on):
    for provider, kind, options in (
            (MSG, "msg", "-S all"), (MSG, "dgram", "-S all"), (RXM, "rdm", "-S all"),
            (RXM, "rdm", "-m tagged"), (RXD, "rdm", "-S all"), (RXD, "rdm", "-m tagged")):
        yield f"-p {provider} -e {kind} {options}"
        port = on.new_port()
        args = ["-p", provider, "-e", kind, "-I", 20, "-c", *options.split()]
        for out in on.pair(["fi_pingpong", "-B", port, *args],
                           ["fi_pingpong", "-P", port, *args, on.address], min_bytes=2 * 20 * 4096):
            rows = lines(out, r"^\S+\s+20\s+=(\d+)\s")
            want(rows and all(n == "20" for n in rows), f"its report is {out[-200:]!r}")


PROGRAMS = [
    Program("mpi_ring, Open MPI", "openmpi-bin", "all data verified, bytes counted", openmpi),
    Program("mpi_ring, MPICH", "mpich", "all data verified, bytes counted", mpich),
    Program("shmem_ring, OpenSHMEM of Open MPI", "openmpi-bin", "all data verified, bytes counted",
            openshmem),
    Program("HPC Challenge, Open MPI", "hpcc", "its own checks of its results pass, bytes counted", hpcc),
    Program("fi_info", "libfabric-bin", "connections, datagrams and reliable endpoints on ff0", fi_info),
    Program("fi_pingpong", "libfabric-bin", "all data verified, bytes counted", fi_pingpong),
    Program("libfabric's fabtests", "libfabric1", "no test fails", by_test("fabtests.sh", "all", timeout=28800)),
]
