/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_session.c - ffl/cm/session.c: the session of channels and ids, for how long there is one,
 * what becomes of it when the router dies, and which device an id is on.
 */
#include <unistd.h>

#include "ffl/cm/session.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

static unsigned made, freed, left;
static unsigned objects; /* the program's, in all devices */

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

int ffl_device_leave(struct ibv_context *c)
{
	assert_true(atomic_load(&to_ctx(c)->dead));
	if (objects)
		return -EBUSY;
	left++;
	return 0;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(int, ibv_close_device, struct ibv_context *c)

/* ---- a router and the container's devices --------------------------------------------------------- */

static struct {
	uint32_t num;	/* devices */
	uint32_t of_id; /* the device that every id is on */
	unsigned imported, pds;
} router = { .num = 1 };
static struct ibv_device device[FF_DEVICES_MAX];
static struct ffl_context opened[FF_DEVICES_MAX];

int ffl_call(struct ffl_context *c, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	memset(resp, 0, resp_len);
	switch ((int)type) {
	case FF_MSG_CM_DEVICE:
		((struct ff_cm_device_resp *)resp)->device = router.of_id;
		return 0;
	case FF_MSG_IMPORT_DEVICE:
		router.imported |= 1u << ((const uint8_t *)req)[0];
		return 0;
	default:
		fail_msg("message %d", type);
		return 0;
	}
}

#undef ibv_get_device_list
struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list = calloc(FF_DEVICES_MAX + 1, sizeof(*list));

	*num = (int)router.num;
	for (uint32_t i = 0; i < router.num; i++)
		list[i] = &device[i];
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	ptrdiff_t i = d - device;

	opened[i].token[0] = (uint8_t)i;
	opened[i].v.context.device = d;
	return &opened[i].v.context;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){ .max_qp_wr = 8 };
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = c;
	router.pds++;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (objects)
		return EBUSY;
	router.pds--;
	free(pd);
	return 0;
}

static void devices_are(bool dead)
{
	for (size_t i = 0; i < FF_DEVICES_MAX; i++)
		atomic_store(&opened[i].dead, dead);
}

/* A session with a router whose container has so many devices. All that was before is gone. */
static struct cm_session *with_devices(uint32_t num)
{
	struct cm_session *s = cm_session_get();

	atomic_store(&s->ctx->dead, true);
	devices_are(true);
	cm_session_put(s);
	s = cm_session_get();
	assert_null(ended);
	devices_are(false);
	router = (typeof(router)){ .num = num };
	left = 0;
	s->ctx->num_devices = num;
	return s;
}

/* An id has verbs and PD of the device that has its address; only that device is opened. */
static void an_id_gets_the_device_of_its_address(void **state)
{
	struct cm_session *s = with_devices(4);
	struct cm_id id[3] = { { .ses = s }, { .ses = s }, { .ses = s } };

	(void)state;
	router.of_id = 2;
	assert_int_equal(cm_device_get(&id[0]), 0);
	assert_ptr_equal(id[0].id.verbs, &opened[2].v.context);
	assert_ptr_equal(id[0].id.pd->context, &opened[2].v.context);
	assert_int_equal(router.imported, 1u << 2);
	assert_int_equal(cm_device_get(&id[1]), 0);
	assert_ptr_equal(id[1].id.pd, id[0].id.pd);
	router.of_id = 0;
	assert_int_equal(cm_device_get(&id[2]), 0);
	assert_ptr_equal(id[2].id.verbs, &opened[0].v.context);
	assert_int_equal(router.pds, 2);
	cm_device_put(&id[0]);
	assert_int_equal(router.pds, 2);
	cm_device_put(&id[1]);
	cm_device_put(&id[2]);
	assert_int_equal(router.pds, 0);
	router.of_id = FF_DEVICES_MAX;
	assert_int_equal(cm_device_get(&id[0]), -EPROTO);
	router.of_id = 5;
	assert_int_equal(cm_device_get(&id[0]), -ENODEV);
	cm_session_put(s);
}

static void programs_get_all_devices(void **state)
{
	struct cm_session *s = with_devices(3);
	struct ibv_context **list;
	int n;

	(void)state;
	list = rdma_get_devices(&n);
	assert_non_null(list);
	assert_int_equal(n, 3);
	for (int i = 0; i < n; i++)
		assert_ptr_equal(list[i], &opened[i].v.context);
	assert_null(list[n]);
	assert_int_equal(router.imported, 7);
	rdma_free_devices(list);
	cm_session_put(s);
}

/* ---- sessions --------------------------------------------------------------------------------------- */

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

/* Programs have the device of a router that is gone in ids and lists, and objects in it. */
static void a_dead_device_is_left_by_the_last_user(void **state)
{
	struct cm_session *s = with_devices(3);
	struct cm_id id = { .ses = s };
	struct ibv_context **list;
	int n;

	(void)state;
	assert_int_equal(cm_device_get(&id), 0);
	list = rdma_get_devices(&n);
	assert_int_equal(n, 3);
	assert_ptr_equal(list[0], id.id.verbs);
	atomic_store(&s->ctx->dead, true);
	devices_are(true);
	objects = 1;
	cm_session_put(cm_session_get()); /* the next router's */
	cm_device_put(&id);
	cm_session_put(s);
	assert_int_equal(left, 0);
	rdma_free_devices(list);
	assert_int_equal(left, 0);
	objects = 0;
	cm_session_put(cm_session_get());
	assert_int_equal(left, 3);
	cm_session_put(cm_session_get());
	assert_int_equal(left, 3);
	assert_null(ended);
}

/* A list that the program has keeps the device; so does a router that lives. */
static void a_list_of_devices_keeps_the_device(void **state)
{
	struct cm_session *s = with_devices(1);
	struct ibv_context **list = rdma_get_devices(NULL);

	(void)state;
	cm_session_put(s);
	assert_non_null(list);
	atomic_store(&current->ctx->dead, true); /* and the device is as before */
	cm_session_put(cm_session_get());
	assert_int_equal(left, 0);
	rdma_free_devices(list);
	cm_session_put(cm_session_get());
	assert_int_equal(left, 0);
	assert_non_null(ended);
	devices_are(true);
	cm_session_put(cm_session_get());
	assert_int_equal(left, 1);
	rdma_free_devices(NULL);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(it_stays_for_the_next_channel),
			cmocka_unit_test(a_dead_one_gets_no_more_channels),
			cmocka_unit_test(an_id_gets_the_device_of_its_address),
			cmocka_unit_test(programs_get_all_devices),
			cmocka_unit_test(a_dead_device_is_left_by_the_last_user),
			cmocka_unit_test(a_list_of_devices_keeps_the_device));
}
