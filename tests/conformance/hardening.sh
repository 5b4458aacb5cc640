#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# hardening.sh - the programs and libraries are built as harden.mk says: canaries, libc's checked calls,
# large frames probed, landing pads and shadow stacks, everything read-only that can be, no address
# that is known beforehand. Read from the files as they are; what only a compiler's own record of
# its options tells of every source (DW_AT_producer) is asked where there is one.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

machine=$(readelf -h "$LIB" | sed -n 's/.*Machine: *//p')

# Functions that others can call and that begin with no landing pad, but for those of the C runtime's
# own start files.
without_pad() { # FILE
	objdump -d --no-show-raw-insn "$1" | awk '
		NR == FNR { if ($4 == "FUNC" && $5 == "GLOBAL" && $7 != "UND") name[$2] = $8; next }
		/^[0-9a-f]+ <.*>:$/ { at = $1; next }
		at != "" { if (at in name && $2 != "endbr64") print name[at]; at = "" }
	' <(readelf -W -s "$1" | sed 's/@.*//') - | grep -v -x -E '_start|_init|_fini'
}

# Sources that were compiled without an option.
compiled_without() { # FILE OPTION
	readelf --debug-dump=info "$1" 2>/dev/null | awk -v option="$2" '
		/DW_AT_producer/ { has = index($0, option); next }
		/DW_AT_name/ && has != "" { if (!has) print $NF; has = "" }' | sort -u
}

# CHECKED is a function of libc's that is asked only where the room's size is known at run time, not to
# the compiler: level 3 of _FORTIFY_SOURCE. - where no source has such a call.
check() { # FILE CHECKED
	local name symbols dynamic headers
	name=$(basename "$1")
	symbols=$(readelf -W --dyn-syms "$1" | awk '$7 == "UND" { sub(/@.*/, "", $8); print $8 }')
	dynamic=$(readelf -W -d "$1")
	headers=$(readelf -W -l "$1")

	same "$name: stacks have canaries" "$(grep -x __stack_chk_fail <<<"$symbols")" __stack_chk_fail
	same "$name: libc's calls are checked (_FORTIFY_SOURCE)" \
		"$(grep -x -E '__(memcpy|snprintf)_chk' <<<"$symbols" | sort | tr '\n' ' ')" \
		"__memcpy_chk __snprintf_chk "
	[[ $2 == - ]] || same "$name: ... with sizes of run time" "$(grep -x "$2" <<<"$symbols")" "$2"
	same "$name: relocations are read-only after the start" "$(grep -c GNU_RELRO <<<"$headers")" 1
	same "$name: everything is bound at the start" "$(grep -c -E 'FLAGS_1.*NOW' <<<"$dynamic")" 1
	same "$name: lies anywhere" "$(readelf -h "$1" | sed -n 's/.*Type: *\([A-Z]*\).*/\1/p')" DYN
	[[ $name == *.so* ]] ||
		same "$name: is a PIE" "$(grep -c -E 'FLAGS_1.*PIE' <<<"$dynamic")" 1
	same "$name: no stack is executable" "$(awk '$1 == "GNU_STACK" { print $7 }' <<<"$headers")" RW
	same "$name: nothing is writable and executable" \
		"$(awk '$1 == "LOAD" && /RWE/' <<<"$headers")" ""
	if [[ $machine == *X86-64* ]]; then
		same "$name: shadow stacks may be on" \
			"$(readelf -n "$1" 2>/dev/null | grep -c 'x86 feature.*SHSTK')" 1
		same "$name: functions begin with landing pads" "$(without_pad "$1" | tr '\n' ' ')" ""
	fi
	readelf -S "$1" | grep >/dev/null '\.debug_info' || return
	same "$name: no source without -fstack-protector-strong" \
		"$(compiled_without "$1" -fstack-protector-strong)" ""
	same "$name: no source without -fstack-clash-protection" \
		"$(compiled_without "$1" -fstack-clash-protection)" ""
}

check "$BUILD/bin/ffr" __memset_chk
check "$BUILD/bin/ffo" __memset_chk
check "$BUILD/bin/ffctl" -
check "$LIB" __memset_chk
check "$CM_LIB" __poll_chk
finish
