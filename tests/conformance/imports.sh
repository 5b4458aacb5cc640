#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# imports.sh - the one libibverbs.so.1 and its librdmacm.so.1 load on Debian 11 and everything newer:
# they need libc and the loader only (librdmacm also libibverbs), with no symbol newer than
# GLIBC_2.28 and none that is elsewhere in glibc 2.31.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

NEWEST=2.28
libc='libc\.so\.6|libpthread\.so\.0|ld-linux-x86-64\.so\.2|ld-linux-aarch64\.so\.1'
# glibc 2.31 has these few functions for threads in libc; the others are in libpthread.so.0 and
# libdl.so.2, which a program need not have loaded, although their versions are old enough.
in_libc='pthread_(attr_(init|destroy)|cond_(broadcast|destroy|init|signal|timedwait|wait)|equal|exit|'
in_libc+='mutex_(destroy|init|lock|unlock)|self|setcancelstate|setcanceltype)'

imports() { # LIBRARY [BINDING]
	readelf -W --dyn-syms "$1" | awk -v b="${2:-}" '$7 == "UND" && $8 != "" && (b == "" || $5 == b) { print $8 }'
}

needed() { # LIBRARY
	readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}

check() { # LIBRARY
	local name too_new='' symbol version
	name=$(basename "$1" .so.1)
	while read -r symbol; do
		version=${symbol##*@GLIBC_}
		[[ $(printf '%s\n' "$version" "$NEWEST" | sort -V | tail -n 1) == "$NEWEST" ]] ||
			too_new+="$symbol "
	done < <(imports "$1" | grep '@GLIBC_')
	same "$name: no symbol newer than GLIBC_$NEWEST" "$too_new" ""

	same "$name: unversioned imports are the tool chain's weak ones only" \
		"$(imports "$1" | grep -v @ |
			grep -v -x -E '__gmon_start__|_ITM_(de)?registerTMCloneTable|__cxa_finalize')" ""
	# a weak one need not be there
	same "$name: nothing that libc 2.31 lacks" \
		"$(imports "$1" GLOBAL | sed 's/@.*//' |
			grep -E '^(pthread_|sem_|timer_|dl(open|sym|vsym|close|error|addr)$)' |
			grep -v -x -E "$in_libc")" ""
	same "$name: binds everything at start" "$(readelf -d "$1" | grep -c -E 'FLAGS.*NOW')" 2
	same "$name: has no text relocations and no executable stack" \
		"$(readelf -W -d -l "$1" | grep -E 'TEXTREL|GNU_STACK.*RWE')" ""
}

check "$LIB"
same "libibverbs needs libc only" "$(needed "$LIB" | grep -v -x -E "$libc")" ""
check "$CM_LIB"
same "librdmacm needs libc and libibverbs only" \
	"$(needed "$CM_LIB" | grep -v -x -E "$libc")" libibverbs.so.1
# The private node keeps it away from any other libibverbs: the loader refuses the pair.
same "librdmacm needs the libibverbs of its build" \
	"$(imports "$CM_LIB" | grep -c '@FREEFLOW_PRIVATE_1' | awk '{ print ($1 > 0) }')" 1
finish
