#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 900
# ceph.sh - Ceph with ms_type = async+rdma: a monitor and an OSD in memory in one container, rados in the other. An object of
# 50 MB comes back as it went. The same over TCP after that, for its figures. Not with Docker, because the daemons' folders
# are this machine's.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/programs.sh"

needs ceph/usr/bin/{ceph,ceph-mon,ceph-osd,rados}
CEPH=$PROGRAMS/ceph
LIBS=$CEPH/usr/lib/$(gcc -print-multiarch)
DAEMONS=()
trap 'stop_daemons; end_test' EXIT

stop_daemons() {
	((${#DAEMONS[@]})) || return 0
	kill "${DAEMONS[@]}" 2>/dev/null
	wait "${DAEMONS[@]}"
	DAEMONS=()
}

# words CONTAINER PROGRAM ARGS...: WORDS run it there. `"${WORDS[@]}" &` is the program itself, which a signal reaches.
words() {
	local c=$1 name=$2
	shift 2
	WORDS=("$LAB" exec "$c" -- env CEPH_CONF="$OUT/ceph/ceph.conf" LD_LIBRARY_PATH="$LIBS:$LIBS/ceph:$CEPH/lib/${LIBS##*/}"
		PYTHONPATH="$CEPH/usr/lib/python3/dist-packages" "$CEPH/usr/bin/$name" "$@")
}

ceph() {
	words "$B" ceph --connect-timeout 60 "$@"
	"${WORDS[@]}" 2>"$OUT/complaints"
}

rados() {
	words "$B" rados -p p "$@"
	timeout 120 "${WORDS[@]}" >"$OUT/rados" 2>&1 || fail "rados $*: $(tail -n 5 "$OUT/rados")"
}

make_files() { # PROGRAM ARGS...
	words "$A" "$@" --mkfs
	"${WORDS[@]}" >"$OUT/mkfs" 2>&1 || fail "$1 --mkfs: $(tail -n 5 "$OUT/mkfs")"
}

daemon() { # PROGRAM ARGS...
	words "$A" "$@" -f
	"${WORDS[@]}" >"$OUT/$1" 2>&1 </dev/null &
	DAEMONS+=($!)
}

mon_answers() {
	ceph fsid >/dev/null
}

osd_is_up() {
	[[ $(ceph osd stat) == *" 1 up"* ]]
}

# daemon_is_ready CONDITION: or it has ended, or a minute is over.
daemon_is_ready() {
	wait_for 60 daemon_is "$1" && running "${DAEMONS[-1]}"
}

daemon_is() {
	"$1" || ended "${DAEMONS[-1]}"
}

# cluster MS-TYPE: with one pool, p.
cluster() {
	local uuid=6b6f0c3e-8d3a-4d0e-9f0a-0d6a9f3c1e11 dir=$OUT/ceph ip
	step "a cluster with ms_type = $1"
	ip=$("$LAB" ip "$A")
	rm -rf "$dir"
	mkdir -p "$dir/mon" "$dir/osd"
	cat >"$dir/ceph.conf" <<-CONF
		[global]
		fsid = $uuid
		mon_initial_members = a
		mon_host = [v1:$ip:6789]
		ms_type = $1
		ms_bind_msgr2 = false
		auth_cluster_required = none
		auth_service_required = none
		auth_client_required = none
		run_dir = $dir
		admin_socket = $dir/\$name.\$pid.asok
		log_file = $dir/\$name.log
		mon_cluster_log_file = $dir/cluster.log
		mon_data = $dir/mon
		osd_data = $dir/osd
		osd_objectstore = memstore
		osd_pool_default_size = 1
		osd_pool_default_min_size = 1
		osd_crush_chooseleaf_type = 0
		plugin_dir = $LIBS/ceph
		erasure_code_dir = $LIBS/ceph/erasure-code
		osd_class_dir = $LIBS/rados-classes
	CONF
	make_files ceph-mon -i a --public-addr "v1:$ip:6789"
	daemon ceph-mon -i a --public-addr "v1:$ip:6789"
	daemon_is_ready mon_answers || fail "the monitor: $(tail -n 5 "$OUT/ceph-mon") $(<"$OUT/complaints")"
	ceph osd new $uuid >/dev/null || fail "$(<"$OUT/complaints")"
	ceph mon getmap -o "$dir/map" || fail "$(<"$OUT/complaints")"
	make_files ceph-osd -i 0 --monmap "$dir/map" --osd-uuid $uuid
	daemon ceph-osd -i 0 --public-addr "$ip" --cluster-addr "$ip"
	daemon_is_ready osd_is_up || fail "the OSD: $(tail -n 5 "$OUT/ceph-osd")"
	ceph osd pool create p 1 1 >/dev/null || fail "$(<"$OUT/complaints")"
}

object() {
	rados put object "$OUT/object"
	rados get object "$OUT/back"
	cmp "$OUT/object" "$OUT/back" || fail "it is another object"
}

figures() {
	rados bench 5 write -b 1048576 -t 8 --no-cleanup
	awk '/^Bandwidth|^Average Lat/ { print "   write: " $0 }' "$OUT/rados"
	rados bench 5 rand -t 8
	awk '/^Bandwidth|^Average Lat/ { print "   read: " $0 }' "$OUT/rados"
}

head -c 50000000 /dev/urandom >"$OUT/object"
cluster async+rdma
moved 100000000 object
figures
stop_daemons
cluster async+posix
before=$(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes)))
object
(($(counter "$A" tx_bytes) + $(counter "$B" tx_bytes) == before)) || fail "the router moved its bytes"
figures
exit 0
