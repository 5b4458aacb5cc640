/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ledger.c - see ledger.h. Neighbours: ctl/record.c writes, ctl/restore.c reads.
 *
 * A copy of a record is valid if its checksum is right, and a valid copy with the greater number is the record. The
 * writer takes the number of the older copy away, writes the copy, and puts the new number there last. A slot is free
 * when both numbers are 0.
 *
 * Tests: unit/obj/test_ledger.c
 */
#include "ffr/obj/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/lib/log.h"
#include "ffr/obj/objects.h"
#include "ffr/obj/quota.h"

#define LEDGER_MAGIC 0x72656764656c6666ull /* "ffledger" */
#define UNIT	     64u		   /* slots are named by their place, in these bytes */
#define CHUNK	     16384u
#define CHUNKS	     8192u

struct copy {
	_Atomic uint64_t seq; /* 0: none */
	uint64_t sum;
	union ledger_record rec; /* only the kind's own bytes are there */
};

struct head {
	uint64_t magic;
	uint32_t version;
	uint32_t num_kinds, num_cursors;
	_Atomic uint32_t num_chunks;
	_Atomic uint32_t bars;	 /* bits of enum ledger_bar */
	_Atomic uint32_t calls;	 /* 1: a call is under way */
	_Atomic uint32_t events; /* 1: an event is */
	struct {
		uint32_t live, rec, slot; /* bytes; rec: of the record alone */
	} kind[LEDGER_NUM_KINDS];
	struct {
		uint32_t off, width; /* bytes */
	} cursor[LEDGER_NUM_CURSORS];
	uint8_t kind_of[CHUNKS];
};
static_assert(sizeof(struct head) <= CHUNK, "the head is the first chunk");

#define LEDGER_BYTES ((uint64_t)CHUNK * CHUNKS)
static_assert(LEDGER_BYTES / UNIT <= UINT32_MAX, "a slot's name is 32 bits");

struct ledger {
	struct head *head;
	int fd;
	struct container *cont; /* is charged for the chunks; NULL: nobody is */
	uint64_t charged;	/* bytes */
	struct {
		uint32_t *slot; /* free ones */
		uint32_t num, max;
	} free[LEDGER_NUM_KINDS];
};

static const uint32_t rec_bytes[LEDGER_NUM_KINDS] = {
#define X(KIND, name) [LEDGER_##KIND] = sizeof(struct ledger_##name),
	LEDGER_RECORDS(X)
#undef X
};
#define X(KIND, name) static_assert(!(sizeof(struct ledger_##name) % 8), "a multiple of 8");
LEDGER_RECORDS(X)
#undef X

static const uint32_t live_bytes[LEDGER_NUM_KINDS] = {
	[LEDGER_CQ] = sizeof(struct cq),
	[LEDGER_QP] = sizeof(struct qp),
	[LEDGER_SRQ] = sizeof(struct srq),
	[LEDGER_RECV] = sizeof(struct recv_wr),
};

static const struct {
	uint8_t kind;
	uint32_t off, width;
} cursors[LEDGER_NUM_CURSORS] = {
#define X(KIND, type, member, name)                                                                \
	[LEDGER_CUR_##name] = { LEDGER_##KIND, offsetof(struct type, member),                      \
				sizeof(((struct type *)0)->member) },
	LEDGER_CURSORS(X)
#undef X
};

static const char *const bar_text[LEDGER_NUM_BARS] = {
#define X(NAME, text) [LEDGER_BAR_##NAME] = text,
	LEDGER_BARS(X)
#undef X
};

static uint32_t round_up(uint32_t n, uint32_t to)
{
	return (n + to - 1) / to * to;
}

static uint32_t copy_bytes(uint32_t rec)
{
	return (uint32_t)offsetof(struct copy, rec) + rec;
}

/* FNV-1a, in words: it finds what a kill has left half-written, and damage. */
static uint64_t checksum(uint32_t kind, uint64_t seq, const void *rec, uint32_t len)
{
	uint64_t sum = 0xcbf29ce484222325ull ^ kind, word;

	sum = (sum ^ seq) * 0x100000001b3ull;
	for (uint32_t i = 0; i < len; i += 8) {
		memcpy(&word, (const uint8_t *)rec + i, 8);
		sum = (sum ^ word) * 0x100000001b3ull;
		sum ^= sum >> 29;
	}
	return sum;
}

/* ---- the router that has the session -------------------------------------------------------- */

static int memory_new(void)
{
	int fd = memfd_create("freeflow-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)LEDGER_BYTES) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	close(fd);
	return -EIO;
}

static void head_init(struct head *h)
{
	h->version = LEDGER_VERSION;
	h->num_kinds = LEDGER_NUM_KINDS;
	h->num_cursors = LEDGER_NUM_CURSORS;
	h->num_chunks = 1;
	for (unsigned k = 1; k < LEDGER_NUM_KINDS; k++) {
		h->kind[k].live = round_up(live_bytes[k], UNIT);
		h->kind[k].rec = rec_bytes[k];
		h->kind[k].slot = round_up(h->kind[k].live + 2 * copy_bytes(rec_bytes[k]), UNIT);
	}
	for (unsigned i = 0; i < LEDGER_NUM_CURSORS; i++) {
		h->cursor[i].off = cursors[i].off;
		h->cursor[i].width = cursors[i].width;
	}
	h->magic = LEDGER_MAGIC;
}

struct ledger *ledger_new(struct container *c)
{
	struct ledger *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->cont = c;
	l->fd = memory_new();
	if (l->fd < 0)
		goto err_free;
	l->head = mmap(NULL, LEDGER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		       l->fd, 0);
	if (l->head == MAP_FAILED)
		goto err_close;
	head_init(l->head);
	return l;

err_close:
	close(l->fd);
err_free:
	free(l);
	return NULL;
}

void ledger_free(struct ledger *l)
{
	if (!l)
		return;
	if (l->cont)
		quota_return(l->cont, QUOTA_MEMORY, l->charged);
	for (unsigned k = 0; k < LEDGER_NUM_KINDS; k++)
		free(l->free[k].slot);
	munmap(l->head, LEDGER_BYTES);
	close(l->fd);
	free(l);
}

int ledger_fd(const struct ledger *l)
{
	return l->fd;
}

static uint8_t *place(const struct head *h, uint32_t slot)
{
	return (uint8_t *)h + (uint64_t)slot * UNIT;
}

static uint32_t kind_at(const struct head *h, uint32_t slot)
{
	return h->kind_of[(uint64_t)slot * UNIT / CHUNK];
}

static struct copy *copy_at(const struct head *h, uint32_t slot, unsigned which)
{
	uint32_t k = kind_at(h, slot);

	return (struct copy *)(place(h, slot) + h->kind[k].live +
			       which * copy_bytes(h->kind[k].rec));
}

static bool free_push(struct ledger *l, uint32_t kind, uint32_t slot)
{
	uint32_t max = l->free[kind].max ? l->free[kind].max * 2 : 64;
	uint32_t *more;

	if (l->free[kind].num == l->free[kind].max) {
		more = realloc(l->free[kind].slot, max * sizeof(*more));
		if (!more)
			return false;
		l->free[kind].slot = more;
		l->free[kind].max = max;
	}
	l->free[kind].slot[l->free[kind].num++] = slot;
	return true;
}

/* One more chunk, whose slots are free. */
static bool chunk_new(struct ledger *l, enum ledger_kind kind)
{
	struct head *h = l->head;
	uint32_t n = atomic_load(&h->num_chunks), num = CHUNK / h->kind[kind].slot;

	/* it stays until the session ends, whatever becomes of its slots */
	if (n >= CHUNKS || (l->cont && quota_charge(l->cont, QUOTA_MEMORY, CHUNK)))
		return false;
	l->charged += CHUNK;
	h->kind_of[n] = (uint8_t)kind;
	/* kind before the number: the next router never finds a chunk without one */
	atomic_store_explicit(&h->num_chunks, n + 1, memory_order_release);
	while (num--) /* the first one is taken first */
		if (!free_push(l, kind, (n * CHUNK + num * h->kind[kind].slot) / UNIT))
			break;
	return l->free[kind].num;
}

uint32_t ledger_slot_new(struct ledger *l, enum ledger_kind kind)
{
	uint32_t slot;

	if (!l || (!l->free[kind].num && !chunk_new(l, kind)))
		return 0;
	slot = l->free[kind].slot[--l->free[kind].num];
	memset(place(l->head, slot), 0, l->head->kind[kind].slot);
	return slot;
}

void ledger_erase(struct ledger *l, uint32_t slot)
{
	struct copy *c[2];
	unsigned newer;

	c[0] = copy_at(l->head, slot, 0);
	c[1] = copy_at(l->head, slot, 1);
	newer = c[1]->seq > c[0]->seq;
	/* the older one first, or the record would be the one before for a moment */
	atomic_store(&c[!newer]->seq, 0);
	atomic_store(&c[newer]->seq, 0);
}

void ledger_slot_free(struct ledger *l, uint32_t slot)
{
	if (!slot)
		return;
	ledger_erase(l, slot);
	(void)free_push(l, kind_at(l->head, slot), slot); /* without memory it stays unused */
}

void *ledger_live(struct ledger *l, uint32_t slot)
{
	return place(l->head, slot);
}

void ledger_write(struct ledger *l, uint32_t slot, const void *rec)
{
	uint32_t kind = kind_at(l->head, slot), len = l->head->kind[kind].rec;
	struct copy *a = copy_at(l->head, slot, 0), *b = copy_at(l->head, slot, 1), *to;
	uint64_t seq = (a->seq > b->seq ? a->seq : b->seq) + 1;

	to = a->seq > b->seq ? b : a;
	atomic_store(&to->seq, 0);
	memcpy(&to->rec, rec, len);
	to->sum = checksum(kind, seq, rec, len);
	/* body before number: a kill leaves the older copy valid until all of this one is there */
	atomic_store_explicit(&to->seq, seq, memory_order_release);
}

void ledger_bar(struct ledger *l, enum ledger_bar why)
{
	if (l)
		atomic_fetch_or(&l->head->bars, 1u << why);
}

void ledger_call(struct ledger *l, bool is_under_way)
{
	if (l)
		atomic_store_explicit(&l->head->calls, is_under_way, memory_order_release);
}

void ledger_event(struct ledger *l, bool is_under_way)
{
	if (l)
		atomic_store(&l->head->events, is_under_way);
}

/* ---- the next router ------------------------------------------------------------------------ */

struct ledger_view {
	const struct head *map;
	struct head head; /* the copy that was checked */
	bool is_damaged;
};

static bool head_ok(const struct head *h)
{
	if (h->magic != LEDGER_MAGIC || h->version != LEDGER_VERSION ||
	    h->num_kinds != LEDGER_NUM_KINDS || h->num_cursors != LEDGER_NUM_CURSORS ||
	    h->num_chunks > CHUNKS)
		return false;
	for (unsigned k = 1; k < LEDGER_NUM_KINDS; k++) {
		uint32_t live = h->kind[k].live, slot = h->kind[k].slot;

		if (h->kind[k].rec != rec_bytes[k] || live > CHUNK || slot > CHUNK || !slot ||
		    live % UNIT || slot % UNIT || live + 2 * copy_bytes(rec_bytes[k]) > slot)
			return false;
	}
	for (unsigned i = 0; i < LEDGER_NUM_CURSORS; i++)
		if (h->cursor[i].width != cursors[i].width ||
		    h->cursor[i].off > h->kind[cursors[i].kind].live ||
		    h->cursor[i].width > h->kind[cursors[i].kind].live - h->cursor[i].off)
			return false;
	return true;
}

int ledger_open(int fd, struct ledger_view **out)
{
	struct ledger_view *v = calloc(1, sizeof(*v));
	struct stat st;
	void *map;
	int seals = fcntl(fd, F_GET_SEALS), err = -EPROTO;

	if (!v)
		return -ENOMEM;
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    st.st_size != (off_t)LEDGER_BYTES)
		goto err_free;
	map = mmap(NULL, LEDGER_BYTES, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (map == MAP_FAILED) {
		err = -errno;
		goto err_free;
	}
	v->map = map;
	memcpy(&v->head, map, sizeof(v->head));
	if (!head_ok(&v->head)) {
		munmap(map, LEDGER_BYTES);
		goto err_free;
	}
	*out = v;
	return 0;

err_free:
	free(v);
	return err;
}

void ledger_close(struct ledger_view *v)
{
	if (!v)
		return;
	munmap((void *)v->map, LEDGER_BYTES);
	free(v);
}

const char *ledger_barred(const struct ledger_view *v)
{
	for (unsigned i = 0; i < LEDGER_NUM_BARS; i++)
		if (v->head.bars & 1u << i)
			return bar_text[i];
	return v->head.calls  ? "a call was under way" :
	       v->head.events ? "its memory was being moved" :
				NULL;
}

/* The copy at that place, if it is whole; its number, or 0. *torn: there is one that is not. */
static uint64_t copy_read(const struct ledger_view *v, uint32_t kind, const uint8_t *at, void *rec,
			  bool *torn)
{
	const struct copy *c = (const struct copy *)at;
	uint64_t seq = c->seq, sum = c->sum;
	uint32_t len = v->head.kind[kind].rec;

	if (!seq)
		return 0;
	memcpy(rec, &c->rec, len);
	if (sum == checksum(kind, seq, rec, len))
		return seq;
	*torn = true;
	return 0;
}

static bool slot_read(struct ledger_view *v, uint32_t kind, uint32_t slot, void *rec)
{
	uint32_t len = v->head.kind[kind].rec;
	const uint8_t *at =
		(const uint8_t *)v->map + (uint64_t)slot * UNIT + v->head.kind[kind].live;
	union ledger_record second;
	bool torn = false;
	uint64_t a = copy_read(v, kind, at, rec, &torn);
	uint64_t b = copy_read(v, kind, at + copy_bytes(len), &second, &torn);

	v->is_damaged |= torn;
	if (b > a)
		memcpy(rec, &second, len);
	return a || b;
}

bool ledger_next(struct ledger_view *v, enum ledger_kind kind, uint32_t *at, void *rec)
{
	const struct head *h = &v->head;
	uint32_t per = h->kind[kind].slot / UNIT, each = CHUNK / UNIT;
	uint32_t slot = *at ? *at + per : each;

	for (uint32_t n = slot / each; n < h->num_chunks; n++, slot = n * each) {
		if (h->kind_of[n] != kind)
			continue;
		for (; slot + per <= (n + 1) * each; slot += per)
			if (slot_read(v, kind, slot, rec)) {
				*at = slot;
				return true;
			}
	}
	return false;
}

bool ledger_is_damaged(const struct ledger_view *v)
{
	return v->is_damaged;
}

uint64_t ledger_cursor(const struct ledger_view *v, uint32_t slot, enum ledger_cursor which)
{
	const uint8_t *at =
		(const uint8_t *)v->map + (uint64_t)slot * UNIT + v->head.cursor[which].off;
	uint64_t dword;
	uint32_t word;

	switch (v->head.cursor[which].width) {
	case 1:
		return *at;
	case sizeof(word):
		memcpy(&word, at, sizeof(word));
		return word;
	default:
		memcpy(&dword, at, sizeof(dword));
		return dword;
	}
}
#define X(KIND, type, member, name)                                                                \
	static_assert(sizeof(((struct type *)0)->member) == 1 ||                                   \
			      sizeof(((struct type *)0)->member) == 4 ||                           \
			      sizeof(((struct type *)0)->member) == 8,                             \
		      "cursors are bytes or words");
LEDGER_CURSORS(X)
#undef X

bool ledger_bytes(const struct ledger_view *v, uint32_t slot, uint32_t off, void *to, uint32_t len)
{
	uint32_t live = v->head.kind[v->head.kind_of[(uint64_t)slot * UNIT / CHUNK]].live;

	if (off > live || len > live - off)
		return false;
	memcpy(to, (const uint8_t *)v->map + (uint64_t)slot * UNIT + off, len);
	return true;
}

/* ---- as text -------------------------------------------------------------------------------- */

struct text {
	char *at;
	size_t size, len;
};

static void add(struct text *t, const char *name, uint64_t value)
{
	bool room = t->len < t->size;
	int n = snprintf(room ? t->at + t->len : NULL, room ? t->size - t->len : 0, " %s=%llx",
			 name, (unsigned long long)value);

	t->len += n > 0 ? (size_t)n : 0;
}

static void add_word(struct text *t, const char *word)
{
	bool room = t->len < t->size;
	int n = snprintf(room ? t->at + t->len : NULL, room ? t->size - t->len : 0, "%s", word);

	t->len += n > 0 ? (size_t)n : 0;
}

size_t ledger_dump(struct ledger_view *v, char *text, size_t size)
{
	struct text t = { .at = text, .size = size };
	uint32_t at;

#define DUMP_F(type, field)    add(&t, #field, r.field);
#define DUMP_A(type, field, n) /* an address, a name: no number */
#define X(KIND, name)                                                                              \
	{                                                                                          \
		struct ledger_##name r;                                                            \
                                                                                                   \
		for (at = 0; ledger_next(v, LEDGER_##KIND, &at, &r);) {                            \
			add_word(&t, #name);                                                       \
			LEDGER_##KIND##_FIELDS(DUMP_F, DUMP_A);                                    \
			for (unsigned i = 0; i < LEDGER_NUM_CURSORS; i++)                          \
				if (cursors[i].kind == LEDGER_##KIND)                              \
					add(&t, cursor_name[i], ledger_cursor(v, at, i));          \
			add_word(&t, "\n");                                                        \
		}                                                                                  \
	}
	static const char *const cursor_name[LEDGER_NUM_CURSORS] = {
#define Y(KIND, type, member, name) [LEDGER_CUR_##name] = #name,
		LEDGER_CURSORS(Y)
#undef Y
	};
	LEDGER_RECORDS(X)
#undef X
	return t.len;
}
