# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# holdings.sh - what a router has beyond what it needs for nobody: descriptors, threads, memory, its own, its
# keeper's and its opener's, those of the nursery, of the process for orphans and of the one that started all. Sourced behind lab.sh, for tests in a lab of their own.

MEMORY_SLACK=4096 # kB: the allocator keeps some of what it was given back

router_pids() {
	local first
	first=$(<"$FF_LAB/h0/ffr.pid")
	echo "$first $(<"$FF_LAB/h0/router.pid")"
	pgrep -P "$(pgrep -P "$first" -x ffr-keeper)" -x ffr-opener
	pgrep -P "$first" -x 'ffr-keeper|ffr-orphans|ffr-nursery'
}

# "descriptors threads kB", of all together
holdings() {
	local pid fds=0 threads=0 kb=0 all
	for pid in $(router_pids); do
		all=("/proc/$pid/fd/"*)
		((fds += ${#all[@]}))
		all=("/proc/$pid/task/"*)
		((threads += ${#all[@]}))
		((kb += $(awk '/^RssAnon/ { n = $2 } END { print n + 0 }' "/proc/$pid/status")))
	done
	echo "$fds $threads $kb"
}

as_little() { # HOLDINGS: are they that again?
	local now was
	read -ra now <<<"$(holdings)"
	read -ra was <<<"$1"
	((now[0] <= was[0] && now[1] <= was[1] && now[2] <= was[2] + MEMORY_SLACK))
}

# given_back FIRST CMD...: CMD FIRST in h0c0, for what the router keeps from then on; then CMD, after which it has
# all back.
given_back() {
	local first=$1 had status router
	shift
	router=$(<"$FF_LAB/h0/router.pid")
	inside h0c0 "$@" "$first" || fail "$first"
	had=$(holdings)
	inside h0c0 "$@"
	status=$?
	running "$router" || fail "the router is gone"
	wait_for 60 as_little "$had" ||
		fail "descriptors, threads, kB: the router has $(holdings), had $had"
	echo "descriptors, threads, kB: $had before, $(holdings) now"
	((!status)) || fail "$*"
}
