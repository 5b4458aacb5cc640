#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# timeout: 300
# unsupported.sh - which verbs are EOPNOTSUPP: ffl(7)'s list is what tests/system/verbs_unsupported.c goes
# through, in the same order and each in the same way, and every other verb, of the headers and of the
# library, is called by a test or said in ffl(7) to be out of reach.
set -u -o pipefail
. "$(dirname "$0")/common.sh"
cd "$TREE" || exit 1

declare -A way=([POINTER]=NULL [RESULT]=result [MINUS_ONE]=-1 [NEGATIVE]=-EOPNOTSUPP)
while read -r name how; do
	echo "$name ${way[$how]}"
done < <(sed -n 's/^\tX(\(ibv_[a-z0-9_]*\), \([A-Z_]*\),.*/\1 \2/p' tests/system/verbs_unsupported.c) >"$TMP/walk"
sed -n '/^|[[ ] \*ibv_/{N;s/^.* \*\(ibv_[a-z0-9_]*\)\*().*\n:[[ ] _\(.*\)_$/\1 \2/p}' ffl/ffl.7.scd >"$TMP/list"
[[ -s $TMP/walk ]] || not_ok "verbs_unsupported.c has rows"
diff "$TMP/list" "$TMP/walk" >"$TMP/diff" || not_ok "ffl(7) and the walk" "$(<"$TMP/diff")"

# But one for static linking, and one that is another name of ibv_wc_read_imm_data().
except=' ibv_static_providers ibv_wc_read_invalidated_rkey '
for name in $(grep -hoE '^\s*(static inline )?[a-z_ *0-9]*\bibv_[a-z0-9_]+ *\(' "${VERBS_H:-/usr/include/infiniband/verbs.h}" |
	grep -oE 'ibv_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u) $(grep -o '\bibv_[a-z0-9_]*' ffl/libibverbs.map | sort -u); do
	[[ $except == *" $name "* ]] ||
		grep -rqw "$name" --include='*.[ch]' tests/system tests/rig tests/conformance tests/unit ||
		grep -q "\*$name\*()" ffl/ffl.7.scd || not_ok "$name is called by a test, or in ffl(7)"
done
finish
