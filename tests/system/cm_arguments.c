/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/cms.c tests/rig/verbs/dynsym.c -lrdmacm -lpthread */
/* timeout: 600 */
/*
 * cm_arguments.c - bad arguments of rdma_cm, function by function: NULL, ids in each state, ids of
 * the wrong type, lengths just beyond what is allowed, flags, options, addresses. What the real
 * library answers is answered here: the expected errno is that of rdma-core 44 (librdmacm/cma.c,
 * addrinfo.c) on a RoCE device, and where it passes the call on, that of the kernel (drivers/
 * infiniband/core/ucma.c, cma.c, cm.c of Linux 6.1). Comments name the place where it is not obvious.
 *
 * Each case has the name of a function; those of connections, QPs and endpoints are in
 * cm_arguments_conn.c. "every_name" fails if a function is exported without a case.
 *
 * Not tried, because the real library crashes on it: NULL where an id, a channel (but of
 * rdma_create_id and rdma_migrate_id), an attribute struct or a place for the result is wanted, except
 * as below; ids, channels, lists and events that were destroyed, freed or acknowledged before;
 * rdma_resolve_route() of ids without a device (it looks into id->verbs); rdma_free_devices(NULL).
 */
#include "tests/rig/verbs/cms.h"
#include "tests/rig/verbs/dynsym.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

#define SA(x) ((struct sockaddr *)(x))

/* Functions without a result survive in each state. */
static int survives(void)
{
	return 0;
}

/* ---- channels, ids ------------------------------------------------------------------------------- */

static void t_rdma_create_event_channel(void)
{
	struct rdma_event_channel *ch = CHECK_PTR(rdma_create_event_channel());

	CHECK(fcntl(ch->fd, F_GETFD) >= 0);
	rdma_destroy_event_channel(ch);
}

/* With events that nobody has fetched. */
static void t_rdma_destroy_event_channel(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in self = cmt_self();
	int fd = ch->fd;

	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&self, 2000));
	CHECK(vt_readable(fd, VT_WAIT_MS));
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
	CHECK_ERR(fcntl(fd, F_GETFD), EBADF);
}

static void t_rdma_create_id(void)
{
	static const int bad[] = { 0, 1, 0x0001 /* RDMA_PS_SDP */, 0x0100, 0x0107, 0x7777, -1 };
	static const int good[] = { RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) { /* ucma_get_qp_type() */
		CHECK_ERR(rdma_create_id(ch, &id, NULL, (enum rdma_port_space)bad[i]), EINVAL);
		CHECK_ERR(rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)bad[i]), EINVAL);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
		bool ud = good[i] == RDMA_PS_IPOIB || good[i] == RDMA_PS_UDP;

		CHECK_OK(rdma_create_id(ch, &id, ch, (enum rdma_port_space)good[i]));
		CHECK(id->context == ch && id->channel == ch && !id->verbs && !id->qp);
		CHECK_EQ(id->ps, good[i]);
		CHECK_EQ(id->qp_type, ud ? IBV_QPT_UD : IBV_QPT_RC);
		CHECK_OK(rdma_destroy_id(id));
	}
	CHECK_OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)); /* a channel of its own */
	CHECK(id->channel && id->channel != ch);
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

/* cms_close() destroys; so does this, with the events of all of its life not fetched. */
static void t_rdma_destroy_id(void)
{
	for (enum cms_state s = 0; s < NUM_STATES; s++) {
		struct cms f = cms_open(s);

		CHECK_OK(rdma_destroy_id(f.id));
		f.id = NULL;
		cms_close(&f);
	}
}

static struct rdma_event_channel *other_ch;

static int to_other_channel(struct rdma_cm_id *id)
{
	struct rdma_event_channel *own = id->channel;
	int ret = rdma_migrate_id(id, other_ch) || rdma_migrate_id(id, other_ch);

	CHECK(ret || id->channel == other_ch);
	return ret || rdma_migrate_id(id, own);
}

static void t_rdma_migrate_id(void)
{
	struct rdma_cm_id *id;

	other_ch = cmt_channel();
	IN_STATES(to_other_channel, .ok = ALL);
	CHECK_OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK_ERR(rdma_migrate_id(id, NULL), EINVAL); /* it has one of its own */
	CHECK_OK(rdma_migrate_id(id, other_ch));
	CHECK_OK(rdma_migrate_id(id, NULL));
	CHECK_ERR(rdma_migrate_id(id, NULL), EINVAL);
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(other_ch);
}

/* ---- addresses ----------------------------------------------------------------------------------- */

static int bind_any(struct rdma_cm_id *id)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	return rdma_bind_addr(id, SA(&any));
}

static int bind_null(struct rdma_cm_id *id)
{
	return rdma_bind_addr(id, NULL);
}

/* An id cannot be bound by these, and is as good as new after them. */
static void refuses_addresses(enum rdma_port_space ps)
{
	static const int families[] = { AF_UNSPEC, AF_UNIX,   AF_PACKET, AF_NETLINK,
					AF_IB - 1, AF_IB + 1, 0xffff };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, ps);
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_ib ib = { .sib_family = AF_IB };
	struct sockaddr_storage ss = { 0 };

	for (unsigned i = 0; i < ARRAY_SIZE(families); i++) { /* ucma_addrlen() */
		ss.ss_family = (sa_family_t)families[i];
		CHECK_ERR(rdma_bind_addr(id, SA(&ss)), EINVAL);
	}
	in.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1: nobody's */
	CHECK_ERR(rdma_bind_addr(id, SA(&in)), EADDRNOTAVAIL);
	in.sin_addr.s_addr = htonl(0xefffffff); /* multicast */
	CHECK_ERR(rdma_bind_addr(id, SA(&in)), EADDRNOTAVAIL);
	in.sin_addr.s_addr = INADDR_BROADCAST;
	CHECK_ERR(rdma_bind_addr(id, SA(&in)), EADDRNOTAVAIL);
	memset(&in6.sin6_addr, 0x20, 16);
	CHECK_ERR(rdma_bind_addr(id, SA(&in6)), EADDRNOTAVAIL);
	in6.sin6_addr = (struct in6_addr){ .s6_addr = { 0xfe, 0x80, [15] = 1 } };
	CHECK_ERR(rdma_bind_addr(id, SA(&in6)), EINVAL); /* cma_check_linklocal(): no scope */
	/* another port space's service id: cma_select_ib_ps() */
	ib.sib_sid = htobe64((ps == RDMA_PS_TCP ? RDMA_IB_IP_PS_UDP : RDMA_IB_IP_PS_TCP) | 7);
	ib.sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK | RDMA_IB_IP_PORT_MASK);
	CHECK_ERR(rdma_bind_addr(id, SA(&ib)), EPROTONOSUPPORT);
	CHECK_OK(bind_any(id));
	CHECK(rdma_get_src_port(id));
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

static void t_rdma_bind_addr(void)
{
	IN_STATES(bind_any, .ok = BIT(IDLE) | BIT(UD_IDLE));
	IN_STATES(bind_null, .ok = 0);
	refuses_addresses(RDMA_PS_TCP);
	refuses_addresses(RDMA_PS_UDP);
}

static int resolve_self(struct rdma_cm_id *id)
{
	struct sockaddr_in self = cmt_self();

	self.sin_port = htons(9);
	return rdma_resolve_addr(id, NULL, SA(&self), 1000);
}

static void t_rdma_resolve_addr(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in self = cmt_self(), in = self;
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_storage ss = { 0 };

	IN_STATES(resolve_self,
		  .ok = BIT(IDLE) | BIT(BOUND_ANY) | BIT(BOUND) | BIT(UD_IDLE) | BIT(UD_BOUND));
	CHECK_ERR(rdma_resolve_addr(id, NULL, NULL, 100), EINVAL);
	CHECK_ERR(rdma_resolve_addr(id, SA(&self), NULL, 100), EINVAL);
	for (int family = 0; family < 64; family++) {
		ss.ss_family = (sa_family_t)family;
		if (family == AF_INET || family == AF_INET6 || family == AF_IB)
			continue;
		CHECK_ERR(rdma_resolve_addr(id, NULL, SA(&ss), 100), EINVAL);
		CHECK_ERR(rdma_resolve_addr(id, SA(&ss), SA(&self), 100), EINVAL);
	}
	in.sin_addr.s_addr = htonl(0xc0000201);
	CHECK_ERR(rdma_resolve_addr(id, SA(&in), SA(&self), 100), EADDRNOTAVAIL);
	in6.sin6_addr = (struct in6_addr){ .s6_addr = { 0xfe, 0x80, [15] = 1 } };
	CHECK_ERR(rdma_resolve_addr(id, SA(&in6), SA(&in6), 100), EINVAL); /* no scope */
	/* it is bound by the source before the families are compared: cma_bind_addr() */
	in6.sin6_addr = in6addr_any;
	CHECK_ERR(rdma_resolve_addr(id, SA(&in6), SA(&self), 100), EINVAL);
	CHECK_ERR(bind_any(id), EINVAL);
	CHECK_OK(rdma_destroy_id(id));

	/* no time at all, and time without end: msecs_to_jiffies() of a negative number */
	self.sin_addr.s_addr ^= htonl(0x7f); /* one of the subnet that no container has */
	id = cmt_id(ch, RDMA_PS_TCP);
	CHECK_OK(rdma_resolve_addr(id, NULL, SA(&self), 0));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	CHECK_OK(rdma_resolve_addr(id, NULL, SA(&self), -1));
	CHECK(!vt_readable(ch->fd, 100));
	CHECK_ERR(resolve_self(id), EINVAL); /* [ADDR_QUERY] */
	CHECK_ERR(rdma_listen(id, 0), EINVAL);
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

static int resolve_route(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 1000);
}

static int resolve_route_at_once(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 0);
}

static int resolve_route_forever(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, -1);
}

static void t_rdma_resolve_route(void)
{
	const uint32_t ok = BIT(RESOLVED) | BIT(UD_RESOLVED);

	IN_STATES(resolve_route, .ok = ok, .crashes = NO_DEVICE);
	IN_STATES(resolve_route_forever, .ok = ok, .crashes = NO_DEVICE);
	IN_STATES(resolve_route_at_once, .crashes = NO_DEVICE); /* since Linux 5.10 */
}

static int listen_any(struct rdma_cm_id *id)
{
	return rdma_listen(id, 1);
}

static int listen_negative(struct rdma_cm_id *id)
{
	return rdma_listen(id, -1); /* as many as the system allows: ucma_listen() */
}

static int listen_huge(struct rdma_cm_id *id)
{
	return rdma_listen(id, INT32_MAX);
}

static void t_rdma_listen(void)
{
	const uint32_t ok = BIT(IDLE) | BIT(BOUND_ANY) | BIT(BOUND) | BIT(UD_IDLE) | BIT(UD_BOUND);

	IN_STATES(listen_any, .ok = ok);
	IN_STATES(listen_negative, .ok = ok);
	IN_STATES(listen_huge, .ok = ok);
}

static int src_port(struct rdma_cm_id *id)
{
	rdma_get_src_port(id);
	return survives();
}

static void t_rdma_get_src_port(void)
{
	struct cms f = cms_open(IDLE);

	CHECK_EQ(rdma_get_src_port(f.id), 0);
	cms_close(&f);
	IN_STATES(src_port, .ok = ALL);
}

static int dst_port(struct rdma_cm_id *id)
{
	rdma_get_dst_port(id);
	return survives();
}

static void t_rdma_get_dst_port(void)
{
	struct cms f = cms_open(BOUND);

	CHECK_EQ(rdma_get_dst_port(f.id), 0);
	cms_close(&f);
	IN_STATES(dst_port, .ok = ALL);
}

/* ---- names ----------------------------------------------------------------------------------------- */

static void t_rdma_getaddrinfo(void)
{
	struct rdma_addrinfo hints = { .ai_family = AF_UNIX }, *res;
	struct sockaddr_in self = cmt_self();

	CHECK_ERR(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	/* getaddrinfo(3)'s own answers */
	CHECK_EQ(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_FAMILY);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST };
	CHECK_EQ(rdma_getaddrinfo("no.number", NULL, &hints, &res), EAI_NONAME);
	CHECK_EQ(rdma_getaddrinfo("", NULL, &hints, &res), EAI_NONAME);
	CHECK_EQ(rdma_getaddrinfo("127.0.0.1", "no service of that name", &hints, &res),
		 EAI_SERVICE);
	/* neither a name nor a service: the hints again, whatever they are */
	hints = (struct rdma_addrinfo){ .ai_flags = 0x7ffffff0 & ~0x30,
					.ai_family = 77,
					.ai_qp_type = 99,
					.ai_port_space = 12345 };
	CHECK_OK(rdma_getaddrinfo(NULL, NULL, &hints, &res));
	CHECK_EQ(res->ai_family, 77);
	CHECK_EQ(res->ai_qp_type, 99);
	CHECK_EQ(res->ai_port_space, 12345);
	CHECK(!res->ai_src_addr && !res->ai_dst_addr && !res->ai_next);
	rdma_freeaddrinfo(res);
	/* addresses are copied by their length, not looked at */
	hints = (struct rdma_addrinfo){ .ai_src_addr = SA(&self),
					.ai_src_len = 5,
					.ai_dst_addr = SA(&self),
					.ai_dst_len = sizeof(self) };
	CHECK_OK(rdma_getaddrinfo(NULL, NULL, &hints, &res));
	CHECK_EQ(res->ai_src_len, 5);
	CHECK_EQ(res->ai_dst_len, sizeof(self));
	CHECK(!memcmp(res->ai_src_addr, &self, 5) &&
	      !memcmp(res->ai_dst_addr, &self, sizeof(self)));
	rdma_freeaddrinfo(res);
}

static void t_rdma_freeaddrinfo(void)
{
	rdma_freeaddrinfo(NULL);
}

/* Of RDMACM_1.4, which the headers that this is built with do not have. */
static void *newer(const char *name)
{
	void *fn = dlvsym(RTLD_DEFAULT, name, "RDMACM_1.4");

	if (!fn)
		vt_skip("this librdmacm has no RDMACM_1.4");
	return fn;
}

static int (*resolve_addrinfo)(struct rdma_cm_id *, const char *, const char *,
			       const struct rdma_addrinfo *);
static int (*query_addrinfo)(struct rdma_cm_id *, struct rdma_addrinfo **);
static int (*write_cm_event)(struct rdma_cm_id *, int event, int status, uint64_t arg);

static int resolve_numeric(struct rdma_cm_id *id)
{
	return resolve_addrinfo(id, "127.0.0.1", "7", NULL);
}

static void t_rdma_resolve_addrinfo(void)
{
	struct cms f;

	*(void **)&resolve_addrinfo = newer("rdma_resolve_addrinfo");
	CHECK_ERR(resolve_addrinfo(NULL, "127.0.0.1", NULL, NULL), EINVAL);
	IN_STATES(resolve_numeric, .ok = ALL);
	f = cms_open(IDLE);
	CHECK(resolve_addrinfo(f.id, NULL, NULL, NULL)); /* nothing is asked for */
	CHECK_OK(resolve_numeric(f.id));
	CHECK_ERR(resolve_numeric(f.id), EBUSY); /* until somebody takes the result */
	cms_close(&f);
}

static int query_none(struct rdma_cm_id *id)
{
	struct rdma_addrinfo *res;

	return query_addrinfo(id, &res) == -1 && errno == ENOENT ? 0 : EINVAL;
}

static void t_rdma_query_addrinfo(void)
{
	struct rdma_addrinfo *res;
	struct cms f = cms_open(IDLE);

	*(void **)&query_addrinfo = newer("rdma_query_addrinfo");
	CHECK_ERR(query_addrinfo(NULL, &res), EINVAL);
	CHECK_ERR(query_addrinfo(f.id, NULL), EINVAL);
	cms_close(&f);
	IN_STATES(query_none, .ok = ALL);
}

static int write_user(struct rdma_cm_id *id)
{
	return write_cm_event(id, 18 /* USER */, 1, 2);
}

static void t_rdma_write_cm_event(void)
{
	struct cms f = cms_open(IDLE);

	*(void **)&write_cm_event = newer("rdma_write_cm_event");
	for (int event = -1; event < 30; event++)
		if (event != 18)
			CHECK_ERR(write_cm_event(f.id, event, 0, 0), EINVAL);
	cms_close(&f);
	IN_STATES(write_user, .ok = ALL);
}

/* ---- events ------------------------------------------------------------------------------------------- */

static void t_rdma_get_cm_event(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_event *e;

	CHECK_ERR(rdma_get_cm_event(ch, NULL), EINVAL);
	cmt_nonblock(ch);
	CHECK_ERR(rdma_get_cm_event(ch, &e), EAGAIN);
	CHECK_ERR(rdma_get_cm_event(ch, NULL), EINVAL);
	rdma_destroy_event_channel(ch);
}

static void t_rdma_ack_cm_event(void)
{
	CHECK_ERR(rdma_ack_cm_event(NULL), EINVAL);
}

static void t_rdma_event_str(void)
{
	CHECK(!strcmp(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT"));
	CHECK(!strcmp(rdma_event_str((enum rdma_cm_event_type) - 1), "UNKNOWN EVENT"));
	CHECK(!strcmp(rdma_event_str((enum rdma_cm_event_type)INT32_MAX), "UNKNOWN EVENT"));
}

/* ---- options ---------------------------------------------------------------------------------------------- */

static int opt_level, opt_name;
static size_t opt_len;
static uint8_t opt_value[2 * sizeof(struct ibv_path_data)];

static int set_option(struct rdma_cm_id *id)
{
	return rdma_set_option(id, opt_level, opt_name, opt_value, opt_len);
}

/* Lengths other than the option's. */
static void lengths(int level, int name, size_t good)
{
	struct cms f = cms_open(IDLE);

	for (size_t len = 0; len < sizeof(opt_value); len++)
		if (len != good)
			CHECK_ERR(rdma_set_option(f.id, level, name, opt_value, len), EINVAL);
	cms_close(&f);
}

static void set_int_option(int name, uint8_t value, uint32_t ok)
{
	opt_level = RDMA_OPTION_ID;
	opt_name = name;
	opt_value[0] = value;
	opt_len = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT ? 1 : 4;
	IN_STATES(set_option, .ok = ok);
	lengths(opt_level, name, opt_len);
}

static void ib_path(void)
{
	const uint32_t good = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
			      IBV_PATH_FLAG_BIDIRECTIONAL;
	struct ibv_path_data path[2] = { { .flags = good } };
	const size_t one = sizeof(path[0]);
	struct cms f = cms_open(RESOLVED);

	/* ucma_set_ib_path(): whole records, one of them with these flags */
	for (size_t len = 0; len < sizeof(path); len += len == one - 1 ? 2 : 1)
		CHECK_ERR(rdma_set_option(f.id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, len),
			  EINVAL);
	for (uint32_t flags = 0; flags < good; flags++) {
		path[0].flags = flags;
		CHECK_ERR(rdma_set_option(f.id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, one),
			  EINVAL);
	}
	path[1].flags = good;
	CHECK_OK(rdma_set_option(f.id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, 2 * one));
	WANT_CM_ACK(f.ch, f.id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	cms_close(&f);
	memcpy(opt_value, &path[1], one);
	opt_level = RDMA_OPTION_IB;
	opt_name = RDMA_OPTION_IB_PATH;
	opt_len = one;
	IN_STATES(set_option, .ok = BIT(RESOLVED) | BIT(UD_RESOLVED));
}

static void t_rdma_set_option(void)
{
	static const int levels[] = { -1, RDMA_OPTION_ID, RDMA_OPTION_IB, 2, 77, INT32_MAX };
	const uint32_t bound = BIT(IDLE) | BIT(BOUND_ANY) | BIT(BOUND) | BIT(UD_IDLE) |
			       BIT(UD_BOUND);
	const uint32_t listen = BIT(LISTEN_ANY) | BIT(LISTEN) | BIT(UD_LISTEN);
	struct cms f = cms_open(IDLE);

	for (unsigned i = 0; i < ARRAY_SIZE(levels); i++) {
		int unknown = levels[i] == RDMA_OPTION_ID ? 4 : levels[i] == RDMA_OPTION_IB ? 2 : 1;

		/* the value is copied in before anything is looked at: memdup_user() */
		CHECK_ERR(rdma_set_option(f.id, levels[i], 1, NULL, 4), EFAULT);
		CHECK_ERR(rdma_set_option(f.id, levels[i], unknown, NULL, 1), EFAULT);
		CHECK_ERR(rdma_set_option(f.id, levels[i], unknown, opt_value, 4), ENOSYS);
		CHECK_ERR(rdma_set_option(f.id, levels[i], unknown, NULL, 0), ENOSYS);
		CHECK_ERR(rdma_set_option(f.id, levels[i], -1, opt_value, 1), ENOSYS);
	}
	cms_close(&f);
	set_int_option(RDMA_OPTION_ID_TOS, 255, ALL);
	set_int_option(RDMA_OPTION_ID_REUSEADDR, 1, ALL & ~listen); /* rdma_set_reuseaddr() */
	set_int_option(RDMA_OPTION_ID_REUSEADDR, 0, BIT(IDLE) | BIT(UD_IDLE));
	set_int_option(RDMA_OPTION_ID_AFONLY, 1, bound);
	set_int_option(RDMA_OPTION_ID_ACK_TIMEOUT, 31, ALL & ~UD); /* rdma_set_ack_timeout() */
	set_int_option(RDMA_OPTION_ID_ACK_TIMEOUT, 255, ALL & ~UD);
	ib_path();
}

/* ---- multicast --------------------------------------------------------------------------------------------- */

static struct sockaddr_in group = { .sin_family = AF_INET };

static int join(struct rdma_cm_id *id)
{
	return rdma_join_multicast(id, SA(&group), NULL);
}

static int join_null(struct rdma_cm_id *id)
{
	return rdma_join_multicast(id, NULL, NULL);
}

static int join_any(struct rdma_cm_id *id)
{
	struct sockaddr_in any = { .sin_family = AF_INET }; /* cma_zero_addr() */

	return rdma_join_multicast(id, SA(&any), NULL);
}

static int join_unix(struct rdma_cm_id *id)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNIX };

	return rdma_join_multicast(id, SA(&ss), NULL);
}

#define JOINS (BIT(UD_BOUND) | BIT(UD_RESOLVED))

static void t_rdma_join_multicast(void)
{
	struct cms f = cms_open(UD_BOUND);

	group.sin_addr.s_addr = htonl(0xef010203);
	IN_STATES(join, .ok = JOINS); /* the kernel's rdma_join_multicast() */
	IN_STATES(join_null, .ok = 0);
	IN_STATES(join_any, .ok = 0);
	IN_STATES(join_unix, .ok = 0);
	CHECK_OK(join(f.id)); /* twice is no mistake */
	CHECK_OK(join(f.id));
	cms_close(&f);
}

static int join_ex(struct rdma_cm_id *id)
{
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
							     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
						.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
						.addr = SA(&group) };

	return rdma_join_multicast_ex(id, &attr, NULL);
}

static void t_rdma_join_multicast_ex(void)
{
	const uint32_t both = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct sockaddr_storage garbage = { .ss_family = 0xffff };
	struct rdma_cm_join_mc_attr_ex attr = { .addr = SA(&group) };
	struct cms f = cms_open(UD_BOUND);

	group.sin_addr.s_addr = htonl(0xef010203);
	for (int bit = 2; bit < 32; bit++) {
		attr.comp_mask = both | 1u << bit;
		CHECK_ERR(rdma_join_multicast_ex(f.id, &attr, NULL), ENOTSUP);
	}
	for (uint32_t mask = 0; mask < both; mask++) {
		attr.comp_mask = mask;
		CHECK_ERR(rdma_join_multicast_ex(f.id, &attr, NULL), EINVAL);
	}
	attr.comp_mask = both;
	for (uint32_t flags = RDMA_MC_JOIN_FLAG_RESERVED; flags; flags <<= 1) {
		attr.join_flags = flags;
		CHECK_ERR(rdma_join_multicast_ex(f.id, &attr, NULL), EINVAL);
	}
	attr.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
	attr.addr = NULL;
	CHECK_ERR(rdma_join_multicast_ex(f.id, &attr, NULL), EINVAL);
	attr.addr = SA(&garbage);
	CHECK_ERR(rdma_join_multicast_ex(f.id, &attr, NULL), EINVAL);
	cms_close(&f);
	IN_STATES(join_ex, .ok = JOINS);
}

static int leave_other(struct rdma_cm_id *id)
{
	CHECK_ERR(rdma_leave_multicast(id, SA(&group)), EADDRNOTAVAIL);
	return survives();
}

static int leave_null(struct rdma_cm_id *id)
{
	return rdma_leave_multicast(id, NULL);
}

static void t_rdma_leave_multicast(void)
{
	struct sockaddr_in elsewhere;
	struct cms f = cms_open(UD_BOUND);

	group.sin_addr.s_addr = htonl(0xef010203);
	elsewhere = group;
	elsewhere.sin_port = htons(1); /* the whole address is compared */
	IN_STATES(leave_other, .ok = ALL);
	IN_STATES(leave_null, .ok = 0);
	CHECK_OK(join(f.id));
	CHECK_ERR(rdma_leave_multicast(f.id, SA(&elsewhere)), EADDRNOTAVAIL);
	CHECK_OK(rdma_leave_multicast(f.id, SA(&group)));
	CHECK_ERR(rdma_leave_multicast(f.id, SA(&group)), EADDRNOTAVAIL);
	cms_close(&f);
}

/* ---- devices, ECE --------------------------------------------------------------------------------------------- */

static void t_rdma_get_devices(void)
{
	struct ibv_context **list = CHECK_PTR(rdma_get_devices(NULL));

	CHECK(list[0]);
	rdma_free_devices(list);
}

static void t_rdma_free_devices(void)
{
	struct ibv_context **a = CHECK_PTR(rdma_get_devices(NULL));
	struct ibv_context **b = CHECK_PTR(rdma_get_devices(NULL)), *ctx = a[0];
	struct ibv_device_attr attr;

	rdma_free_devices(a);
	rdma_free_devices(b);
	CHECK_OK(ibv_query_device(ctx, &attr)); /* the list is gone, the device is open */
}

static int set_ece(struct rdma_cm_id *id)
{
	struct ibv_ece ece = { .vendor_id = 7, .options = 9 };

	return rdma_set_local_ece(id, &ece);
}

static void t_rdma_set_local_ece(void)
{
	struct ibv_ece none = { .options = 1 }, mask = { .vendor_id = 1, .comp_mask = 1 },
		       good = { .vendor_id = 1 };
	struct cms f = cms_open(BOUND);

	IN_STATES(set_ece, .ok = ALL);
	CHECK_ERR(rdma_set_local_ece(NULL, &good), EINVAL);
	CHECK_ERR(rdma_set_local_ece(f.id, NULL), EINVAL);
	CHECK_ERR(rdma_set_local_ece(f.id, &none), EINVAL);
	CHECK_ERR(rdma_set_local_ece(f.id, &mask), EINVAL);
	cmt_qp(f.id);
	CHECK_ERR(rdma_set_local_ece(f.id, &good), EINVAL); /* the library does it */
	rdma_destroy_qp(f.id);
	cms_close(&f);
}

static int get_ece(struct rdma_cm_id *id)
{
	struct ibv_ece ece;

	return rdma_get_remote_ece(id, &ece);
}

static void t_rdma_get_remote_ece(void)
{
	struct ibv_ece ece;
	struct cms f = cms_open(BOUND);

	IN_STATES(get_ece, .ok = ALL);
	CHECK_ERR(rdma_get_remote_ece(NULL, &ece), EINVAL);
	CHECK_ERR(rdma_get_remote_ece(f.id, NULL), EINVAL);
	cmt_qp(f.id);
	CHECK_ERR(rdma_get_remote_ece(f.id, &ece), EINVAL);
	rdma_destroy_qp(f.id);
	cms_close(&f);
}

/* ---- the list ---------------------------------------------------------------------------------- */

static void every_name(void);

#define CASE(f)                                                                                    \
	{                                                                                          \
#f, t_##f, 120                                                                     \
	}
static const struct vt_case cases[] = {
	CASE(rdma_create_event_channel),
	CASE(rdma_destroy_event_channel),
	CASE(rdma_create_id),
	CASE(rdma_destroy_id),
	CASE(rdma_migrate_id),
	CASE(rdma_bind_addr),
	CASE(rdma_resolve_addr),
	CASE(rdma_resolve_route),
	CASE(rdma_listen),
	CASE(rdma_get_src_port),
	CASE(rdma_get_dst_port),
	CASE(rdma_getaddrinfo),
	CASE(rdma_freeaddrinfo),
	CASE(rdma_resolve_addrinfo),
	CASE(rdma_query_addrinfo),
	CASE(rdma_write_cm_event),
	CASE(rdma_get_cm_event),
	CASE(rdma_ack_cm_event),
	CASE(rdma_event_str),
	CASE(rdma_set_option),
	CASE(rdma_join_multicast),
	CASE(rdma_join_multicast_ex),
	CASE(rdma_leave_multicast),
	CASE(rdma_get_devices),
	CASE(rdma_free_devices),
	CASE(rdma_set_local_ece),
	CASE(rdma_get_remote_ece),
	{ "every_name", every_name, 0 },
};

static bool is_mine(const char *name)
{
#define IS(f)                                                                                      \
	if (!strcmp(name, #f))                                                                     \
		return false;
	CMS_CONN_NAMES(IS)
#undef IS
	return !strncmp(name, "rdma_", 5);
}

static void every_name(void)
{
	dynsym_covered((const void *)rdma_create_id, is_mine, cases, ARRAY_SIZE(cases));
}

int main(int argc, char **argv)
{
	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
