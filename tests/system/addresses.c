/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/*
 * addresses.c - for addresses.sh, in a container: a line "GIDS ADDRESS..." with the port's addresses (RoCE v2, without the
 * link-local one), and another one after each IBV_EVENT_GID_CHANGE, until it is ended.
 */
#include "tests/rig/verbs/vt.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

static void say(struct ibv_context *ctx)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry e;
	char text[INET6_ADDRSTRLEN];

	CHECK_EQ(ibv_query_port(ctx, 1, &port), 0);
	printf("GIDS");
	for (int i = 0; i < port.gid_tbl_len; i++) {
		CHECK_EQ(ibv_query_gid_ex(ctx, 1, (uint32_t)i, &e, 0), 0);
		if (e.gid_type != IBV_GID_TYPE_ROCE_V2 || e.gid.raw[0] == 0xfe)
			continue;
		inet_ntop(AF_INET6, &e.gid, text, sizeof(text));
		printf(" %s", strncmp(text, "::ffff:", 7) ? text : text + 7);
	}
	putchar('\n');
	fflush(stdout);
}

int main(void)
{
	struct ibv_device **list = CHECK_PTR(ibv_get_device_list(NULL));
	struct ibv_context *ctx = CHECK_PTR(ibv_open_device(CHECK_PTR(list[0])));
	struct ibv_async_event ev;

	say(ctx);
	while (!ibv_get_async_event(ctx, &ev)) {
		if (ev.event_type == IBV_EVENT_GID_CHANGE)
			say(ctx);
		else
			printf("EVENT %s\n", ibv_event_type_str(ev.event_type));
		fflush(stdout);
		ibv_ack_async_event(&ev);
	}
	return 1;
}
