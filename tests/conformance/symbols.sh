#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# symbols.sh - libibverbs.so.1 exports what abi/libibverbs-symbols.txt lists, each name in each of
# its version nodes, and nothing else, and librdmacm.so.1 what abi/librdmacm-symbols.txt lists; by
# their SONAMEs they take the place of rdma-core's.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

symbols() { # LIBRARY
	readelf -W --dyn-syms "$1" |
		awk '$7 != "UND" && $5 != "LOCAL" && $4 ~ /FUNC|OBJECT|NOTYPE|IFUNC/ { print $8 }' |
		grep @ | sed 's/@@/@/; s/^syscall@GLIBC_.*/syscall@GLIBC/' | grep -v -E '^([A-Z_0-9.]+)@+\1$' | sort
}

check() { # LIBRARY NAME
	symbols "$1" >"$TMP/have"
	awk '!/^#/ { print $1 }' "$HERE/abi/$2-symbols.txt" | sort >"$TMP/want"
	same "$2 exports every name in every node" "$(comm -13 "$TMP/have" "$TMP/want")" ""
	same "$2 exports nothing else" "$(comm -23 "$TMP/have" "$TMP/want")" ""
	same "$2's SONAME" "$(readelf -d "$1" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" "$2.so.1"

	# A name without a version, as dlsym(3) asks for it, is the newest one of the public ABI.
	same "$2: one default version for each name" \
		"$(readelf -W --dyn-syms "$1" | awk '$8 ~ /@@/ { sub(/@@.*/, "", $8); print $8 }' |
			sort | uniq -d)" ""
}

# Those of libc's functions that stand before libc's own (ffl/mem/libc.c).
without_version() { # LIBRARY
	readelf -W --dyn-syms "$1" |
		awk '$7 != "UND" && $5 != "LOCAL" && $4 ~ /FUNC|IFUNC/ && $8 !~ /@/ { print $8 }' | sort | tr '\n' ' '
}

check "$LIB" libibverbs
same "libibverbs: functions of libc" "$(without_version "$LIB")" "_Fork clone ioctl madvise mremap remap_file_pages shmat "
same "IBVERBS_1.0 is not the default of names that 1.1 has" \
	"$(readelf -W --dyn-syms "$LIB" | awk '$8 ~ /^ibv_(open_device|reg_mr|create_qp)@@/ { print $8 }' |
		sort | tr '\n' ' ')" \
	"ibv_create_qp@@IBVERBS_1.1 ibv_open_device@@IBVERBS_1.1 ibv_reg_mr@@IBVERBS_1.1 "
same "verbs_allow_disassociate_destroy is data" \
	"$(readelf -W --dyn-syms "$LIB" |
		awk '$8 ~ /^verbs_allow_disassociate_destroy@/ { print $4, $3 }' | sort -u)" "OBJECT 1"
check "$CM_LIB" librdmacm
same "librdmacm: functions of libc" "$(without_version "$CM_LIB")" ""
finish
