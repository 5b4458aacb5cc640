/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* judge_cm_misc.c - port spaces, options, multicast, synchronous ids, endpoints, names. */
#include "tests/conformance/judge_cm.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <unistd.h>

static void port_spaces(void)
{
	static const int tries[] = { 0, 1, 2, 0x105, 0x106, 0x107, 0x111, 0x13f, 0x140, 0xffff, -1 };
	struct rdma_event_channel *ch = cmt_channel();

	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
		struct rdma_cm_id *id;

		j_case("create-id/%x", tries[i]);
		if (J(rdma_create_id(ch, &id, NULL, (enum rdma_port_space)tries[i])))
			continue;
		j_say("type=%s", j_qp_type(id->qp_type));
		CHECK_OK(rdma_destroy_id(id));
	}
}

/* ---- options ----------------------------------------------------------------------------------- */

static void options(void)
{
	static const size_t lens[] = { 0, 1, 2, 3, 4, 5, 8 };

	for (int level = -1; level < 4; level++)
		for (int name = -1; name < 6; name++)
			for (unsigned l = 0; l < ARRAY_SIZE(lens); l++) {
				struct rdma_event_channel *ch = cmt_channel();
				struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
				uint8_t value[8] = { 1 };

				j_case("option/%d/%d/len=%zu", level, name, lens[l]);
				J(rdma_set_option(id, level, name, value, lens[l]));
				CHECK_OK(rdma_destroy_id(id));
				rdma_destroy_event_channel(ch);
			}
}

static void timeouts(void)
{
	for (unsigned v = 0; v < 256; v += v < 33 ? 1 : 37) {
		struct rdma_event_channel *ch = cmt_channel();
		struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
		uint8_t value = (uint8_t)v;

		j_case("option/ack-timeout=%u", v);
		J(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1));
		CHECK_OK(rdma_destroy_id(id));
		rdma_destroy_event_channel(ch);
	}
}

/* ---- multicast --------------------------------------------------------------------------------- */

static void multicast(void)
{
	static const char *const groups[] = { "232.1.1.1", "224.0.0.1", "239.255.255.255",
					      "10.0.0.1",  "0.0.0.0",	"255.255.255.255",
					      "ff12::5",   "ff02::1",	"fd00::1" };

	for (unsigned ps = 0; ps < 2; ps++)
		for (unsigned qp = 0; qp < 2; qp++)
			for (unsigned i = 0; i < ARRAY_SIZE(groups); i++) {
				struct rdma_event_channel *ch = cmt_channel();
				struct rdma_cm_id *id =
					cmt_id(ch, ps ? RDMA_PS_IPOIB : RDMA_PS_UDP);
				struct sockaddr_in self = cmt_self();
				struct sockaddr_storage ss = { 0 };
				struct rdma_cm_event *e;

				if (inet_pton(AF_INET, groups[i],
					      &((struct sockaddr_in *)&ss)->sin_addr) == 1) {
					ss.ss_family = AF_INET;
				} else {
					ss.ss_family = AF_INET6;
					inet_pton(AF_INET6, groups[i],
						  &((struct sockaddr_in6 *)&ss)->sin6_addr);
				}
				j_case("multicast/%s/%s/%s", ps ? "IPOIB" : "UDP",
				       qp ? "qp" : "no-qp", groups[i]);
				if (J(rdma_bind_addr(id, SA(&self))))
					continue;
				if (qp)
					cmt_qp(id);
				if (J(rdma_join_multicast(id, SA(&ss), NULL)))
					goto leave;
				e = j_event(ch, id, 500);
				if (e) {
					j_say("qpn=%x qkey=%x global=%u port=%u",
					      e->param.ud.qp_num, e->param.ud.qkey,
					      e->param.ud.ah_attr.is_global,
					      e->param.ud.ah_attr.port_num);
					CHECK_OK(rdma_ack_cm_event(e));
				}
				j_say("twice");
				if (!J(rdma_join_multicast(id, SA(&ss), NULL)))
					j_events(ch, id, 500);
leave:
				j_say("leave");
				J(rdma_leave_multicast(id, SA(&ss)));
				if (qp)
					rdma_destroy_qp(id);
				CHECK_OK(rdma_destroy_id(id));
				rdma_destroy_event_channel(ch);
			}
}

static void multicast_ex(void)
{
	struct sockaddr_in self = cmt_self(),
			   group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xe8010101) };

	for (unsigned mask = 0; mask < 8; mask++)
		for (unsigned flags = 0; flags < 6; flags++) {
			struct rdma_event_channel *ch = cmt_channel();
			struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_UDP);
			struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = mask,
								.join_flags = flags,
								.addr = SA(&group) };

			CHECK_OK(rdma_bind_addr(id, SA(&self)));
			j_case("multicast-ex/mask-%u/flags-%u", mask, flags);
			if (!J(rdma_join_multicast_ex(id, &attr, NULL)))
				j_events(ch, id, 500);
			CHECK_OK(rdma_destroy_id(id));
			rdma_destroy_event_channel(ch);
		}
}

/* ---- synchronous ids --------------------------------------------------------------------------- */

static void sync_ids(void)
{
	struct sockaddr_in self = cmt_self(), gone = self;
	struct rdma_cm_id *id, *req;

	CHECK_OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	j_case("sync/resolve-addr");
	self.sin_port = htons(9);
	J(rdma_resolve_addr(id, NULL, SA(&self), 1000));
	j_say("event=%d", id->event != NULL);
	j_case("sync/resolve-route");
	J(rdma_resolve_route(id, 1000));
	j_case("sync/connect-without-listener");
	J(rdma_connect(id, &(struct rdma_conn_param){ .qp_num = 77 }));
	j_say("event=%d", id->event != NULL);
	if (id->event)
		j_say("status=%d", id->event->status);
	j_case("sync/destroy");
	J(rdma_destroy_id(id));

	CHECK_OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	gone.sin_addr.s_addr ^= htonl(0x7f);
	j_case("sync/resolve-nobody");
	J(rdma_resolve_addr(id, NULL, SA(&gone), 100));
	CHECK_OK(rdma_destroy_id(id));

	CHECK_OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK_OK(fcntl(id->channel->fd, F_SETFL, O_NONBLOCK));
	j_case("sync/get-request-before-listen");
	J(rdma_get_request(id, &req));
	CHECK_OK(rdma_listen(id, 4));
	j_case("sync/get-request-of-nobody");
	J(rdma_get_request(id, &req));
	CHECK_OK(rdma_destroy_id(id));
}

/* ---- endpoints and names ----------------------------------------------------------------------- */

static void say_info(const struct rdma_addrinfo *ai)
{
	for (unsigned n = 0; ai; ai = ai->ai_next, n++) {
		j_say("#%u flags=%x family=%d type=%s ps=%x", n, ai->ai_flags, ai->ai_family,
		      j_qp_type((enum ibv_qp_type)ai->ai_qp_type), ai->ai_port_space);
		j_say("src=%u dst=%u", ai->ai_src_len, ai->ai_dst_len);
		if (ai->ai_src_addr)
			j_addr(ai->ai_src_addr);
		if (ai->ai_dst_addr)
			j_addr(ai->ai_dst_addr);
		j_say("route=%zu connect=%zu", ai->ai_route_len, ai->ai_connect_len);
	}
}

static void names(void)
{
	struct sockaddr_in self = cmt_self();
	char text[64];

	inet_ntop(AF_INET, &self.sin_addr, text, sizeof(text));
	{
		const struct {
			const char *name, *node, *service;
			struct rdma_addrinfo hints;
		} tries[] = {
			{ "nothing", NULL, NULL, { 0 } },
			{ "self", text, "7471", { 0 } },
			{ "self-tcp", text, "7471", { .ai_port_space = RDMA_PS_TCP } },
			{ "self-udp", text, "7471", { .ai_port_space = RDMA_PS_UDP } },
			{ "self-ib", text, "7471", { .ai_port_space = RDMA_PS_IB } },
			{ "self-ud", text, "7471", { .ai_qp_type = IBV_QPT_UD } },
			{ "self-uc", text, "7471", { .ai_qp_type = IBV_QPT_UC } },
			{ "self-passive", text, "7471", { .ai_flags = RAI_PASSIVE } },
			{ "passive", NULL, "7471", { .ai_flags = RAI_PASSIVE } },
			{ "service", NULL, "7471", { 0 } },
			{ "noroute", text, "7471", { .ai_flags = RAI_NOROUTE } },
			{ "numeric-name", "no.number", NULL, { .ai_flags = RAI_NUMERICHOST } },
			{ "family-6",
			  text,
			  NULL,
			  { .ai_flags = RAI_NUMERICHOST | RAI_FAMILY, .ai_family = AF_INET6 } },
			{ "lo", "127.0.0.1", "7471", { 0 } },
			{ "lo6", "::1", "7471", { 0 } },
			{ "passive-6", "::", "7471", { .ai_flags = RAI_PASSIVE } },
			{ "bad-service", text, "no such service", { 0 } },
			{ "port-too-big", text, "65536", { 0 } },
			{ "unknown-flags", text, "7471", { .ai_flags = 0x10000 } },
		};

		for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
			struct rdma_addrinfo *res = NULL;
			int ret;

			j_case("getaddrinfo/%s", tries[i].name);
			errno = 0;
			ret = rdma_getaddrinfo(tries[i].node, tries[i].service, &tries[i].hints,
					       &res);
			if (ret) {
				j_say("%d %s", ret, ret == -1 ? j_errno(errno) : "");
				continue;
			}
			say_info(res);
			rdma_freeaddrinfo(res);
		}
	}
}

static void endpoints(void)
{
	struct sockaddr_in self = cmt_self();
	char text[64];

	inet_ntop(AF_INET, &self.sin_addr, text, sizeof(text));
	for (unsigned passive = 0; passive < 2; passive++)
		for (unsigned qp = 0; qp < 3; qp++) {
			struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP,
						       .ai_flags = passive ? RAI_PASSIVE : 0 };
			struct ibv_qp_init_attr attr = {
				.cap = { 1, 1, 1, 1, 0 },
				.qp_type = qp == 2 ? IBV_QPT_UD : IBV_QPT_RC,
			};
			struct rdma_addrinfo *res;
			struct rdma_cm_id *id;

			CHECK_OK(rdma_getaddrinfo(text, "7471", &hints, &res));
			j_case("create-ep/%s/%s", passive ? "passive" : "active",
			       qp == 0 ? "no-qp" :
			       qp == 1 ? "qp" :
					 "ud-qp");
			if (!J(rdma_create_ep(&id, res, NULL, qp ? &attr : NULL))) {
				j_say("qp=%d dev=%d", id->qp != NULL, id->verbs != NULL);
				j_addr(rdma_get_local_addr(id));
				if (id->qp)
					j_say("%s", j_qp_state(vt_state(id->qp)));
				if (passive)
					J(rdma_listen(id, 1));
				rdma_destroy_ep(id);
			}
			rdma_freeaddrinfo(res);
		}
}

JUDGE_GROUPS(judge_cm_misc, { "create-id", port_spaces, 0 }, { "option", options, 0 },
	     { "ack-timeout", timeouts, 0 }, { "multicast", multicast, 60 },
	     { "multicast-ex", multicast_ex, 60 }, { "sync", sync_ids, 60 },
	     { "getaddrinfo", names, 0 }, { "create-ep", endpoints, 0 })
