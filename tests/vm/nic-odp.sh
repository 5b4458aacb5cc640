#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# nic-odp.sh - the verbs backend with on-demand paging: rxe of the newest kernel, which pages on demand, and ffmem.ko. A
# container has on-demand memory. Its peer uses the NIC itself, beside the lab, or is another container reached through the
# NIC's loopback. rdma-core's own tests of on-demand paging run, too, if apt has python3-pyverbs, and some of its other tests:
# nic-pyverbs.sh runs all of these. In CI, where FT_BRIEF is set, some of each run.
#
# all: vm
# night: vm
# timeout: 1200
if [[ ! -v FT_IN_VM ]]; then
	NEWER=1
	. "$(dirname "$0")/kmod.sh"
	. "$TREE/tests/rig/shell/pyverbs.sh"
	# rxe's views lie at the program's own addresses, which must not be in use in the router.
	VM_APPEND=${VM_APPEND/norandmaps/}
	# shellcheck disable=SC2119 # make needs no further arguments
	kmod_build
	vm_tree "$TMP/out"
	cp "$TMP/kmod/ffmem.ko" "$TMP/out/tree/"
	vm_checked "$TMP/out" "${FT_LIMIT:-1100}" "$0" "$(pyverbs_root)"
	exit
fi

# shellcheck source=tests/vm/inside.sh
. /out/tree/tests/vm/inside.sh
PROGRAM=$TREE/build/tests/system/verbs_kinds
port=18800

# paged PEER'S-COMMAND ADDRESS [VARIABLE=VALUE]: verbs_kinds with on-demand memory in the container
paged() {
	local pid status=0

	((++port))
	# shellcheck disable=SC2086 # a command and its arguments
	$1 "$PROGRAM" --peer "$port" paged >/tmp/peer.log 2>&1 &
	pid=$!
	timeout 400 "$LAB" exec h0c0 -- env VT_GID="$NIC_INDEX" ${3+"$3"} "$PROGRAM" --use "$2" "$port" paged || status=1
	((!status)) || kill "$pid"
	wait "$pid" || status=1
	cat /tmp/peer.log
	return "$status"
}

running() { kill -0 "$1" 2>/dev/null; }

# meet PORT SERVER-ARGS CLIENT-ARGS PROGRAM ARGS...: the server in the container, the client beside the lab
meet() {
	local pid status=0 server client
	read -ra server <<<"$2"
	read -ra client <<<"$3"

	timeout 60 "$LAB" exec h0c0 -- "${@:4}" "${server[@]}" >/tmp/server.log 2>&1 &
	pid=$!
	until "$LAB" exec h0c0 -- ss -Hltn "sport = :$1" | grep >/dev/null .; do
		running "$pid" || {
			cat /tmp/server.log
			return 1
		}
		sleep 0.1
	done
	timeout 60 "${@:4}" "${client[@]}" "$("$LAB" ip h0c0)" || status=1
	wait "$pid" || status=1
	cat /tmp/server.log
	return "$status"
}

# odp PROGRAM ARGS...: the server has on-demand memory
odp() {
	((++port))
	meet "$port" "--odp -x $NIC_INDEX" "-d rxe0 -x 1" "$@" -p "$port" -F
}

pingpong() { meet 18515 "-g $NIC_INDEX -o" "-d rxe0 -g 1" ibv_rc_pingpong -n 100; }

pages_of() { "$LAB" ffctl h0 -- stats --mrs h0c0 | grep >/dev/null "$1"; }
sessions() { "$LAB" ffctl h0 -- --json stats h0c0 | grep >/dev/null "\"sessions\": $1,"; }

# A program is killed while the NIC pages its memory. Nothing of it stays in ffmem.
killed() {
	local pid

	odp ib_write_bw -s 4194304 -D 50 >/tmp/killed.log 2>&1 &
	pid=$!
	until_is sessions 1 || return 1
	until_is pages_of ib_write_bw || return 1
	pkill -KILL ib_write_bw
	wait "$pid"
	until_is sessions 0 || return 1
	! grep "a process stays" "$FF_LAB/h0/ffr.log"
}

# pyverbs ROOT LIST REGEX: those of rdma-core's tests that match, if the package is in ROOT
pyverbs() {
	. "$TREE/tests/rig/shell/pyverbs.sh"
	[[ -n $1 ]] || {
		echo "python3-pyverbs cannot be had from apt"
		return 77
	}
	timeout 600 "$LAB" exec h0c0 -- env PYTHONPATH="$(pyverbs_packages "$1")" /usr/bin/python3 "$TREE/tests/conformance/pyverbs.py" \
		"$(pyverbs_suite "$1")" "$TREE/tests/vm/$2.txt" --ip 10.151.9.2 --gid "$NIC_INDEX" -k "$3" -v
}

nothing_stays() {
	[[ $("$LAB" ffctl h0 -- --json stats h0c0 | awk -v names="sessions qps mrs" -f "$TREE/tests/rig/shell/numbers.awk") == "0 0 0" ]]
}

# The NIC carries the suite's messages; the router does not copy them itself.
carried() {
	local before sent
	before=$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)
	"$@" || return
	sent=$(($(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts) - before))
	echo "the NIC has sent $sent packets"
	((sent > packets))
}

caps() { "$LAB" exec h0c0 -- ibv_devinfo -v | grep -A1 -m1 general_odp_caps | grep >/dev/null ODP_SUPPORT; }

# Watches the counters of a region until they show faults of the NIC and invalidated pages. verbs_kinds waits for /out/seen.
watch_counters() {
	# CONTAINER PID COMMAND ADDRESS SIZE FAULTS TIME INVALIDATED PREFETCHED TIME
	until awk '/FAULTS/ { odp = 1 } odp && $1 == "h0c0" && $6 > 0 && $(NF - 2) > 0 { seen = 1 } END { exit !seen }' /tmp/mrs; do
		"$LAB" ffctl h0 -- stats --mrs h0c0 >/tmp/mrs 2>&1
	done
	touch /out/seen
}

insmod "$TREE/ffmem.ko" || exit 1
NIC_MTU=9000
nic_up 0
"$LAB" up --backend verbs --containers 2 || exit 1
NIC_INDEX=$(("$("$LAB" exec h0c0 -- ibv_devinfo -v | grep -c 'GID\[')" - 1))
check capabilities caps
check pingpong pingpong
touch /tmp/mrs
watch_counters &
check paged-peer paged "env VT_DEVICE=rxe0 VT_GID=1" 10.151.9.2 VT_SEEN=/out/seen
check counted cat /out/seen
check paged-h0c1 paged "$LAB exec h0c1 -- env VT_GID=$NIC_INDEX" "$("$LAB" ip h0c1)"
kill %% 2>/dev/null
if [[ -n ${FT_BRIEF-} ]]; then
	paged_tests='^test_odp\.\w+\.test_odp_(rc_rdma_write|rc_atomic_fetch_and_add|rc_srq_traffic|xrc_traffic|ud_traffic|sync_prefetch_rc_traffic)$'
	other_tests='^test_(qpex\.\w+\.test_qp_ex_rc_rdma_read$|atomic\.\w+\.test_atomic_cmp|rdmacm\.\w+\.test_rdmacm_async_read$)'
	packets=100
else
	paged_tests=test_odp
	other_tests='^test_(qpex\.\w+\.test_qp_ex_rc_(send_imm|rdma_write_imm|rdma_read$)|atomic\.\w+\.test_atomic_cmp|cq_events\.\w+\.test_cq_events_rc|rdmacm\.\w+\.test_rdmacm_(sync_traffic|async_read)$)'
	packets=500
fi
check pyverbs-odp pyverbs "$1" nic-odp-pyverbs "$paged_tests"
cat /out/pyverbs-odp.log
check pyverbs carried pyverbs "$1" nic-pyverbs "$other_tests"
cat /out/pyverbs.log
check nothing-stays until_is nothing_stays
check write_bw odp ib_write_bw -n 50
check read_bw odp ib_read_bw -n 50
check killed killed
grep -i 'warn\|err' "$FF_LAB/h0/ffr.log"
check lab-down "$LAB" down
check unload rmmod ffmem
exit "$failed"
