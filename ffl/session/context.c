/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * context.c - a session with the router, and what becomes of it when the process forks. Any thread;
 * neighbours: call.c; entry/context.c, which opens the device with it, and cm/session.c.
 *
 * Fork. A session belongs to the process that opened it; the router knows it by its socket. A child
 * has copies of the descriptors and, but for what follows, would share the rings. So the rings'
 * segments are MADV_DONTFORK, and in the child, before fork() returns there, the sockets are closed
 * (else the router would not see the parent die), zeroed private pages are put where the rings were
 * (a poll finds nothing, a posting goes nowhere) and the session is marked dead: what is asked of
 * its objects fails with EIO, and their end frees the child's memory only. That goes for as long as
 * the child has them: an object keeps the session that it was made in.
 *
 * The context is the child's to use all the same. The first call that makes something in it, or asks
 * about the device, opens a session of the child's (a handler of fork could not: it may only do what
 * signal handlers may), which becomes the context's current one. Whatever is made from then on is
 * made there. The dead one stays, for its objects, until the context is closed. What the program
 * sees, context, cmd_fd and async_fd, keeps its address and its numbers.
 *
 * Children that never ran these handlers (vfork, posix_spawn, bare clone) are held off by the
 * process ID where the parent could be harmed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ffl/session/ffl.h"
#include "ffl/session/mm.h"

#define SEND_PAUSE_MS 10 /* before a HELLO that could not be sent is tried again */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* the two below; held across fork */
static struct ffl_context *contexts;			      /* sessions */
static bool fork_handled;
/* One thread opens the child's session, the others wait for it. Not held across fork. */
static pthread_mutex_t renew_lock = PTHREAD_MUTEX_INITIALIZER;

#ifndef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP /* musl, whose first word of it is the type */
#define PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP                                                     \
	{                                                                                          \
		{                                                                                  \
			{                                                                          \
				PTHREAD_MUTEX_RECURSIVE                                            \
			}                                                                          \
		}                                                                                  \
	}
#endif
static const pthread_mutex_t table_lock_init = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* ---- fork ------------------------------------------------------------------------------------------- */

/*
 * The devices' tables are wanted as they are between two changes. This thread may be in one, if it is
 * a signal handler that forks: so the lock is a recursive one, and tables can be read at any time
 * by the thread that changes them.
 */
static void fork_prepare(void)
{
	struct ffl_context *ctx;

	pthread_mutex_lock(&list_lock);
	for (ctx = contexts; ctx; ctx = ctx->next)
		ctx->has_tables = ctx->is_device && !pthread_mutex_lock(&ctx->table_lock);
}

static void fork_parent(void)
{
	struct ffl_context *ctx;

	for (ctx = contexts; ctx; ctx = ctx->next)
		if (ctx->has_tables)
			pthread_mutex_unlock(&ctx->table_lock);
	pthread_mutex_unlock(&list_lock);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void free_lock(struct ffl_spin *l)
{
	/* only those: each page that is written to is copied */
	if (atomic_load_explicit(&l->v, memory_order_relaxed))
		ffl_unlock(l);
}

/* Queues that another thread of the parent was just posting to or polling: it is not here. */
static void free_locks(struct ffl_context *ctx)
{
	enum ffl_kind kind;
	struct ffl_qp *qp;
	uint32_t i;

	for (kind = FFL_CQ; kind <= FFL_SRQ; kind++)
		for (i = 0; i < ctx->table[kind].size; i++) {
			void *obj = ctx->table[kind].slot[i].obj;

			if (!obj)
				continue;
			switch (kind) {
			case FFL_CQ:
				free_lock(&((struct ffl_cq *)obj)->lock);
				break;
			case FFL_SRQ:
				free_lock(&((struct ffl_srq *)obj)->lock);
				break;
			default:
				qp = obj;
				free_lock(&qp->sq_lock);
				free_lock(&qp->rq_lock);
			}
		}
}

/* In the child: let go of the parent's session. Other threads do not exist, so no lock. */
static void abandon(struct ffl_context *ctx)
{
	struct ffl_seg *s;

	ctx->pid = 0;
	atomic_store(&ctx->dead, true);
	close_fd(&ctx->sock);
	close_fd(&ctx->bell_fd);
	close_fd(&ctx->uffd_dev);
	for (s = ctx->seg; s < ctx->seg + ctx->num_seg; s++)
		if (s->map)
			mm_map(s->map, s->size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	/* another thread of the parent may have held them */
	if (ctx->has_tables)
		free_locks(ctx);
	pthread_mutex_init(&ctx->call_lock, NULL);
	ctx->table_lock = table_lock_init;
}

static void fork_child(void)
{
	struct ffl_context *ctx;

	for (ctx = contexts; ctx; ctx = ctx->next)
		abandon(ctx);
	pthread_mutex_init(&renew_lock, NULL); /* as above */
	pthread_mutex_unlock(&list_lock);
}

int ffl_session_enlist(struct ffl_context *ctx)
{
	int ret = 0; /* a positive errno */

	pthread_mutex_lock(&list_lock);
	if (!fork_handled)
		ret = pthread_atfork(fork_prepare, fork_parent, fork_child);
	if (!ret) {
		fork_handled = true;
		ctx->next = contexts;
		contexts = ctx;
	}
	pthread_mutex_unlock(&list_lock);
	return -ret;
}

FFL_EXPORT void ffl_session_untrack(struct ffl_context *ctx)
{
	struct ffl_context **p;

	pthread_mutex_lock(&list_lock);
	for (p = &contexts; *p; p = &(*p)->next)
		if (*p == ctx) {
			*p = ctx->next;
			break;
		}
	pthread_mutex_unlock(&list_lock);
}

/* ---- session ---------------------------------------------------------------------------------------- */

/*
 * This process's memory, for the router, which opens none itself: a descriptor is bound to an address
 * space, a process's number is not. The kernel gives it to nobody whose program is not dumpable.
 * 0 or -errno.
 */
static int memory_open(int fd[2])
{
	static const char *const path[] = { "/proc/self/mem", "/proc/self/maps" };
	static const int flags[] = { O_RDWR, O_RDONLY };
	int i, err;

	for (i = 0; i < 2; i++) {
		fd[i] = open(path[i], flags[i] | O_CLOEXEC);
		if (fd[i] >= 0)
			continue;
		err = errno;
		ffl_log(FFL_ERR,
			"no device: this program cannot open its own memory, by which the router "
			"reaches it: %s: %s: %s",
			path[i], strerror(err),
			err == ENOENT ? "no /proc is mounted here" :
					"it has changed its user (set-user-ID, file "
					"capabilities), or said PR_SET_DUMPABLE 0");
		if (i)
			close(fd[0]);
		return -err;
	}
	return 0;
}

/*
 * Send HELLO, and try again while the kernel refuses: the kernel limits how many descriptors of a user, over all
 * containers, are on their way in sockets. 0 or -errno.
 */
static int hello_send(struct ffl_context *ctx, const struct ff_hello_req *req, const int memory[2],
		      struct ff_hello_resp *resp, int *fds, unsigned int max_fds,
		      unsigned int *n_fds)
{
	const struct timespec pause = { .tv_nsec = SEND_PAUSE_MS * 1000000 };
	uint32_t waited;
	int ret;

	for (waited = 0;; waited += SEND_PAUSE_MS) {
		ret = ffl_call_fds(ctx, FF_MSG_HELLO, req, sizeof(*req), memory, 2, resp,
				   sizeof(*resp), fds, max_fds, n_fds);
		if (ret != -ETOOMANYREFS || waited >= ctx->call_timeout)
			return ret;
		nanosleep(&pause, NULL);
	}
}

/* Say HELLO. -EAGAIN: the router has to know which process asks, so send HELLO again with the nonce of CHALLENGE. */
static int hello_call(struct ffl_context *ctx, const int memory[2], struct ff_hello_resp *resp,
		      int *fds, unsigned int max_fds, unsigned int *n_fds)
{
	struct ff_hello_req req = { .version_min = FF_PROTO_VERSION,
				    .version_max = FF_PROTO_VERSION };
	struct ff_challenge_req ask = { 0 };
	struct ff_challenge_resp answer;
	int ret;

	strncpy(req.comm, program_invocation_short_name, sizeof(req.comm) - 1);
	ret = hello_send(ctx, &req, memory, resp, fds, max_fds, n_fds);
	if (ret != -EAGAIN)
		return ret;
	ret = FFL_CALL(ctx, CHALLENGE, &ask, &answer);
	if (ret)
		return ret;
	memcpy(req.nonce, answer.nonce, sizeof(req.nonce));
	return hello_send(ctx, &req, memory, resp, fds, max_fds, n_fds);
}

/* What the user can do about it. */
static const char *hello_advice(int err)
{
	switch (err) {
	case EPROTONOSUPPORT:
		return "it is of another version than this library; start the program with the "
		       "library of this router (ffr --version)";
	case EACCES:
		return "this process is not in the cgroup that the router was told of for the "
		       "container that the socket is of (ffctl container show)";
	case EPERM:
		return "the memory that was handed over is not that of the process behind the "
		       "socket: a program that changes its user, or a socket that was inherited";
	case EBUSY:
		return "it has many programs to look at that open the device; try again";
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EDQUOT:
		return "the container may not have more sessions, or the host has no more memory "
		       "or descriptors (ffctl container show)";
	case ENETDOWN:
		return "its host is cut off from the orchestrator and from all other hosts (fence_after "
		       "in ffr.conf), so no container has a device until the orchestrator is back";
	case EIO:
		return "it has closed the connection, or did not answer: the container is at a limit, as max_fd "
		       "(the router's log and ffctl events name it), or the router is busy or stops";
	default:
		return "its log says why";
	}
}

/* Agree on a version; keep the descriptors that come along. 0 or -errno. */
static int hello(struct ffl_context *ctx)
{
	struct ff_hello_resp resp;
	unsigned int n_fds;
	int ret, fds[3], memory[2];

	ret = memory_open(memory);
	if (ret)
		return ret;
	ret = hello_call(ctx, memory, &resp, fds, ARRAY_SIZE(fds), &n_fds);
	close(memory[0]);
	close(memory[1]);
	if (ret) {
		ffl_log(FFL_ERR, "no device: the router does not take this program: %s: %s",
			strerror(-ret), hello_advice(-ret));
		return ret == -ENETDOWN ? -EIO : ret; /* for a program as if there were no router */
	}
	if (n_fds > 0)
		ctx->async_fd = fds[0]; /* the program's to see, so not moved */
	if (n_fds > 1)
		ctx->bell_fd = ffl_fd_high(fds[1]);
	if (n_fds > 2)
		ctx->uffd_dev = ffl_fd_high(fds[2]);
	if (resp.version != FF_PROTO_VERSION || resp.mode >= FF_MODE_NUM ||
	    resp.num_devices > FF_DEVICES_MAX || n_fds != 2 + !!resp.has_uffd ||
	    resp.seg0_size < sizeof(struct ff_ses_hdr)) {
		ffl_log(FFL_ERR, "router: protocol version %u, mode %u, %u descriptors",
			resp.version, resp.mode, n_fds);
		return -EPROTO;
	}
	ctx->mode = resp.mode;
	ctx->has_nic = ctx->whole_pages = resp.has_nic;
	ctx->has_track = resp.has_uffd >= FF_UFFD_TRACK;
	ctx->node_guid = resp.node_guid;
	ctx->num_devices = resp.num_devices;
	memcpy(ctx->token, resp.token, sizeof(ctx->token));
	return 0;
}

/*
 * Where no router is, it is like a machine without a NIC, and says nothing by default; but where the folder is that
 * containers are given, or FFL_SOCKET names a socket, somebody wants a device.
 */
static void tell_no_router(const char *path, bool is_named, int err)
{
	char dir[] = FF_SOCKET_DEFAULT;
	const char *advice;
	int level = FFL_ERR;

	switch (err) {
	case ENOENT:
	case ENOTDIR:
		*strrchr(dir, '/') = '\0';
		if (!is_named && access(dir, F_OK))
			level = FFL_INFO;
		advice = is_named ?
				 "is FFL_SOCKET right?" :
				 "does ffr run, is the container known to it (ffctl doctor NAME), "
				 "and the folder of its socket mounted here?";
		break;
	case ECONNREFUSED:
		advice = "the router does not run";
		break;
	case EACCES:
	case EPERM:
		advice = "this user may not use the container's socket, or SELinux of the host "
			 "does not let it";
		break;
	case EAGAIN:
		advice = "too many wait to be let in";
		break;
	default:
		advice = "no device";
	}
	ffl_log(level, "no router at %s: %s: %s", path, strerror(err), advice);
}

FFL_EXPORT struct ffl_context *ffl_session_new(uint32_t call_timeout)
{
	const char *path = secure_getenv("FFL_SOCKET");
	bool is_named = path && *path;
	struct ffl_context *ctx;
	int ret;

	if (!is_named)
		path = FF_SOCKET_DEFAULT;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return ffl_err_ptr(ENOMEM);
	ctx->sock = ctx->bell_fd = ctx->uffd_dev = ctx->async_fd = -1;
	ctx->v.context.cmd_fd = ctx->v.context.async_fd = -1;
	ctx->pid = getpid();
	ctx->call_timeout = call_timeout;
	pthread_mutex_init(&ctx->v.context.mutex, NULL);
	pthread_mutex_init(&ctx->call_lock, NULL);
	ctx->table_lock = table_lock_init;

	ret = ffl_connect(path);
	if (ret < 0) {
		tell_no_router(path, is_named, -ret);
		goto err;
	}
	ctx->sock = ret;
	ret = hello(ctx);
	if (ret)
		goto err;
	ctx->hdr = ffl_seg_at(ctx, 0, 0);
	if (!ctx->hdr) {
		ret = -errno;
		goto err;
	}
	return ctx;

err:
	ffl_session_free(ctx);
	return ffl_err_ptr(-ret);
}

/* Close what this process holds of the session; the router ends it when the socket closes. */
void ffl_session_empty(struct ffl_context *ctx)
{
	unsigned int i;

	close_fd(&ctx->sock);
	close_fd(&ctx->bell_fd);
	close_fd(&ctx->uffd_dev);
	close_fd(&ctx->async_fd);
	close_fd(&ctx->v.context.cmd_fd);
	ffl_segs_free(ctx);
	for (i = 0; i < FFL_NUM_KINDS; i++) {
		free(ctx->table[i].slot);
		ctx->table[i] = (struct ffl_table){ 0 };
	}
}

FFL_EXPORT void ffl_session_free(struct ffl_context *ctx)
{
	ffl_session_empty(ctx);
	pthread_mutex_destroy(&ctx->v.context.mutex);
	pthread_mutex_destroy(&ctx->call_lock);
	pthread_mutex_destroy(&ctx->table_lock);
	free(ctx);
}

/* ---- the session of a child -------------------------------------------------------------------------- */

struct ffl_context *ffl_session_of(struct ibv_context *context)
{
	struct ffl_context *ctx = to_ctx(context), *s, *fresh;
	int cancel;

	/* acquire: the session is complete */
	s = atomic_load_explicit(&ctx->current, memory_order_acquire);
	s = s ? s : ctx;
	if (s->pid)
		return s;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&renew_lock);
	s = atomic_load_explicit(&ctx->current, memory_order_relaxed);
	s = s ? s : ctx;
	if (!s->pid) { /* no other thread was faster */
		fresh = ctx->renew(ctx, s);
		if (fresh) {
			atomic_store_explicit(&ctx->current, fresh, memory_order_release);
			s = fresh;
		}
	}
	pthread_mutex_unlock(&renew_lock);
	pthread_setcancelstate(cancel, NULL);
	return s;
}

/* ---- spin lock --------------------------------------------------------------------------------------- */

/* The lock is held for the length of a posting or a poll: pause a little, then let the holder run. */
void ffl_spin_wait(struct ffl_spin *l)
{
	unsigned int n = 0;

	do {
		while (atomic_load_explicit(&l->v, memory_order_relaxed))
			if (++n % 128)
				ff_relax();
			else
				sched_yield();
	} while (atomic_exchange_explicit(&l->v, 1, memory_order_acquire));
}
