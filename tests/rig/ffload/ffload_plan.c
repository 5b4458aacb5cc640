/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffload_plan.c - what operation number `seq` of a lane is, and what a message carries. Pure
 * functions of the plan: the two ends never have to tell each other.
 */
#include "tests/rig/ffload/ffload.h"

#include <string.h>

#define ALIGN 4096u

const char *const load_op_str[OP_NUM] = {
	[OP_SEND] = "send",	      [OP_SEND_IMM] = "send_imm", [OP_WRITE] = "write",
	[OP_WRITE_IMM] = "write_imm", [OP_READ] = "read",	  [OP_READ_BACK] = "read_back",
	[OP_FETCH_ADD] = "fetch_add", [OP_CMP_SWAP] = "cmp_swap", [OP_SHARED_ADD] = "shared_add",
};

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): each bit of x moves half of the result. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint64_t lane_key(const struct load_plan *plan)
{
	return mix(plan->run ^ (uint64_t)plan->lane << 32);
}

bool plan_two_sided(enum load_op op)
{
	return op == OP_SEND || op == OP_SEND_IMM || op == OP_WRITE_IMM;
}

bool plan_valid(const struct load_plan *plan)
{
	return plan->min && plan->min <= plan->max && plan->max <= 64u << 20 && plan->window >= 4 &&
	       plan->window <= 4096 && !(plan->window & (plan->window - 1)) && plan->receives &&
	       plan->receives <= 8192 && plan->ud <= 1 && plan->timeout < 32 && plan->retry < 8 &&
	       plan->mtu >= IBV_MTU_256 && plan->mtu <= IBV_MTU_4096;
}

static enum load_op pick(const struct load_plan *plan, uint32_t dice)
{
	uint32_t total = 0, at;

	for (unsigned i = 0; i < OP_NUM; i++)
		total += plan->weight[i];
	at = total ? dice % total : 0;
	for (unsigned i = 0; i < OP_NUM; i++) {
		if (at < plan->weight[i])
			return (enum load_op)i;
		at -= plan->weight[i];
	}
	return OP_SEND;
}

/* Each power of 2 between min and max as likely as the next, and max itself as well. */
static uint32_t length(const struct load_plan *plan, uint64_t dice)
{
	uint32_t range = plan->max - plan->min, bits = 0, k;

	while (bits < 31 && (1u << bits) <= range)
		bits++;
	k = (uint32_t)(dice % (bits + 1));
	if (k == bits)
		return plan->max;
	return plan->min + (uint32_t)((dice >> 16) & ((2u << k) - 1)) % (range + 1);
}

void plan_item(const struct load_plan *plan, uint64_t seq, struct load_item *item)
{
	uint32_t half = plan->window / 2;
	uint64_t dice;

	item->key = mix(lane_key(plan) + seq);
	dice = mix(item->key);
	item->op = pick(plan, (uint32_t)dice);
	item->len = length(plan, dice >> 32 | dice << 32);
	item->dice = mix(dice);
	if (plan->ud) {
		item->op = item->dice >> 60 & 1 ? OP_SEND_IMM : OP_SEND;
	} else if (seq % half == half - 1 && !plan_two_sided(item->op)) {
		item->op = OP_SEND;
		item->len = item->len > 64 ? 64 : item->len;
	}
	switch (item->op) {
	case OP_FETCH_ADD:
		item->add = (dice >> 40 & 0xffff) + 1;
		item->len = 8;
		break;
	case OP_CMP_SWAP:
		item->add = item->key | 1; /* never the first value, 0 */
		item->len = 8;
		break;
	case OP_SHARED_ADD:
		item->add = 1;
		item->len = 8;
		break;
	default:
		item->add = 0;
	}
}

bool plan_write_before(const struct load_plan *plan, uint64_t seq, uint64_t since, uint64_t *found)
{
	struct load_item item;

	for (uint64_t s = seq; s-- > since && seq - s < plan->window;) {
		plan_item(plan, s, &item);
		if (item.op == OP_WRITE || item.op == OP_WRITE_IMM) {
			*found = s;
			return true;
		}
	}
	return false;
}

static size_t align(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

void plan_layout(const struct load_plan *plan, struct load_layout *l)
{
	/* odd addresses for large messages, packed cache lines for small ones */
	l->slot = (plan->ud ? LOAD_GRH : 0) + plan->max;
	l->slot = l->slot < 64 ? 64 : l->slot + 64;
	l->region = ALIGN;
	l->region_len = plan->ud ? 0 : align((size_t)plan->max + 64);
	l->writes = l->region + l->region_len;
	l->receives = l->writes + (plan->ud ? 0 : align(2 * plan->window * l->slot));
	l->len = l->receives + align(plan->receives * l->slot);
}

uint64_t plan_region_key(const struct load_plan *plan, uint64_t incarnation)
{
	return mix(lane_key(plan) ^ incarnation);
}

/* ---- contents ----------------------------------------------------------------------------------- */

static inline uint64_t word(uint64_t key, uint64_t i)
{
	uint64_t x = key + i * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

static inline uint8_t byte(uint64_t key, uint64_t pos)
{
	return (uint8_t)(word(key, pos / 8) >> pos % 8 * 8);
}

void pattern_fill(void *buf, size_t len, uint64_t key, uint64_t pos)
{
	uint8_t *p = buf;
	size_t i = 0;

	for (; i < len && (pos + i) % 8; i++)
		p[i] = byte(key, pos + i);
	for (; i + 8 <= len; i += 8) {
		uint64_t w = word(key, (pos + i) / 8);

		memcpy(p + i, &w, 8);
	}
	for (; i < len; i++)
		p[i] = byte(key, pos + i);
}

long pattern_diff(const void *buf, size_t len, uint64_t key, uint64_t pos)
{
	const uint8_t *p = buf;
	size_t i = 0;

	for (; i < len && (pos + i) % 8; i++)
		if (p[i] != byte(key, pos + i))
			return (long)i;
	for (; i + 8 <= len; i += 8) {
		uint64_t w;

		memcpy(&w, p + i, 8);
		if (w != word(key, (pos + i) / 8))
			break;
	}
	for (; i < len; i++)
		if (p[i] != byte(key, pos + i))
			return (long)i;
	return -1;
}
