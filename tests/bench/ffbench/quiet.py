# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Is the machine doing anything else? A benchmark on few cores waits for a quiet moment."""

import pathlib
import time

LIMIT = 5 # per cent of the CPUs that others may use


def _ticks():
    line = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    return [int(x) for x in line.split()[1:9]]


def busy(seconds):
    """Share of the CPUs that was used in the next seconds, in per cent. Call while we do nothing."""
    before = _ticks()
    time.sleep(seconds)
    spent = [b - a for a, b in zip(before, _ticks())]
    return 100 * (1 - (spent[3] + spent[4]) / max(1, sum(spent))) # [3] idle, [4] iowait


def wait(longest):
    """Returns as soon as the machine is quiet, or after about that many seconds. True: quiet."""
    end = time.monotonic() + longest
    while busy(0.2) > LIMIT:
        if time.monotonic() > end:
            return False
    return True
