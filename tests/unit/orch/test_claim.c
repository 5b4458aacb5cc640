/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_claim.c - ffr/orch/claim.c: what this host asks before a container moves here, what it makes
 * of the answers and of silence, and what it answers others. The test is the wire, and time is
 * virtual.
 */
#include <errno.h>
#include <string.h>

#include "ffr/ctl/container.h"
#include "ffr/fast/internal.h"
#include "ffr/lib/log.h"
#include "ffr/orch/internal.h"
#include "ffr/peer/peer.h"
#include "ffr/wire/runs.h"
#include "tests/rig/unit/unit.h"

static struct {
	uint64_t ms;
	struct wire_peer peer;
	bool knows_host;	 /* else peer_of_host() knows none */
	unsigned wants, asked;	 /* connections that are wanted; questions */
	int ask_err;		 /* of the next questions */
	uint32_t asked_number;	 /* of the last question */
	struct runs_frame in[4]; /* what has come and is not taken */
	unsigned num_in;
	struct container cont;
	unsigned looks;
	enum container_runs runs;
	unsigned told;		  /* answers to others, */
	enum wire_runs told_code; /* the last answer to others */
} world;

static uint64_t virtual_now(const uv_loop_t *loop)
{
	(void)loop;
	return world.ms;
}

static struct wire_peer *world_peer(struct peers *ps, const char *host, const char *instance,
				    const char *wire, bool up)
{
	(void)ps, (void)host, (void)instance, (void)wire;
	world.peer.up = up;
	return world.knows_host ? &world.peer : NULL;
}

static void world_get(struct wire_peer *p)
{
	p->refs++;
}

static void world_put(struct wire_peer *p)
{
	assert_true(p->refs > 0);
	p->refs--;
}

static void world_want(struct wire_peer *p)
{
	(void)p;
	world.wants++;
}

static int world_ask(struct fast *f, struct wire_peer *p, uint32_t container, uint32_t epoch,
		     uint32_t number)
{
	(void)f;
	assert_ptr_equal(p, &world.peer);
	assert_true(container == 9 && epoch == 4);
	world.asked++;
	world.asked_number = number;
	return world.ask_err;
}

static void world_tell(struct fast *f, const struct runs_frame *question, enum wire_runs code)
{
	(void)f;
	assert_ptr_equal(question->peer, &world.peer);
	world.told++;
	world.told_code = code;
}

static bool world_take(struct fast *f, struct runs_frame *fr)
{
	(void)f;
	if (!world.num_in)
		return false;
	*fr = world.in[--world.num_in];
	return true;
}

static struct container *world_container(struct ctl *ctl, uint32_t id)
{
	(void)ctl;
	return id == world.cont.id ? &world.cont : NULL;
}

static void world_look(struct container *c, container_runs_fn *fn, void *arg)
{
	assert_ptr_equal(c, &world.cont);
	world.looks++;
	fn(arg, world.runs, false);
}

static void world_lock(struct fast_host *h)
{
	(void)h;
}

static void handle_closed(uv_handle_t *h)
{
	((struct orch *)h->data)->open_handles--;
}

#define uv_now		      virtual_now
#define peer_of_host	      world_peer
#define peer_get	      world_get
#define peer_put	      world_put
#define peer_want	      world_want
#define wire_runs_ask	      world_ask
#define wire_runs_tell	      world_tell
#define wire_runs_take	      world_take
#define container_by_id	      world_container
#define container_runs_ask    world_look
#define fast_lock	      world_lock
#define fast_unlock	      world_lock
#define orch_on_handle_closed handle_closed
#include "ffr/orch/claim.c" /* NOLINT(bugprone-suspicious-include) */

static uv_loop_t loop;
static struct fast fast;
static struct fast_host host = { .threads = { &fast } };
static struct ctl ctl = { .loop = &loop, .host = &host };
static struct container_ctl cont_ctl;
static struct orch orch;
static struct ffo_host owner;
static const struct ffo_container cont = { .id = 9, .epoch = 4, .name = "web" };
static int result; /* of the last claim; 1: it goes on */

static int setup(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	memset(&cont_ctl, 0, sizeof(cont_ctl));
	world.ms = 5000;
	world.knows_host = true;
	world.peer.addr.ss_family = AF_INET;
	strcpy(world.peer.instance, "x");
	world.peer.tcp = (struct wire_tcp *)&world; /* connected */
	world.peer.generation = 1;
	world.cont = (struct container){ .id = 9, .epoch = 4, .ctl = &cont_ctl };
	owner = (struct ffo_host){ .name = "h1", .wire = "tcp:10.9.9.9:7", .up = true };
	fast.host = &host;
	orch = (struct orch){ .ctl = &ctl, .conf = { .peers = (struct peers *)&world } };
	assert_int_equal(uv_loop_init(&loop), 0);
	return orch_claim_init(&orch);
}

/* Nothing is left of any claim or question. */
static int teardown(void **state)
{
	(void)state;
	orch_claim_stop(&orch);
	assert_int_equal(world.peer.refs, 0);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(orch.open_handles, 0);
	return uv_loop_close(&loop);
}

static void claimed(void *arg, int err, const char *text)
{
	(void)arg;
	assert_int_equal(!err, !text);
	result = err;
}

static int claim(void)
{
	result = 1;
	orch_claim_ask(&orch, &cont, &owner, claimed, NULL);
	return result;
}

/* A look whether there is a connection, or an end. */
static int tick(uint64_t ms)
{
	world.ms += ms;
	on_tick(&orch.claim_tick);
	return result;
}

static void frame_comes(struct runs_frame fr)
{
	fr.peer = &world.peer;
	world_get(fr.peer);
	world.in[world.num_in++] = fr;
	on_frames(&orch.runs_frames);
}

static void answer(uint32_t number, uint8_t code)
{
	frame_comes((struct runs_frame){
		.is_answer = true, .container = 9, .epoch = 4, .number = number, .code = code });
}

/* ---- this host asks -------------------------------------------------------------------------- */

static void the_owners_answer_decides(void **state)
{
	static const struct {
		uint8_t code;
		int err;
	} row[] = {
		{ WIRE_RUNS_NO, 0 },
		{ WIRE_RUNS_YES, -EBUSY },
		{ WIRE_RUNS_CLAIMED, -ESTALE },
		{ WIRE_RUNS_NOT_HERE, -EIO },
		{ WIRE_RUNS_UNKNOWN, -EIO },
		{ 0, -EIO },
		{ 99, -EIO },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		assert_int_equal(claim(), 1);
		assert_int_equal(world.asked, i + 1);
		answer(world.asked_number, row[i].code);
		assert_int_equal(result, row[i].err);
		assert_int_equal(world.peer.refs, 0);
	}
}

/* An answer to another question, or about another container, decides nothing. */
static void other_answers_do_not(void **state)
{
	struct runs_frame fr = { .is_answer = true, .code = WIRE_RUNS_NO };
	uint32_t number;

	(void)state;
	assert_int_equal(claim(), 1);
	number = world.asked_number;
	answer(number + 1, WIRE_RUNS_NO);
	fr.number = number;
	fr.container = 8;
	fr.epoch = 4;
	frame_comes(fr);
	fr.container = 9;
	fr.epoch = 3;
	frame_comes(fr);
	assert_int_equal(result, 1);
	answer(number, WIRE_RUNS_NO);
	assert_int_equal(result, 0);
	answer(number, WIRE_RUNS_NO); /* nobody waits any more */
}

static void silence_is_no_answer(void **state)
{
	(void)state;
	assert_int_equal(claim(), 1);
	assert_true(uv_is_active((uv_handle_t *)&orch.claim_tick));
	assert_int_equal(tick(CLAIM_PATIENCE - 1), 1);
	assert_int_equal(tick(1), -EIO);
	assert_false(uv_is_active((uv_handle_t *)&orch.claim_tick));
}

/* The question goes out once on each connection; a connection that there is not is made. */
static void each_connection_gets_the_question(void **state)
{
	(void)state;
	world.peer.tcp = NULL;
	assert_int_equal(claim(), 1);
	assert_int_equal(world.wants, 1);
	assert_int_equal(world.asked, 0);
	world.peer.tcp = (struct wire_tcp *)&world;
	world.ask_err = -ENOBUFS;
	assert_int_equal(tick(CLAIM_TICK), 1);
	world.ask_err = 0;
	assert_int_equal(tick(CLAIM_TICK), 1);
	assert_int_equal(tick(CLAIM_TICK), 1);
	assert_int_equal(world.asked, 2);
	world.peer.generation++;
	assert_int_equal(tick(CLAIM_TICK), 1);
	assert_int_equal(world.asked, 3);
	answer(world.asked_number, WIRE_RUNS_NO);
	assert_int_equal(result, 0);
}

static void who_cannot_answer_is_not_waited_for(void **state)
{
	(void)state;
	world.peer.tcp = NULL;
	owner.up = false;
	assert_int_equal(claim(), -EIO);
	owner.up = true;
	world.peer.instance[0] = '\0';
	assert_int_equal(claim(), -EIO);
	assert_int_equal(world.wants, 0);
	world.knows_host = false;
	assert_int_equal(claim(), -EIO);
}

/* Without a wire there is no way to ask: the orchestrator's word counts, of a host that is up. */
static void without_a_wire_nobody_is_asked(void **state)
{
	(void)state;
	world.knows_host = false;
	owner.wire[0] = '\0';
	assert_int_equal(claim(), 0);
	owner.up = false;
	assert_int_equal(claim(), -EIO);
	owner.up = true;
	strcpy(owner.wire, "tcp:10.9.9.9:7");
	orch.conf.peers = NULL;
	assert_int_equal(claim(), 0);
	assert_int_equal(world.asked, 0);
}

static void the_end_of_the_router_ends_claims(void **state)
{
	assert_int_equal(claim(), 1);
	assert_int_equal(teardown(state), 0);
	assert_int_equal(result, -ECANCELED);
	setup(state);
}

/* ---- this host is asked ---------------------------------------------------------------------- */

static void ask_here(uint32_t container, uint32_t epoch)
{
	frame_comes((struct runs_frame){ .container = container, .epoch = epoch, .number = 7 });
	assert_int_equal(world.peer.refs, 0);
}

static void this_host_looks(void **state)
{
	static const enum wire_runs code[] = { WIRE_RUNS_NO, WIRE_RUNS_YES, WIRE_RUNS_UNKNOWN };

	(void)state;
	for (int runs = RUNS_NO; runs <= RUNS_UNKNOWN; runs++) {
		world.runs = runs;
		ask_here(9, 4);
		assert_int_equal(world.told_code, code[runs]);
	}
	assert_int_equal(world.looks, 3);
	ask_here(8, 4); /* nobody's */
	assert_int_equal(world.told_code, WIRE_RUNS_NOT_HERE);
	world.told_code = 0;
	ask_here(9, 3); /* from before it moved here */
	assert_int_equal(world.told_code, WIRE_RUNS_NOT_HERE);
	assert_int_equal(world.looks, 3);
}

/* What was claimed a moment ago is about to be started, until a program has opened the device. */
static void a_fresh_claim_is_told(void **state)
{
	(void)state;
	cont_ctl.claimed_at = world.ms;
	world.ms += CLAIM_NEW - 1;
	ask_here(9, 4);
	assert_int_equal(world.told_code, WIRE_RUNS_CLAIMED);
	world.runs = RUNS_YES;
	ask_here(9, 4);
	assert_int_equal(world.told_code, WIRE_RUNS_YES);
	world.runs = RUNS_NO;
	cont_ctl.heard.opened = 1;
	ask_here(9, 4);
	assert_int_equal(world.told_code, WIRE_RUNS_NO);
	cont_ctl.heard.opened = 0;
	world.ms++;
	ask_here(9, 4);
	assert_int_equal(world.told_code, WIRE_RUNS_NO);
}

static void others_make_it_look_so_often_only(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++)
		ask_here(9, 4);
	assert_int_equal(world.looks, QUESTIONS_MAX);
	world.ms += 1000;
	ask_here(9, 4);
	assert_int_equal(world.looks, QUESTIONS_MAX + 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(T(the_owners_answer_decides), T(other_answers_do_not),
			T(silence_is_no_answer), T(each_connection_gets_the_question),
			T(who_cannot_answer_is_not_waited_for), T(without_a_wire_nobody_is_asked),
			T(the_end_of_the_router_ends_claims), T(this_host_looks),
			T(a_fresh_claim_is_told), T(others_make_it_look_so_often_only));
}
