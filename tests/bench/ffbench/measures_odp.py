# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""On-demand memory regions: what many of them cost, and what reaching resident pages, or those that have to come, costs;
and memory that is no whole pages, with ffmem.ko in a VM."""

import pathlib

from . import proc, tools, vm
from .measures import FREE, measure
from .row import Row

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "views-vm"
REGIONS = 10000
SIZE = 65536


@measure("pair", "odp-reg", "odp-dereg")
def regions(bench, lab):
    runs = [proc.run_json(lab.inside("h0c0", bench.program("verbs_odp"), "-n", REGIONS))
            for _ in bench.repetitions()]
    where = "one process and the router, not pinned"
    return [Row("odp-reg", f"register {REGIONS:,} on-demand regions", "ms",
                [r["reg_ns"] / 1e6 for r in runs], on="value", where=where),
            Row("odp-dereg", f"deregister {REGIONS:,} on-demand regions", "ms",
                [r["dereg_ns"] / 1e6 for r in runs], must=100, on="value", where=where,
                detail={"runs": runs})]


@measure("pair", "odp-resident")
def resident(bench, lab):
    """perftest's buffers are touched, on both sides, before anything is measured."""
    iters, odp, plain = max(500, bench.scale(2 * 2**30) // SIZE), [], []
    for _ in bench.repetitions():
        plain.append(tools.perftest_bw(lab, "ib_write_bw", SIZE, iters) / 1e9)
        odp.append(tools.perftest_bw(lab, "ib_write_bw", SIZE, iters, "--odp") / 1e9)
    return [Row("odp-resident", "ib_write_bw --odp, 64 KB, resident pages", "GB/s", odp,
                "without --odp", plain, must=0.98, aim=1, sense=">=", where=FREE)]


@measure("pair", "odp-fault")
def fault(bench, lab):
    """How much longer a WRITE takes to a page that is not there yet."""
    got = proc.run_json(lab.inside("h0c0", bench.program("verbs_memory"), "-p", bench.reps))["phases"]
    return [Row("odp-fault", "WRITE of 4 KB to an on-demand page: a minor fault", "us",
                [p["fault_ns"] / 1e3 for p in got], must=30, aim=4, on="value",
                where="one process and the router, not pinned", detail={"phases": got})]


@measure(None, "views-odd", "views-fault")
def views_in_a_vm(bench, lab):
    got, accel = vm.samples(proc.run([SCRIPT, min(bench.reps, 5)], 400), ("process", "views"))
    where = vm.where(2, accel)
    if not got.get(("odd", "views")):
        return [Row.failed(key, "memory by views of ffmem.ko", "was not measured")
                for key in ("views-odd", "views-fault")]
    return [Row("views-odd", "WRITE of 4 KB from and to heap buffers across pages, with ffmem.ko", "1/s",
                got["odd", "views"], "buffers that are pages", got["aligned", "views"], must=0.95,
                aim=1, sense=">=", where=where),
            Row("views-fault", "WRITE of 4 KB to an on-demand page: a minor fault, with ffmem.ko", "us",
                got["fault", "views"], "without ffmem.ko", got["fault", "process"], where=where)]
