/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * plugin.c - the device plug-in's side of the kubelet's interface v1beta1 (deviceplugin.proto).
 *
 * A device is a place: a node has as many as its operator said, all alike, and a container has one of them. Which RDMA
 * device that becomes is decided by the hook that CDI's device names (ffr/oci), when the container starts.
 * Requests are unpacked by protobuf-c, which checks them, and their device IDs are looked at here.
 *
 * Tests: system/kubernetes.sh
 */
#include "ffr/k8s/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/k8s/deviceplugin.pb-c.h"

#define SERVICE	       "/v1beta1.DevicePlugin/"
#define ID_PREFIX      "rdma"
#define ID_SZ	       16
#define MAX_CONTAINERS 256u /* of an Allocate */

static int send_packed(struct grpc_call *c, const ProtobufCMessage *m)
{
	size_t len = protobuf_c_message_get_packed_size(m);
	uint8_t *buf = malloc(len + !len);
	int err = buf ? 0 : -ENOMEM;

	if (!err) {
		protobuf_c_message_pack(m, buf);
		err = grpc_send(c, buf, len);
	}
	free(buf);
	return err;
}

static void answer(struct grpc_call *c, const ProtobufCMessage *m)
{
	int err = send_packed(c, m);

	grpc_end(c, err ? GRPC_INTERNAL : GRPC_OK, err ? strerror(-err) : NULL);
}

/* ---- ListAndWatch ---------------------------------------------------------------------------- */

static int send_devices(const struct plugin *p, struct grpc_call *c)
{
	V1beta1__ListAndWatchResponse list = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
	V1beta1__Device *device = calloc(p->conf.num, sizeof(*device));
	V1beta1__Device **all = calloc(p->conf.num, sizeof(V1beta1__Device *));
	char(*id)[ID_SZ] = calloc(p->conf.num, sizeof(*id));
	int err = device && all && id ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < p->conf.num && !err; i++) {
		snprintf(id[i], ID_SZ, ID_PREFIX "%u", i);
		v1beta1__device__init(&device[i]);
		device[i].id = id[i];
		device[i].health = (char *)(p->healthy ? "Healthy" : "Unhealthy");
		all[i] = &device[i];
	}
	list.devices = all;
	list.n_devices = p->conf.num;
	if (!err)
		err = send_packed(c, &list.base);
	free(device);
	free(all);
	free(id);
	return err;
}

static void list_and_watch(struct plugin *p, struct grpc_call *c)
{
	for (unsigned i = 0; i < PLUGIN_MAX_WATCHES; i++) {
		if (p->watch[i])
			continue;
		if (send_devices(p, c))
			break;
		p->watch[i] = c;
		return;
	}
	grpc_end(c, GRPC_RESOURCE_EXHAUSTED, "too many watch");
}

void plugin_gone(void *arg, struct grpc_call *c)
{
	struct plugin *p = arg;

	for (unsigned i = 0; i < PLUGIN_MAX_WATCHES; i++)
		if (p->watch[i] == c)
			p->watch[i] = NULL;
}

void plugin_health(struct plugin *p, bool healthy)
{
	struct grpc_call *c;

	if (healthy == p->healthy)
		return;
	p->healthy = healthy;
	for (unsigned i = 0; i < PLUGIN_MAX_WATCHES; i++) {
		c = p->watch[i];
		if (c && send_devices(p, c)) {
			p->watch[i] = NULL;
			grpc_end(c, GRPC_RESOURCE_EXHAUSTED, "it does not read");
		}
	}
}

/* ---- Allocate -------------------------------------------------------------------------------- */

static bool is_ours(const struct plugin *p, const char *id)
{
	const char *digits = id + strlen(ID_PREFIX);
	size_t n;

	if (strncmp(id, ID_PREFIX, strlen(ID_PREFIX)))
		return false;
	n = strspn(digits, "0123456789");
	return n && n < 6 && !digits[n] && (n == 1 || digits[0] != '0') &&
	       strtoul(digits, NULL, 10) < p->conf.num;
}

/* NULL, or what is wrong. */
static const char *request_wrong(const struct plugin *p, const V1beta1__AllocateRequest *req)
{
	if (!req->n_container_requests || req->n_container_requests > MAX_CONTAINERS)
		return "how many containers?";
	for (size_t i = 0; i < req->n_container_requests; i++) {
		const V1beta1__ContainerAllocateRequest *r = req->container_requests[i];

		if (r->n_devicesids != 1)
			return "a container has one RDMA device: ask for 1";
		if (!is_ours(p, r->devicesids[0]))
			return "no such device";
	}
	return NULL;
}

static void allocate(struct plugin *p, struct grpc_call *c, const uint8_t *msg, size_t len)
{
	V1beta1__AllocateRequest *req = v1beta1__allocate_request__unpack(NULL, len, msg);
	V1beta1__CDIDevice cdi = V1BETA1__CDIDEVICE__INIT, *cdis[] = { &cdi };
	V1beta1__ContainerAllocateResponse one = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
	V1beta1__ContainerAllocateResponse *all[MAX_CONTAINERS];
	V1beta1__AllocateResponse resp = V1BETA1__ALLOCATE_RESPONSE__INIT;
	const char *wrong = req ? request_wrong(p, req) : "the request is not understood";

	if (wrong) {
		grpc_end(c, GRPC_INVALID_ARGUMENT, wrong);
	} else {
		cdi.name = (char *)p->conf.device;
		one.cdi_devices = cdis;
		one.n_cdi_devices = 1;
		for (size_t i = 0; i < req->n_container_requests; i++)
			all[i] = &one;
		resp.container_responses = all;
		resp.n_container_responses = req->n_container_requests;
		answer(c, &resp.base);
	}
	if (req)
		v1beta1__allocate_request__free_unpacked(req, NULL);
}

/* ---- calls ----------------------------------------------------------------------------------- */

void plugin_serve(void *arg, struct grpc_call *c, const char *path, const uint8_t *msg, size_t len)
{
	const V1beta1__DevicePluginOptions none = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	struct plugin *p = arg;

	if (!strcmp(path, SERVICE "GetDevicePluginOptions"))
		answer(c, &none.base);
	else if (!strcmp(path, SERVICE "ListAndWatch"))
		list_and_watch(p, c);
	else if (!strcmp(path, SERVICE "Allocate"))
		allocate(p, c, msg, len);
	else
		grpc_end(c, GRPC_UNIMPLEMENTED, "no such method");
}

uint8_t *plugin_registration(const struct plugin *p, const char *endpoint, size_t *len)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	V1beta1__RegisterRequest req = V1BETA1__REGISTER_REQUEST__INIT;
	uint8_t *buf;

	req.version = (char *)"v1beta1";
	req.endpoint = (char *)endpoint;
	req.resource_name = (char *)p->conf.resource;
	req.options = &options;
	*len = v1beta1__register_request__get_packed_size(&req);
	buf = malloc(*len);
	if (buf)
		v1beta1__register_request__pack(&req, buf);
	return buf;
}
