#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# imports.sh - the one libibverbs.so.1 loads on Debian 11 and everything newer: it needs libc and
# the loader only, with no symbol newer than GLIBC_2.28 and none that is elsewhere in glibc 2.31.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

NEWEST=2.28
imports() {
	readelf -W --dyn-syms "$LIB" | awk '$7 == "UND" && $8 != "" { print $8 }'
}

same "needs libc only" \
	"$(readelf -d "$LIB" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -v -E '^(libc\.so\.6|libpthread\.so\.0|ld-linux-x86-64\.so\.2|ld-linux-aarch64\.so\.1)$')" ""

too_new=
while read -r symbol; do
	version=${symbol##*@GLIBC_}
	[[ $(printf '%s\n' "$version" "$NEWEST" | sort -V | tail -n 1) == "$NEWEST" ]] ||
		too_new+="$symbol "
done < <(imports | grep '@GLIBC_')
same "no symbol newer than GLIBC_$NEWEST" "$too_new" ""

same "unversioned imports are the tool chain's weak ones only" \
	"$(imports | grep -v @ |
		grep -v -x -E '__gmon_start__|_ITM_(de)?registerTMCloneTable|__cxa_finalize')" ""

# glibc 2.31 has these few functions for threads in libc; the others are in libpthread.so.0 and
# libdl.so.2, which a program need not have loaded, although their versions are old enough.
in_libc='pthread_(attr_(init|destroy)|cond_(broadcast|destroy|init|signal|timedwait|wait)|equal|exit|'
in_libc+='mutex_(destroy|init|lock|unlock)|self|setcancelstate|setcanceltype)'
same "nothing that libc 2.31 lacks" \
	"$(imports | sed 's/@.*//' | grep -E '^(pthread_|sem_|timer_|dl(open|sym|vsym|close|error|addr)$)' |
		grep -v -x -E "$in_libc")" ""

same "binds everything at start" \
	"$(readelf -d "$LIB" | grep -c -E 'FLAGS.*NOW')" 2
same "has no text relocations and no executable stack" \
	"$(readelf -W -d -l "$LIB" | grep -E 'TEXTREL|GNU_STACK.*RWE')" ""
finish
