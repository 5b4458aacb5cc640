# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# common.sh - sourced by the conformance checks: where things are, and how a check is told.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TREE=$(cd "$HERE/../.." && pwd)
BUILD=${BUILD:-$TREE/build}
LIB=${LIB:-$BUILD/lib/libibverbs.so.1}
CM_LIB=${CM_LIB:-$BUILD/lib/librdmacm.so.1}
TMP=$(mktemp -d)
chmod o+x "$TMP" # routers of labs in it are users of their own
trap 'rm -rf "$TMP"' EXIT
failures=0
export HERE TREE TMP

ok() { # NAME
	echo "ok $1"
}

not_ok() { # NAME WHAT...
	echo "not ok $1"
	shift
	printf '%s\n' "$@" | head -n 40 | sed 's/^/#   /'
	failures=$((failures + 1))
}

same() { # NAME HAVE WANT
	if [[ $2 == "$3" ]]; then
		ok "$1"
	else
		not_ok "$1" "have: $2" "want: $3"
	fi
}

skip() { # WHY
	echo "$1"
	exit 77
}

# From here on `lab` is a lab of the check's own, which goes with it.
lab_here() {
	export FF_LAB=$TMP/lab FF_BUILD=$BUILD
	trap 'lab down >/dev/null 2>&1; rm -rf "$TMP"' EXIT
	trap 'exit 130' TERM INT
}

lab() {
	"$TREE/tests/lab/lab" "$@"
}

finish() {
	((failures == 0))
	exit
}

[[ -e $LIB && -e $CM_LIB ]] || skip "no $LIB, or no $CM_LIB: run make"
