/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * promise.c - prints what this tree's protocols have, a fact in each line, for promise.sh: versions, messages, counters,
 * requests to the orchestrator, limits. Compiled by promise.sh, and linked with nothing.
 */
#include <stdio.h>

#include "ffo/base/proto.h"
#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"
#include "ffr/obj/events.h"
#include "ffr/obj/stats.h"
#include "ffr/peer/peer.h"
#include "ffr/wire/wire.h"

static void library(void)
{
	printf("library version %u\n", FF_PROTO_VERSION);
	printf("library magic %#x\n", FF_PROTO_MAGIC);
#define X(number, NAME, name, tail, fds)                                                           \
	printf("library message %d " #NAME ": request of %zu bytes and " #tail                     \
	       ", answer of %zu bytes, descriptors %#x\n",                                         \
	       number, sizeof(struct ff_##name##_req), sizeof(struct ff_##name##_resp), fds);
	FF_MSG_TABLE(X)
#undef X
}

static void wire(void)
{
	/* A router that speaks an old version as well as a new one keeps the promise. */
	for (int v = WIRE_PROTO_MIN; v <= WIRE_PROTO; v++)
		printf("wire version %d\n", v);
#define X(name, max) printf("wire frame %d " #name "\n", WIRE_##name);
	WIRE_TYPES(X)
#undef X
#define X(name, text) printf("wire refusal %d " #name "\n", WIRE_##name);
	WIRE_REFUSALS(X)
#undef X
}

static void orchestrator(void)
{
	printf("orchestrator version %d\n", FFO_PROTO_VERSION);
#define F(op, type, name, need)                                                                    \
	printf("orchestrator request " #op "." #name " " #type " " #need "\n");
#define X(NAME, name, caller, host, operator)                                                       \
	puts("orchestrator request " #name " by " #caller ", host " #host ", operator " #operator); \
	FFO_FIELDS_##name(F, name)
	FFO_OPS(X)
#undef X
#undef F
#define X(number, NAME, name) printf("orchestrator mode %d " #name "\n", number);
	FFO_MODES(X)
#undef X
#define X(type, name) puts("orchestrator mapping " #type " " #name);
	FFO_MAP_FIELDS(X)
#undef X
}

static void names(void)
{
#define X(name, text) puts("counter " #name);
	FF_STATS(X)
#undef X
#define X(STATUS, name) puts("counter status " #name);
	FF_STATS_STATUS(X)
#undef X
#define X(KIND, name) puts("event " #name);
	FFR_EVENTS(X)
#undef X
#define X(name, unit, most, tenant, text) puts("limit " #name " " #unit " tenant " #tenant);
	FFO_LIMITS(X)
#undef X
}

int main(void)
{
	library();
	wire();
	orchestrator();
	names();
	return 0;
}
