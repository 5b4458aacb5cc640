/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * call.c - requests to the router and their answers; the segments that answers name. Any thread.
 *
 * One request at a time, by the socket or, while the router looks there and no descriptor travels, by
 * shared memory (slot.c): the call lock is held from sending to the answer. Answers are checked as
 * a stranger's would be (type, sequence number, exact length, number of descriptors), so that a
 * library and a router that do not fit together end in an error and a line in the log.
 *
 * The program must not hang with the router. When it dies the socket ends, which a waiting call
 * sees at once; when it is stopped, calls give up after call_timeout. Either way the context is
 * dead from then on: every call fails with EIO, the async socket is shut down so that whoever
 * waits there wakes up, and polls fail. Nothing is sent again: the router that comes back knows
 * nothing of this session.
 *
 * Signals restart what they interrupt. Threads cannot be cancelled within a call, since that would
 * leave the lock taken and the answer in the socket.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffl/session/ffl.h"
#include "ffl/session/mm.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define FD_HIGH	      512      /* lowest number for descriptors of our own */
#define CALL_LOOKS    24u      /* about 20 us */
#define MAX_FDS	      8	       /* room for descriptors of an answer; more are an error anyway */
#define RECV_SLICE_MS 200      /* how often a waiting call looks at the clock */
#define ALIVE_NS      10000000 /* between two looks of ffl_check_alive() */

static const char *const msg_name[] = {
#define X(num, NAME, name, tail, fds) [num] = #NAME,
	FF_MSG_TABLE(X)
#undef X
};
static_assert(ARRAY_SIZE(msg_name) == FF_MSG_NUM, "a name for each message");

/*
 * Move a descriptor to a high number, out of the way of programs that close or dup2() over the
 * low ones. Takes fd, returns the new one, or fd itself where there is no room.
 */
int ffl_fd_high(int fd)
{
	int high;

	if (fd < 0)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

int ffl_connect(const char *path)
{
	struct timeval slice = { .tv_usec = RECV_SLICE_MS * 1000 };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd, err;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = ffl_fd_high(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return -errno;
	/* the send timeout bounds connect() too, for a router with a full backlog */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice)))
		goto err;
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		if (errno != EINTR)
			goto err;
	return fd;

err:
	err = errno;
	close(fd);
	return -err;
}

/* ---- the router's death ------------------------------------------------------------------------- */

void ffl_mark_dead(struct ffl_context *ctx)
{
	if (atomic_exchange(&ctx->dead, true) || ctx->pid != getpid())
		return;
	if (ctx->hdr) /* else there was no device yet */
		ffl_log(FFL_ERR, "the router is gone: the device fails from now on");
	shutdown(ctx->sock, SHUT_RDWR);
	if (ctx->async_fd >= 0)
		shutdown(ctx->async_fd, SHUT_RDWR);
}

/* True while the router lives. Pollers call this while they find nothing; cheap most times. */
FFL_EXPORT bool ffl_check_alive(struct ffl_context *ctx)
{
	uint64_t now, last = atomic_load_explicit(&ctx->alive_ns, memory_order_relaxed);
	struct pollfd p = { .fd = ctx->sock };

	if (atomic_load_explicit(&ctx->dead, memory_order_relaxed))
		return false;
	now = ffl_clock_ns(CLOCK_MONOTONIC_COARSE);
	if (now - last < ALIVE_NS || !atomic_compare_exchange_strong(&ctx->alive_ns, &last, now))
		return true;
	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)))
		ffl_mark_dead(ctx);
	return !atomic_load(&ctx->dead);
}

/* ---- one request, one answer ---------------------------------------------------------------------- */

static void close_all(const int *fds, unsigned int n)
{
	while (n--)
		close(fds[n]);
}

/* Descriptors of a request or an answer. */
struct call_fds {
	const int *send;
	unsigned int n_send;
	int *got; /* room for max_got */
	unsigned int max_got, *n_got;
};

/* 0; -EIO: the session is lost; another -errno: nothing was sent. */
static int send_request(struct ffl_context *ctx, struct iovec *iov, unsigned int n_iov, size_t len,
			const struct call_fds *fds)
{
	union {
		struct cmsghdr h;
		char buf[CMSG_SPACE(FFL_SEND_FDS * sizeof(int))];
	} control = { .h = { .cmsg_len = CMSG_LEN(fds->n_send * sizeof(int)),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n_iov };
	ssize_t n;

	if (fds->n_send) {
		memcpy(CMSG_DATA(&control.h), fds->send, fds->n_send * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(fds->n_send * sizeof(int));
	}
	do
		n = sendmsg(ctx->sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)len)
		return 0;
	if (n < 0 && (errno == ENOMEM || errno == ENOBUFS))
		return -ENOMEM;
	if (n < 0 && fds->n_send && (errno == EBADF || errno == ETOOMANYREFS))
		return -errno;
	return -EIO;
}

/*
 * Receive one packet into iov, with its descriptors; look `looks` times before sleeping. Length of
 * the packet, or -EIO: the session is lost. A packet that is longer than iov, or has more
 * descriptors than room, is that too.
 */
static ssize_t recv_answer(struct ffl_context *ctx, struct iovec *iov, unsigned int n_iov,
			   unsigned int looks, int *fds, unsigned int *n_fds)
{
	uint64_t deadline = ffl_clock_ns(CLOCK_MONOTONIC) + ctx->call_timeout * 1000000ull;
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control;
	struct msghdr msg;
	struct cmsghdr *c;
	unsigned int i, k;
	ssize_t n;

	*n_fds = 0;
	/*
	 * Most calls are answered before a sleeper would have been woken from an idle CPU; so look
	 * some times, letting the router run, and only then sleep.
	 */
	for (;;) {
		msg = (struct msghdr){ .msg_iov = iov,
				       .msg_iovlen = n_iov,
				       .msg_control = &control,
				       .msg_controllen = sizeof(control) };
		n = recvmsg(ctx->sock, &msg, MSG_CMSG_CLOEXEC | (looks ? MSG_DONTWAIT : 0));
		if (n >= 0)
			break;
		if (looks && errno == EAGAIN) {
			looks--;
			sched_yield();
			continue;
		}
		if (errno != EINTR && errno != EAGAIN)
			return -EIO;
		if (ffl_clock_ns(CLOCK_MONOTONIC) >= deadline) {
			ffl_log(FFL_ERR, "router: no answer in %u ms", ctx->call_timeout);
			return -EIO;
		}
	}
	for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < k && *n_fds < MAX_FDS; i++)
			memcpy(&fds[(*n_fds)++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
	}
	if (!n || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		close_all(fds, *n_fds);
		*n_fds = 0;
		return -EIO;
	}
	return n;
}

/* An answer has all of its bytes, or the header alone where the router is older and does not know the message. */
static bool has_length(const struct ff_hdr *rh, ssize_t n, size_t resp_len)
{
	return (size_t)n == sizeof(*rh) + resp_len ||
	       (n == sizeof(*rh) && rh->status == -EOPNOTSUPP);
}

/* Call with call_lock held. */
static int call_locked(struct ffl_context *ctx, struct ff_hdr *hdr, struct iovec *req_iov,
		       unsigned int n_iov, size_t len, void *resp, size_t resp_len,
		       const struct call_fds *fds)
{
	struct ff_hdr rh = { 0 };
	struct iovec iov[] = { { &rh, sizeof(rh) }, { resp, resp_len } };
	unsigned int n_got = 0, looks = CALL_LOOKS;
	int got[MAX_FDS];
	ssize_t n = 0;
	int ret;

	if (atomic_load(&ctx->dead))
		return -EIO;
	if (!++ctx->call_seq) /* 0 is no request's (ff_call_slot) */
		ctx->call_seq = 1;
	hdr->seq = ctx->call_seq;
	if (!fds->n_send && !fds->max_got && ffl_slot_post(ctx, req_iov, n_iov, len)) {
		n = (ssize_t)ffl_slot_answer(ctx, hdr->seq, iov, ARRAY_SIZE(iov));
		looks = 0;
	} else {
		ret = send_request(ctx, req_iov, n_iov, len, fds);
		if (ret == -EIO)
			goto lost;
		if (ret)
			return ret;
	}
	if (!n)
		n = recv_answer(ctx, iov, ARRAY_SIZE(iov), looks, got, &n_got);
	if (n < 0)
		goto lost;
	if (!has_length(&rh, n, resp_len) || rh.magic != FF_PROTO_MAGIC || rh.type != hdr->type ||
	    rh.seq != hdr->seq || rh.n_tail || rh.n_fds != n_got || n_got > fds->max_got ||
	    rh.status > 0 || rh.status < -4095 || (rh.status && n_got)) {
		ffl_log(FFL_ERR, "router: malformed answer to %s (%zd bytes, %u descriptors)",
			msg_name[hdr->type], n, n_got);
		close_all(got, n_got);
		goto lost;
	}
	if (fds->n_got)
		*fds->n_got = n_got;
	if (n_got)
		memcpy(fds->got, got, n_got * sizeof(*got));
	if (rh.status)
		ffl_log(FFL_DEBUG, "%s: %d", msg_name[hdr->type], rh.status);
	return rh.status;

lost:
	ffl_mark_dead(ctx);
	return -EIO;
}

static int call(struct ffl_context *ctx, struct ff_hdr *hdr, struct iovec *iov, unsigned int n_iov,
		void *resp, size_t resp_len, const struct call_fds *fds)
{
	size_t len = 0;
	int ret, cancel;

	memset(resp, 0, resp_len);
	if (fds->n_got)
		*fds->n_got = 0;
	for (unsigned int i = 0; i < n_iov; i++)
		len += iov[i].iov_len;
	if (len > FF_MSG_MAX)
		return -EMSGSIZE;
	if (ctx->pid != getpid())
		return -EIO;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&ctx->call_lock);
	ret = call_locked(ctx, hdr, iov, n_iov, len, resp, resp_len, fds);
	pthread_mutex_unlock(&ctx->call_lock);
	pthread_setcancelstate(cancel, NULL);
	return ret;
}

FFL_EXPORT int ffl_call(struct ffl_context *ctx, enum ff_msg_type type, const void *req,
			size_t req_len, const void *tail, size_t tail_size, unsigned n_tail,
			void *resp, size_t resp_len, int *fds, unsigned max_fds, unsigned *n_fds)
{
	struct ff_hdr hdr = { .magic = FF_PROTO_MAGIC, .type = type, .n_tail = n_tail };
	struct iovec iov[] = { { &hdr, sizeof(hdr) },
			       { (void *)req, req_len },
			       { (void *)tail, tail_size * n_tail } };
	const struct call_fds f = { .got = fds, .max_got = max_fds, .n_got = n_fds };

	return call(ctx, &hdr, iov, ARRAY_SIZE(iov), resp, resp_len, &f);
}

int ffl_call_fds(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
		 const int *send, unsigned n_send, void *resp, size_t resp_len, int *fds,
		 unsigned max_fds, unsigned *n_fds)
{
	struct ff_hdr hdr = { .magic = FF_PROTO_MAGIC, .type = type, .n_fds = n_send };
	struct iovec iov[] = { { &hdr, sizeof(hdr) }, { (void *)req, req_len } };
	const struct call_fds f = { send, n_send, fds, max_fds, n_fds };

	for (unsigned int i = 0; i < n_send; i++)
		if (send[i] < 0) {
			memset(resp, 0, resp_len);
			return -EBADF;
		}
	return call(ctx, &hdr, iov, ARRAY_SIZE(iov), resp, resp_len, &f);
}

/* ---- segments --------------------------------------------------------------------------------------- */

#define MAX_SEGS 65536 /* no router has more for one session */

/* The slot of segment `seg`, made if need be, or NULL. Call with call_lock held. */
static struct ffl_seg *seg_slot(struct ffl_context *ctx, uint32_t seg)
{
	uint32_t n = ctx->num_seg ? ctx->num_seg : 8;
	struct ffl_seg *s;

	if (seg >= MAX_SEGS)
		return NULL;
	if (seg < ctx->num_seg)
		return &ctx->seg[seg];
	while (n <= seg)
		n *= 2;
	s = realloc(ctx->seg, n * sizeof(*s));
	if (!s)
		return NULL;
	ctx->seg = s;
	for (; ctx->num_seg < n; ctx->num_seg++)
		ctx->seg[ctx->num_seg] = (struct ffl_seg){ 0 };
	return &ctx->seg[seg];
}

/* From now on nobody can punch holes in the segment: the router touches none where this process could. 0 or -errno. */
static int seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) ? -errno : 0;
}

/* Ask for a segment's descriptor. The descriptor or -errno. Call with call_lock held. */
static int get_seg(struct ffl_context *ctx, uint32_t seg, uint64_t *size)
{
	struct ff_hdr hdr = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_GET_SEG };
	struct ff_get_seg_req req = { .seg = seg };
	struct iovec iov[] = { { &hdr, sizeof(hdr) }, { &req, sizeof(req) } };
	struct ff_get_seg_resp resp = { 0 };
	unsigned int n_fds = 0;
	int ret, fd;

	ret = call_locked(ctx, &hdr, iov, ARRAY_SIZE(iov), sizeof(hdr) + sizeof(req), &resp,
			  sizeof(resp),
			  &(struct call_fds){ .got = &fd, .max_got = 1, .n_got = &n_fds });
	if (ret)
		return ret;
	if (!n_fds)
		return -EPROTO;
	*size = resp.size;
	return fd;
}

/*
 * Ask for the segment, map it, and seal it, after which it cannot be mapped again. Call with call_lock held, so that no
 * other call finds a segment that is handed out and not sealed: the router would take no pages of it. 0 or -errno.
 */
static int seg_fetch(struct ffl_context *ctx, uint32_t seg)
{
	struct ffl_seg *s;
	uint64_t size = 0;
	void *map;
	int fd, err;

	s = seg_slot(ctx, seg);
	if (!s)
		return -ENOMEM;
	fd = get_seg(ctx, seg, &size);
	if (fd < 0)
		return fd;
	map = mm_map(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = map == MAP_FAILED ? -errno : seal(fd);
	close(fd);
	if (!err) {
		/* a child gets pages of its own there, see context.c */
		mm_advise(map, size, MADV_DONTFORK);
		*s = (struct ffl_seg){ .map = map, .size = size };
	} else if (map != MAP_FAILED) {
		mm_unmap(map, size);
	}
	return err;
}

void *ffl_seg_at(struct ffl_context *ctx, uint32_t seg, uint64_t off)
{
	struct ffl_seg at = { 0 };
	int err = 0, cancel;

	if (ctx->pid != getpid())
		return ffl_err_ptr(EIO);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&ctx->call_lock);
	if (seg >= ctx->num_seg || !ctx->seg[seg].map)
		err = seg_fetch(ctx, seg);
	if (!err)
		at = ctx->seg[seg];
	pthread_mutex_unlock(&ctx->call_lock);
	pthread_setcancelstate(cancel, NULL);
	if (err)
		return ffl_err_ptr(-err);
	return off < at.size ? at.map + off : ffl_err_ptr(EPROTO);
}

int ffl_segs_map(struct ffl_context *ctx)
{
	uint32_t seg = 0;

	while (ffl_seg_at(ctx, seg, 0))
		seg++;
	return errno == EINVAL ? 0 : -errno; /* there is none of that number */
}

/* Unmap all of them; at close of the device. */
void ffl_segs_free(struct ffl_context *ctx)
{
	struct ffl_seg *s;

	for (s = ctx->seg; s < ctx->seg + ctx->num_seg; s++)
		if (s->map)
			mm_unmap(s->map, s->size);
	free(ctx->seg);
	ctx->seg = NULL;
	ctx->num_seg = 0;
}
