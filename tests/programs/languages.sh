#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 900
# languages.sh - echo.rs and echo.go, built with Debian's rustc, bindgen and golang-go, send 8 bytes and 1 MB back and forth
# over the device. Each runs over TCP after that, for its figures.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$TREE/tests/rig/shell/programs.sh"

build_rust() {
	echo '#include <rdma/rdma_cma.h>' >"$OUT/verbs.h"
	bindgen --allowlist-function '(ibv|rdma)_.*' --allowlist-type '(ibv|rdma)_.*' --allowlist-var '(IBV|RDMA|RAI)_.*' \
		--no-layout-tests -o "$OUT/verbs.rs" "$OUT/verbs.h" &&
		BINDINGS=$OUT/verbs.rs /usr/bin/rustc --edition 2021 -O -l rdmacm -l ibverbs -o "$OUT/rust" "$TREE/tests/programs/echo.rs"
}

build_go() {
	GOCACHE=$OUT/go-cache GO111MODULE=off go build -o "$OUT/go" "$TREE/tests/programs/echo.go"
}

# echo_over LANGUAGE TRANSPORT: both sides end well, and the client prints its figures.
echo_over() {
	local job status=0
	step "$1 over $2"
	((++PORT))
	timeout 60 "$LAB" exec "$A" -- "$OUT/$1" "$2" -p $PORT >"$OUT/server" 2>&1 </dev/null &
	job=$!
	wait_for 60 grep -q '^echo: ready' "$OUT/server" || fail "the server: $(<"$OUT/server")"
	timeout 60 "$LAB" exec "$B" -- "$OUT/$1" "$2" -p $PORT "$A" >"$OUT/client" 2>&1 </dev/null || status=$?
	wait $job || status=$?
	if ((status)) || ! grep '^echo: ' "$OUT/client"; then
		fail "status $status: $(<"$OUT/client") $(<"$OUT/server")"
	fi
}

for program in bindgen /usr/bin/rustc go; do
	command -v "$program" >/dev/null || skip "no $program (apt-get install --no-install-recommends bindgen rustc golang-go)"
done
for language in rust go; do
	build_$language || fail "echo in $language"
	moved $((2 * 100 << 20)) echo_over $language verbs
	echo_over $language tcp
done
