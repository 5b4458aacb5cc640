/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * exports.c - public verbs that have no object behind them here: what this device does not
 * support, what needs no work, and sysfs. Any thread. libibverbs.map gives the names their
 * versions; the private names are in exports_private.c, the 2006 ABI in compat_1_0.c.
 *
 * A verb that is not supported says EOPNOTSUPP: as its result where it returns an error number,
 * in errno beside NULL or -1 where it returns a pointer or a descriptor.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl.h"

#define UNUSED __attribute__((unused))

/* The layout that programs were compiled against; tests/conformance checks all of it. */
static_assert(sizeof(struct ibv_context) == 328, "ABI");
static_assert(sizeof(struct ibv_device) == 664, "ABI");
static_assert(sizeof(struct verbs_context) <= FFL_VERBS_CONTEXT_SZ, "ABI");
static_assert(sizeof(struct ibv_qp_ex) <= FFL_QP_EX_SZ, "ABI");
static_assert(sizeof(struct ibv_cq_ex) <= FFL_CQ_EX_SZ, "ABI");
static_assert(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, sz) == 8,
	      "ABI");

/* Newer than the headers that this is built with. */
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_buf;
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *ctx, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_query_port_speed(struct ibv_context *ctx, uint32_t port, uint64_t *speed);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      uint64_t iova, unsigned int access);
/* Left out of the public headers, for rdma-core's own programs. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* ---- not supported ----------------------------------------------------------------------------- */

FFL_EXPORT struct ibv_context *ibv_import_device(int cmd_fd UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *ctx UNUSED, uint32_t handle UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT void ibv_unimport_pd(struct ibv_pd *pd UNUSED)
{
}

FFL_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd UNUSED, uint32_t handle UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT void ibv_unimport_mr(struct ibv_mr *mr UNUSED)
{
}

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

FFL_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd UNUSED, uint64_t offset UNUSED,
					    size_t length UNUSED, uint64_t iova UNUSED,
					    int fd UNUSED, int access UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
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

FFL_EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd UNUSED,
					struct ibv_mr_init_attr *attr UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT void *ibv_alloc_buf(struct ibv_pd *pd UNUSED, size_t size UNUSED,
			       struct ibv_buf **buf UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT void ibv_free_buf(struct ibv_buf *buf UNUSED)
{
}

FFL_EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd UNUSED, struct ibv_buf *buf UNUSED,
					 void *addr UNUSED, size_t length UNUSED,
					 uint64_t iova UNUSED, unsigned int access UNUSED)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT int ibv_query_port_speed(struct ibv_context *ctx UNUSED, uint32_t port UNUSED,
				    uint64_t *speed UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_attach_mcast(struct ibv_qp *qp UNUSED, const union ibv_gid *gid UNUSED,
				uint16_t lid UNUSED)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int ibv_detach_mcast(struct ibv_qp *qp UNUSED, const union ibv_gid *gid UNUSED,
				uint16_t lid UNUSED)
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
 * Nothing is promised about the order in which bytes of a message appear: a copy may be made in
 * pieces, by whatever memcpy(3) of the machine is fastest.
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

/* Where sysfs is mounted: SYSFS_PATH, unless the program runs set-user-ID; else /sys. */
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
		return "/sys";
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
