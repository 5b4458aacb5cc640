# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# views-bench-inside.sh REPETITIONS - `make bench`'s part in a VM (tests/bench/ffbench/measures_odp.py): WRITEs of 4 KB in a
# container, from and to memory of several kinds (verbs_memory), by a router that has ffmem.ko and by one that has
# not. Prints "MEASURE WHO VALUE".
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh

phases() { # WHO REPETITIONS
	"$LAB" up --containers 1 || exit 1
	"$LAB" exec h0c0 -- "$TREE/verbs_memory" -n 300 -p "$2" >/tmp/out.json || failed=1
	"$LAB" down
	python3 - "$1" <<'PY'
import json, sys
for phase in json.load(open("/tmp/out.json"))["phases"]:
    print("aligned", sys.argv[1], phase["aligned"])
    print("odd", sys.argv[1], phase["odd"])
    print("fault", sys.argv[1], phase["fault_ns"] / 1e3)
PY
}

modprobe -a veth bridge
phases process "$1"
insmod "$TREE/ffmem.ko" || exit 1
phases views "$1"
rmmod ffmem || failed=1
exit "$failed"
