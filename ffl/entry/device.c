/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * device.c - the list of devices: ff0 if a router answers, else none. Any thread; neighbour:
 * context.c, which opens it.
 *
 * There is one device in a process, and it lives as long as the process: a program may hold it
 * after it freed the list. Whether the list names it is found out each time by a session of one
 * message, so that a router that is not there costs a connect() that fails, and one that is there
 * but stopped costs PROBE_TIMEOUT_MS.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

/*
 * As long as any other call (context.c): a router that lives may keep this container's calls waiting, because the
 * container has used up max_cpu or max_calls. A program that starts then must not find a machine without a device.
 */
#define PROBE_TIMEOUT_MS 10000

/* Below the folder that every container has mounted, for one that has nothing in its /sys. */
#define RUN_SYS	   "/run/freeflow/sys"
#define SYS_DEVICE "/class/infiniband/" FF_DEVICE_NAME
#define SYS_VERBS  "/class/infiniband_verbs/" FF_DEVICE_NODE

static struct {
	struct ibv_device ibv;
	/*
	 * Providers that a program is linked with (libmlx5, libefa) ask whether a device is theirs
	 * by reading a pointer behind ibv_device, in a struct of rdma-core's own. It must be NULL.
	 */
	uint8_t not_a_provider[256];
	_Atomic uint64_t guid; /* network byte order */
} ff0 = {
	.ibv = {
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
		.name = FF_DEVICE_NAME,
		.dev_name = FF_DEVICE_NODE,
		.dev_path = "/sys" SYS_VERBS,
		.ibdev_path = "/sys" SYS_DEVICE,
	},
};

static bool is_in(const char *sys)
{
	char path[sizeof(ff0.ibv.ibdev_path)];

	snprintf(path, sizeof(path), "%s" SYS_DEVICE, sys);
	return !access(path, F_OK);
}

const char *ffl_sysfs(void)
{
	return is_in("/sys") || !is_in(RUN_SYS) ? "/sys" : RUN_SYS;
}

/* Once, before anybody sees the device: programs hold these paths. (No pthread_once(): it is new in libc.) */
static void paths_init(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool done;

	pthread_mutex_lock(&lock);
	if (!done && !strcmp(ffl_sysfs(), RUN_SYS)) {
		strcpy(ff0.ibv.dev_path, RUN_SYS SYS_VERBS);
		strcpy(ff0.ibv.ibdev_path, RUN_SYS SYS_DEVICE);
	}
	done = true;
	pthread_mutex_unlock(&lock);
}

/* Does a router answer? Its GUID is kept. */
static bool probe(void)
{
	struct ffl_context *ctx = ffl_session_new(PROBE_TIMEOUT_MS);

	if (!ctx)
		return false;
	atomic_store(&ff0.guid, ctx->node_guid);
	ffl_session_free(ctx);
	return true;
}

#undef ibv_get_device_list
FFL_EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list;

	ffl_log_init();
	paths_init();
	if (num)
		*num = 0;
	list = calloc(2, sizeof(*list));
	if (!list)
		return ffl_err_ptr(ENOMEM);
	if (probe()) {
		list[0] = &ff0.ibv;
		if (num)
			*num = 1;
	}
	return list;
}

FFL_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

FFL_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* Network byte order. */
FFL_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	(void)device;
	return atomic_load(&ff0.guid);
}

/* The kernel numbers its devices; this one is not among them. */
FFL_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1;
}
