# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# inside_units.sh - unit tests in a VM, for memory.sh and tests/arm64/vm-unit.sh. Sourced.
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
UNITS=$TREE/build/tests/unit
export TREE UNITS
cd "$TREE" || exit 1
ulimit -n 65536 # some tests open thousands of files
modprobe -q -a veth bridge overlay # some tests make interfaces and mounts

unit() { # TEST
	local start=$EPOCHREALTIME log=/tmp/${1//\//-}.log status took
	timeout -k 5 300 "$UNITS/$1" >"$log" 2>&1
	status=$?
	took=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }")
	case $status in
	0) echo "ok $1 ($took s)" ;;
	77) echo "skip $1: $(tail -n 1 "$log")" ;;
	*)
		echo "FAIL $1, status $status ($took s)"
		sed 's/^/    /' "$log" | grep -v '\[ *OK ' | tail -n 30
		return 1
		;;
	esac
}
export -f unit

# units [TEST...]: runs these tests, named room/test_name, or all. Two run at a time; each prints one line.
units() {
	local all=("$@")
	(($#)) || mapfile -t all < <(cd "$UNITS" && find . -name 'test_*' -type f -printf '%P\n' | sort)
	((${#all[@]})) || return 1
	printf '%s\n' "${all[@]}" | xargs -P 2 -I T bash -c 'unit T'
}
