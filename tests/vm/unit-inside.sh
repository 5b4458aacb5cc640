# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# unit-inside.sh - memory.sh's part in a VM, and that of tests/arm64/vm-unit.sh: unit tests, one line for each, two at a
# time. What fails runs once more, by itself, since an emulated machine beside others is slow. Arguments: only these
# tests, as room/test_name.
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
UNITS=$TREE/build/tests/unit
export TREE UNITS
cd "$TREE" || exit 1
ulimit -n 65536 # some open thousands of files
modprobe -q -a veth bridge overlay # some make interfaces and mounts

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

(($#)) || mapfile -t all < <(cd "$UNITS" && find . -name 'test_*' -type f -printf '%P\n' | sort)
(($# == 0)) || all=("$@")
printf '%s\n' "${all[@]}" | xargs -P 2 -I T bash -c 'unit T || echo T >>/tmp/again'
[[ -e /tmp/again ]] || exit 0
echo "-- once more"
while read -r t; do
	unit "$t" || failed=1
done </tmp/again
exit "$failed"
