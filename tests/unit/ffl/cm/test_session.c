/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_session.c - ffl/cm/session.c: the session of channels and ids, for how long there is one,
 * and what becomes of it when the router dies.
 */
#include <unistd.h>

#include "ffl/cm/session.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

static unsigned made, freed, opened, left;
static struct ffl_context device[4]; /* in the order of being opened */
static unsigned objects;	     /* the program's, in all devices */

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

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	(void)d;
	return &device[opened++].v.context;
}

int ffl_device_leave(struct ibv_context *c)
{
	assert_true(atomic_load(&to_ctx(c)->dead));
	if (objects)
		return -EBUSY;
	left++;
	return 0;
}

#undef ibv_get_device_list
struct ibv_device **ibv_get_device_list(int *num)
{
	static struct ibv_device d;
	static struct ibv_device *list[] = { &d, NULL };

	(void)num;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	(void)c;
	memset(attr, 0, sizeof(*attr));
	return 0;
}

int ffl_call(struct ffl_context *c, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	(void)c, (void)req, (void)req_len, (void)tail, (void)tail_size, (void)n_tail, (void)resp;
	(void)resp_len, (void)fds, (void)max_fds, (void)n_fds;
	assert_int_equal(type, FF_MSG_IMPORT_DEVICE);
	return 0;
}

/* The PD of ids; `objects` keep it. */
static struct ibv_pd pd;

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	pd.context = c;
	return &pd;
}

int ibv_dealloc_pd(struct ibv_pd *p)
{
	assert_ptr_equal(p, &pd);
	return objects ? EBUSY : 0;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(int, ibv_close_device, struct ibv_context *c)

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

static void die(struct cm_session *s)
{
	atomic_store(&s->ctx->dead, true);
	atomic_store(&to_ctx(s->verbs)->dead, true);
}

/* Programs have the device of a router that is gone in ids and lists, and objects in it. */
static void a_dead_device_is_left_by_the_last_user(void **state)
{
	struct cm_session *s = cm_session_get();
	struct cm_id id = { .ses = s };
	struct ibv_context **list;
	int n;

	(void)state;
	assert_int_equal(cm_device_get(&id), 0);
	list = rdma_get_devices(&n);
	assert_int_equal(n, 1);
	assert_ptr_equal(list[0], id.id.verbs);
	assert_null(list[1]);
	die(s);
	objects = 1;
	cm_session_put(cm_session_get()); /* the next router's */
	cm_device_put(s);
	cm_session_put(s);
	assert_int_equal(left, 0);
	rdma_free_devices(list);
	assert_int_equal(left, 0);
	objects = 0;
	cm_session_put(cm_session_get());
	assert_int_equal(left, 1);
	cm_session_put(cm_session_get());
	assert_int_equal(left, 1);
	assert_null(ended);
}

/* A list that the program has keeps the device; so does a router that lives. */
static void a_list_of_devices_keeps_the_device(void **state)
{
	struct ibv_context **list = rdma_get_devices(NULL);
	unsigned before = left;

	(void)state;
	assert_non_null(list);
	atomic_store(&current->ctx->dead, true); /* and the device is as before */
	cm_session_put(cm_session_get());
	assert_int_equal(left, before);
	rdma_free_devices(list);
	cm_session_put(cm_session_get());
	assert_int_equal(left, before);
	assert_non_null(ended);
	atomic_store(&to_ctx(ended->verbs)->dead, true);
	cm_session_put(cm_session_get());
	assert_int_equal(left, before + 1);
	rdma_free_devices(NULL);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(it_stays_for_the_next_channel),
			cmocka_unit_test(a_dead_one_gets_no_more_channels),
			cmocka_unit_test(a_dead_device_is_left_by_the_last_user),
			cmocka_unit_test(a_list_of_devices_keeps_the_device));
}
