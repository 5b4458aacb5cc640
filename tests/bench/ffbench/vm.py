# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the scripts print that measure in a VM: a line "accel tcg" or "accel kvm", and "MEASURE WHO VALUE" lines."""

import os


def samples(text, who):
    """{(measure, who): [value of each repetition]}, of those who are asked for, and the accelerator."""
    got, accel = {}, "?"
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "accel":
            accel = words[1]
        if len(words) == 3 and words[1] in who:
            got.setdefault((words[0], words[1]), []).append(float(words[2]))
    return got, accel


def where(cpus, accel):
    return f"a VM with {cpus} virtual CPUs ({accel}) on {os.cpu_count()}, not pinned"
