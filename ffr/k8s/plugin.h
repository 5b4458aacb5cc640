/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* plugin.h - inside ff-device-plugin: what is said to a kubelet (plugin.c), and when (main.c). */
#ifndef FFR_K8S_PLUGIN_H
#define FFR_K8S_PLUGIN_H

#include "ffr/k8s/grpc.h"

#define PLUGIN_MAX_DEVICES 10000u
#define PLUGIN_MAX_WATCHES 16u

struct plugin_conf {
	const char *resource; /* "freeflow.io/rdma" */
	const char *device;   /* CDI's whole name of what containers get */
	uint32_t num;	      /* so many containers of the node */
};

struct plugin {
	struct plugin_conf conf;
	bool healthy;
	struct grpc_call *watch[PLUGIN_MAX_WATCHES];
};

/* grpc_serve_cb and grpc_gone_cb; arg is the struct plugin. */
void plugin_serve(void *arg, struct grpc_call *c, const char *path, const uint8_t *msg, size_t len);
void plugin_gone(void *arg, struct grpc_call *c);
/* From now on its devices are healthy, or not: who watches is told. */
void plugin_health(struct plugin *p, bool healthy);
/* What the kubelet is asked when the plug-in registers: bytes of the caller's; NULL without memory. */
uint8_t *plugin_registration(const struct plugin *p, const char *endpoint, size_t *len);
#define PLUGIN_REGISTER "/v1beta1.Registration/Register"

#endif
