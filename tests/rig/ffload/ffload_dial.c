/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffload_dial.c - a source's way to a new connection: the exchange with the sink by TCP, and what is
 * made of its answer about the past. Called by ffload_source.c, which has the life of a lane.
 */
#include "tests/rig/ffload/ffload.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RETRY_NS   (20 * NS_PER_MS)
#define CONNECT_NS (200 * NS_PER_MS) /* a lost SYN comes again after a second: call again before */
#define ANSWER_NS  (5 * NS_PER_S)
#define BYE_NS                                                                                     \
	(60 *                                                                                      \
	 NS_PER_S) /* the sink goes with its answer: a second BYE would find another, empty one */

void source_hang_up(struct source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static int prepare_qp(struct source *s, struct load_hello *h)
{
	struct load_dev *d = &s->client->dev;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, err;

	if (!s->mr)
		s->mr = ibv_reg_mr(d->pd, s->mem, s->mem_len, access);
	if (!s->mr)
		return -errno;
	s->qp = dev_qp(d, &s->plan, s->plan.window + 1, SOURCE_RECEIVES);
	if (!s->qp)
		return -errno;
	s->attempt++;
	s->receives = 0;
	err = dev_qp_init(s->qp, &s->plan);
	for (unsigned i = 0; i < SOURCE_RECEIVES && !err; i++)
		err = source_post_recv(s, i);
	s->psn = (uint32_t)load_random() & 0xffffff;
	h->end = (struct load_end){ .gid = d->gid,
				    .lid = d->lid,
				    .qpn = s->qp->qp_num,
				    .psn = s->psn,
				    .rkey = s->mr->rkey,
				    .addr = (uintptr_t)s->mem };
	return err;
}

static int start_exchange(struct source *s)
{
	struct client *c = s->client;
	int one = 1;

	s->fd = socket(c->server->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return -errno;
	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	s->connecting = true;
	s->answer_have = 0;
	if (connect(s->fd, (struct sockaddr *)c->server, c->server_len) && errno != EINPROGRESS)
		return -errno;
	return 0;
}

void source_attempt_failed(struct source *s, const char *why, uint64_t now)
{
	struct load_report *r = &s->client->report;

	if (!r->attempts_failed++ || !s->last_good)
		report_line(r, "lane %u: not connected: %s", s->index, why);
	source_down(s, now + RETRY_NS);
}

void source_dial(struct source *s, uint64_t now)
{
	int err;

	s->bye = s->client->ending;
	s->state = SOURCE_DIALING;
	s->deadline = now + CONNECT_NS;
	err = start_exchange(s);
	if (err)
		source_attempt_failed(s, strerror(-err), now);
}

static void send_hello(struct source *s, uint64_t now)
{
	struct load_hello h = {
		.magic = LOAD_MAGIC,
		.what = s->bye ? HELLO_BYE : HELLO_CONNECT,
		.incarnation = s->incarnation,
		.done = s->done,
		.base = s->posted,
		.plan = s->plan,
	};
	int err = 0;

	s->connecting = false;
	s->deadline = now + (s->bye ? BYE_NS : ANSWER_NS);
	if (!s->bye)
		err = prepare_qp(s, &h);
	h.attempt = s->attempt;
	if (!err && send(s->fd, &h, sizeof(h), MSG_NOSIGNAL) != (ssize_t)sizeof(h))
		err = -errno;
	if (err)
		source_attempt_failed(s, strerror(-err), now);
}

/* How far the word came: after so many of the operations that were left open. -1: no such number. */
static void check_words(struct source *s, const struct load_answer *a)
{
	uint64_t fetch = s->fetch, cas = s->cas, from_fetch = s->done, from_cas = s->done;
	uint64_t to_fetch = s->posted, to_cas = s->posted;
	bool fetch_found = fetch == a->fetch, cas_found = cas == a->cas;
	struct load_item item;

	/* each word was changed last between from and to */
	for (uint64_t seq = s->done; seq < s->posted; seq++) {
		plan_item(&s->plan, seq, &item);
		if (item.op == OP_FETCH_ADD) {
			if (fetch == a->fetch)
				to_fetch = seq;
			fetch += item.add;
			if (fetch == a->fetch) {
				fetch_found = true;
				from_fetch = seq + 1;
			}
		} else if (item.op == OP_CMP_SWAP) {
			if (cas == a->cas)
				to_cas = seq;
			cas = item.add;
			if (cas == a->cas) {
				cas_found = true;
				from_cas = seq + 1;
			}
		}
	}
	if (!fetch_found)
		report_wrong(
			&s->client->report,
			"lane %u: the FETCH_ADD word is %llu, was %llu, and would be %llu after all",
			s->index, LL(a->fetch), LL(s->fetch), LL(fetch));
	if (!cas_found)
		report_wrong(&s->client->report, "lane %u: the CMP_SWAP word is %#llx, was %#llx",
			     s->index, LL(a->cas), LL(s->cas));
	/* the sink's CQ told of all before a->next, so they were done, in order */
	if (fetch_found && cas_found &&
	    (from_fetch > to_cas || from_cas > to_fetch || a->next > to_fetch || a->next > to_cas))
		report_wrong(
			&s->client->report,
			"lane %u: done out of order: FETCH_ADD %llu..%llu, CMP_SWAP %llu..%llu, "
			"the sink has all before %llu",
			s->index, LL(from_fetch), LL(to_fetch), LL(from_cas), LL(to_cas),
			LL(a->next));
}

static void left_open(struct source *s)
{
	struct load_item item;

	s->client->report.ambiguous += s->posted - s->done;
	for (uint64_t seq = s->done; seq < s->posted; seq++) {
		plan_item(&s->plan, seq, &item);
		if (item.op == OP_SHARED_ADD && s->incarnation == s->client->incarnation)
			s->client->shared_open++;
	}
}

/* What the sink says of the past: of this one's, if it is the one that we knew. */
static void settle(struct source *s, const struct load_answer *a)
{
	struct client *c = s->client;

	if (s->incarnation && s->incarnation != a->incarnation) {
		report_line(&c->report, "lane %u: the sink was started anew", s->index);
		c->report.peer_restarts++;
	}
	if (c->incarnation != a->incarnation) { /* its words begin with 0 */
		c->incarnation = a->incarnation;
		c->shared_done = c->shared_open = 0;
	}
	if (s->incarnation != a->incarnation)
		s->shared_last = 0;
	else if (!s->plan.ud)
		check_words(s, a);
	left_open(s);
	s->incarnation = a->incarnation;
	s->fetch = a->fetch;
	s->cas = s->cas_posted = a->cas;
	s->done = s->told = s->since = s->posted;
	c->report.peer_wrong = a->wrong > c->report.peer_wrong ? a->wrong : c->report.peer_wrong;
	__atomic_store_n((uint64_t *)s->mem, s->posted, __ATOMIC_RELEASE);
}

static void answered(struct source *s, uint64_t now)
{
	const struct load_answer *a = &s->answer;
	struct client *c = s->client;
	int err;

	if (a->magic != LOAD_MAGIC || a->status != ANSWER_OK) {
		source_attempt_failed(s, "the sink cannot, now", now);
		return;
	}
	settle(s, a);
	if (s->bye) {
		c->shared_seen = a->shared;
		c->report.ud_received += a->ud_received;
		source_down(s, now);
		s->state = SOURCE_ENDED;
		return;
	}
	s->sink = a->end;
	s->shared_addr = a->shared_addr;
	s->shared_rkey = a->shared_rkey;
	err = dev_qp_connect(&c->dev, s->qp, &s->plan, s->psn, &a->end);
	if (!err && s->plan.ud && !(s->ah = dev_ah(&c->dev, &a->end)))
		err = -errno;
	if (err) {
		source_attempt_failed(s, strerror(-err), now);
		return;
	}
	source_hang_up(s);
	s->state = SOURCE_UP;
	s->probing = s->saw_good = false;
	s->returned = 0;
	s->progress_at = s->up_at = now;
	c->report.connects++;
}

void source_ready(struct source *s, uint64_t now)
{
	socklen_t len = sizeof(int);
	int err = 0;
	ssize_t n;

	if (s->connecting) {
		if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err)
			source_attempt_failed(s, strerror(err ? err : errno), now);
		else
			send_hello(s, now);
		return;
	}
	n = recv(s->fd, (char *)&s->answer + s->answer_have, sizeof(s->answer) - s->answer_have, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		source_attempt_failed(s, n ? strerror(errno) : "the sink hung up", now);
		return;
	}
	s->answer_have += (size_t)n;
	if (s->answer_have == sizeof(s->answer))
		answered(s, now);
}
