#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffrio.sh - kmod's ffrio.ko in a VM with Debian's kernel, that kernel's own RapidIO as modules, and vmport's
# ports: sparse; its self-test, with doorbells lost and repeated, failing DMA, cut links and resets under load,
# and calls and doorbells of any kind; its tools; 500 loads and unloads; and all buffers back at each
# unload. With FT_KERNEL and FT_KDIR on that kernel, see kmod-debug.
# timeout: 600
. "$(dirname "$0")/rapidio.sh"

rapidio_build
rapidio_folder ffrio ffrio_test ffrio_ping ffrio_perf
kmod_run "$TMP/ffrio" "${FT_LIMIT:-560}" "$TREE/tests/vm/ffrio-inside.sh"
