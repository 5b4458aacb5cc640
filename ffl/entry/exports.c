/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * exports.c - public verbs that have no object behind them here: what this device does not
 * support, what needs no work, and sysfs. Any thread. libibverbs.map gives the names their
 * versions; the private names are in exports_private.c, the 2006 ABI in compat_1_0.c.
 *
 * A verb that is not supported says EOPNOTSUPP: as its result where it returns an error number,
 * in errno beside NULL or -1 where it returns a pointer or a descriptor.
 *
 * Tests: system/verbs_unsupported.c, conformance/calls.c
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

#define UNUSED __attribute__((unused))

/* The layout that programs were compiled against; tests/conformance checks all of it. */
static_assert(sizeof(struct ibv_context) == 328 + FFL_MUTEX_MORE, "ABI");
static_assert(sizeof(struct ibv_device) == 664, "ABI");
static_assert(sizeof(struct verbs_context) <= FFL_VERBS_CONTEXT_SZ, "ABI");
static_assert(sizeof(struct ibv_qp_ex) <= FFL_QP_EX_SZ, "ABI");
static_assert(sizeof(struct ibv_cq_ex) <= FFL_CQ_EX_SZ, "ABI");
static_assert(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, sz) == 8,
	      "ABI");

/* Newer than the headers that this is built with. */
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *ctx, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;
int _ibv_query_comp_cntr_caps(struct ibv_context *ctx, struct ibv_comp_cntr_caps *caps,
			      size_t size);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *ctx,
					   struct ibv_comp_cntr_init_attr *attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr);
int ibv_set_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *cntr, uint64_t *value);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);
/* Left out of the public headers, for rdma-core's own programs. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* ---- not supported ----------------------------------------------------------------------------- */

FFL_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *ctx UNUSED, uint32_t handle UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT void ibv_unimport_dm(struct ibv_dm *dm UNUSED)
{
}

FFL_EXPORT int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm UNUSED)
{
	errno = EOPNOTSUPP;
	return -1;
}

FFL_EXPORT struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *ctx UNUSED,
					   struct ibv_dmah_init_attr *attr UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT int ibv_dealloc_dmah(struct ibv_dmah *dmah UNUSED)
{
	return EOPNOTSUPP;
}

/* Completion counters: there are none, so that the capabilities are zeros. */
FFL_EXPORT int _ibv_query_comp_cntr_caps(struct ibv_context *ctx UNUSED,
					 struct ibv_comp_cntr_caps *caps, size_t size)
{
	memset(caps, 0, size);
	return EOPNOTSUPP;
}

FFL_EXPORT struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *ctx UNUSED,
						      struct ibv_comp_cntr_init_attr *attr UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_set_comp_cntr(struct ibv_comp_cntr *cntr UNUSED, uint64_t value UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_set_err_comp_cntr(struct ibv_comp_cntr *cntr UNUSED, uint64_t value UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_inc_comp_cntr(struct ibv_comp_cntr *cntr UNUSED, uint64_t amount UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *cntr UNUSED, uint64_t amount UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_read_comp_cntr(struct ibv_comp_cntr *cntr UNUSED, uint64_t *value UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_read_err_comp_cntr(struct ibv_comp_cntr *cntr UNUSED, uint64_t *value UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_qp_attach_comp_cntr(struct ibv_qp *qp UNUSED, struct ibv_comp_cntr *cntr UNUSED,
				       struct ibv_qp_attach_comp_cntr_attr *attr UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_set_ece(struct ibv_qp *qp UNUSED, struct ibv_ece *ece UNUSED)
{
	return errno = EOPNOTSUPP;
}

FFL_EXPORT int ibv_query_ece(struct ibv_qp *qp UNUSED, struct ibv_ece *ece UNUSED)
{
	return errno = EOPNOTSUPP;
}

/* Wire addresses of Ethernet do not exist here: the router finds the peer by its GID. -errno. */
FFL_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx UNUSED,
					   struct ibv_ah_attr *attr UNUSED,
					   uint8_t mac[ETHERNET_LL_SIZE] UNUSED,
					   uint16_t *vid UNUSED)
{
	return -EOPNOTSUPP;
}

/*
 * 0, whatever the operation and the flags: within a message bytes appear in the order in which the
 * machine's fastest memcpy(3) writes them, which is none that holds for 128 bytes even. What does
 * hold where memory is mapped, that the last 8 bytes of a copy come last (the router's xfer.c), is
 * nothing that this verb could tell.
 */
FFL_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp UNUSED, enum ibv_wr_opcode op UNUSED,
					  uint32_t flags UNUSED)
{
	return 0;
}

/* ---- fork: registered memory survives it without the program's help (fork.c) -------------------- */

FFL_EXPORT int ibv_fork_init(void)
{
	return 0;
}

FFL_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Exported by rdma-core although no header declares them. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

FFL_EXPORT int ibv_dontfork_range(void *base UNUSED, size_t size UNUSED)
{
	return 0;
}

FFL_EXPORT int ibv_dofork_range(void *base UNUSED, size_t size UNUSED)
{
	return 0;
}

/* ---- sysfs: programs ask for files of their own through these --------------------------------------- */

/* Where sysfs is mounted: SYSFS_PATH, unless the program runs set-user-ID; else where the device is. */
FFL_EXPORT const char *ibv_get_sysfs_path(void)
{
	static _Atomic(char *) path; /* set once, kept for ever: callers hold it */
	const char *env;
	char *old = NULL, *copy;
	size_t len;

	if (atomic_load(&path))
		return atomic_load(&path);
	env = secure_getenv("SYSFS_PATH");
	copy = env ? strndup(env, IBV_SYSFS_PATH_MAX) : NULL;
	if (!copy)
		return ffl_sysfs();
	for (len = strlen(copy); len && copy[len - 1] == '/'; len--)
		copy[len - 1] = '\0';
	if (atomic_compare_exchange_strong(&path, &old, copy))
		return copy;
	free(copy);
	return old;
}

/* The first line of dir/file, ended by NUL. Its length, or -1 with errno (or if it does not fit). */
FFL_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	ssize_t len;
	char *path;
	int fd, err;

	if (asprintf(&path, "%s/%s", dir, file) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = errno;
	free(path);
	if (fd < 0) {
		errno = err;
		return -1;
	}
	len = read(fd, buf, size);
	err = errno;
	close(fd);
	errno = err;
	if (len <= 0)
		return len;
	if (buf[len - 1] == '\n')
		buf[--len] = '\0';
	else if ((size_t)len < size)
		buf[len] = '\0';
	else
		return -1;
	return len;
}
