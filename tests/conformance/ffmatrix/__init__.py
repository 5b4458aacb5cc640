# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs of the compatibility matrix; see ../matrix."""
