/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_slot.c - ffl/session/slot.c and its place in ffl/session/call.c: requests through shared memory, against
 * a router that looks, stops looking and is late as it likes.
 *
 * build: ffl/session/call.c ffl/session/slot.c ffl/session/log.c
 *
 * threads: yes
 */
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/ffl.h"

#define CALLS 20000

static struct ffl_context *ctx;
static struct ff_call_slot *slot;
static int sock; /* the router's end */
static _Atomic bool stop;
static unsigned by_slot, by_socket, twice; /* requests, and answers that went both ways */
static uint32_t last_seq;

/* ---- the router ---------------------------------------------------------------------------------- */

struct packet {
	struct ff_hdr h;
	union {
		struct ff_get_seg_req req;
		struct ff_get_seg_resp resp;
	};
};
static_assert(sizeof(struct ff_get_seg_req) == sizeof(struct ff_get_seg_resp), "");

/* The answer to a request is made of the request. */
static void serve(struct packet *p)
{
	p->resp.size = (uint64_t)p->req.seg << 32 | p->h.seq;
	if (p->h.seq != last_seq + 1) /* none is lost, none comes twice */
		abort();
	last_seq = p->h.seq;
}

static void send_answer(struct packet *p)
{
	if (send(sock, p, sizeof(*p), 0) != sizeof(*p))
		abort();
}

static bool serve_slot(unsigned *random)
{
	uint32_t state = FF_CALL_POSTED, seq;
	struct packet p;

	if (!atomic_compare_exchange_strong(&slot->state, &state, FF_CALL_TAKEN))
		return false;
	if (atomic_load(&slot->len) != sizeof(p))
		abort();
	memcpy(&p, slot->packet, sizeof(p));
	serve(&p);
	for (int i = rand_r(random) % 64; !i; i--)
		sched_yield();
	seq = p.h.seq;
	memcpy(slot->packet, &p, sizeof(p));
	atomic_store(&slot->state, FF_CALL_ANSWERED);
	for (int i = rand_r(random) % 64; !i; i--)
		sched_yield(); /* so that the client is at its next request */
	if (atomic_load(&slot->wait) == seq &&
	    atomic_compare_exchange_strong(&slot->wait, &seq, 0)) {
		twice++;
		send_answer(&p);
	}
	by_slot++;
	return true;
}

static bool serve_socket(void)
{
	struct packet p;
	ssize_t n = recv(sock, &p, sizeof(p), MSG_DONTWAIT);

	if (n != sizeof(p))
		return false;
	serve(&p);
	send_answer(&p);
	by_socket++;
	return true;
}

static void *router(void *arg)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	unsigned random = 1;

	(void)arg;
	while (!stop) {
		/* awake, on a CPU that is the client's or not */
		atomic_store(&slot->awake, 1 + (rand_r(&random) % 2 ? sched_getcpu() : 9999));
		for (int i = rand_r(&random) % (rand_r(&random) % 8 ? 16 : 2000); i; i--)
			if (!serve_slot(&random) && !serve_socket() && !(i % 16))
				sched_yield();
		atomic_store(&slot->awake, 0);
		serve_slot(&random);
		/* asleep: a request that comes into the slot now is never seen */
		while (!stop && !poll(&p, 1, 1))
			;
		serve_socket();
	}
	return NULL;
}

/* ---- the program ----------------------------------------------------------------------------------- */

static int setup(void **state)
{
	int pair[2];

	(void)state;
	ffl_log_level = 0;
	ctx = calloc(1, sizeof(*ctx));
	ctx->pid = getpid();
	ctx->call_timeout = 10000;
	ctx->v.context.async_fd = -1;
	pthread_mutex_init(&ctx->call_lock, NULL);
	ctx->hdr = aligned_alloc(4096, (sizeof(*ctx->hdr) + 4095) & ~4095ul);
	memset(ctx->hdr, 0, sizeof(*ctx->hdr));
	slot = &ctx->hdr->call;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	ctx->sock = pair[0];
	sock = pair[1];
	last_seq = by_slot = by_socket = twice = 0;
	stop = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(ctx->sock);
	close(sock);
	free(ctx->hdr);
	free(ctx);
	return 0;
}

static int call(uint32_t seg, struct ff_get_seg_resp *resp)
{
	struct ff_get_seg_req req = { .seg = seg };

	return FFL_CALL(ctx, GET_SEG, &req, resp);
}

static void every_answer_is_its_own(void **state)
{
	struct ff_get_seg_resp resp;
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, router, NULL), 0);
	for (uint32_t i = 1; i <= CALLS; i++) {
		assert_int_equal(call(i, &resp), 0);
		assert_true(resp.size == ((uint64_t)i << 32 | i));
		if (i % 1024 == 0)
			usleep(100);
	}
	stop = true;
	pthread_join(t, NULL);
	assert_int_equal(by_slot + by_socket, CALLS);
	print_message("%u in the slot, %u of them answered through the socket\n", by_slot, twice);
	/* nothing is left over */
	assert_int_equal(recv(ctx->sock, &resp, sizeof(resp), MSG_DONTWAIT), -1);
}

/* Threads take turns; each gets the answer to what it asked. */
static void *one_thread(void *arg)
{
	uint32_t id = (uint32_t)(uintptr_t)arg;
	struct ff_get_seg_resp resp;

	for (uint32_t i = 0; i < CALLS / 10; i++) {
		if (call(id, &resp))
			abort();
		if (resp.size >> 32 != id)
			abort();
	}
	return NULL;
}

static void threads(void **state)
{
	pthread_t t, user[3];

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, router, NULL), 0);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&user[i], NULL, one_thread, (void *)(i + 1)), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(user[i], NULL);
	stop = true;
	pthread_join(t, NULL);
	assert_int_equal(by_slot + by_socket, 3 * (CALLS / 10));
}

/* The number that means "nobody waits" is no request's. */
static void seq_skips_zero(void **state)
{
	struct ff_get_seg_resp resp;
	pthread_t t;

	(void)state;
	ctx->call_seq = UINT32_MAX;
	last_seq = 0;
	assert_int_equal(pthread_create(&t, NULL, router, NULL), 0);
	assert_int_equal(call(1, &resp), 0);
	stop = true;
	pthread_join(t, NULL);
	assert_int_equal(ctx->call_seq, 1);
}

/* What is too long for the slot, or may bring descriptors, goes through the socket. */
static void the_rest_uses_the_socket(void **state)
{
	struct ff_mr_run run[FF_MR_MAX_RUNS] = { 0 };
	struct ff_reg_mr_req req = { 0 };
	struct iovec iov[2] = { { &req, sizeof(req) }, { run, sizeof(run) } };

	(void)state;
	assert_false(ffl_slot_post(ctx, iov, 1, sizeof(req))); /* nobody looks */
	slot->awake = 1;
	assert_false(ffl_slot_post(ctx, iov, 2, sizeof(req) + sizeof(run)));
	assert_int_equal(slot->state, FF_CALL_FREE);
	assert_true(ffl_slot_post(ctx, iov, 1, sizeof(req)));
	assert_int_equal(slot->state, FF_CALL_POSTED);
	assert_int_equal(slot->len, sizeof(req));
	ctx->hdr = NULL;
	assert_false(ffl_slot_post(ctx, iov, 1, sizeof(req))); /* HELLO */
	ctx->hdr = (struct ff_ses_hdr *)((char *)slot - offsetof(struct ff_ses_hdr, call));
}

/* Nobody looks at the slot of a session that is lost. */
static void a_lost_session(void **state)
{
	struct ff_get_seg_resp resp;

	(void)state;
	slot->awake = 1;
	ffl_mark_dead(ctx);
	assert_int_equal(call(1, &resp), -EIO);
	assert_int_equal(slot->state, FF_CALL_FREE);
}

/* A router that writes nonsense loses the session, and nothing is read beyond the slot. */
static void a_malformed_answer(void **state)
{
	struct ff_hdr h;
	struct iovec iov[1] = { { &h, sizeof(h) } };

	(void)state;
	slot->awake = 1;
	assert_true(ffl_slot_post(ctx, iov, 1, sizeof(h)));
	slot->len = UINT32_MAX;
	slot->state = FF_CALL_ANSWERED;
	assert_int_equal(ffl_slot_answer(ctx, 1, iov, 1), FF_CALL_MAX);
	assert_int_equal(slot->state, FF_CALL_FREE);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

	return UNIT_RUN(TEST(every_answer_is_its_own), TEST(threads), TEST(seq_skips_zero),
			TEST(the_rest_uses_the_socket), TEST(a_lost_session),
			TEST(a_malformed_answer));
}
