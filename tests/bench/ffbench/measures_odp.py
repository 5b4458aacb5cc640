# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""On-demand memory regions: what many of them cost, and what reaching resident pages costs."""

from . import proc, tools
from .measures import FREE, measure
from .row import Row

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
