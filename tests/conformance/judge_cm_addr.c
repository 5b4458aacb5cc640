/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge_cm_addr.c - forms of addresses: what an id can be bound to, from where to where one resolves,
 * ports that are in use, backlogs.
 */
#include "tests/conformance/judge_cm.h"

#include <arpa/inet.h>
#include <infiniband/ib.h>

enum addr {
	ANY4,
	SELF4,
	LO4,
	LO4_OTHER,
	NEIGHBOUR4, /* of the subnet, not there */
	FOREIGN4,   /* routed, nobody's */
	MULTICAST4,
	BROADCAST4,
	ANY6,
	LO6,
	MAPPED_SELF6,
	MAPPED_ANY6,
	FOREIGN6,
	LINKLOCAL6,
	MULTICAST6,
	UNSPEC,
	IB,
	NUM_ADDRS
};
static const char *const addr_str[] = {
	"any4",	      "self4",	    "lo4",	  "lo4-other", "neighbour4",   "foreign4",
	"multicast4", "broadcast4", "any6",	  "lo6",       "mapped-self6", "mapped-any6",
	"foreign6",   "linklocal6", "multicast6", "unspec",    "ib",
};
_Static_assert(ARRAY_SIZE(addr_str) == NUM_ADDRS, "");

static struct sockaddr_storage make(enum addr a, uint16_t port)
{
	static const char *const text[NUM_ADDRS] = {
		[ANY6] = "::",
		[LO6] = "::1",
		[MAPPED_ANY6] = "::ffff:0.0.0.0",
		[FOREIGN6] = "2001:db8::1",
		[LINKLOCAL6] = "fe80::1",
		[MULTICAST6] = "ff12::1",
		[MAPPED_SELF6] = "::ffff:0:0",
	};
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;
	struct sockaddr_in self = cmt_self();

	if (a == UNSPEC)
		return ss;
	if (a == IB) {
		struct sockaddr_ib *ib = (struct sockaddr_ib *)&ss;

		ib->sib_family = AF_IB;
		return ss;
	}
	if (text[a]) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		CHECK_EQ(inet_pton(AF_INET6, text[a], &in6->sin6_addr), 1);
		if (a == MAPPED_SELF6)
			memcpy(in6->sin6_addr.s6_addr + 12, &self.sin_addr, 4);
		return ss;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	in->sin_addr.s_addr = a == ANY4	      ? INADDR_ANY :
			      a == SELF4      ? self.sin_addr.s_addr :
			      a == LO4	      ? htonl(INADDR_LOOPBACK) :
			      a == LO4_OTHER  ? htonl(0x7f000203) :
			      a == NEIGHBOUR4 ? self.sin_addr.s_addr ^ htonl(0x7f) :
			      a == FOREIGN4   ? htonl(0xc0000201) :
			      a == MULTICAST4 ? htonl(0xe8010203) :
						htonl(INADDR_BROADCAST);
	return ss;
}

static const struct {
	const char *name;
	enum rdma_port_space ps;
} spaces[] = { { "TCP", RDMA_PS_TCP },
	       { "UDP", RDMA_PS_UDP },
	       { "IB", RDMA_PS_IB },
	       { "IPOIB", RDMA_PS_IPOIB } };

static void where(struct rdma_cm_id *id, uint16_t port)
{
	j_addr(rdma_get_local_addr(id));
	j_port(ntohs(rdma_get_src_port(id)), port);
	j_say("dev=%d", id->verbs != NULL);
}

static void binds(void)
{
	static const uint16_t ports[] = { 0, 7471, 1023, 65535 };

	for (unsigned s = 0; s < ARRAY_SIZE(spaces); s++)
		for (enum addr a = 0; a < NUM_ADDRS; a++)
			for (unsigned p = 0; p < (s < 2 && (a == SELF4 || a == ANY4) ? 4 : 1);
			     p++) {
				struct rdma_event_channel *ch = cmt_channel();
				struct rdma_cm_id *id = cmt_id(ch, spaces[s].ps);
				struct sockaddr_storage ss = make(a, ports[p]);

				j_case("bind/%s/%s/%u", spaces[s].name, addr_str[a], ports[p]);
				J(rdma_bind_addr(id, SA(&ss)));
				where(id, ports[p]);
				j_say("again");
				J(rdma_bind_addr(id, SA(&ss)));
				j_say("listen");
				if (!J(rdma_listen(id, 1)))
					where(id, ports[p]);
				CHECK_OK(rdma_destroy_id(id));
				rdma_destroy_event_channel(ch);
			}
}

/* ---- ports in use ------------------------------------------------------------------------------ */

static void set(struct rdma_cm_id *id, int option)
{
	int on = 1;

	CHECK_OK(rdma_set_option(id, RDMA_OPTION_ID, option, &on, sizeof(on)));
}

/* reuse: bit 0 the first id has it, bit 1 the second */
static void two(enum addr a, enum addr b, unsigned reuse, bool afonly, bool listens)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *x = cmt_id(ch, RDMA_PS_TCP), *y = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage sa = make(a, 7471), sb = make(b, 7471);

	j_case("port-in-use/%s/%s/reuse-%u%s%s", addr_str[a], addr_str[b], reuse,
	       afonly ? "/afonly" : "", listens ? "/listens" : "");
	if (reuse & 1)
		set(x, RDMA_OPTION_ID_REUSEADDR);
	if (reuse & 2)
		set(y, RDMA_OPTION_ID_REUSEADDR);
	if (afonly) {
		set(x, RDMA_OPTION_ID_AFONLY);
		set(y, RDMA_OPTION_ID_AFONLY);
	}
	if (!J(rdma_bind_addr(x, SA(&sa)))) {
		if (listens)
			J(rdma_listen(x, 1));
		if (!J(rdma_bind_addr(y, SA(&sb))))
			J(rdma_listen(y, 1));
	}
	CHECK_OK(rdma_destroy_id(x));
	CHECK_OK(rdma_destroy_id(y));
	rdma_destroy_event_channel(ch);
}

static void ports_in_use(void)
{
	static const enum addr addrs[] = { ANY4, SELF4, LO4, ANY6, LO6 };

	for (unsigned a = 0; a < ARRAY_SIZE(addrs); a++)
		for (unsigned b = 0; b < ARRAY_SIZE(addrs); b++)
			for (unsigned reuse = 0; reuse < 4; reuse++)
				for (unsigned k = 0; k < 4; k++)
					if (!(k & 1) || addrs[a] >= ANY6 || addrs[b] >= ANY6)
						two(addrs[a], addrs[b], reuse, k & 1, k & 2);
}

/* Port spaces have ports of their own, or not. */
static void spaces_and_ports(void)
{
	for (unsigned a = 0; a < ARRAY_SIZE(spaces); a++)
		for (unsigned b = 0; b < ARRAY_SIZE(spaces); b++) {
			struct rdma_event_channel *ch = cmt_channel();
			struct rdma_cm_id *x = cmt_id(ch, spaces[a].ps),
					  *y = cmt_id(ch, spaces[b].ps);
			struct sockaddr_storage ss = make(SELF4, 7471);

			j_case("port-space/%s/%s", spaces[a].name, spaces[b].name);
			J(rdma_bind_addr(x, SA(&ss)));
			J(rdma_bind_addr(y, SA(&ss)));
			CHECK_OK(rdma_destroy_id(x));
			j_say("then");
			J(rdma_bind_addr(y, SA(&ss)));
			CHECK_OK(rdma_destroy_id(y));
			rdma_destroy_event_channel(ch);
		}
}

static void backlogs(void)
{
	static const int tries[] = { 0, 1, -1, 1000, INT32_MAX, INT32_MIN };

	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
		struct rdma_event_channel *ch = cmt_channel();
		struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);

		j_case("listen/backlog=%d", tries[i]);
		J(rdma_listen(id, tries[i]));
		where(id, 0);
		j_say("again");
		J(rdma_listen(id, tries[i]));
		CHECK_OK(rdma_destroy_id(id));
		rdma_destroy_event_channel(ch);
	}
}

/* ---- from where to where ----------------------------------------------------------------------- */

struct way {
	enum rdma_port_space ps;
	int from; /* -1: NULL */
	enum addr to;
};

static void resolve(const void *arg)
{
	const struct way *w = arg;
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, w->ps);
	struct sockaddr_storage to = make(w->to, 7471), from = make((enum addr)w->from & 31, 0);
	struct rdma_cm_event *e;
	bool good = false;

	if (J(rdma_resolve_addr(id, w->from < 0 ? NULL : SA(&from), SA(&to), 300)))
		return;
	e = j_event(ch, id, 5000);
	if (e) {
		good = e->event == RDMA_CM_EVENT_ADDR_RESOLVED;
		rdma_ack_cm_event(e);
	}
	if (!good)
		return;
	where(id, 0);
	j_say("to");
	j_addr(rdma_get_peer_addr(id));
	j_say("route");
	if (!J(rdma_resolve_route(id, 1000)))
		j_events(ch, id, 2000);
	j_say("paths=%d", id->route.num_paths);
}

/* IPv6 addresses that are resolved by what a machine's networks happen to be. */
static bool by_network(int a)
{
	return a == MAPPED_SELF6 || a == LINKLOCAL6 || a == MULTICAST6;
}

static void resolves(void)
{
	for (unsigned s = 0; s < ARRAY_SIZE(spaces); s++)
		for (int from = -1; from < NUM_ADDRS; from++)
			for (enum addr to = 0; to < NUM_ADDRS; to++) {
				struct way w = { spaces[s].ps, from, to };

				/* all from NULL, the main ones from each */
				if (by_network(from) || by_network((int)to) ||
				    (from >= 0 && s > 0) ||
				    (from >= 0 && to != SELF4 && to != LO4 && to != LO6 &&
				     to != ANY4))
					continue;
				j_apart(resolve, &w, "resolve/%s/%s/%s", spaces[s].name,
					from < 0 ? "-" : addr_str[from], addr_str[to]);
			}
}

/* After an error an id may be tried again. */
static void resolve_again(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage gone = make(NEIGHBOUR4, 7471), self = make(SELF4, 7471);

	j_case("resolve-again/error");
	J(rdma_resolve_addr(id, NULL, SA(&gone), 100));
	j_events(ch, id, 6000);
	j_case("resolve-again/good");
	J(rdma_resolve_addr(id, NULL, SA(&self), 1000));
	j_events(ch, id, 6000);
	j_case("resolve-again/other");
	J(rdma_resolve_addr(id, NULL, SA(&self), 1000));
	j_events(ch, id, 0);
	CHECK_OK(rdma_destroy_id(id));
	j_case("resolve-again/destroyed-while-it-goes");
	id = cmt_id(ch, RDMA_PS_TCP);
	J(rdma_resolve_addr(id, NULL, SA(&gone), 2000));
	J(rdma_destroy_id(id));
	j_events(ch, NULL, 20);
	rdma_destroy_event_channel(ch);
}

JUDGE_GROUPS(judge_cm_addr, { "bind", binds, 60 }, { "port-in-use", ports_in_use, 60 },
	     { "port-space", spaces_and_ports, 0 }, { "backlog", backlogs, 0 },
	     { "resolve", resolves, 180 }, { "resolve-again", resolve_again, 30 })
