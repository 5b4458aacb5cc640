/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_tcp.c - frames over a stream, where the other end is the test: how they are cut and put together,
 * whose turn it is, what waits and for how long, and what ends a connection. On virtual time.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/mem/shadow.h"
#include "ffr/peer/io.h"
#include "tests/rig/unit/two_hosts.h"
#include "tests/rig/unit/unit.h"

#define SMALL	8000u
#define MESSAGE 300000u /* bytes: several frames, and more than the socket takes */

static struct hosts t;
static int far;		    /* the other end of host 0's connection */
static struct wire_ops ops; /* remote/'s, but for drained() */
static unsigned drained;

static void count_drained(struct fast *f, struct wire_peer *p)
{
	assert_ptr_equal(p, &t.h[0].other);
	drained++;
	remote_wire_ops.drained(f, p);
}

/* n bytes from host 0, a little at a time. False: no more than some of them come. */
static bool hear(void *to, size_t n)
{
	uint8_t *p = to;

	for (int idle = 0; n && idle < 3;) {
		ssize_t got = read(far, p, n < 1009 ? n : 1009);

		if (got > 0) {
			p += got;
			n -= (size_t)got;
			idle = 0;
		} else {
			assert_int_equal(errno, EAGAIN);
			idle = hosts_turn(&t) ? 0 : idle + 1;
		}
	}
	return !n;
}

static void say(const void *p, size_t n)
{
	assert_int_equal(write(far, p, n), n);
}

static void expect(enum wire_type type)
{
	struct wire_hdr h;

	assert_true(hear(&h, sizeof(h)));
	assert_int_equal(h.type, type);
	assert_int_equal(h.len, 0);
}

static void attach(void)
{
	struct wire_hello hello = { 0 };
	int fd[2], size = 1 << 16;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	assert_int_equal(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	assert_int_equal(wire_attach(t.h[0].r.f, &t.h[0].other, wire_io_plain(fd[0]), &hello), 0);
	far = fd[1];
	expect(WIRE_NIC);
}

static int setup(void **state)
{
	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	hosts_cut(&t);
	ops = remote_wire_ops;
	ops.drained = count_drained;
	t.h[0].r.be.wire->ops = &ops;
	attach();
	hosts_run(&t);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hosts_down(&t);
	close(far);
	return 0;
}

static void expect_silence(void)
{
	uint8_t one;

	hosts_run(&t);
	assert_false(hear(&one, 1));
}

/* The connection has ended, and the control thread was told why. */
static void expect_end(const char *why)
{
	hosts_run(&t);
	assert_null(t.h[0].other.tcp);
	assert_string_equal(t.h[0].o.why, why);
	assert_int_equal(wire_heard(&t.h[0].other), 0);
}

/* ---- receiving -------------------------------------------------------------------------------- */

/* Wherever a stream is cut, its frames are the same; what nobody here wants is passed over. */
static void frames_come_in_pieces(void **state)
{
	struct wire_hdr ping = { .type = WIRE_PING }, ud = { .type = WIRE_UD, .len = 100 };
	uint8_t bytes[sizeof(ud) + 100 + sizeof(ping)] = { 0 };

	(void)state;
	memcpy(bytes, &ud, sizeof(ud));
	memcpy(bytes + sizeof(bytes) - sizeof(ping), &ping, sizeof(ping));
	for (size_t at = 1; at < sizeof(bytes); at++) {
		say(bytes, at);
		expect_silence();
		say(bytes + at, sizeof(bytes) - at);
		expect(WIRE_PONG);
	}
	for (size_t i = 0; i < sizeof(bytes); i++) {
		hosts_run(&t);
		say(bytes + i, 1);
	}
	expect(WIRE_PONG);
	/* many at once */
	for (int i = 0; i < 100; i++)
		say(bytes, sizeof(bytes));
	for (int i = 0; i < 100; i++)
		expect(WIRE_PONG);
	expect_silence();
}

static void nonsense_ends_it(void **state)
{
	static const struct wire_hdr bad[] = {
#define X(name, max) { .type = WIRE_##name, .len = (max) + 1 },
		WIRE_TYPES(X)
#undef X
			{ .type = WIRE_NONE },
		{ .type = WIRE_TYPES_NUM },
		{ .type = 255 },
		{ .type = WIRE_REQ, .len = UINT32_MAX },
		{ .type = WIRE_OVER }, /* to nowhere: nothing is beside the stream */
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		say(&bad[i], sizeof(bad[i]));
		expect_end("it sends frames that make no sense");
		close(far);
		attach();
	}
}

/* ---- a carrier beside the stream, which never has anything ---- */

static void by_up(struct fast *f, struct wire_peer *p)
{
	(void)f;
	p->by = (void *)p;
}

static void by_down(struct fast *f, struct wire_peer *p, bool failed)
{
	(void)f;
	(void)failed;
	p->by = NULL;
}

static bool by_begin(struct wire_peer *p)
{
	(void)p;
	return true;
}

static ssize_t by_readv(struct fast *f, struct wire_peer *p, const struct iovec *iov, int n)
{
	(void)f, (void)p, (void)iov, (void)n;
	return -EAGAIN;
}

static bool by_pending(const struct wire_peer *p)
{
	(void)p;
	return false;
}

/* After OVER nothing comes by the stream: bytes that are there already would be lost, and the rest out of step. */
static void over_comes_last(void **state)
{
	static const struct wire_by by = {
		.name = "beside",
		.up = by_up,
		.down = by_down,
		.begin = by_begin,
		.readv = by_readv,
		.pending = by_pending,
	};
	static const struct wire_hdr frames[2] = { { .type = WIRE_OVER }, { .type = WIRE_PING } };
	struct wire_dev *dev = t.h[0].r.be.wire;

	(void)state;
	dev->by = &by;
	for (unsigned n = 1; n <= 2; n++) {
		hosts_cut(&t);
		close(far);
		attach();
		say(frames, n * sizeof(frames[0]));
		hosts_run(&t);
		if (n == 1)
			assert_non_null(t.h[0].other.tcp);
		else
			expect_end("it sends frames that make no sense");
	}
	dev->by = NULL;
}

static size_t by_room;
static unsigned by_flushed, by_told;

static ssize_t by_writev(struct fast *f, struct wire_peer *p, const struct iovec *iov, int n)
{
	size_t took = by_room < iov->iov_len ? by_room : iov->iov_len;

	(void)f, (void)p, (void)n;
	by_flushed = 0;
	by_room -= took;
	return took ? (ssize_t)took : -EAGAIN;
}

static int by_flush(struct fast *f, struct wire_peer *p)
{
	(void)f, (void)p;
	by_flushed++;
	return 0;
}

static void by_hear(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	(void)f, (void)p;
	assert_int_equal(h->type, WIRE_BY);
	by_told++;
}

static const char *by_why(int err)
{
	return strerror(-err);
}

static const struct wire_by by_narrow = {
	.name = "narrow",
	.frames = 1ull << WIRE_BY,
	.up = by_up,
	.down = by_down,
	.told = by_hear,
	.begin = by_begin,
	.readv = by_readv,
	.writev = by_writev,
	.flush = by_flush,
	.pending = by_pending,
	.why = by_why,
};

static void attach_narrow(void)
{
	struct wire_dev *dev = t.h[0].r.be.wire;

	dev->by = &by_narrow;
	hosts_cut(&t);
	close(far);
	attach();
}

static void detach_narrow(void)
{
	hosts_cut(&t);
	t.h[0].r.be.wire->by = NULL;
}

/* What a carrier has no room for waits; what it took is flushed, since the peer makes room when it hears of that. */
static void a_part_is_flushed(void **state)
{
	const struct wire_hdr ping = { .type = WIRE_PING };
	struct wire_peer *p = &t.h[0].other;
	struct fast *f = t.h[0].r.f;

	(void)state;
	attach_narrow();
	wire_over(f, p);
	expect(WIRE_OVER);
	assert_string_equal(wire_carried_by(p), "narrow");
	by_room = 10;
	assert_int_equal(wire_send(f, p, &ping, NULL), 0);
	hosts_run(&t);
	assert_int_equal(by_room, 0);
	assert_int_equal(by_flushed, 1);
	by_flushed = 0;
	wire_by_ready(f, p);
	hosts_run(&t); /* nothing is taken */
	assert_int_equal(by_flushed, 1);
	by_room = sizeof(ping) - 10 + 1;
	wire_by_ready(f, p);
	hosts_run(&t);
	assert_int_equal(by_room, 1);
	detach_narrow();
}

/* The control thread sends, too, while the runner sleeps. */
static void a_frame_wakes_the_runner(void **state)
{
	const struct wire_hdr ping = { .type = WIRE_PING };
	struct fast *f = t.h[0].r.f;
	uint64_t rung;

	(void)state;
	assert_int_equal(read(f->stop_fd, &rung, sizeof(rung)), -1);
	f->sleeping = true;
	assert_int_equal(wire_send(f, &t.h[0].other, &ping, NULL), 0);
	f->sleeping = false;
	assert_int_equal(read(f->stop_fd, &rung, sizeof(rung)), sizeof(rung));
	expect(WIRE_PING);
}

/* A carrier is told of its own frames only; those of another one are passed over. */
static void told_of_its_own_frames(void **state)
{
	static const struct wire_hdr frames[] = { { .type = WIRE_BY },
						  { .type = WIRE_NIC_OF },
						  { .type = WIRE_RUNS },
						  { .type = WIRE_BY } };

	(void)state;
	attach_narrow();
	by_told = 0;
	say(frames, sizeof(frames));
	hosts_run(&t);
	assert_int_equal(by_told, 2);
	assert_non_null(t.h[0].other.tcp);
	detach_narrow();
}

/* The QP that a message goes to is reset in the message's middle: the rest goes nowhere. */
static void the_receiver_goes_meanwhile(void **state)
{
	struct host *me = &t.h[0];
	struct wire_hdr ping = { .type = WIRE_PING }, h = {
		.type = WIRE_REQ,
		.opcode = FF_OP_WRITE,
		.flags = WIRE_LAST,
		.len = 100,
		.dst_qpn = me->qp->qp.qp_num,
		.src_qpn = me->qp->qp.attr.dest_qp_num,
		.dst_cont = me->r.cont[0].id,
		.dst_epoch = 1,
		.src_cont = t.h[1].r.cont[0].id,
		.src_epoch = 1,
		.tag = 77,
		.req = { .addr = hosts_at(&t, 0, 0), .length = 100, .rkey = me->mr->rkey },
	};
	uint8_t data[100];

	(void)state;
	memset(data, 0x77, sizeof(data));
	memset(me->buf, 0, sizeof(data));
	say(&h, sizeof(h));
	say(data, 40);
	hosts_run(&t);
	assert_memory_equal(me->buf, data, 40);
	rig_state(&me->r, me->qp, IBV_QPS_RESET);
	say(data + 40, 60);
	say(&ping, sizeof(ping));
	expect(WIRE_PONG);
	for (unsigned i = 40; i < 100; i++)
		assert_int_equal(me->buf[i], 0);
}

static void the_other_side_closes(void **state)
{
	struct wire_hdr ping = { .type = WIRE_PING };

	(void)state;
	say(&ping, sizeof(ping) - 1);
	hosts_run(&t);
	assert_non_null(t.h[0].other.tcp);
	assert_int_equal(shutdown(far, SHUT_WR), 0);
	expect_end("the other side has closed it");
	assert_int_equal(wire_send(t.h[0].r.f, &t.h[0].other, &ping, NULL), -ENOTCONN);
}

/* ---- is it alive? ----------------------------------------------------------------------------- */

static void silence_ends_it(void **state)
{
	struct fast *f = t.h[0].r.f;
	struct wire_hdr pong = { .type = WIRE_PONG };

	(void)state;
	/* nobody has asked: it may be silent */
	hosts_advance(&t, 10000 * NS_PER_MS);
	assert_non_null(t.h[0].other.tcp);
	/* asked once, however often somebody wants to know; anything is an answer */
	wire_ping(f, &t.h[0].other);
	wire_ping(f, &t.h[0].other);
	expect(WIRE_PING);
	expect_silence();
	for (int i = 0; i < 9; i++)
		hosts_advance(&t, 50 * NS_PER_MS);
	say(&pong, sizeof(pong));
	for (int i = 0; i < 100; i++)
		hosts_advance(&t, 50 * NS_PER_MS);
	assert_non_null(t.h[0].other.tcp);
	/* no answer */
	wire_ping(f, &t.h[0].other);
	expect(WIRE_PING);
	for (int i = 0; i < 10; i++)
		hosts_advance(&t, 50 * NS_PER_MS);
	assert_non_null(t.h[0].other.tcp);
	hosts_advance(&t, 50 * NS_PER_MS);
	expect_end("it is silent");
}

/* ---- sending ---------------------------------------------------------------------------------- */

/* The n-th of some frames. */
static void small_frame(struct wire_hdr *h, uint8_t data[SMALL], uint32_t n)
{
	*h = (struct wire_hdr){ .type = WIRE_CM, .len = SMALL, .tag = n };
	memset(data, (int)n, SMALL);
}

/* As many as are taken, from the n-th on: which is the next one? */
static uint32_t send_small(uint32_t n)
{
	uint8_t data[SMALL];
	struct wire_hdr h;
	int err;

	do {
		small_frame(&h, data, n);
		err = wire_send(t.h[0].r.f, &t.h[0].other, &h, data);
	} while (!err && ++n);
	assert_int_equal(err, -ENOBUFS);
	return n;
}

static void hear_small(uint32_t from, uint32_t to)
{
	struct {
		struct wire_hdr h;
		uint8_t data[SMALL];
	} got, want;

	for (uint32_t n = from; n < to; n++) {
		assert_true(hear(&got, sizeof(got)));
		small_frame(&want.h, want.data, n);
		assert_memory_equal(&got, &want, sizeof(got));
	}
}

/* Small frames wait for the socket up to a bound, and come whole and in order. */
static void small_frames_wait(void **state)
{
	uint32_t n, more, heard;

	(void)state;
	n = send_small(0);
	assert_int_equal(n, 256 * 1024 / (sizeof(struct wire_hdr) + SMALL));
	hosts_run(&t);
	more = send_small(n); /* instead of those that the socket has taken */
	assert_true(more > n);
	heard = n;
	hosts_run(&t);
	hear_small(0, heard);
	n = send_small(more);
	assert_true(n > more);
	hear_small(heard, n);
	expect_silence();
	assert_true(send_small(n) > n);
}

/* A sender that found no room for a small frame is told when there is room; other senders are not. */
static void room_is_told_of(void **state)
{
	struct wire_hdr ping = { .type = WIRE_PING };
	uint32_t n;

	(void)state;
	drained = 0;
	assert_int_equal(wire_send(t.h[0].r.f, &t.h[0].other, &ping, NULL), 0);
	expect(WIRE_PING);
	assert_int_equal(drained, 0);
	n = send_small(0);
	hosts_turn(&t);
	assert_int_equal(drained, 0);
	hear_small(0, n);
	hosts_run(&t);
	assert_int_equal(drained, 1);
}

/* A program that takes away the memory that it sends from harms itself, and not the connection of all others. */
static void memory_is_taken_away(void **state)
{
	struct host *me = &t.h[0];
	int fd = memfd_create("sent", MFD_CLOEXEC), watch;
	struct ff_sqe *e;
	struct mr *mr;
	uint8_t *map;

	(void)state;
	assert_int_equal(ftruncate(fd, FF_PAGE), 0);
	map = mmap(NULL, FF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(sigbus_install(), 0);
	watch = sigbus_watch(map, FF_PAGE, FF_PAGE, &me->s->s);
	assert_true(watch >= 0);
	mr = rig_mr(&me->r, me->s, map, FF_PAGE, HOSTS_ACCESS);
	e = rig_sqe(me->qp, FF_OP_WRITE, 1);
	rig_sge(e, mr, (uintptr_t)map, FF_PAGE);
	rig_post(&me->r, me->qp);
	assert_int_equal(ftruncate(fd, 0), 0);
	hosts_run(&t);
	assert_true(me->s->s.mem.gone);
	assert_non_null(me->other.tcp);
	sigbus_unwatch(watch);
	sigbus_forget(&me->s->s);
	rig_mr_free(&me->r, mr);
	munmap(map, FF_PAGE);
	close(fd);
}

/* Such a frame of a message of MESSAGE bytes begins: its payload, behind the *off bytes before it. */
static void take_part(const struct wire_hdr *h, uint8_t *message, uint64_t *off)
{
	assert_int_equal(h->type, WIRE_REQ);
	assert_int_equal(h->opcode, FF_OP_WRITE);
	assert_int_equal(h->offset, *off);
	assert_int_equal(h->req.length, MESSAGE);
	assert_in_range(h->len, 1, WIRE_PAYLOAD_MAX);
	assert_true(hear(message + *off, h->len));
	*off += h->len;
	assert_int_equal(!!(h->flags & WIRE_LAST), *off == MESSAGE);
}

static void a_long_message_is_cut(void **state)
{
	static uint8_t got[MESSAGE];
	struct wire_hdr h;
	uint64_t off = 0;

	(void)state;
	for (uint32_t i = 0; i < MESSAGE; i++)
		t.h[0].buf[i] = (uint8_t)(i * 7 + (i >> 8));
	hosts_rdma(&t, FF_OP_WRITE, 1, 0, 5, MESSAGE);
	while (off < MESSAGE) {
		assert_true(hear(&h, sizeof(h)));
		take_part(&h, got, &off);
		assert_int_equal(h.req.addr, hosts_at(&t, 1, 5));
	}
	assert_memory_equal(got, t.h[0].buf, MESSAGE);
	hosts_expect_none(&t, 0); /* nobody has acknowledged it */
}

/*
 * Of what the socket has not taken only the frame that is cut in the middle is copied: the rest is read
 * from the program's memory when there is room.
 */
static void the_cut_frame_is_kept(void **state)
{
	static uint8_t got[MESSAGE];
	struct wire_hdr h;
	uint64_t off = 0;
	int taken;

	(void)state;
	memset(t.h[0].buf, 0x11, MESSAGE);
	hosts_rdma(&t, FF_OP_WRITE, 1, 0, 0, MESSAGE);
	hosts_run(&t);
	assert_int_equal(ioctl(far, FIONREAD, &taken), 0);
	assert_in_range(taken, 1, MESSAGE - WIRE_PAYLOAD_MAX);
	memset(t.h[0].buf, 0x22, MESSAGE);
	while (off < MESSAGE) {
		uint64_t from = off;

		assert_true(hear(&h, sizeof(h)));
		take_part(&h, got, &off);
		for (uint64_t i = from; i < off; i++)
			assert_int_equal(got[i], taken > 0 ? 0x11 : 0x22);
		taken -= (int)(sizeof(h) + h.len);
	}
}

/* QPs that have something to send have a frame each in turn, however long their messages are. */
static void qps_take_turns(void **state)
{
	static uint8_t got[2][MESSAGE];
	struct host *me = &t.h[0];
	struct rig_qp *qp[2] = { me->qp };
	uint64_t off[2] = { 0 };

	(void)state;
	qp[1] = rig_qp(&me->r, me->s, IBV_QPT_RC, me->cq, me->cq, NULL);
	qp[1]->qp.attr = qp[0]->qp.attr;
	rig_connect(&me->r, qp[1], NULL);
	expect(WIRE_GO);
	for (int i = 0; i < 2; i++) {
		struct ff_sqe *e = rig_sqe(qp[i], FF_OP_WRITE, 1);

		rig_sge(e, me->mr, hosts_at(&t, 0, 0), MESSAGE);
		rig_post(&me->r, qp[i]);
	}
	while (off[0] < MESSAGE || off[1] < MESSAGE) {
		struct wire_hdr h;
		int who;

		assert_true(hear(&h, sizeof(h)));
		who = h.src_qpn == qp[1]->qp.qp_num;
		take_part(&h, got[who], &off[who]);
		/* what the socket does not take of a batch is its QP's next turn */
		assert_in_range(off[0] + 2 * WIRE_PAYLOAD_MAX - off[1], 0, 4 * WIRE_PAYLOAD_MAX);
	}
	rig_qp_free(&me->r, qp[1]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	return UNIT_RUN(T(frames_come_in_pieces), T(nonsense_ends_it), T(the_other_side_closes),
			T(over_comes_last), T(a_part_is_flushed), T(a_frame_wakes_the_runner),
			T(told_of_its_own_frames), T(the_receiver_goes_meanwhile),
			T(room_is_told_of), T(memory_is_taken_away), T(silence_ends_it),
			T(small_frames_wait), T(a_long_message_is_cut), T(the_cut_frame_is_kept),
			T(qps_take_turns));
}
