#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# layout.sh - the structs that programs and library share have the sizes and offsets that
# abi/layout.txt lists, and what the library allocates is as large as the newest release needs
# (abi/releases.txt). A C program of static assertions; it is compiled, not run.
set -u -o pipefail
. "$(dirname "$0")/common.sh"

{
	cat <<'END'
#include "ffl/cm/cm.h"
#include <infiniband/sa.h>
#define MEMBER_OFF(s, m) ((long)offsetof(struct s, m))
#define FROM_CONTEXT(m) \
	(MEMBER_OFF(verbs_context, m) - MEMBER_OFF(verbs_context, context))
END
	awk '
	/^#/ || !NF { next }
	$1 == "sizeof" { printf "static_assert(sizeof(struct %s) == %s, \"%s\");\n", $2, $3, $0 }
	$1 == "offset" && $2 == "verbs_context" {
		printf "static_assert(FROM_CONTEXT(%s) == %s, \"%s\");\n", $3, $4, $0 }
	$1 == "offset" && $2 != "verbs_context" {
		printf "static_assert(MEMBER_OFF(%s, %s) == %s, \"%s\");\n", $2, $3, $4, $0 }
	' "$HERE/abi/layout.txt"
	# the largest sizes of what the library allocates
	awk '
	/^#/ || !NF { next }
	$1 == "release" { for (i = 2; i <= NF; i++) col[$i] = i; next }
	{ for (c in col) if ($(col[c]) + 0 > max[c]) max[c] = $(col[c]) + 0 }
	END {
		printf "static_assert(FFL_VERBS_CONTEXT_SZ == %d, \"verbs_context\");\n", max["verbs_context"]
		printf "static_assert(FFL_QP_EX_SZ >= %d, \"ibv_qp_ex\");\n", max["ibv_qp_ex"]
		printf "static_assert(FFL_CQ_EX_SZ >= %d, \"ibv_cq_ex\");\n", max["ibv_cq_ex"]
	}' "$HERE/abi/releases.txt"
	cat <<'END'
static_assert(sizeof(((struct ffl_qp *)0)->room) >= FFL_QP_EX_SZ, "room of a QP");
static_assert(sizeof(((struct ffl_cq *)0)->room) >= FFL_CQ_EX_SZ, "room of a CQ");
static_assert(offsetof(struct ffl_context, v.context) >= FFL_VERBS_CONTEXT_SZ - sizeof(struct ibv_context),
	      "room for the newest operations below the context");
END
} >"$TMP/layout.c"

n=$(grep -c static_assert "$TMP/layout.c")
if gcc -std=gnu11 -D_GNU_SOURCE -I"$TREE" -Wall -Werror -fsyntax-only "$TMP/layout.c" 2>"$TMP/err"; then
	ok "$n sizes and offsets"
else
	not_ok "$n sizes and offsets" "$(cat "$TMP/err")"
fi

# The check itself must be able to fail.
sed 's/== 328/== 329/' "$TMP/layout.c" >"$TMP/wrong.c"
if gcc -std=gnu11 -D_GNU_SOURCE -I"$TREE" -fsyntax-only "$TMP/wrong.c" 2>/dev/null; then
	not_ok "a wrong size is noticed"
else
	ok "a wrong size is noticed"
fi
finish
