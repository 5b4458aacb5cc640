/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * device.c - the list of devices: those of the container, as ff0, if a router answers, else none. Any thread;
 * neighbour: context.c, which opens them.
 *
 * A device lives as long as the process: a program may hold it after it freed the list. Which devices there are, and
 * what they are called, is as the router says when the list is first asked for; a container that is made anew under
 * another name is not this one. Whether the list names them is found out each time by a session of one message, so
 * that a router that is not there costs a connect() that fails, and one that is there but stopped costs
 * PROBE_TIMEOUT_MS.
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
#define RUN_SYS	  "/run/freeflow/sys"
#define SYS_CLASS "/class/infiniband"

static struct ffl_device {
	struct ibv_device ibv;
	/*
	 * Providers that a program is linked with (libmlx5, libefa) ask whether a device is theirs
	 * by reading a pointer behind ibv_device, in a struct of rdma-core's own. It must be NULL.
	 */
	uint8_t not_a_provider[256];
	_Atomic uint64_t guid; /* network byte order */
} devices[FF_DEVICES_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the number, until it is not 0 */
static uint32_t num_devices;

static bool is_in(const char *sys, const char *name)
{
	char path[sizeof(devices[0].ibv.ibdev_path)];

	snprintf(path, sizeof(path), "%s" SYS_CLASS "/%s", sys, name);
	return !access(path, F_OK);
}

/* Where the files of the device of that name are. */
static const char *sys_of(const char *name)
{
	return is_in("/sys", name) || !is_in(RUN_SYS, name) ? "/sys" : RUN_SYS;
}

const char *ffl_sysfs(void)
{
	return devices[0].ibv.name[0] ? sys_of(devices[0].ibv.name) : sys_of(FF_DEVICE_NAME);
}

uint32_t ffl_device_index(const struct ibv_device *device)
{
	ptrdiff_t i = (const struct ffl_device *)device - devices;

	return i > 0 && i < (ptrdiff_t)FF_DEVICES_MAX ? (uint32_t)i : 0;
}

struct ibv_device *ffl_device_at(uint32_t index)
{
	return index < FF_DEVICES_MAX ? &devices[index].ibv : &devices[0].ibv;
}

/* Before anybody sees the device: programs hold its names. */
static void device_init(uint32_t i, const char name[FF_DEVICE_NAME_SZ])
{
	struct ibv_device *d = &devices[i].ibv;
	const char *sys = sys_of(name);

	d->node_type = IBV_NODE_CA;
	d->transport_type = IBV_TRANSPORT_IB;
	snprintf(d->name, sizeof(d->name), "%s", name);
	snprintf(d->dev_name, sizeof(d->dev_name), FF_DEVICE_NODE "%u", i);
	snprintf(d->dev_path, sizeof(d->dev_path), "%s" SYS_CLASS "_verbs/" FF_DEVICE_NODE "%u",
		 sys, i);
	snprintf(d->ibdev_path, sizeof(d->ibdev_path), "%s" SYS_CLASS "/%s", sys, name);
}

/* A name that can be part of a path. */
static bool name_ok(const char name[FF_DEVICE_NAME_SZ])
{
	size_t n = strnlen(name, FF_DEVICE_NAME_SZ);

	return n && n < FF_DEVICE_NAME_SZ && name[0] != '.' && !memchr(name, '/', n);
}

/* Device i of the router's. A router of before there were several has one, ff0. 0 or -errno. */
static int device_ask(struct ffl_context *ctx, uint32_t i, struct ff_device_resp *resp)
{
	struct ff_device_req req = { .index = i };
	int ret;

	if (ctx->num_devices) {
		ret = FFL_CALL(ctx, DEVICE, &req, resp);
		return ret ? ret : name_ok(resp->name) ? 0 : -EPROTO;
	}
	memset(resp, 0, sizeof(*resp));
	resp->node_guid = ctx->node_guid;
	strcpy(resp->name, FF_DEVICE_NAME);
	return 0;
}

/* What the router has told. How many devices the list has. */
static uint32_t devices_keep(const struct ff_device_resp *told, uint32_t n)
{
	pthread_mutex_lock(&lock);
	if (num_devices && n > num_devices)
		n = num_devices;
	for (uint32_t i = 0; i < n; i++) {
		atomic_store(&devices[i].guid, told[i].node_guid);
		if (!num_devices)
			device_init(i, told[i].name);
	}
	if (!num_devices)
		num_devices = n;
	pthread_mutex_unlock(&lock);
	return n;
}

/*
 * Ask the router for the container's devices. Returns their number; 0: no router answers. The caller holds no lock,
 * because a child that is forked meanwhile would wait for that lock for ever.
 */
static uint32_t probe(void)
{
	struct ffl_context *ctx = ffl_session_new(PROBE_TIMEOUT_MS);
	struct ff_device_resp told[FF_DEVICES_MAX];
	uint32_t n = 0;

	if (!ctx)
		return 0;
	do {
		if (device_ask(ctx, n, &told[n]))
			break;
	} while (++n < ctx->num_devices);
	ffl_session_free(ctx);
	return devices_keep(told, n);
}

#undef ibv_get_device_list
FFL_EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list;
	uint32_t n;

	ffl_log_init();
	if (num)
		*num = 0;
	list = calloc(FF_DEVICES_MAX + 1, sizeof(*list));
	if (!list)
		return ffl_err_ptr(ENOMEM);
	n = probe();
	for (uint32_t i = 0; i < n; i++)
		list[i] = &devices[i].ibv;
	if (num)
		*num = (int)n;
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
	return atomic_load(&((struct ffl_device *)device)->guid);
}

/* The kernel numbers its devices; this one is not among them. */
FFL_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1;
}
