/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_session.c - ffl/cm/session.c: the session of channels and ids, for how long there is one,
 * and what becomes of it when the router dies.
 */
#include <unistd.h>

#include "ffl/cm/session.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

static unsigned made, freed;

void ffl_log_init(void)
{
}

struct ffl_context *ffl_session_new(uint32_t call_timeout)
{
	struct ffl_context *c = calloc(1, sizeof(*c));

	(void)call_timeout;
	c->pid = getpid();
	made++;
	return c;
}

void ffl_session_free(struct ffl_context *c)
{
	freed++;
	free(c);
}

int ffl_session_track(struct ffl_context *c)
{
	(void)c;
	return 0;
}

void ffl_session_untrack(struct ffl_context *c)
{
	(void)c;
}

bool ffl_check_alive(struct ffl_context *c)
{
	return !atomic_load(&c->dead);
}

void cm_renew_forked(void)
{
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(int, ffl_call, struct ffl_context *c, enum ff_msg_type type, const void *req,
	   size_t req_len, const void *tail, size_t tail_size, unsigned n_tail, void *resp,
	   size_t resp_len, int *fds, unsigned max_fds, unsigned *n_fds)
NOT_CALLED(struct ibv_pd *, ibv_alloc_pd, struct ibv_context *c)
NOT_CALLED(int, ibv_dealloc_pd, struct ibv_pd *pd)
NOT_CALLED(int, ibv_close_device, struct ibv_context *c)
NOT_CALLED(void, ibv_free_device_list, struct ibv_device **list)
NOT_CALLED(struct ibv_context *, ibv_open_device, struct ibv_device *d)
NOT_CALLED(int, ibv_query_device, struct ibv_context *c, struct ibv_device_attr *attr)
#undef ibv_get_device_list
NOT_CALLED(struct ibv_device **, ibv_get_device_list, int *num)

/* A program's next channel finds the session of its last one. */
static void it_stays_for_the_next_channel(void **state)
{
	struct cm_session *s = cm_session_get();

	(void)state;
	assert_non_null(s);
	cm_session_put(s);
	assert_int_equal(freed, 0);
	assert_ptr_equal(cm_session_get(), s);
	cm_session_put(s);
	assert_int_equal(made, 1);
}

/*
 * The session of a router that has died is for those who are in it, and goes with the last of them.
 */
static void a_dead_one_gets_no_more_channels(void **state)
{
	struct cm_session *old = cm_session_get(), *s;

	(void)state;
	assert_ptr_equal(cm_session_ref(old), old);
	atomic_store(&old->ctx->dead, true);
	s = cm_session_get();
	assert_ptr_not_equal(s, old);
	assert_int_equal(made, 2);
	cm_session_put(old);
	assert_int_equal(freed, 0);
	cm_session_put(old);
	assert_int_equal(freed, 1);
	/* and one that nobody is in goes at once */
	cm_session_put(s);
	atomic_store(&s->ctx->dead, true);
	s = cm_session_get();
	assert_int_equal(made, 3);
	assert_int_equal(freed, 2);
	cm_session_put(s);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(it_stays_for_the_next_channel),
			cmocka_unit_test(a_dead_one_gets_no_more_channels));
}
