#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# test: netns
# all: hosts
# night: hosts docker system-san
# timeout: 480
# gids.sh - the GID table, for programs that are told an index: what the verbs and the files say of it, and
# that each of 0 to 3 is usable on both sides, mixed, with every type of QP and the connection manager. With FF_BRIEF, in CI,
# each type of QP takes a part of the pairs of indices, and each program of perftest and transport of UCX a part of the
# indices. So a type of QP still has every index on both sides.
. "$(dirname "$0")/../rig/shell/lab.sh"

FILES=/run/freeflow/sys/class/infiniband/ff0/ports/1
INDICES=(0 1 2 3)

step "verbs and files say the same"
for c in "$A" "$B"; do
	inside "$c" ibv_devinfo -v >"$OUT/info" || fail "ibv_devinfo"
	# shellcheck disable=SC2016 # the shell in there
	inside "$c" sh -c 'cd "$0" && for i in gids/*; do i=${i#gids/}
		[ ! -e "gid_attrs/types/$i" ] || echo "$i $(cat "gids/$i" "gid_attrs/ndevs/$i" "gid_attrs/types/$i" | tr "\n" " ")"
	done' "$FILES" >"$OUT/files"
	cat "$OUT/files"
	[[ $(wc -l <"$OUT/files") == 4 ]] || fail "not 4 entries in the files"
	while read -r i gid ndev type; do
		line=$(grep -E "GID\[ *$i\]:" "$OUT/info") || fail "GID $i is not in ibv_devinfo"
		[[ $line == *", ${type#IB/}" ]] || fail "GID $i is of type $type, not $line"
		[[ $gid == fe80:* ]] || ((i < 2)) || fail "GID $i is $gid"
		inside "$c" test -e "/sys/class/net/$ndev" || fail "there is no $ndev in $c"
	done <"$OUT/files"
	awk '$1 == 0 || $1 == 3 { ok += /RoCE v2/ && !/v1/ } END { exit ok != 2 }' "$OUT/files" ||
		fail "0 and 3 are not RoCE v2"
	[[ $(cut -d " " -f 2 "$OUT/files" | sort | uniq -c | awk '{ print $1 }' | xargs) == "2 2" ]] ||
		fail "not two GIDs, each twice"
	guid=$(inside "$c" cat "$FILES/../../node_guid")
	[[ $(inside "$c" cat "$FILES/gids/2") == fe80:0000:0000:0000:$guid ]] || fail "GID 2 is not of $guid"
done

# mixed SERVER CLIENT I J PROGRAM ARGS...: the server has -g I, the client -g J.
mixed() {
	local s=$1 c=$2 i=$3 j=$4 status
	shift 4
	server "$s" "$@" -g "$i"
	timeout 180 "$LAB" exec "$c" -- "$@" -g "$j" -p $PORT "$s" >"$OUT/client" 2>&1 </dev/null
	status=$?
	((status == 0)) || kill "$SERVER_JOB" 2>/dev/null
	wait "$SERVER_JOB" && ((status == 0)) && return
	cat "$OUT/client" "$OUT/server"
	fail "$* -g $j to -g $i, $c to $s: $status"
}

# some INDEX...: those indices in CI, all at night.
some() {
	if [[ -n ${FF_BRIEF-} ]]; then
		echo "$@"
	else
		echo "${INDICES[@]}"
	fi
}

# pingpongs PROGRAM STEP: the server has each index, the client the index that is STEP further (any at night). Within one
# container the two sides differ in type and address, with index STEP of the server (any at night).
pingpongs() {
	local program=$1 i k
	step "$program: 4 indices here, and there each that is so many further: $(some "$2")"
	for i in "${INDICES[@]}"; do
		for k in $(some "$2"); do
			mixed "$A" "$B" "$i" $(((i + k) % 4)) "$program" -n 50 -s 512
		done
	done
	for i in $(some "$2"); do
		mixed "$A" "$A" "$i" $((3 - i)) "$program" -n 50 -s 512
	done
}

pingpongs ibv_rc_pingpong 1
pingpongs ibv_uc_pingpong 2
pingpongs ibv_ud_pingpong 3
step "an index beyond the table"
inside "$A" timeout 60 ibv_rc_pingpong -g 4 >"$OUT/client" 2>&1
refused $? || fail "ibv_rc_pingpong -g 4"

# The same index on both sides.
perftest() { # PROGRAM INDICES ARGS...
	local i
	for i in $2; do
		pair "$A" "$B" "$1" -F -x "$i" -n 200 "${@:3}"
	done
}

perftest ib_write_bw "$(some 0 2)" -s 65536
perftest ib_read_lat "$(some 1)"
perftest ib_atomic_bw "$(some 3)"
perftest ib_send_bw "$(some 0 1 2 3)" -s 2048 -c UD
perftest ib_send_lat "$(some 0 1 2 3)" -s 2048 -c UC

# UCX wants the same type on both sides, and sets RC up over UD.
ucx() { # TRANSPORTS INDICES
	local i
	for i in $2; do
		pair "$A" "$B" env "UCX_TLS=$1" UCX_NET_DEVICES=ff0:1 UCX_LOG_LEVEL=error \
			"UCX_IB_GID_INDEX=$i" ucx_perftest -t tag_lat -s 1000 -n 200 -w 10 -f
	done
}

ucx rc_verbs,ud_verbs,self "$(some 1 3)"
ucx ud_verbs,self "$(some 0 2)"

step "header and answer of datagrams"
for i in "${INDICES[@]}"; do
	inside "$A" env VT_GID="$i" "$BUILD/tests/system/verbs_uc_ud" || fail "verbs_uc_ud with index $i"
done

# getaddrinfo() knows no IPv6 address where no interface has one, as in Docker's containers.
if ! inside "$B" grep -qsv ' lo$' /proc/net/if_inet6; then
	echo "no IPv6 in the container: rping between link-local addresses was not tried"
	exit 0
fi
step "the connection manager, between link-local addresses"
gid=$(inside "$A" cat "$FILES/gids/3")
((++PORT))
inside "$A" rping -s -a "$gid%lo" -C 20 -v -p "$PORT" >"$OUT/server" 2>&1 </dev/null &
SERVER_JOB=$!
rping_works() {
	inside "$B" rping -c -a "$gid%lo" -C 20 -v -p "$PORT" >"$OUT/client" 2>&1 </dev/null
}
wait_for 60 rping_works || {
	cat "$OUT/server" "$OUT/client"
	fail "rping to $gid"
}
wait "$SERVER_JOB" || fail "rping -s ended with $?"
exit 0
