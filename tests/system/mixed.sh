#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# night: hosts
# timeout: 3600
# mixed.sh - the upgrade of a cluster from each release of 1.x to this tree, in the order of docs/release.md, under load: the
# orchestrator, then one router after the other, then programs with a new library; with ffo's store and with ZooKeeper's. The
# releases are built from their tags, v1.*. Before the first one, the commit that promise.txt was last made of stands for it.
# FF_OLD=FOLDER has bin and lib of a build to upgrade from instead.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"
. "$TREE/tests/rig/shell/cache.sh"

old_commits() {
	local tag tags
	mapfile -t tags < <(git -C "$TREE" tag --list 'v1.*' --merged HEAD 2>/dev/null)
	if ((${#tags[@]})); then
		for tag in "${tags[@]}"; do
			git -C "$TREE" rev-parse "$tag^{commit}"
		done
	else
		git -C "$TREE" log -1 --format=%H -- tests/conformance/promise.txt 2>/dev/null
	fi
}

old_make() { # COMMIT
	mkdir source made && git -C "$TREE" archive "$1" | tar -x -C source && make -s -C source -j"$(nproc)" all >/dev/null &&
		cp -a source/build/bin source/build/lib made/ && rm -rf source
}

old_lab() {
	FF_BUILD=$old "$LAB" "$@"
}

# Is that process's program, or that file, the one of BUILD?
is_of() { # BUILD FILE
	[[ $(readlink -f "$2") == "$(readlink -f "$1")"/* ]] || fail "$2 is $(readlink -f "$2"), not of $1"
}

library_is_of() { # BUILD CONTAINER
	local want
	want=$(sha256sum <"$1/lib/libibverbs.so.1")
	[[ $(inside "$2" sha256sum /run/freeflow-lib/libibverbs.so.1) == "${want%% *} "* ]] ||
		fail "the library of $2 is not of $1"
}

# Connections from host to host and within each, new ones, in all directions.
connects() {
	load_connects h0c0 h1c0
	load_connects h1c1 h0c1
	load_connects h0c0 h0c1
	load_connects h1c0 h1c1
}

upgrade() { # STORE
	step "$1: everything is of $name"
	OWN_LAB=$(mktemp -u "${WORK:-/tmp}/own-XXXXXX")
	FF_LAB=$OWN_LAB
	old_lab up --engine "$ENGINE" --hosts 2 --containers 2 --store "$1" || fail "lab up"
	is_of "$old" "/proc/$(<"$FF_LAB/h0/router.pid")/exe"
	library_is_of "$old" h0c0
	old_lab ffctl h0 -- policy allow red default/h0c0 >/dev/null 2>&1 || fail "policy"
	load_both -q 6 --ud 1 -r --timeout 14
	load_each load_moves 20 || fail "no traffic"

	if [[ $1 != zookeeper ]]; then
		step "$1: the orchestrator is new"
		"$LAB" restart orchestrator || fail "restart"
		is_of "$BUILD" "/proc/$(<"$FF_LAB/ffo/pid")/exe"
		for host in h0 h1; do
			wait_for 90 old_host_is $host up || fail "$host is not up again"
		done
		load_each load_unharmed 0 || fail "a connection failed"
		connects
	fi

	for host in h1 h0; do
		step "$1: the router of $host is new"
		"$LAB" restart router $host || fail "restart"
		is_of "$BUILD" "/proc/$(<"$FF_LAB/$host/router.pid")/exe"
		wait_for 90 host_is $host up || fail "$host is not up again"
		load_each load_moves 60 || fail "programs with $name's library have no traffic"
		connects
	done
	"$LAB" ffctl h0 -- policy list | grep 'default/h0c0' >/dev/null || fail "the rule is gone"
	load_both_stop

	step "$1: programs in a new container have the new library, and talk to those with $name's"
	"$LAB" stop h1c0
	"$LAB" start h1c0 || fail "start"
	library_is_of "$BUILD" h1c0
	library_is_of "$old" h0c0
	connects
	own_lab_well || fail "a log says so"
	"$LAB" down || fail "down"
	OWN_LAB=
}

old_host_is() { # HOST up|down
	FF_BUILD=$old host_is "$@"
}

if [[ -n ${FF_OLD-} ]]; then
	commits=$FF_OLD
else
	commits=$(old_commits)
	[[ -n $commits ]] || skip "no history of git, so no earlier release to build"
fi
for commit in $commits; do
	old=${FF_OLD:-$(cache_once "build-$commit" old_make "$commit")}
	[[ -e $old/bin/ffr ]] || fail "$commit does not build"
	name=$(git -C "$TREE" describe --tags --always "$commit" 2>/dev/null || echo "$commit")
	upgrade embedded
	upgrade zookeeper
done
exit 0
