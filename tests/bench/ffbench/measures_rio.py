# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""RapidIO by software ports in a VM whose link has a fixed rate, so that the protocol is measured, and not the copies of an
emulated machine; against rionet's sockets the link has none. Ratios within that VM only. The paper's figures are 89.4 % of
DMA, 4.9 times rionet, and up to +40 % by its three improvements."""

import pathlib
import statistics

from . import proc, vm
from .measures import measure
from .row import Row

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "rio-vm"
BLOCKS = (16, 64, 256, 1024, 4096, 16384, 32768)  # bytes, as the script has them
WHO = ("raw", "copy", "in-place", "rionet", "verbs", "before", "after")
KEYS = ["rio-copy", "rio-in-place", "rio-rionet", "rio-verbs-64k", "rio-cpu", "rio-cpu-in-place",
        *(f"rio-block-{b}" for b in BLOCKS)]


@measure(None, *KEYS)
def rapidio_in_a_vm(bench, lab):
    got, accel = vm.samples(proc.run([SCRIPT, min(bench.reps, 3)], 640), WHO)
    where = vm.where(2, accel)

    def row(key, name, unit, which, who, peer=None, peer_name=None, **limits):
        values, peers = got.get((which, who), []), got.get((which, peer), [])
        if not values or peer and len(peers) != len(values):
            return Row.failed(key, name, "was not measured")
        return Row(key, name, unit, values, peer=peer_name, peer_values=peers, where=where, **limits)

    def against_raw(key, name, who, **limits):
        return row(key, name, "MB/s", "message", who, "raw", "DMA by rio_mport_cdev, same link",
                   sense=">=", **limits)

    def curve(who):
        return [(b, statistics.median(got[f"block-{b}", who])) for b in BLOCKS
                if (f"block-{b}", who) in got]

    bench.plots["rio"] = {"ffrio": curve("after"), "without the three improvements": curve("before")}
    return [
        against_raw("rio-copy", "ffrio, 16 MB in blocks of 32 KB, a link of 10 MB/s", "copy", must=0.92,
                    aim=0.98),
        against_raw("rio-in-place", "the same from the program's own send buffers", "in-place"),
        row("rio-rionet", "ffrio, messages of 16 MB, a link without a limit", "MB/s", "fast", "copy",
            "rionet", "TCP by rionet, same link", must=4.9, sense=">="),
        against_raw("rio-verbs-64k", "ib_write_bw 64 KB from container to container", "verbs",
                    must=0.9, aim=0.95),
        row("rio-cpu", "CPU time of ffrio's sender, copy and CRC", "%", "message-cpu", "copy",
            must=60, aim=20, on="value"),
        row("rio-cpu-in-place", "CPU time of ffrio's sender, own send buffers", "%", "message-cpu",
            "in-place", must=60, aim=20, on="value"),
        *(row(f"rio-block-{b}", f"ffrio in blocks of {b} bytes", "MB/s", f"block-{b}", "after",
              "before", "without the paper's three improvements") for b in BLOCKS),
    ]
