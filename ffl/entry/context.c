/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * context.c - opening and closing the device, in a child that was forked once more. Any thread;
 * neighbours: session/context.c, whose session it is and where fork is explained; ops.c, import.c,
 * mem/mr.c.
 *
 * The room ffl/entry/ is where programs come in: the device and its contexts, import, the table of
 * operations, the exported names and their versions. It may use all rooms of libibverbs.so.1, and none of
 * them uses it.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

#define CALL_TIMEOUT_MS 10000 /* a router that is silent for so long has stopped */

/* ---- sessions ------------------------------------------------------------------------------------------ */

FFL_EXPORT int ffl_session_track(struct ffl_context *ctx)
{
	/* what is registered last prepares first: the list's lock, then the region lock */
	int err = ffl_fork_init();

	return err ? err : ffl_session_enlist(ctx);
}

/* It is the first device's before. 0 or -errno. */
static int choose(struct ffl_context *ctx, uint32_t device)
{
	struct ff_device_req req = { .index = device };
	struct ff_device_resp resp;

	if (!device)
		return 0;
	return ctx->num_devices ? FFL_CALL(ctx, DEVICE, &req, &resp) : -ENODEV;
}

/* A session that works with that device. NULL: errno. */
static struct ffl_context *device_session(uint32_t device)
{
	struct ff_query_device_req req = { 0 };
	struct ffl_context *ctx;
	int ret;

	ctx = ffl_session_new(CALL_TIMEOUT_MS);
	if (!ctx)
		return NULL;
	ctx->is_device = true;
	ret = ffl_session_track(ctx);
	if (ret)
		goto err_session;
	ret = choose(ctx, device);
	if (!ret)
		ret = FFL_CALL(ctx, QUERY_DEVICE, &req, &ctx->dev);
	if (ret)
		goto err_track;
	ret = ffl_mr_context_init(ctx);
	if (ret)
		goto err_track;
	ffl_ndevs_tell(ctx);
	return ctx;

err_track:
	ffl_session_untrack(ctx);
err_session:
	ffl_session_free(ctx);
	return ffl_err_ptr(-ret);
}

static void device_session_end(struct ffl_context *ctx)
{
	ffl_session_untrack(ctx);
	ffl_mr_context_fini(ctx);
	ffl_session_free(ctx);
}

static struct ffl_fd_id fd_identify(int fd)
{
	struct stat st;

	/* not fstat(), which with glibc 2.33 got another version */
	if (fd < 0 || syscall(SYS_fstat, fd, &st))
		return (struct ffl_fd_id){ 0 };
	return (struct ffl_fd_id){ st.st_dev, st.st_ino };
}

/* ---- the session of a child -------------------------------------------------------------------------- */

/*
 * Put fd where the program knows its predecessor, with the flags that it has set there. It may have
 * closed that, as daemons do, and the number may be another file's by now: then fd keeps its own.
 * The number that fd has in the end.
 */
static int fd_succeed(int fd, int old, const struct ffl_fd_id *old_id)
{
	struct ffl_fd_id id = fd_identify(old);
	int flags, status;

	if (!id.ino || id.dev != old_id->dev || id.ino != old_id->ino)
		return fd;
	flags = fcntl(old, F_GETFD);
	status = fcntl(old, F_GETFL);
	if (flags < 0 || status < 0)
		return fd;
	if (status & O_NONBLOCK)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	if (dup3(fd, old, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		return fd;
	close(fd);
	return old;
}

/* The context's own session is the parent's. ffl_session_of() calls it once at a time. NULL: errno. */
static struct ffl_context *renew(struct ffl_context *ctx, struct ffl_context *old)
{
	struct ibv_context *seen = &ctx->v.context;
	struct ffl_context *s = device_session(ffl_device_index(seen->device));
	int fd;

	if (!s)
		return NULL;
	s->older = old;
	if (ctx->imports) { /* cmd_fd is the program's, and of another session */
		struct ff_import_device_req req;
		struct ff_import_device_resp resp;

		memcpy(req.token, ctx->import_token, sizeof(req.token));
		if (FFL_CALL(s, IMPORT_DEVICE, &req, &resp))
			ffl_log(FFL_INFO, "what the parent imported from is gone");
	} else {
		fd = ffl_fd_high(ffl_token_fd(s->token));
		if (fd >= 0)
			seen->cmd_fd = fd_succeed(fd, seen->cmd_fd, &ctx->cmd_id);
		ctx->cmd_id = fd_identify(seen->cmd_fd);
	}
	s->async_fd = fd_succeed(s->async_fd, seen->async_fd, &ctx->async_id);
	old->async_fd = -1;
	seen->async_fd = s->async_fd;
	ctx->async_id = fd_identify(seen->async_fd);
	ffl_mr_context_fini(old); /* the parent's shadow memory is not kept by the child */
	ffl_log(FFL_DEBUG, "a session of the child's own");
	return s;
}

/* ---- the device -------------------------------------------------------------------------------------- */

FFL_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ffl_context *ctx;

	ffl_log_init();
	ctx = device_session(ffl_device_index(device));
	if (!ctx)
		return NULL;
	ctx->v.context.device = device;
	ctx->v.context.num_comp_vectors = ctx->dev.num_comp_vectors ? ctx->dev.num_comp_vectors : 1;
	ctx->v.context.async_fd = ctx->async_fd;
	/* without it (an old kernel) the device cannot be imported, and that is all */
	ctx->v.context.cmd_fd = ffl_fd_high(ffl_token_fd(ctx->token));
	ctx->async_id = fd_identify(ctx->async_fd);
	ctx->cmd_id = fd_identify(ctx->v.context.cmd_fd);
	ctx->renew = renew;
	ffl_context_init_ops(ctx);
	return &ctx->v.context;
}

/* The program may have closed what it sees, and have another file there. */
static void forget_strange(int *fd, const struct ffl_fd_id *made)
{
	struct ffl_fd_id id = fd_identify(*fd);

	if (id.dev != made->dev || id.ino != made->ino)
		*fd = -1;
}

FFL_EXPORT int ffl_device_leave(struct ibv_context *context)
{
	struct ffl_context *ctx = to_ctx(context);

	if (ctx->pid != getpid() || ffl_check_alive(ctx) || atomic_load(&ctx->objects))
		return -EBUSY;
	ffl_session_untrack(ctx);
	ffl_mr_context_fini(ctx);
	/* who has the lock still uses the socket */
	pthread_mutex_lock(&ctx->call_lock);
	forget_strange(&ctx->async_fd, &ctx->async_id);
	forget_strange(&context->cmd_fd, &ctx->cmd_id);
	context->async_fd = -1;
	ffl_session_empty(ctx);
	pthread_mutex_unlock(&ctx->call_lock);
	return 0;
}

/* Whatever the program did not destroy ends with the session. */
FFL_EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct ffl_context *ctx = to_ctx(context), *s = atomic_load(&ctx->current), *older;

	for (; s && s != ctx; s = older) {
		older = s->older;
		device_session_end(s);
	}
	device_session_end(ctx);
	return 0;
}
