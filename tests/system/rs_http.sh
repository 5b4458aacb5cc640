#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: docker
# timeout: 600
# rs_http.sh - a web server and two clients from Debian, in containers, over librspreload: their
# bytes go through the router. The pages are lists of a folder: files would go through sendfile64(),
# which librspreload of rdma-core 44 does not know.
. "$(dirname "$0")/../rig/shell/lab.sh"

own_lab --containers 2 --image debian12+webfs+wget+curl

IP=$("$LAB" ip "$A")
FILES=2000

preloaded() { # CONTAINER CMD...
	local c=$1
	shift
	# shellcheck disable=SC2016
	inside "$c" timeout 180 sh -c 'LD_PRELOAD=$(echo /usr/lib/*/rsocket/librspreload.so) exec "$@"' - "$@"
}

list() { # CMD...: the client's command; what it prints is the list
	local before after
	before=$(counter "$A" tx_bytes)
	"$@" >"$OUT/page" 2>"$OUT/client" || return 1
	after=$(counter "$A" tx_bytes)
	[[ $(grep -c 'a-file-of-the-list-' "$OUT/page") == "$FILES" ]] || return 1
	((after - before >= $(wc -c <"$OUT/page")))
}

step "the server"
inside "$A" sh -c "mkdir -p /srv/files && cd /srv/files && for i in \$(seq $FILES); do
	: >a-file-of-the-list-\$i; done" || fail "no files"
preloaded "$A" webfsd -F -4 -i "$IP" -p 8080 -r /srv >"$OUT/server" 2>&1 </dev/null &
server=$!

step "wget"
wait_for 60 list preloaded "$B" wget -q -O - "http://$IP:8080/files/" ||
	fail "wget: $(cat "$OUT/client" "$OUT/server")"
step "curl"
list preloaded "$B" curl -s "http://$IP:8080/files/" || fail "curl: $(cat "$OUT/client" "$OUT/server")"
running $server || fail "the server ended: $(cat "$OUT/server")"
exit 0
