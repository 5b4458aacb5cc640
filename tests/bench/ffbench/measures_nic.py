# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A router with a NIC, which is the kernel's rxe in a VM: ratios within that VM only. Where the machine has no KVM they are
the emulator's as well, which runs the router's instructions as slowly as the kernel's. The limits are for four virtual
CPUs; a machine of fewer has no more of them in the VM, where threads that poll would wait for each other's time slices."""

import math
import os
import pathlib

from . import proc, vm
from .measures import measure
from .row import Row

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "nic-vm"


@measure(None, "nic-write-64k", "nic-send-4k", "nic-write-lat", "nic-soft-64k", "nic-soft-lat")
def nic_in_a_vm(bench, lab):
    reps = min(bench.reps, 3)
    cpus = min(4, len(os.sched_getaffinity(0)))
    got, accel = vm.samples(proc.run([SCRIPT, reps, cpus], 620), ("plain", "router", "soft"))

    def row(key, name, unit, which, who, **limits):
        # perftest counts cycles: emulated ones may stand still, or go back when the thread moves
        pairs = [(v, p) for v, p in zip(got.get((which, who), []), got.get((which, "plain"), []))
                 if all(math.isfinite(x) and x > 0 for x in (v, p))]
        if not pairs:
            return Row.failed(key, name, "no repetition in which both could be measured")
        return Row(key, name, unit, [v for v, _ in pairs], peer="rxe by itself, in the same VM",
                   peer_values=[p for _, p in pairs],
                   where=vm.where(cpus, accel),
                   **limits)

    return [
        row("nic-write-64k", "ib_write_bw 64 KB from a container by rxe", "MiB/s", "write-64k",
            "router", must=0.9, aim=1.0, sense=">="),
        row("nic-send-4k", "ib_send_bw 4 KB from a container by rxe", "MiB/s", "send-4k", "router",
            must=0.7, aim=0.9, sense=">="),
        row("nic-write-lat", "ib_write_lat 64 bytes from a container by rxe", "us", "write-lat-64",
            "router", must=1.3, aim=1.1),
        row("nic-soft-64k", "ib_write_bw 64 KB between containers of the host", "MiB/s",
            "write-64k", "soft", must=5, sense=">="),
        row("nic-soft-lat", "ib_write_lat 8 bytes between containers of the host", "us",
            "write-lat-8", "soft", must=0.5),
    ]
