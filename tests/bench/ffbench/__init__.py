# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The parts of tests/bench/run: programs, lab, measures, report."""
