#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 360
# musl.sh - a program that is built against musl, with the libraries that are: it registers, sends, receives and forks as
# one with glibc does, between two QPs of its own.
. "$(dirname "$0")/../rig/shell/lab.sh"

command -v musl-gcc >/dev/null || skip "no musl-gcc (apt-get install musl-tools)"
make -C "$TREE" -j2 musl >"$OUT/make" 2>&1 || fail "$(tail -n 20 "$OUT/make")"
LIB=$TREE/build-musl/lib

# musl's loader looks at no version of a symbol, and not at /etc/ld.so.preload.
for lib in libibverbs librdmacm; do
	! objdump -p "$LIB/$lib.so.1" | grep >/dev/null 'GLIBC_' || fail "$lib.so.1 wants glibc"
	objdump -p "$LIB/$lib.so.1" | grep >/dev/null 'NEEDED *libc.so$' || fail "$lib.so.1 does not want musl"
done

for program in verbs_queues verbs_room; do
	step "$program"
	musl-gcc -std=gnu11 -O2 -D_GNU_SOURCE -I"$TREE" -idirafter "$TREE/build-musl/include" -o "$OUT/$program" \
		"$TREE/tests/system/$program.c" "$TREE/tests/rig/verbs/vt.c" "$LIB/libibverbs.so.1" -lpthread ||
		fail "$program does not compile"
	chmod -R o+rX "$OUT"
	"$LAB" exec "$A" -- env LD_LIBRARY_PATH="$LIB" "$OUT/$program" || fail "$program: $?"
done
exit 0
