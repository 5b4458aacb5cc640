# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The orchestrator's store on ZooKeeper: three nodes on this machine, with their disk; no routers."""

import contextlib
import os
import pathlib
import shutil
import socket
import tempfile

from . import proc
from .measures import measure
from .row import Row

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "tests/lab/zk.sh"
WHERE = "three ZooKeeper nodes and the stores share the machine, not pinned"


def free_port():
    """Of three ports in a row that nobody has, the first."""
    for _ in range(20):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        with contextlib.ExitStack() as stack:
            try:
                for i in range(3):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + i))
                return port
            except OSError:
                pass
    raise proc.Failure("no three free ports in a row")


@contextlib.contextmanager
def ensemble():
    """Yields what to connect to, and the nodes' process ids."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ffbench-zk."))
    try:
        os.environ["ZK_HEAP"] = "512m"
        servers = proc.run([SCRIPT, "up", folder, "--port", free_port()], 60).strip()
        yield servers, ",".join((folder / str(n) / "pid").read_text().strip() for n in range(3))
    finally:
        if folder.exists():
            proc.run([SCRIPT, "down", folder], 30)
        shutil.rmtree(folder, ignore_errors=True)


@measure(None, "zk-publish", "zk-publish-watched", "zk-lookup-trips", "zk-lookup",
         "zk-memory-publisher", "zk-memory-watcher", "zk-memory-server")
def zookeeper_regions(bench, lab):
    """Batches of 1,024, one under way at a time, as a router publishes under load."""
    regions = bench.scale(100000)
    with ensemble() as (servers, _):
        runs = [proc.run_json([bench.program("zk_regions"), servers, regions, 1024])
                for _ in bench.repetitions()]

    def row(key, name, unit, field, **limits):
        return Row(key, name, unit, [r[field] for r in runs], on="value", where=WHERE,
                   detail={"runs": runs}, **limits)

    of = f"{regions:,} regions in ZooKeeper"
    return [
        row("zk-publish", f"{of}: published by one host", "1/s", "publish_per_s", must=20000,
            sense=">="),
        row("zk-publish-watched", "the same while another host is told of each", "1/s",
            "publish_watched_per_s", must=20000, sense=">="),
        row("zk-lookup-trips", "a lookup by a host that knows nothing: round trips", "",
            "lookup_round_trips", must=3),
        row("zk-lookup", f"the same, and all {regions:,} mappings of the container with it", "ms",
            "lookup_ms"),
        row("zk-memory-publisher", "memory of a mapping where it is published", "bytes",
            "bytes_publisher"),
        row("zk-memory-watcher", "... where it is watched", "bytes", "bytes_watcher"),
        row("zk-memory-server", "... in each ZooKeeper node", "bytes", "bytes_server"),
    ]


@measure(None, "zk-hosts-up", "zk-hosts-resolve", "zk-hosts-idle", "zk-hosts-idle-cpu",
         "zk-hosts-work", "zk-hosts-work-cpu", "zk-hosts-policy")
def zookeeper_hosts(bench, lab):
    """Once: it takes a minute, and its figures say what the ensemble has to do, not how fast we are."""
    hosts = bench.scale(1000)
    with ensemble() as (servers, pids):
        r = proc.run_json([bench.program("zk_hosts"), servers, hosts, 4, 4, 100, 8, 20, pids], 400)
    if r["lost"]:
        raise proc.Failure(f"{r['lost']} sessions were lost")
    up = r["connect"]["seconds"] + r["register"]["seconds"] + r["publish"]["seconds"]
    values = [
        ("zk-hosts-up", f"{hosts:,} hosts: all sessions, {4 * hosts:,} containers, "
         f"{400 * hosts:,} mappings", "s", up),
        ("zk-hosts-resolve", "... each has 8 peers resolved, with their mappings", "s",
         r["resolve"]["seconds"]),
        ("zk-hosts-idle", "... idle: requests to the ensemble", "1/s",
         r["idle"]["received_per_s"]),
        ("zk-hosts-idle-cpu", "... idle: CPUs that the three nodes use", "CPUs",
         r["idle"]["cpu"] / r["idle"]["seconds"]),
        ("zk-hosts-work", "... each registers a region every second: requests", "1/s",
         r["work"]["received_per_s"]),
        ("zk-hosts-work-cpu", "... CPUs that the three nodes use", "CPUs",
         r["work"]["cpu"] / r["work"]["seconds"]),
        ("zk-hosts-policy", "... a rule is changed: until all know", "s",
         r["policy"]["seconds"]),
    ]
    return [Row(key, name, unit, [value], on="value", where=WHERE, detail={"run": r})
            for key, name, unit, value in values]
