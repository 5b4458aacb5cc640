# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# common.sh - sourced by tests of packages: $DEBS has those of this tree, built once in a run.
TREE=${TREE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
DEBS=${DEBS:-$TREE/build/deb}
TMP=$(mktemp -d /tmp/freeflow-packages.XXXXXX)
export TREE DEBS TMP

step() {
	echo "-- $*"
}

fail() {
	echo "FAILED: $*"
	exit 1
}

skip() { # WHY
	echo "$1"
	exit 77
}

wait_for() { # SECONDS CMD...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.1
	done
}
