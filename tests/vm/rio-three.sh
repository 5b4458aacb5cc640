#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rio-three.sh - the rio backend among three routers of one VM, each on a port of one switch of vmport. Loads that verify
# themselves run from h0 to h1, from h1 to h2 and from h2 to h0; each is named after the host of its sink. The router of h2 is
# killed under the loads and starts again. The load between the other two hosts must not notice, and nothing that was reported
# as done may be missing. The unload must give all buffers back.
#
# night: vm
# timeout: 1000
if [[ ! -v FT_IN_VM ]]; then
	. "$(dirname "$0")/rapidio.sh"
	rapidio_build
	rapidio_folder three
	vm_tree "$TMP/three" || exit 1
	vm_checked "$TMP/three" "${FT_LIMIT:-400}" "$0"
	exit
fi

# shellcheck source=tests/vm/inside_rapidio.sh
. /out/inside_rapidio.sh
# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
LOAD=$TREE/build/tests/system/ffload

says() { grep -c "$2" "/tmp/lab/$1/ffr.log"; }
says_more() { (($(says "$1" "$2") > $3)); }

declare -A sinks sources
third_begin() { # FROM TO
	timeout 300 "$LAB" exec "$2c0" -- "$LOAD" --server -p 18800 >"/out/three-$2-sink.log" 2>&1 &
	sinks[$2]=$!
	await grep -q 'listening on' "/out/three-$2-sink.log"
	: >"/out/three-$2.log" # the program below may be late in making it
	timeout 300 "$LAB" exec "$1c0" -- "$LOAD" -p 18800 --seconds 0 -q 3 -r --timeout 17 "$("$LAB" ip "$2c0")" \
		>"/out/three-$2.log" 2>&1 &
	sources[$2]=$!
}

# Prints what the last line of progress says: operations, lanes that are up, failures.
progress() { awk '/ progress: / { o = $3; up = $5; bad = $(NF - 1) } END { print o + 0, up + 0, bad + 0 }' "/out/three-$1.log"; }
moved_on() { # NAME OPERATIONS
	local o up bad
	read -r o up bad < <(progress "$1")
	((o > $2 && up == 3))
}
moves() { # NAME
	local o rest
	read -r o rest < <(progress "$1")
	await moved_on "$1" "$o"
}
lanes_failed() { (($(progress "$1" | cut -d ' ' -f 3) >= 3)); }
by_rio() { "$LAB" ffctl "$1" -- stats --qps | grep >/dev/null -w rio; }

three() {
	local host up bad o status=0 n0 n1
	third_begin h0 h1
	third_begin h1 h2
	third_begin h2 h0
	for host in h0 h1 h2; do
		moves "$host"
		await by_rio "$host"
	done
	# All three pairs of routers use RapidIO.
	for host in h1 h2; do await says_more h0 "host $host: by RapidIO" 0; done
	await says_more h1 'host h2: by RapidIO' 0
	n0=$(says h0 'host h2: by RapidIO') n1=$(says h1 'host h2: by RapidIO')
	"$LAB" kill router h2
	await lanes_failed h0
	await lanes_failed h2
	moves h1
	"$LAB" restart router h2 || return 1
	moves h0
	moves h2
	await says_more h0 'host h2: by RapidIO' "$n0"
	await says_more h1 'host h2: by RapidIO' "$n1"
	for host in h0 h1 h2; do
		moves "$host"
		read -r o up bad < <(progress "$host")
		echo "$host: $o operations, $up lanes, $bad failures"
		# The load from h0 to h1 has not noticed.
		[[ $host != h1 || $bad == 0 ]] || { echo "h1: lanes failed"; status=1; }
	done
	for host in h0 h1 h2; do
		kill "${sources[$host]}"
		wait "${sources[$host]}" || { echo "the load to $host: $?"; tail -n 20 "/out/three-$host.log"; status=1; }
		kill "${sinks[$host]}"
		wait "${sinks[$host]}" || { echo "the sink of $host: $?"; grep WRONG "/out/three-$host-sink.log"; status=1; }
	done
	return "$status"
}

lab_ports 3
load ffrio dead_ms=1000
clock 0 ports
"$LAB" up --hosts 3 --containers 1 --backend rio || exit 1
clock 0 lab
check three three
cat /out/three.log
! grep -hE 'sandbox:|error:' /tmp/lab/h?/ffr.log || failed=1
grep -HE 'RapidIO|lost' /tmp/lab/h?/ffr.log
check lab-down "$LAB" down
rmmod ffrio || fail "unload of ffrio"
rmmod rio_mport_cdev vmport || fail "unload of vmport"
kmemleak ffrio
exit "$failed"
