/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c */
/*
 * test_fast.c - what comes and goes on the fast path: threads with their backends, containers, sessions and
 * objects. Whatever comes is found where others look for it, and nothing is left of what goes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/fast/mw.h"
#include "tests/rig/fakes/fake_backend.h"
#include "tests/rig/common/dir.h"
#include "tests/rig/unit/rig.h"

/* ---- a backend that is asked ----------------------------------------------------------------------- */

static struct {
	int open_err;
	unsigned opened, closed;
	unsigned come[2]; /* of each thread */
	struct fast *gone_of;
	struct container *gone;
} asked;

static int open_(struct backend *be)
{
	if (asked.open_err)
		return asked.open_err;
	be->priv = be;
	asked.opened++;
	return 0;
}

static void close_(struct backend *be)
{
	assert_ptr_equal(be->priv, be);
	asked.closed++;
}

static void container_come(struct fast *f)
{
	asked.come[f->index]++;
}

static void container_gone(struct fast *f, struct container *c)
{
	asked.gone_of = f;
	asked.gone = c;
}

static struct backend_ops ops;
static struct rig r;

static void ops_init(void)
{
	memset(&asked, 0, sizeof(asked));
	fake_reset();
	ops = fake_ops;
	ops.open = open_;
	ops.close = close_;
	ops.container_come = container_come;
	ops.container_gone = container_gone;
}

static int setup(void **state)
{
	(void)state;
	ops_init();
	rig_init(&r, &ops);
	return 0;
}

static int setup_two(void **state)
{
	(void)state;
	rig_threads = 2;
	setup(state);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_fini(&r);
	assert_int_equal(asked.closed, asked.opened);
	rig_threads = 1;
	return 0;
}

static unsigned descriptors(void)
{
	return dir_count("/proc/self/fd");
}

/* ---- threads ---------------------------------------------------------------------------------------- */

static void threads_come_and_go(void **state)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct backend be = { .ops = &ops };
	unsigned before = descriptors();
	struct fast_host *h;

	(void)state;
	ops_init();
	conf.quantum = 4711;
	h = fast_create(&conf, &be);
	assert_non_null(h);
	assert_int_equal(h->num_threads, 1);
	assert_ptr_equal(h->threads[0]->be, &be);
	conf.quantum = 815;
	while (h->num_threads < FAST_THREADS_MAX)
		assert_int_equal(fast_add_thread(h, &conf), 0);
	assert_int_equal(fast_add_thread(h, &conf), -ENOSPC);
	assert_int_equal(asked.opened, FAST_THREADS_MAX);
	for (uint32_t i = 0; i < FAST_THREADS_MAX; i++) {
		const struct fast *f = h->threads[i];

		assert_ptr_equal(f->host, h);
		assert_int_equal(f->index, i);
		assert_ptr_equal(f->be->f, f);
		assert_ptr_equal(f->be->ops, &ops);
		assert_ptr_equal(f->be->priv, f->be);
		assert_int_equal(f->quantum, i ? 815 : 4711);
		assert_int_equal(f->conf.quantum, f->quantum);
		assert_true(f->now && f->now <= fast_clock());
		/* a container's first round is never the thread's: see turns.c */
		assert_int_equal(f->round, 1);
		for (uint32_t k = 0; k < i; k++)
			assert_ptr_not_equal(f->be, h->threads[k]->be);
	}
	fast_free(h);
	assert_int_equal(asked.closed, FAST_THREADS_MAX);
	assert_int_equal(descriptors(), before);
	fast_free(NULL);
}

/* The backend cannot be opened: there is no such thread, and nothing of it stays. */
static void no_backend(void **state)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct backend be = { .ops = &ops };
	unsigned before;
	struct fast_host *h;

	(void)state;
	ops_init();
	before = descriptors();
	asked.open_err = -ENODEV;
	errno = 0;
	assert_null(fast_create(&conf, &be));
	assert_int_equal(errno, ENODEV);
	assert_int_equal(asked.closed, 0); /* it was not opened */
	assert_int_equal(descriptors(), before);
	asked.open_err = 0;
	h = fast_create(&conf, &be);
	assert_non_null(h);
	before = descriptors();
	asked.open_err = -ENOMEM;
	assert_int_equal(fast_add_thread(h, &conf), -ENOMEM);
	assert_int_equal(h->num_threads, 1);
	assert_int_equal(descriptors(), before);
	asked.open_err = 0;
	assert_int_equal(fast_add_thread(h, &conf), 0);
	assert_int_equal(h->num_threads, 2);
	fast_free(h);
	assert_int_equal(asked.closed, 2);
}

static _Atomic unsigned ran[2];

static void run_first(struct timer *t)
{
	(void)t;
	ran[0]++;
}

static void run_second(struct timer *t)
{
	(void)t;
	ran[1]++;
}

/* All threads have a runner between start and stop, and none has one afterwards. */
static void started_and_stopped(void **state)
{
	struct timer timer[2] = { { .fn = run_first }, { .fn = run_second } };
	uint64_t end = fast_clock() + 10000 * NS_PER_MS;

	(void)state;
	for (int i = 0; i < 2; i++)
		r.f->host->threads[i]->conf.realtime = false;
	ran[0] = ran[1] = 0;
	assert_int_equal(fast_start(r.f->host), 0);
	fast_lock(r.f->host);
	for (int i = 0; i < 2; i++) {
		struct fast *f = r.f->host->threads[i];

		assert_int_equal(timer_arm(&f->timers, &timer[i], f->now), 0);
		fast_kick(f);
	}
	fast_unlock(r.f->host);
	while (!ran[0] || !ran[1])
		assert_true(fast_clock() < end);
	fast_stop(r.f->host);
	for (int i = 0; i < 2; i++) {
		struct fast *f = r.f->host->threads[i];

		assert_int_equal(atomic_load(&f->stop), 1);
		assert_int_equal(timer_arm(&f->timers, &timer[i], f->now), 0);
		fast_kick(f);
	}
	assert_int_equal(ran[0], 1);
	assert_int_equal(ran[1], 1);
	for (int i = 0; i < 2; i++)
		timer_cancel(&r.f->host->threads[i]->timers, &timer[i]);
}

/* ---- containers --------------------------------------------------------------------------------------- */

static bool is_on_host(const struct container *c)
{
	const struct container *o;

	LIST_FOREACH(o, &r.f->host->containers, entry)
		if (o == c)
			return true;
	return false;
}

static bool has_tenant(const char *name)
{
	const struct tenant *t;

	LIST_FOREACH(t, &r.f->host->tenants, entry)
		if (!strcmp(t->name, name))
			return true;
	return false;
}

static void containers_come_and_go(void **state)
{
	struct container *c = &r.cont[1];
	struct fast *of = c->fast;

	(void)state;
	assert_ptr_equal(of, r.f->host->threads[1]);
	assert_true(is_on_host(c));
	/* each thread was told of each of the four, wherever that one is: it may wait for it */
	assert_int_equal(asked.come[0], 4);
	assert_int_equal(asked.come[1], 4);
	c->place.near = &r.cont[0];
	c->place.near_first = c->place.at_first = true;
	r.cont[3].place.near = c;
	fast_container_del(r.f->host, c);
	assert_false(is_on_host(c));
	assert_ptr_equal(asked.gone, c);
	assert_ptr_equal(asked.gone_of, of);
	assert_null(c->place.near);
	assert_false(c->place.near_first || c->place.at_first);
	assert_null(r.cont[3].place.near); /* nobody waits for it */
	assert_int_equal(asked.come[0], 4);
	assert_int_equal(fast_container_add(r.f->host, c), 0);
	assert_true(is_on_host(c));
	assert_ptr_equal(c->fast, of);
	assert_int_equal(asked.come[0], 5);
	/* its tenant's last one takes the tenant with it, if that has no limits */
	assert_true(has_tenant("other"));
	fast_container_del(r.f->host, &r.cont[3]);
	assert_false(has_tenant("other"));
	assert_true(has_tenant("t"));
	assert_int_equal(fast_container_add(r.f->host, &r.cont[3]), 0);
}

/* With spin = auto the thread spins only while somebody is there who wants it. */
static void spin_for_the_sensitive(void **state)
{
	struct container *c = &r.cont[0];

	(void)state;
	r.f->conf.spin_auto = true;
	fast_container_del(r.f->host, c);
	assert_true(r.f->no_spin);
	c->limits.latency = true;
	assert_int_equal(fast_container_add(r.f->host, c), 0);
	assert_false(r.f->no_spin);
	fast_container_del(r.f->host, c);
	assert_true(r.f->no_spin);
	assert_int_equal(fast_container_add(r.f->host, c), 0);
}

/* ---- sessions ------------------------------------------------------------------------------------------ */

static bool rings(struct fast *f, struct rig_ses *s)
{
	struct epoll_event ev[4];
	uint64_t one = 1;
	int n;

	assert_int_equal(write(s->bell, &one, sizeof(one)), sizeof(one));
	n = epoll_wait(f->epoll_fd, ev, 4, 0);
	for (int i = 0; i < n; i++)
		if (bell_of(ev[i].data.ptr) == &s->s)
			return true;
	return false;
}

static void a_session_comes(void **state)
{
	struct rig_ses *s;
	uint64_t woken;

	(void)state;
	r.f->conf.node = 3;
	r.f->conf.yield_polls = 77;
	r.f->sleeping = true;
	s = rig_session(&r, 0);
	r.f->sleeping = false;
	assert_ptr_equal(s->s.fast, r.f);
	assert_int_equal(s->s.mem.node, 3);
	assert_int_equal(s->s.sched.cpu, 0xffff); /* nobody has posted */
	assert_int_equal(atomic_load(&s->s.hdr->need_wakeup), 1);
	assert_int_equal(atomic_load(&s->s.hdr->yield_polls), 77);
	assert_ptr_equal(LIST_FIRST(&r.cont[0].sessions), &s->s);
	/* the runner was woken: it may have to spin from now on */
	assert_int_equal(read(r.f->stop_fd, &woken, sizeof(woken)), sizeof(woken));
	assert_true(rings(r.f, s));
	rig_session_free(&r, s);
}

static void a_session_goes(void **state)
{
	struct rig_ses *s[2] = { rig_session(&r, 0), rig_session(&r, 0) };
	struct epoll_event ev[4];
	uint64_t one = 1;
	int bell;

	(void)state;
	r.cont[0].place.at_first = r.cont[0].place.near_first = true;
	ses_activate(r.f, &s[0]->s);
	fast_data_to(r.f, &s[0]->s);
	fast_data_to(r.f, &s[1]->s);
	bell = dup(s[0]->bell);
	rig_session_free(&r, s[0]);
	assert_true(TAILQ_EMPTY(&r.f->active_sessions));
	assert_ptr_equal(SLIST_FIRST(&r.f->touched), &s[1]->s);
	assert_null(SLIST_NEXT(&s[1]->s, sched.entry));
	assert_ptr_equal(LIST_FIRST(&r.cont[0].sessions), &s[1]->s);
	assert_null(LIST_NEXT(&s[1]->s, entry));
	/* its bell is heard no more, though the client still has it */
	assert_int_equal(write(bell, &one, sizeof(one)), sizeof(one));
	assert_int_equal(epoll_wait(r.f->epoll_fd, ev, 4, 0), 0);
	close(bell);
	/* the container has to stay on the first thread for the other one */
	assert_true(r.cont[0].place.at_first && r.cont[0].place.near_first);
	rig_session_free(&r, s[1]);
	assert_false(r.cont[0].place.at_first || r.cont[0].place.near_first);
	assert_true(SLIST_EMPTY(&r.f->touched));
}

static void spinning_sessions_are_counted(void **state)
{
	struct rig_ses *s[2];

	(void)state;
	s[0] = rig_session(&r, 0);
	assert_int_equal(r.f->num_spin, 0);
	r.cont[2].mode = FF_MODE_SPIN;
	s[1] = rig_session(&r, 2);
	assert_int_equal(r.f->num_spin, 1);
	rig_session_free(&r, s[0]);
	assert_int_equal(r.f->num_spin, 1);
	rig_session_free(&r, s[1]);
	assert_int_equal(r.f->num_spin, 0);
}

/* A bell that cannot be listened to: there is no such session. */
static void a_bad_bell(void **state)
{
	static struct ff_ses_hdr hdr;
	struct session s = { .cont = &r.cont[0], .hdr = &hdr, .bell_fd = -1 };

	(void)state;
	assert_int_equal(fast_session_add(r.f, &s), -EBADF);
	assert_true(LIST_EMPTY(&r.cont[0].sessions));
}

static unsigned woken;

static void mw_wake(struct fast_host *h)
{
	(void)h;
	woken++;
}

/* ---- objects ------------------------------------------------------------------------------------------- */

static void objects_go(void **state)
{
	struct rig_one o;
	struct mw mw = { .type = IBV_MW_TYPE_1 };
	uint8_t buf[64];
	struct mr *mr;

	(void)state;
	rig_one_open(&o, &ops, IBV_QPT_RC, 16, true);
	o.r.f->host->mw_wake = mw_wake;
	woken = 0;
	mr = rig_mr(&o.r, o.s, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw.o.ses = &o.s->s;
	mw.pd = &o.s->pd;
	assert_int_equal(mw_key_new(&o.r.cont[0], &mw), 0);
	mw.mr = mr;
	mr->o.refs++;
	LIST_INSERT_HEAD(&mr->windows, &mw, of_mr);
	mw_note(&mw);
	assert_int_equal(woken, 1);
	assert_true(mw_any_changed(o.r.f->host));
	fast_mw_del(o.r.f, &mw);
	assert_null(mw.mr);
	assert_int_equal(mr->o.refs, 0);
	assert_false(mw_any_changed(o.r.f->host));
	assert_int_equal(o.r.cont[0].windows.used, 0);
	free(o.r.cont[0].windows.slot);
	fast_mr_del(mr);
	assert_null(key_lookup(&o.r.cont[0].keys, mr->lkey)); /* nobody finds it any more */
	rig_mr_free(&o.r, mr);
	/* a CQ that has something to tell goes */
	o.cq->cq.notify_pending = true;
	STAILQ_INSERT_TAIL(&o.r.f->notify, &o.cq->cq, notify);
	fast_cq_del(o.r.f, &o.cq->cq);
	assert_false(o.cq->cq.notify_pending);
	assert_true(STAILQ_EMPTY(&o.r.f->notify));
	rig_one_close(&o);
}

#define TEST(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_TWO(name) cmocka_unit_test_setup_teardown(name, setup_two, teardown)

static void *ends_at_once(void *arg)
{
	return arg;
}

int main(void)
{
	pthread_t t; /* with the first one a sanitizer starts its own */

	if (pthread_create(&t, NULL, ends_at_once, NULL))
		return 1;
	pthread_join(t, NULL);
	return UNIT_RUN(cmocka_unit_test(threads_come_and_go), cmocka_unit_test(no_backend),
			TEST_TWO(started_and_stopped), TEST_TWO(containers_come_and_go),
			TEST(spin_for_the_sensitive), TEST(a_session_comes), TEST(a_session_goes),
			TEST(spinning_sessions_are_counted), TEST(a_bad_bell), TEST(objects_go));
}
