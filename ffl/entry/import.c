/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * import.c - ibv_import_device, ibv_import_pd, ibv_import_mr and their ends. Any thread.
 * Neighbours: context.c opens the session; pd.c and mr.c end objects that were imported, too.
 *
 * A session cannot be shared: its answers come to one process, and its rings are one process's. So
 * a context's cmd_fd is not the control socket but a sealed memfd with a token in it, which the
 * router gave to this session. It can be duplicated, inherited and sent over a Unix socket; who
 * reads the token may open a session of his own that names the first one's PDs and MRs by their
 * handles. What is made in the importing context (QPs, CQs) is its own; only what the first context
 * has can be imported, and an MR ends with the process that registered it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

#define TOKEN_MAGIC "freeflow session"

struct token_file {
	char magic[16];
	uint8_t token[FF_TOKEN_SZ];
};
static_assert(sizeof(TOKEN_MAGIC) - 1 == sizeof(((struct token_file *)0)->magic), "");

int ffl_token_fd(const uint8_t token[FF_TOKEN_SZ])
{
	struct token_file file;
	int fd = memfd_create("freeflow-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	memcpy(file.magic, TOKEN_MAGIC, sizeof(file.magic));
	memcpy(file.token, token, sizeof(file.token));
	if (write(fd, &file, sizeof(file)) != sizeof(file) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Which device the session is of, since it imports. */
static struct ibv_device *device_of(struct ffl_context *ctx)
{
	struct ff_device_req req = { .index = FF_DEVICE_AS_IS };
	struct ff_device_resp resp;
	bool one = ctx->num_devices <= 1;

	return ffl_device_at(!one && !FFL_CALL(ctx, DEVICE, &req, &resp) ? resp.index : 0);
}

/* cmd_fd becomes the context's and is closed with it; when this fails it stays the caller's. */
FFL_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ff_import_device_req req;
	struct ff_import_device_resp resp;
	struct ibv_device **list;
	struct ibv_context *context;
	struct token_file file;
	int err;

	if (pread(cmd_fd, &file, sizeof(file), 0) != sizeof(file) ||
	    memcmp(file.magic, TOKEN_MAGIC, sizeof(file.magic)))
		return ffl_err_ptr(EINVAL);
	list = ibv_get_device_list(NULL);
	if (!list)
		return NULL;
	context = list[0] ? ibv_open_device(list[0]) : ffl_err_ptr(ENODEV);
	ibv_free_device_list(list);
	if (!context)
		return NULL;
	memcpy(req.token, file.token, sizeof(req.token));
	err = FFL_CALL(to_ctx(context), IMPORT_DEVICE, &req, &resp);
	if (err) {
		ibv_close_device(context);
		return ffl_err_ptr(-err);
	}
	if (context->cmd_fd >= 0)
		close(context->cmd_fd);
	context->cmd_fd = cmd_fd;
	context->device = device_of(to_ctx(context));
	to_ctx(context)->imports = true;
	memcpy(to_ctx(context)->import_token, file.token, sizeof(file.token));
	return context;
}

FFL_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct ff_import_pd_req req = { .pd = handle };
	struct ff_import_pd_resp resp;
	struct ffl_context *ctx = ffl_session_of(context);
	struct ffl_pd *pd = FFL_MAKE(sizeof(*pd), ctx, IMPORT_PD, &req, &resp);

	if (!pd)
		return NULL;
	pd->ctx = ctx;
	pd->imported = true;
	pd->handle = resp.pd;
	pd->ibv.context = context;
	pd->ibv.handle = handle;
	atomic_fetch_add(&ctx->objects, 1);
	return &pd->ibv;
}

/* The PD lives on. Also for the original, when an importer has destroyed the PD. */
FFL_EXPORT void ibv_unimport_pd(struct ibv_pd *ibpd)
{
	struct ffl_pd *pd = to_pd(ibpd);
	struct ff_dealloc_pd_req req = { .pd = pd->handle, .unimport = pd->imported };
	struct ff_dealloc_pd_resp resp;

	if (pd->imported)
		FFL_CALL(pd->ctx, DEALLOC_PD, &req, &resp);
	atomic_fetch_sub(&pd->ctx->objects, 1);
	free(pd);
}

/* The imported MR's address is of another process, and therefore NULL. */
FFL_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *ibpd, uint32_t handle)
{
	struct ff_import_mr_req req = { .pd = to_pd(ibpd)->handle, .mr = handle };
	struct ff_import_mr_resp resp;
	struct ffl_mr *mr = FFL_MAKE(sizeof(*mr), to_pd(ibpd)->ctx, IMPORT_MR, &req, &resp);

	if (!mr)
		return NULL;
	mr->ctx = to_pd(ibpd)->ctx;
	mr->imported = true;
	mr->iova = resp.iova;
	mr->ibv = (struct ibv_mr){
		.context = ibpd->context,
		.pd = ibpd,
		.length = resp.length,
		.handle = handle,
		.lkey = resp.lkey,
		.rkey = resp.rkey,
	};
	atomic_fetch_add(&to_pd(ibpd)->refs, 1);
	return &mr->ibv;
}

/* The MR lives on. Also for the original, when an importer has deregistered the MR. */
FFL_EXPORT void ibv_unimport_mr(struct ibv_mr *ibv)
{
	ffl_mr_forget(container_of_(ibv, struct ffl_mr, ibv));
}
