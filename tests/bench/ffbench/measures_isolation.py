# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a client feels of a hostile one in another container, one kind of hostility after the other.

Each container has a CPU of its own, as an operator gives them with cpusets, and the router runs where it
likes: the victim's two processes share one, the hostile program's threads the other. Without that, the
kernel places the two processes together or apart from one moment to the next, which changes their rate
threefold, and nothing else is seen. What is judged is the victim beside the hostile program against the
victim beside as many threads that do nothing but burn; where a kind costs the machine more than CPU time (changes
of page tables do, in a virtual machine), against a program that does the same without the router. The same figures against the victim alone follow,
without a limit.

The hostile container has the limits that an operator gives one that he does not trust (QUOTA): without
them it may use the router as much as anybody, and does.
"""

import json

from . import proc
from .measures import LABS, measure
from .measures_tenants import Admin, flows
from .row import Row

LABS["hostile"] = {"containers": 2}

# The last part of the key, which is hostile_load's word for it: (threads that burn, or hostile_load's word for
# what it is compared with; in words)
KINDS = {
    "calls": (1, "another makes control calls without end"),
    "objects": (1, "another creates and destroys QPs and CQs without end"),
    "sessions": (1, "another opens sessions and drops them at once"),
    "packets": (1, "another sends malformed packets"),
    "loris": (1, "another keeps 500 connections that hardly say anything"),
    "bad-wrs": (1, "another posts bad WRs, and resets its QPs"),
    "mutated": (2, "another changes its WRs while they are read"),
    "indices": (1, "another writes noise over its rings' indices"),
    "cq-overrun": (1, "another overruns its CQs"),
    "bells": (1, "another rings doorbells without work"),
    "exhaust": (1, "another uses 1,024 QPs and MRs, its quota, in turn"),
    "rnr": (1, "another's SENDs find no receive"),
    "unmapped": (1, "another's MRs are at addresses that are not mapped"),
    "stalled": (1, "another's MRs are pages that nobody fills in"),
    "held": ("locking", "another keeps its address space locked"),
    "lingering": (1, "another sends sockets that take a minute to close"),
    "fuse": (1, "another's HELLOs have descriptors whose server never answers"),
    "stopped": (1, "another's processes are stopped in mid-transfer, and killed"),
    "reset": (1, "another resets a QP with the largest rings there are"),
    "reg-unmapped": (1, "another registers memory that is not mapped, without end"),
    # last: without CAP_SYS_RESOURCE, what it leaves on its way is felt for a while
    "descriptors": (1, "another sends 253 descriptors with each packet"),
}
QUOTA = {"max_qp": 1024, "max_mr": 1024, "max_calls": 1000, "tx_ops": 100_000, "max_cpu": 20} # 2 % of a CPU
PARTS = ("p99", "rate", "p99-alone", "rate-alone")
WHERE = "each container on a CPU of its own, the router not pinned"
VICTIM, HOSTILE = ("taskset", "-c", "0"), ("taskset", "-c", "1")


class _Load:
    """hostile_load in h0c1 while a measure is taken; `did` is what it did."""

    def __init__(self, bench, lab, *args):
        self.program = proc.Background(
            lab.inside("h0c1", *HOSTILE, bench.program("hostile_load"), *args, timeout=120), keep_stdin=True)
        self.did = None

    def __enter__(self):
        if "attacks" not in self.program.child.stdout.readline():
            self.program.finish(5)
            raise proc.Failure("hostile_load did not begin")
        return self

    def __exit__(self, kind, *exc):
        if kind:
            self.program.kill()
        else:
            self.did = json.loads(self.program.finish(10)) # which ends its standard input


def _victim(bench, lab):
    """8-byte round trips between two processes that poll: {"p99": us, "rate": 1/s, ...}"""
    got = proc.run_json(lab.inside("h0c0", *VICTIM, bench.program("verbs_rtt"), "-s", 8, "-t",
                                   bench.scale(5000)))
    return dict(got, p99=got["p99_ns"] / 1e3, rate=got["rounds"] / got["ns"] * 1e9)


def _rows(kind, peer, what, runs):
    alone, burnt, beside = ([r[part] for r in runs] for part in ("alone", "burn", "beside"))

    def row(part, name, unit, field, peer_name, peer, **limits):
        return Row(f"hostile-{kind}-{part}", f"8-byte round trips, {name}, while {what}", unit,
                   [b[field] for b in beside], peer_name, [p[field] for p in peer],
                   where=WHERE, **limits)

    burns = ("beside a thread that burns" if peer == 1 else f"beside {peer} threads that burn"
             if isinstance(peer, int) else "beside the same without the router")
    return [
        row("p99", "p99", "us", "p99", burns, burnt, must=2,
            note="the peer takes as much CPU time from the victim, and nothing from the router",
            detail={"runs": runs}),
        row("rate", "rate", "1/s", "rate", burns, burnt, must=0.95, sense=">=",
            note="the peer takes as much CPU time from the victim, and nothing from the router"),
        row("p99-alone", "p99", "us", "p99", "alone", alone),
        row("rate-alone", "rate", "1/s", "rate", "alone", alone, sense=">="),
    ]


def _runs(bench, lab, kind, peer):
    for _ in bench.repetitions():
        run = {"alone": _victim(bench, lab)}
        with _Load(bench, lab, *(("burn", peer) if isinstance(peer, int) else (peer,))) as load:
            run["burn"] = _victim(bench, lab)
        run["burner"] = load.did
        with _Load(bench, lab, kind) as load:
            run["beside"] = _victim(bench, lab)
        run["hostile"] = load.did
        yield run


@measure("hostile", *(f"hostile-{kind}-{part}" for kind in KINDS for part in PARTS))
def hostile(bench, lab):
    rows = []
    Admin(lab).limit("h0c1", **QUOTA)
    for kind, (peer, what) in KINDS.items():
        if not any(bench.wanted(f"hostile-{kind}-{part}") for part in PARTS):
            continue
        try:
            rows += _rows(kind, peer, what, list(_runs(bench, lab, kind, peer)))
        except proc.Failure as why:
            rows.append(Row.failed(f"hostile-{kind}-p99", f"8-byte round trips while {what}", str(why)))
    Admin(lab).limit("h0c1", **dict.fromkeys(QUOTA, 0))
    return rows


@measure("hostile", "share-read-write")
def share_read_write(bench, lab):
    """One container READs, the other one WRITEs: who gets less, against who gets more."""
    less, more, runs = [], [], []
    for _ in bench.repetitions():
        reads, writes = flows(bench, lab, "h0c0:65536:r", "h0c1:65536", ms=bench.scale(5000))
        less.append(min(reads, writes) / 1e9)
        more.append(max(reads, writes) / 1e9)
        runs.append({"reads": reads, "writes": writes})
    return [Row("share-read-write", "64 KB READs of one container and WRITEs of another: who gets less",
                "GB/s", less, "who gets more", more, must=0.9, aim=0.97, sense=">=",
                where="one polling process and the router, not pinned", detail={"runs": runs})]
