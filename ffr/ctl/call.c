/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * call.c - clients' calls: packets in, one dispatch, responses out. Control thread. Packets come through the socket or,
 * while spin.c looks there, through the session's memory.
 * Neighbours: conn.c has the connections, msg.c checks packets, the handlers are in the files of their objects.
 *
 * Nobody waits for a client: sends do not block, and a client gets CTL_BATCH messages served before the others have
 * their turn. However many connections a container has, they get TURN_NS together before those of other containers have
 * theirs. When a container has made as many calls as it may in a second, or has used the CPU time that it may (cpu.h),
 * the connections that call wait, unread, and nobody else does.
 *
 * Tests: test_ctl.c
 */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/ctl/conn.h"
#include "ffr/ctl/container.h"
#include "ffr/ctl/discard.h"
#include "ffr/ctl/session.h"
#include "ffr/lib/log.h"
#include "ffr/lib/shm.h"
#include "ffr/obj/cpu.h"
#include "ffr/obj/ledger.h"

#define CTL_BATCH   16u
#define TURN_NS	    1000000ull /* of a container's messages: then other containers have their turn */
#define PACKET_FDS  253u       /* the kernel's SCM_MAX_FD */
#define WAIT_MAX_NS 100000000ull /* a limit that was raised is noticed */

/* ---- dispatch ------------------------------------------------------------------------------ */

/* FF_MSG_TABLE, but for the rows that are cm/'s. */
#define X(num, NAME, name, tail, fds) CTL_SERVE(name)
FF_DEVICE_MSGS(X)
FF_LATER_MSGS(X)
#undef X

static ctl_serve_fn *const serve[FF_MSG_NUM] = {
#define X(num, NAME, name, tail, fds) [num] = serve_##name,
	FF_DEVICE_MSGS(X) FF_LATER_MSGS(X)
#undef X
};

void ctl_reply_fd(struct ctl_reply *reply, int fd, bool owned)
{
	reply->fds[reply->n_fds].fd = fd;
	reply->fds[reply->n_fds++].owned = owned;
}

static void reply_release(struct ctl_reply *reply)
{
	while (reply->n_fds) {
		reply->n_fds--;
		if (reply->fds[reply->n_fds].owned)
			close(reply->fds[reply->n_fds].fd);
	}
}

const char *ctl_serve(struct ctl_conn *conn, const struct ctl_msg *m, void *resp,
		      struct ctl_reply *reply, int *status)
{
	struct ctl_call c = {
		.ctl = conn->ctl,
		.conn = conn,
		.s = conn->ses,
		.tail = m->tail,
		.n_tail = m->hdr.n_tail,
		.fds = m->fds,
		.sender = m->sender,
		.reply = reply,
	};
	ctl_serve_fn *fn;

	if (conn->ses && conn->ses->mem.gone)
		return "its shared memory is gone";
	if ((m->hdr.type == FF_MSG_HELLO || m->hdr.type == FF_MSG_CHALLENGE) != !conn->ses)
		return conn->ses ? "a second HELLO" : "a request before HELLO";
	reply->n_fds = 0;
	if (conn->ses && m->hdr.type != FF_MSG_GET_SEG && session_check(conn->ses))
		return "its rings are not sealed";
	if (!m->type) {
		*status = -EOPNOTSUPP;
		return NULL;
	}
	memset(resp, 0, m->type->resp_size);
	if (conn->ses)
		ctl_mr_leave_all(conn->ctl, conn->ses);
	fn = serve[m->hdr.type] ? serve[m->hdr.type] : conn->ctl->cm_ops->serve[m->hdr.type];
	*status = fn(&c, m->req, resp);
	quota_tell(conn->cont);
	if (*status) {
		memset(resp, 0, m->type->resp_size);
		reply_release(reply);
	}
	if (conn->ses && conn->ses->mem.gone)
		return "its shared memory is gone";
	return NULL;
}

/* ---- packets ------------------------------------------------------------------------------- */

/* One packet with its descriptors. 0 or -errno; a client that hung up is -ECONNRESET. */
static int reply_send(int fd, const struct ff_hdr *hdr, const void *resp, size_t len,
		      const struct ctl_reply *reply)
{
	union {
		struct cmsghdr h;
		uint8_t buf[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))];
	} cm = { 0 };
	struct iovec iov[2] = { { (void *)hdr, sizeof(*hdr) }, { (void *)resp, len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (reply->n_fds) {
		msg.msg_control = cm.buf;
		msg.msg_controllen = CMSG_SPACE(reply->n_fds * sizeof(int));
		cm.h.cmsg_level = SOL_SOCKET;
		cm.h.cmsg_type = SCM_RIGHTS;
		cm.h.cmsg_len = CMSG_LEN(reply->n_fds * sizeof(int));
		for (unsigned i = 0; i < reply->n_fds; i++)
			memcpy(CMSG_DATA(&cm.h) + i * sizeof(int), &reply->fds[i].fd, sizeof(int));
	}
	while (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return errno == EPIPE ? -ECONNRESET : -errno;
	return 0;
}

/* What came along with a packet. */
struct packet_extra {
	pid_t sender; /* 0: the kernel was not asked to tell */
	unsigned n;   /* descriptors */
	int fd[PACKET_FDS];
};

/*
 * They are closed. What a request was served with was looked at; of others nobody knows how long
 * that takes (discard.c). NULL, or why the connection that has sent them must be closed.
 */
static const char *fds_end(struct container *c, const int *fd, unsigned n, bool served)
{
	struct container_ctl *ct = c->ctl;

	for (unsigned i = 0; i < n; i++) {
		if (served)
			close(fd[i]);
		else
			discard_fd(&ct->discard, fd[i]);
	}
	return n && !served && discard_full(ct->discard, true) ?
		       "its container has sent too many descriptors that cannot be closed at once" :
		       NULL;
}

static void extra_take(struct msghdr *msg, struct packet_extra *got)
{
	struct cmsghdr *cm;
	struct ucred cred;
	size_t n;

	got->sender = 0;
	got->n = 0;
	for (cm = CMSG_FIRSTHDR(msg); cm; cm = CMSG_NXTHDR(msg, cm)) {
		if (cm->cmsg_level != SOL_SOCKET)
			continue;
		if (cm->cmsg_type == SCM_CREDENTIALS && cm->cmsg_len == CMSG_LEN(sizeof(cred))) {
			memcpy(&cred, CMSG_DATA(cm), sizeof(cred));
			got->sender = cred.pid;
		}
		if (cm->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(got->fd[0]);
		memcpy(got->fd, CMSG_DATA(cm), n * sizeof(got->fd[0]));
		got->n = (unsigned)n; /* there is one such header, with at most PACKET_FDS */
	}
}

/*
 * Receive one packet into ctl->rx. Its length, 0 at the end of the connection, or -errno. A packet
 * that is too long comes out one byte longer than any message is.
 */
static ssize_t packet_recv(struct ctl_conn *conn, struct packet_extra *got)
{
	union {
		struct cmsghdr h;
		uint8_t buf[CMSG_SPACE(PACKET_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} cm;
	struct iovec iov = { conn->ctl->rx, FF_MSG_MAX + 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = cm.buf,
			      .msg_controllen = sizeof(cm) };
	ssize_t n;

	do {
		n = recvmsg(conn->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	extra_take(&msg, got);
	return n;
}

/* ---- whose CPU time it is ------------------------------------------------------------------ */

void ctl_charge_ns(struct container *c, uint64_t ns)
{
	c->cpu.ctl_ns += ns;
	if (cpu_limited(c))
		cpu_charge(c, uv_hrtime(), ns);
}

void ctl_charge(struct container *c, uint64_t from)
{
	ctl_charge_ns(c, cpu_of_thread() - from);
}

/* ns that the container's connections may still be served for in this turn of the loop. */
static uint64_t turn_left(const struct container *c)
{
	const struct container_ctl *ct = c->ctl;

	if (ct->turn != ct->ctl->turn)
		return TURN_NS;
	return ct->turn_ns < TURN_NS ? TURN_NS - ct->turn_ns : 0;
}

bool ctl_had_turn(const struct ctl_conn *conn)
{
	return !turn_left(conn->cont);
}

/* One of them was served since uv_hrtime() was `from`: waiting for the keeper counts as well. */
static void turn_used(struct container *c, uint64_t from)
{
	struct container_ctl *ct = c->ctl;

	if (ct->turn != ct->ctl->turn)
		ct->turn_ns = 0;
	ct->turn = ct->ctl->turn;
	ct->turn_ns += uv_hrtime() - from;
}

struct answer {
	struct ff_hdr hdr;
	alignas(16) uint8_t resp[CTL_RESP_MAX];
	size_t len; /* of resp */
	struct ctl_reply reply;
	bool is_later; /* there is none yet: conn->later */
};

/*
 * Serve one request, ctl->rx. NULL with an answer to be sent, or why the connection must be
 * closed.
 */
static const char *serve_packet(struct ctl_conn *conn, size_t len, const struct packet_extra *got,
				struct answer *a)
{
	struct ctl_msg m;
	const char *why;
	int status = 0;

	a->reply.n_fds = 0;
	a->is_later = false;
	why = ctl_parse(conn->ctl->rx, len, got->n, &m);
	if (!why) {
		m.fds = got->fd;
		m.sender = got->sender;
		why = ctl_serve(conn, &m, a->resp, &a->reply, &status);
	}
	if (why) {
		reply_release(&a->reply);
		return why;
	}
	if (status == CTL_LATER) {
		a->is_later = true;
		conn->later->hdr = m.hdr;
		conn->later->type = m.type;
		return NULL;
	}
	if (conn->ses)
		ctl_conn_heard(conn);
	a->hdr = (struct ff_hdr){
		.magic = FF_PROTO_MAGIC,
		.type = m.hdr.type,
		.seq = m.hdr.seq,
		.status = status,
		.n_fds = (uint16_t)a->reply.n_fds,
	};
	a->len = m.type ? m.type->resp_size : 0;
	return NULL;
}

/*
 * May an answer with descriptors be sent? The kernel counts those that are on their way for the
 * router's user, in all sockets together, against RLIMIT_NOFILE. A client that has not read the
 * last ones gets no more, so for each connection fewer are on their way than the router has open
 * for it, and there are always some left for others.
 */
static bool may_send_fds(struct ctl_conn *conn)
{
	int unread = 0;

	if (conn->fds_sent && (ioctl(conn->fd, SIOCOUTQ, &unread) || unread))
		return false;
	conn->fds_sent = true;
	return true;
}

/* Through the socket. NULL, or why the connection must be closed. */
static const char *answer_send(struct ctl_conn *conn, struct answer *a)
{
	int err = -EAGAIN;

	if (!a->reply.n_fds || may_send_fds(conn))
		err = reply_send(conn->fd, &a->hdr, a->resp, a->len, &a->reply);
	reply_release(&a->reply);
	if (err == -EAGAIN || err == -ENOBUFS)
		return "it does not read its responses";
	if (err == -ETOOMANYREFS) /* without CAP_SYS_RESOURCE */
		return "this user has too many descriptors on their way, in any sockets";
	return NULL; /* any other error: the next receive tells the end */
}

/* The ledger says whether a call of the client's is under way, which the next router could not answer. */
static void call_mark(struct ctl_conn *conn, bool is_under_way)
{
	if (conn->ses)
		ledger_call(conn->ses->ledger, is_under_way);
}

static const char *slot_answer(struct ctl_conn *conn, struct ff_call_slot *slot, struct answer *a);

/* ---- calls that are answered later ----------------------------------------------------------- */

/* Its call is under way: nothing more is read from it. */
static void later_begin(struct ctl_conn *conn, bool in_slot)
{
	conn->later->in_slot = in_slot;
	conn->waits = true;
	uv_timer_stop(&conn->hello);
	uv_poll_start(&conn->poll, UV_DISCONNECT, ctl_conn_readable);
}

/* The call has the descriptors of its request for as long as it is under way. */
static void later_take(struct ctl_later *l, const int *fd, unsigned n)
{
	memcpy(l->fds, fd, n * sizeof(*fd));
	l->n_fds = n;
}

void ctl_call_leave(struct ctl_conn *conn, const char *why)
{
	conn->is_leaving = true;
	conn->leaving_why = why;
	ctl_spin_forget(conn);
	uv_poll_stop(&conn->poll);
	uv_poll_stop(&conn->pid_poll);
	uv_timer_stop(&conn->turn);
	uv_timer_stop(&conn->hello);
	shutdown(conn->fd, SHUT_RDWR);
}

static const char *later_answer(struct ctl_conn *conn, const struct ctl_later *l, int status,
				struct answer *a)
{
	a->hdr = (struct ff_hdr){
		.magic = FF_PROTO_MAGIC,
		.type = l->hdr.type,
		.seq = l->hdr.seq,
		.status = status,
		.n_fds = (uint16_t)a->reply.n_fds,
	};
	a->len = l->type->resp_size;
	conn->waits = false;
	if (conn->ses)
		ctl_conn_heard(conn);
	else
		ctl_conn_await_hello(conn);
	uv_poll_start(&conn->poll, UV_READABLE | UV_DISCONNECT, ctl_conn_readable);
	return l->in_slot ? slot_answer(conn, &conn->ses->hdr->call, a) : answer_send(conn, a);
}

static void on_later(struct carrier_later *b, int err)
{
	struct ctl_later *l = (struct ctl_later *)b, was = *l;
	struct ctl_conn *conn = l->conn;
	struct container *cont = conn->cont;
	uint64_t from = cpu_of_thread(), start = uv_hrtime();
	struct answer a = { 0 };
	struct ctl_call c = {
		.ctl = conn->ctl, .conn = conn, .s = conn->ses, .fds = was.fds, .reply = &a.reply
	};
	const char *why = conn->leaving_why, *too_many;
	bool is_leaving = conn->is_leaving;
	int status;

	status = l->finish(&c, l, is_leaving ? -ECANCELED : err, a.resp);
	quota_tell(cont);
	if (status == CTL_LATER) { /* there is more to wait for */
		conn->later->type = was.type;
		conn->later->hdr = was.hdr;
		conn->later->in_slot = was.in_slot;
		later_take(conn->later, was.fds, was.n_fds);
		ctl_charge(cont, from);
		turn_used(cont, start);
		return;
	}
	conn->later = NULL;
	conn->is_leaving = false;
	too_many = fds_end(cont, was.fds, was.n_fds, !status);
	if (status) {
		memset(a.resp, 0, sizeof(a.resp));
		reply_release(&a.reply);
	}
	if (!is_leaving)
		why = later_answer(conn, &was, status, &a);
	if (!why)
		why = too_many;
	if (is_leaving || why) {
		ctl_conn_close(conn, why);
	} else if (conn->ses) {
		call_mark(conn, false);
		ctl_spin_served(conn);
	}
	ctl_charge(cont, from);
	turn_used(cont, start);
}

void ctl_call_later(struct ctl_call *c, struct ctl_later *l)
{
	l->be.done = on_later;
	l->conn = c->conn;
	c->conn->later = l;
}

/* ---- waiting for a turn ---------------------------------------------------------------------- */

static void on_turn(uv_timer_t *t)
{
	struct ctl_conn *conn = t->data;

	if (ctl_had_turn(conn)) {
		uv_timer_start(t, on_turn, 1, 0);
		return;
	}
	conn->waits = false;
	if (conn->silent)
		ctl_conn_await_hello(conn);
	uv_poll_start(&conn->poll, UV_READABLE | UV_DISCONNECT, ctl_conn_readable);
	/* what was posted while it waited; this may close it */
	if (conn->ses)
		ctl_serve_slot(conn);
}

/* ns that its next request has to wait, and the limit that has been reached. */
static uint64_t call_wait(struct ctl_conn *conn, enum quota_reached *limit)
{
	struct container *c = conn->cont;
	bool calls = quota_calls_limited(c), cpu = cpu_limited(c);
	uint64_t now = calls || cpu ? uv_hrtime() : 0, calls_ns, cpu_ns;

	calls_ns = calls ? quota_call_wait(c, now) : 0;
	cpu_ns = cpu ? cpu_wait(c, now) : 0;
	*limit = calls_ns > cpu_ns ? REACHED_CALLS : REACHED_CPU;
	if (cpu_ns > WAIT_MAX_NS)
		cpu_ns = WAIT_MAX_NS;
	return calls_ns > cpu_ns ? calls_ns : cpu_ns;
}

/* Not read until it may be, some ms from now. */
static void wait_unread(struct ctl_conn *conn, uint64_t ms)
{
	conn->waits = true;
	if (conn->silent)
		uv_timer_stop(&conn->hello);
	uv_poll_start(&conn->poll, UV_DISCONNECT, ctl_conn_readable);
	uv_timer_start(&conn->turn, on_turn, ms, 0);
}

/* May it be served a request that is there? If not, it is not read until it may. */
static bool may_call(struct ctl_conn *conn)
{
	const struct container_ctl *ct = conn->cont->ctl;
	enum quota_reached limit;
	char text[80];
	uint64_t ns;

	if (conn->waits)
		return false;
	if (!conn->ses && ct->num_hellos >= CTL_HELLOS) {
		wait_unread(conn, 1);
		return false;
	}
	ns = call_wait(conn, &limit);
	if (!ns)
		return true;
	snprintf(text, sizeof(text), "it makes more control calls than %s allows: they wait",
		 limit == REACHED_CALLS ? "max_calls" : "max_cpu");
	log_client(&conn->cont->log, LOG_LEVEL_WARN, "container %s: %s", conn->cont->name, text);
	quota_reached(conn->cont, limit, text);
	wait_unread(conn, (ns + 999999) / 1000000);
	return false;
}

static void call_charge(struct ctl_conn *conn)
{
	if (quota_calls_limited(conn->cont))
		quota_call_charge(conn->cont, uv_hrtime());
}

/* ---- the slot ------------------------------------------------------------------------------ */

static_assert(sizeof(struct ff_hdr) + CTL_RESP_MAX <= FF_CALL_MAX, "room for any answer");

static const char *slot_answer(struct ctl_conn *conn, struct ff_call_slot *slot, struct answer *a)
{
	uint32_t seq = a->hdr.seq;

	if (a->reply.n_fds)
		return answer_send(conn, a);
	shm_copy(&slot->packet[0], &a->hdr, sizeof(a->hdr));
	shm_copy(&slot->packet[sizeof(a->hdr)], a->resp, a->len);
	atomic_store_explicit(&slot->len, (uint32_t)(sizeof(a->hdr) + a->len),
			      memory_order_relaxed);
	atomic_store_explicit(&slot->state, FF_CALL_ANSWERED, memory_order_release);
	/* the answer before the look at wait: pairs with the client's fence before its last look */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&slot->wait, memory_order_relaxed) == seq &&
	    atomic_compare_exchange_strong(&slot->wait, &seq, 0))
		return answer_send(conn, a);
	return NULL;
}

bool ctl_serve_slot(struct ctl_conn *conn)
{
	struct ff_call_slot *slot = &conn->ses->hdr->call;
	uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed), len;
	static const struct packet_extra none;
	const char *why = "a request that is longer than its slot";
	struct container *c = conn->cont;
	uint64_t from, start = uv_hrtime();
	struct answer a;

	if (state != FF_CALL_POSTED || !may_call(conn))
		return false;
	call_mark(conn, true);
	if (!atomic_compare_exchange_strong(&slot->state, &state, FF_CALL_TAKEN)) {
		call_mark(conn, false);
		return false;
	}
	from = cpu_of_thread();
	call_charge(conn);
	len = atomic_load_explicit(&slot->len, memory_order_relaxed);
	conn->heat.cpu = atomic_load_explicit(&slot->cpu, memory_order_relaxed);
	if (len <= sizeof(slot->packet)) {
		shm_copy(conn->ctl->rx, &slot->packet[0], len);
		why = serve_packet(conn, len, &none, &a);
	}
	if (!why && !a.is_later)
		why = slot_answer(conn, slot, &a);
	if (why)
		ctl_conn_close(conn, why);
	else if (a.is_later)
		later_begin(conn, true);
	else {
		call_mark(conn, false);
		ctl_spin_served(conn);
	}
	ctl_charge(c, from);
	turn_used(c, start);
	return true;
}

/* ---- the socket ---------------------------------------------------------------------------- */

/* One packet. False: there is none, or the connection is closed. */
static bool read_packet(struct ctl_conn *conn)
{
	struct packet_extra got;
	const char *why, *too_many = NULL;
	struct answer a;
	ssize_t n;

	call_mark(conn, true);
	n = packet_recv(conn, &got);
	if (n == -EAGAIN) {
		call_mark(conn, false);
		return false;
	}
	if (n <= 0) {
		if (!n)
			fds_end(conn->cont, got.fd, got.n, false);
		ctl_conn_close(conn, NULL);
		return false;
	}
	call_charge(conn);
	why = serve_packet(conn, (size_t)n, &got, &a);
	if (!why && a.is_later)
		later_take(conn->later, got.fd, got.n);
	else
		too_many = fds_end(conn->cont, got.fd, got.n, !why && !a.hdr.status);
	if (!why && !a.is_later)
		why = answer_send(conn, &a);
	if (!why)
		why = too_many;
	if (why) {
		ctl_conn_close(conn, why);
		return false;
	}
	if (a.is_later) {
		later_begin(conn, false);
		return false;
	}
	call_mark(conn, false);
	if (conn->ses)
		ctl_spin_served(conn);
	return true;
}

void ctl_conn_readable(uv_poll_t *h, int status, int events)
{
	struct ctl_conn *conn = h->data;
	struct container *c = conn->cont;
	uint64_t from, start = uv_hrtime(), left = turn_left(c);
	enum quota_reached limit;
	bool more = true;

	/* one that waits is not read, so it must be the end */
	if (status < 0 || (conn->waits && events & UV_DISCONNECT)) {
		ctl_conn_end(conn, NULL);
		return;
	}
	for (unsigned i = 0; i < CTL_BATCH && more && uv_hrtime() - start < left; i++) {
		/* whether there are more the next event tells */
		if (i ? call_wait(conn, &limit) : !may_call(conn))
			break;
		from = cpu_of_thread();
		more = read_packet(conn);
		ctl_charge(c, from);
	}
	turn_used(c, start);
}
