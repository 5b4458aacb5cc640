/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * hello.c - the two messages of the handshake between routers: made, and checked. What is
 * checked here needs no knowledge but the message; whether the sender is who it says, conn.c
 * finds out. Control thread.
 */
#include "ffr/peer/hello.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

static_assert(sizeof(WIRE_MAGIC) - 1 == sizeof(((struct wire_hello *)0)->magic), "");
static_assert(offsetof(struct wire_hello, version) == 12, "");
static_assert(offsetof(struct wire_hello, seq) == 24, "");
static_assert(offsetof(struct wire_hello, nonce) == 40, "");
static_assert(offsetof(struct wire_hello, instance) == 248, "");

static const char *const refusal_str[] = {
#define X(name, text) [WIRE_##name] = text,
	WIRE_REFUSALS(X)
#undef X
};
static_assert(sizeof(refusal_str) / sizeof(refusal_str[0]) == WIRE_REFUSALS_NUM, "");

const char *wire_refusal_str(enum wire_refusal why)
{
	return why < WIRE_REFUSALS_NUM ? refusal_str[why] : "an unknown reason";
}

static void hello_begin(struct wire_hello *w)
{
	memset(w, 0, sizeof(*w));
	memcpy(w->magic, WIRE_MAGIC, sizeof(w->magic));
	w->length = htobe32(sizeof(*w));
	w->version = htobe16(WIRE_PROTO);
	w->oldest_v = htobe16(WIRE_PROTO_MIN);
}

static void text_put(char *to, size_t size, const char *s)
{
	size_t len = strlen(s);

	assert(len < size);
	memcpy(to, s, len);
}

void hello_make(struct wire_hello *w, const struct hello *h)
{
	hello_begin(w);
	w->seq = htobe64(h->seq);
	w->oldest = htobe64(h->oldest);
	/* 16 bytes of the kernel's generator come whole; without it the nonce is only not new */
	if (getrandom(w->nonce, sizeof(w->nonce), 0) < 0)
		memcpy(w->nonce, &w->seq, sizeof(w->seq));
	text_put(w->cluster, sizeof(w->cluster), h->cluster);
	text_put(w->host, sizeof(w->host), h->host);
	text_put(w->to, sizeof(w->to), h->to);
	text_put(w->instance, sizeof(w->instance), h->instance);
}

void hello_make_refusal(struct wire_hello *w, enum wire_refusal why)
{
	hello_begin(w);
	w->status = htobe16((uint16_t)why);
}

/* Printable, not empty, ends with NUL, and nothing is hidden behind it. */
static bool text_ok(const char *s, size_t size)
{
	size_t len = strnlen(s, size);

	if (!len || len == size)
		return false;
	for (size_t i = 0; i < size; i++)
		if (i < len ? s[i] <= ' ' || s[i] > '~' : s[i] != '\0')
			return false;
	return true;
}

/* The highest version of both ranges, or 0. */
static uint16_t version_of(const struct wire_hello *w)
{
	uint16_t max = be16toh(w->version), min = be16toh(w->oldest_v);

	if (max < WIRE_PROTO_MIN || min > WIRE_PROTO || min > max)
		return 0;
	return max < WIRE_PROTO ? max : WIRE_PROTO;
}

int hello_parse(struct hello *h, const struct wire_hello *w, const char **why)
{
	uint16_t status = be16toh(w->status);

	*why = NULL;
	memset(h, 0, sizeof(*h));
	if (memcmp(w->magic, WIRE_MAGIC, sizeof(w->magic))) {
		*why = "it is no router of freeflow";
		return -EPROTO;
	}
	h->version = version_of(w);
	if (!h->version) /* what follows may have another form */
		return 0;
	if (status >= WIRE_REFUSALS_NUM)
		*why = "a refusal of an unknown kind";
	else if (be32toh(w->length) != sizeof(*w))
		*why = "a hello of a wrong length";
	else if (w->reserved || w->zero)
		*why = "a hello with unknown fields";
	h->status = (enum wire_refusal)status;
	if (*why || h->status != WIRE_OK)
		return *why ? -EPROTO : 0;
	h->seq = be64toh(w->seq);
	h->oldest = be64toh(w->oldest);
	if (!h->oldest || h->oldest > h->seq)
		*why = "a hello with wrong numbers";
	else if (!text_ok(w->cluster, sizeof(w->cluster)) || !text_ok(w->host, sizeof(w->host)) ||
		 !text_ok(w->to, sizeof(w->to)) || !text_ok(w->instance, sizeof(w->instance)))
		*why = "a hello with names that are none";
	if (*why)
		return -EPROTO;
	h->cluster = w->cluster;
	h->host = w->host;
	h->to = w->to;
	h->instance = w->instance;
	return 0;
}

void verdict_make(struct wire_verdict *v, enum wire_refusal code)
{
	memset(v, 0, sizeof(*v));
	memcpy(v->magic, WIRE_MAGIC, sizeof(v->magic));
	v->code = htobe16((uint16_t)code);
}

int verdict_parse(const struct wire_verdict *v)
{
	uint16_t code = be16toh(v->code);

	if (memcmp(v->magic, WIRE_MAGIC, sizeof(v->magic)) || v->zero || code >= WIRE_REFUSALS_NUM)
		return -EPROTO;
	return code;
}
