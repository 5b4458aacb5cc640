/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* lib.c - loads the host's libibverbs: see lib.h. Control thread, at start. */
#include "ffr/nic/lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static int symbol(void *dl, const char *name, void *to, const char **why)
{
	void *p = dlsym(dl, name);

	*why = name;
	*(void **)to = p;
	return p ? 0 : -ENOSYS;
}

/* Where there is an mlx5 NIC, libibverbs has loaded libmlx5. Its own functions are found by its name. */
static void mlx5_load(struct nic_lib *lib)
{
	void *dl = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
	int err = dl ? 0 : -ENOENT;
	const char *why;

#define X(type, name, params) err = err ? err : symbol(dl, "mlx5dv_" #name, &lib->mlx5.name, &why);
	NIC_MLX5_LIB(X)
#undef X
	if (err)
		memset(&lib->mlx5, 0, sizeof(lib->mlx5));
}

int nic_lib_load(struct nic_lib *lib, const char **why)
{
	void *dl = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	int err = 0;

	if (!dl) {
		*why = dlerror();
		return -ENOENT;
	}
	/* the library for containers has the same name, and would ask this router */
	if (dlsym(dl, "ibv_malloc")) {
		*why = "the libibverbs.so.1 that is found is freeflow's for containers, not the host's";
		return -EINVAL;
	}
#define X(type, name, params) err = err ? err : symbol(dl, "ibv_" #name, &lib->name, why);
	NIC_LIB(X)
#undef X
	err = err ? err : symbol(dl, "_ibv_query_gid_ex", &lib->query_gid_ex, why);
	if (!err)
		mlx5_load(lib);
	return err;
}
