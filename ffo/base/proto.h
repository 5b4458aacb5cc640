/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * proto.h - the protocol between routers (or tools) and the orchestrator: the table of ops with
 * their fields and callers, the limits, and the structs that travel. Included by both sides;
 * parsing, checks, dispatch, names and the fuzz target are generated from FFO_OPS.
 *
 * Transport: a stream socket (Unix or TCP). One line is one message, a JSON object that ends with
 * '\n' and is at most FFO_LINE_MAX bytes long, newline included. The client speaks first:
 *
 *	{"op":"container_add","id":7,"name":"web","ips":["10.77.0.9"]}
 *
 * `id` is an integer >= 0 of the client's choice and is repeated in the answer:
 *
 *	{"id":7,"ok":true,"container":{...}}
 *	{"id":7,"ok":false,"error":"EADDRINUSE","message":"10.77.0.9 is in use in tenant \"default\""}
 *
 * Requests may be pipelined; answers come in any order. The first request is hello. A request with
 * an unknown op, an unknown field, a field of the wrong type or a missing one is answered with an
 * error; a line that is too long or no JSON object is answered with id 0 and ends the connection.
 *
 * Answers, beside id and ok:
 *	hello		version: the one both speak
 *	host_register	store: which store the orchestrator has, a word that is another one for each store that was
 *			ever made; last: the highest id that a container got in it, absent where the store
 *			does not tell
 *	host_get	host: {name, instance, wire, up, last_seen}
 *	host_list	hosts: [{name, instance, wire, up, last_seen}, ...] by rising name; next:
 *			value for `after` when there are more
 *	host_rm		-
 *	container_add	container: {id, name, tenant, ips, lid, mode, host, epoch, active, limits,
 *			device_name, devices}; limits: {name: number, ...}; the last three are absent
 *			where nobody has set them
 *	container_set	container: as it is now
 *	container_rm	container: as it was
 *	container_get	container
 *	container_list	containers: [...] by rising id; next: value for `after` when there are more
 *	map_publish	stored: number; refused: [[row index, error name], ...]
 *	map_withdraw	removed: number
 *	map_list	maps: [row, ...] by rising (container, rkey); next: [container, rkey] when
 *			there are more
 *	map_drop	-
 *	map_get		map: row; container; host: object or null
 *	map_watch	-, then events; map_unwatch: -
 *	container_active -
 *	resolve		container: object or null (nobody has the address); host: object or null
 *	unresolve	-
 *	policy_list	rules: [{a, b, action}, ...]
 *	policy_set	-; policy_rm: -
 *	policy_watch	rules, then events
 *	tenant_list	tenants: [{tenant, limits}, ...] by rising name, those that have limits
 *	tenant_set	-
 *	tenant_watch	tenants, then events
 *	store_backup	copy: its number; size: its bytes; piece: those from `offset` on, in base64
 *	mcast_join	-; mcast_leave: -
 *	mcast_watch	hosts: [{name, wire, instance, up, last_seen}, ...], then events;
 *			mcast_unwatch: -
 *
 * Events are messages of the orchestrator's that have "event" and are no answers. They tell of what
 * the connection has asked to be told of, from the answer to that request until it takes it back or
 * ends, and, to the router of a host, of its containers. An event has the state as of its sending:
 * states in between may be left out, and a state may be told twice.
 *
 *	{"event":"resolve","tenant":t,"ip":a | "lid":n | "id":n,"container":{...}|null,
 *	 "host":{...}|null}
 *		what a resolve asked for has another answer. tenant, ip and lid are as they were in
 *		the request; id is what "container" was there.
 *	{"event":"map","container":id,"epoch":e,"reset":b,"put":[row, ...],"del":[rkey, ...],
 *	 "synced":b}
 *		of the container's published mappings. reset: forget all that were told before.
 *		synced: with this event all are told. epoch 0: there is no such container (now).
 *		The rows are of that epoch, and the container's owner's.
 *	{"event":"policy","rules":[...]}
 *		the whole list
 *	{"event":"tenants","tenants":[...]}
 *		the whole list
 *	{"event":"mcast","tenant":t,"mgid":m,"hosts":[...]}
 *		the whole list; mgid as it was in the request
 *	{"event":"attach","container":{...}}
 *		a container is this host's from now on, or has changed. The event about a change that
 *		this connection asked for (container_set without another host) comes before the answer. A
 *		container that this connection added or moved to its host is told by the answer instead.
 *	{"event":"detach","container":id,"name":n}
 *		it is no longer
 *
 * An op that a side does not know is answered with EOPNOTSUPP, so ops can be added without a new
 * version; changing one needs it.
 *
 * A mapping's row is an array of integers in the order of FFO_MAP_FIELDS. JSON integers are signed
 * here, so 64-bit fields travel in two's complement: an address above 2^63 is a negative number.
 *
 * The room ffo/base/ is this protocol, addresses, limits, policy: pure functions, for both sides. It may use
 * ffr/abi/ and ffr/lib/.
 */
#ifndef FFO_BASE_PROTO_H
#define FFO_BASE_PROTO_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ffo/base/ffo_limits.h"

#define FFO_PROTO_VERSION 1

#define FFO_SOCKET_DEFAULT "unix:/run/freeflow/ffo.sock"

#define FFO_LINE_MAX	524288u /* bytes of a message, newline included */
#define FFO_BATCH_MAX	1024u	/* rows of one map_publish, map_withdraw or page of map_list */
#define FFO_PAGE_MAX	256u	/* objects of one page of container_list or host_list */
#define FFO_NAME_MAX	64u	/* bytes of a name, NUL included */
#define FFO_TEXT_MAX	128u	/* bytes of other text, NUL included */
#define FFO_PARTY_MAX	128u	/* bytes of "TENANT/CONTAINER", NUL included */
#define FFO_ADDR_MAX	8u	/* addresses of a container */
#define FFO_ADDR_POOLS	2u	/* addresses from the pools: one of each family */
#define FFO_DEVICES_MAX 16u	/* RDMA devices of a container */
#define FFO_RULES_MAX	512u	/* rules of the policy: all fit into one message */
#define FFO_TENANTS_MAX 512u	/* tenants with limits: all fit into one message */
#define FFO_GROUP_MAX	512u	/* hosts of a multicast group: all fit into one message */
#define FFO_SUBS_MAX	65536u	/* things that one connection is told of */
#define FFO_ID_KEEP_MAX                                                                            \
	0x7fffffffu	    /* the highest id that a container may bring along: half of all stay */
#define FFO_LID_MAX 0xbfffu /* unicast LIDs are 1..0xbfff (IBTA 4.1.3) */

/*
 * X(NAME, name, caller, host, operator). Callers:
 *	NEW	a connection that has not said hello yet, once
 *	ANY	every connection after hello
 *	HOST	a connection that host_register made the router of a host
 *
 * host, operator: what who shows a certificate of that role may do; the others, at a Unix socket or at
 * tcp:, may do all.
 *	ALL	whatever it asks for
 *	OWN	what is its own: of the hosts that the certificate names, of containers of theirs
 *	PEER	what its containers may reach, as far as the policy goes
 *	NO	nothing: EPERM
 * What OWN and PEER are for each op, and where that is looked at, is in access.c.
 */
#define FFO_OPS(X)                                                                                 \
	X(HELLO, hello, NEW, ALL, ALL)                                                             \
	X(HOST_REGISTER, host_register, ANY, OWN, NO)                                              \
	X(HOST_GET, host_get, ANY, ALL, ALL)                                                       \
	X(HOST_LIST, host_list, ANY, ALL, ALL)                                                     \
	X(HOST_RM, host_rm, ANY, NO, ALL)                                                          \
	X(CONTAINER_ADD, container_add, ANY, OWN, ALL)                                             \
	X(CONTAINER_SET, container_set, ANY, OWN, ALL)                                             \
	X(CONTAINER_RM, container_rm, ANY, OWN, ALL)                                               \
	X(CONTAINER_GET, container_get, ANY, OWN, ALL)                                             \
	X(CONTAINER_LIST, container_list, ANY, OWN, ALL)                                           \
	X(MAP_PUBLISH, map_publish, HOST, OWN, NO)                                                 \
	X(MAP_WITHDRAW, map_withdraw, HOST, OWN, NO)                                               \
	X(MAP_LIST, map_list, ANY, OWN, ALL)                                                       \
	X(MAP_DROP, map_drop, HOST, OWN, NO)                                                       \
	X(MAP_GET, map_get, ANY, OWN, ALL)                                                         \
	X(MAP_WATCH, map_watch, HOST, PEER, NO)                                                    \
	X(MAP_UNWATCH, map_unwatch, HOST, ALL, NO)                                                 \
	X(CONTAINER_ACTIVE, container_active, HOST, OWN, NO)                                       \
	X(RESOLVE, resolve, HOST, PEER, NO)                                                        \
	X(UNRESOLVE, unresolve, HOST, ALL, NO)                                                     \
	X(POLICY_LIST, policy_list, ANY, ALL, ALL)                                                 \
	X(POLICY_SET, policy_set, ANY, NO, ALL)                                                    \
	X(POLICY_RM, policy_rm, ANY, NO, ALL)                                                      \
	X(POLICY_WATCH, policy_watch, HOST, ALL, NO)                                               \
	X(TENANT_LIST, tenant_list, ANY, ALL, ALL)                                                 \
	X(TENANT_SET, tenant_set, ANY, NO, ALL)                                                    \
	X(TENANT_WATCH, tenant_watch, HOST, ALL, NO)                                               \
	X(STORE_BACKUP, store_backup, ANY, NO, ALL)                                                \
	X(MCAST_JOIN, mcast_join, HOST, PEER, NO)                                                  \
	X(MCAST_LEAVE, mcast_leave, HOST, ALL, NO)                                                 \
	X(MCAST_WATCH, mcast_watch, HOST, PEER, NO)                                                \
	X(MCAST_UNWATCH, mcast_unwatch, HOST, ALL, NO)

enum ffo_caller { FFO_CALLER_NEW, FFO_CALLER_ANY, FFO_CALLER_HOST };
enum ffo_grant { FFO_GRANT_NO, FFO_GRANT_OWN, FFO_GRANT_PEER, FFO_GRANT_ALL };

enum ffo_op {
#define X(NAME, name, caller, host, operator) FFO_OP_##NAME,
	FFO_OPS(X)
#undef X
		FFO_NUM_OPS
};

/*
 * F(op, type, name, need) for each op. Types, with what the parsed request holds:
 *	NAME	string, see ffo_name_ok(); NULL when absent
 *	TEXT	string of printable ASCII, shorter than FFO_TEXT_MAX; NULL when absent
 *	UINT	integer, 0..2^32-1; 0 when absent, so 0 means "none" wherever a field is OPT
 *	LIST	array; NULL when absent
 *	OBJ	object; NULL when absent
 *
 * A container is named by "container", its id, or, where that is absent, by "name". With dry_run 1
 * a change is only tried: the answer is the same, or the error, and nothing has changed.
 * EOPNOTSUPP: the store cannot.
 */
#define FFO_FIELDS_hello(F, op)                                                                    \
	F(op, UINT, version, REQ) /* highest version that the client speaks */                     \
	F(op, NAME, host, OPT)	  /* where the client runs; for the log */

/*
 * instance: of one start of a router. A connection with the same one takes an older one's place.
 * wire: where the router accepts others, "tcp:ADDRESS:PORT"; absent: nowhere.
 */
#define FFO_FIELDS_host_register(F, op)                                                            \
	F(op, NAME, host, REQ)                                                                     \
	F(op, TEXT, instance, OPT)                                                                 \
	F(op, TEXT, wire, OPT)

#define FFO_FIELDS_host_get(F, op) F(op, NAME, host, REQ)

#define FFO_FIELDS_host_list(F, op)                                                                \
	F(op, NAME, after, OPT) /* hosts whose names sort behind it, by byte */                    \
	F(op, UINT, limit, OPT) /* FFO_PAGE_MAX at most, which is the default */

/* Forget a host that is down. EBUSY: it is up, or containers are its own. */
#define FFO_FIELDS_host_rm(F, op)                                                                  \
	F(op, NAME, host, REQ)                                                                     \
	F(op, UINT, dry_run, OPT)

/*
 * When they are absent: tenant is "default", mode "adaptive", host the caller's own, and there are no limits.
 * ips: 1..FFO_ADDR_MAX strings; when absent, one address of each family is allocated. limits: those of ffo_limits.h, by
 * their names. device_name: the name of the container's first RDMA device, "ff0" when absent. devices: the number of
 * its RDMA devices, FFO_DEVICES_MAX at most, 1 when absent. container (an id, FFO_ID_KEEP_MAX at most), lid and epoch:
 * what the container had in a store that was lost, together with its ips; absent for a new container.
 */
#define FFO_FIELDS_container_add(F, op)                                                            \
	F(op, NAME, name, REQ)                                                                     \
	F(op, NAME, tenant, OPT)                                                                   \
	F(op, LIST, ips, OPT)                                                                      \
	F(op, NAME, mode, OPT)                                                                     \
	F(op, NAME, host, OPT)                                                                     \
	F(op, OBJ, limits, OPT)                                                                    \
	F(op, NAME, device_name, OPT)                                                              \
	F(op, UINT, devices, OPT)                                                                  \
	F(op, UINT, container, OPT)                                                                \
	F(op, UINT, lid, OPT)                                                                      \
	F(op, UINT, epoch, OPT)                                                                    \
	F(op, UINT, dry_run, OPT)

/*
 * container_set changes a container. A field that is absent stays as it is, and so does a limit that `limits` does not
 * name; a limit of 0 is taken away. With another `host` the container's epoch grows, its mappings go, and it is not
 * active any more; EBUSY if it is active, unless force is 1. With `epoch`: ESTALE if the container's epoch is another.
 */
#define FFO_FIELDS_container_set(F, op)                                                            \
	F(op, UINT, container, OPT)                                                                \
	F(op, NAME, name, OPT)                                                                     \
	F(op, LIST, ips, OPT)                                                                      \
	F(op, NAME, mode, OPT)                                                                     \
	F(op, NAME, host, OPT)                                                                     \
	F(op, UINT, force, OPT)                                                                    \
	F(op, UINT, epoch, OPT)                                                                    \
	F(op, OBJ, limits, OPT)                                                                    \
	F(op, UINT, dry_run, OPT)

#define FFO_FIELDS_container_rm(F, op)                                                             \
	F(op, UINT, container, OPT)                                                                \
	F(op, NAME, name, OPT)                                                                     \
	F(op, UINT, dry_run, OPT)

#define FFO_FIELDS_container_get(F, op)                                                            \
	F(op, UINT, container, OPT)                                                                \
	F(op, NAME, name, OPT)

#define FFO_FIELDS_container_list(F, op)                                                           \
	F(op, NAME, host, OPT)	/* only its containers */                                          \
	F(op, UINT, after, OPT) /* containers with a higher id */                                  \
	F(op, UINT, limit, OPT) /* FFO_PAGE_MAX at most, which is the default */

#define FFO_FIELDS_map_publish(F, op)                                                              \
	F(op, LIST, maps, REQ) /* rows; a known (container, rkey) changes */

#define FFO_FIELDS_map_withdraw(F, op) F(op, LIST, maps, REQ) /* [container, rkey], ... */

#define FFO_FIELDS_map_list(F, op)                                                                 \
	F(op, UINT, container, OPT) /* only its mappings */                                        \
	F(op, LIST, after, OPT)	    /* [container, rkey]: mappings behind it */                    \
	F(op, UINT, limit, OPT)	    /* FFO_BATCH_MAX at most, which is the default */

#define FFO_FIELDS_map_drop(F, op)                                                                 \
	F(op, UINT, container, REQ)                                                                \
	F(op, UINT, session, OPT) /* only this session's */

/* One mapping of a container that is named by id, by name, or by its address in a tenant. */
#define FFO_FIELDS_map_get(F, op)                                                                  \
	F(op, UINT, container, OPT)                                                                \
	F(op, NAME, name, OPT)                                                                     \
	F(op, TEXT, ip, OPT)                                                                       \
	F(op, NAME, tenant, OPT) /* of ip; "default" when absent */                                \
	F(op, UINT, rkey, REQ)

#define FFO_FIELDS_map_watch(F, op)   F(op, UINT, container, REQ)
#define FFO_FIELDS_map_unwatch(F, op) F(op, UINT, container, REQ)

/* Does the host's container have sessions now? Forgotten with the host's connection. */
#define FFO_FIELDS_container_active(F, op)                                                         \
	F(op, UINT, container, REQ)                                                                \
	F(op, UINT, active, REQ) /* 0 or 1 */

/*
 * Who has that address, seen from a tenant: its own containers come first, then those that a rule
 * of the policy lets it reach, by rising name of their tenants. One of ip, lid and container.
 */
#define FFO_FIELDS_resolve(F, op)                                                                  \
	F(op, NAME, tenant, OPT) /* "default" when absent; of no meaning for container */          \
	F(op, TEXT, ip, OPT)                                                                       \
	F(op, UINT, lid, OPT)                                                                      \
	F(op, UINT, container, OPT)
#define FFO_FIELDS_unresolve(F, op) FFO_FIELDS_resolve(F, op)

/*
 * A rule is about two parties, in any order, each "TENANT" or "TENANT/CONTAINER". action: "allow"
 * or "deny". What the list means: policy.h.
 */
#define FFO_FIELDS_policy_list(F, op)
#define FFO_FIELDS_policy_set(F, op)                                                               \
	F(op, TEXT, a, REQ)                                                                        \
	F(op, TEXT, b, REQ)                                                                        \
	F(op, NAME, action, REQ)                                                                   \
	F(op, UINT, dry_run, OPT)
#define FFO_FIELDS_policy_rm(F, op)                                                                \
	F(op, TEXT, a, REQ)                                                                        \
	F(op, TEXT, b, REQ)                                                                        \
	F(op, UINT, dry_run, OPT)
#define FFO_FIELDS_policy_watch(F, op)

/*
 * What the containers of a tenant may use together, on each host. What is absent in limits stays as
 * it is, 0 takes a limit away.
 */
#define FFO_FIELDS_tenant_list(F, op)
#define FFO_FIELDS_tenant_set(F, op)                                                               \
	F(op, NAME, tenant, REQ)                                                                   \
	F(op, OBJ, limits, REQ)                                                                    \
	F(op, UINT, dry_run, OPT)
#define FFO_FIELDS_tenant_watch(F, op)

/*
 * A copy of the store, piece by piece. Without `copy` a new copy is made, and takes the place of
 * the one before. ESTALE: that copy has gone, because another one was made, or nobody has asked for
 * it for 10 s.
 */
#define FFO_FIELDS_store_backup(F, op)                                                             \
	F(op, UINT, copy, OPT)                                                                     \
	F(op, UINT, offset, OPT)

/*
 * A multicast group is a tenant's. mgid: as an IPv6 address: ff00::/8 or, for RoCE v2's groups over
 * IPv4, ::ffff:224.0.0.0/100. The router joins
 * with the first member that it has, and leaves with its last; or when its connection ends.
 */
#define FFO_FIELDS_mcast_join(F, op)                                                               \
	F(op, NAME, tenant, REQ)                                                                   \
	F(op, TEXT, mgid, REQ)
#define FFO_FIELDS_mcast_leave(F, op)	FFO_FIELDS_mcast_join(F, op)
#define FFO_FIELDS_mcast_watch(F, op)	FFO_FIELDS_mcast_join(F, op)
#define FFO_FIELDS_mcast_unwatch(F, op) FFO_FIELDS_mcast_join(F, op)

#define FFO_CTYPE_NAME const char *
#define FFO_CTYPE_TEXT const char *
#define FFO_CTYPE_UINT uint32_t
#define FFO_CTYPE_LIST json_t *
#define FFO_CTYPE_OBJ  json_t *

/* struct ffo_req_<op>: a request's fields, checked. Pointers live as long as the JSON object. */
#define F(op, type, name, need) FFO_CTYPE_##type name;
#define X(NAME, name, caller, host, operator)                                                      \
	struct ffo_req_##name {                                                                    \
		FFO_FIELDS_##name(F, name)                                                         \
	};
FFO_OPS(X)
#undef X
#undef F

union ffo_req {
#define X(NAME, name, caller, host, operator) struct ffo_req_##name name;
	FFO_OPS(X)
#undef X
};

/* X(NUMBER, NAME, name); the numbers are those of enum ff_mode in ffr/abi/ff_proto.h. */
#define FFO_MODES(X)                                                                               \
	X(0, ADAPTIVE, adaptive)                                                                   \
	X(1, SPIN, spin)                                                                           \
	X(2, SOCKET, socket)

enum ffo_mode {
#define X(num, NAME, name) FFO_MODE_##NAME = num,
	FFO_MODES(X)
#undef X
		FFO_NUM_MODES
};

struct ffo_container {
	uint32_t id;			  /* never 0, never used again */
	uint32_t epoch;			  /* 1 when added; grows with each move to another host */
	uint16_t lid;			  /* 1..FFO_LID_MAX, unique */
	uint8_t mode;			  /* enum ffo_mode */
	uint8_t num_ips;		  /* 1..FFO_ADDR_MAX */
	bool active;			  /* has sessions on its host; ephemeral state */
	struct in6_addr ip[FFO_ADDR_MAX]; /* [0] is GID 0; IPv4 as ::ffff:a.b.c.d */
	char name[FFO_NAME_MAX];	  /* unique in the whole cluster */
	char tenant[FFO_NAME_MAX];
	char host[FFO_NAME_MAX];
	char device_name[FFO_NAME_MAX]; /* of its first RDMA device; "": FF_DEVICE_NAME */
	uint8_t devices; /* at most FFO_DEVICES_MAX; 0: nobody has said, so one. Neither changes */
	struct ffo_limits limits;
	uint64_t version; /* the store's, of this state of it; does not travel */
};

struct ffo_host {
	char name[FFO_NAME_MAX];
	char instance[FFO_TEXT_MAX];
	char wire[FFO_TEXT_MAX]; /* "tcp:ADDRESS:PORT", "": accepts no others */
	uint64_t last_seen; /* seconds since 1970: last registration or end of its connection */
	bool up;	    /* its router is connected; ephemeral state */
};

/* A rule of the policy. The parties are different or the same; strcmp(a, b) <= 0. */
struct ffo_rule {
	char a[FFO_PARTY_MAX], b[FFO_PARTY_MAX]; /* "TENANT" or "TENANT/CONTAINER" */
	bool allow;
};

/* A tenant that has limits: of what its containers use together on a host. */
struct ffo_tenant {
	char name[FFO_NAME_MAX];
	struct ffo_limits limits;
};

/*
 * One published memory region; (container, rkey) is unique. X(ctype, name)
 *	session	 the router's number of the session that registered it, not 0
 *	addr	 what an rkey's holder calls the first byte (the MR's iova)
 *	access	 IBV_ACCESS_*
 *	shadow	 the router's address of that byte, 0: not mapped as one piece
 *	key	 the backend's own rkey
 *	epoch	 of the container when it was published
 */
#define FFO_MAP_FIELDS(X)                                                                          \
	X(uint32_t, container)                                                                     \
	X(uint32_t, rkey)                                                                          \
	X(uint32_t, session)                                                                       \
	X(uint64_t, addr)                                                                          \
	X(uint64_t, length)                                                                        \
	X(uint32_t, access)                                                                        \
	X(uint64_t, shadow)                                                                        \
	X(uint32_t, key)                                                                           \
	X(uint32_t, epoch)

struct ffo_map {
#define X(ctype, name) ctype name;
	FFO_MAP_FIELDS(X)
#undef X
};

enum {
#define X(ctype, name) FFO_MAP_COL_##name,
	FFO_MAP_FIELDS(X)
#undef X
		FFO_MAP_COLS
};

/* ---- proto.c: any thread ------------------------------------------------------------------- */

extern const char *const ffo_op_name[FFO_NUM_OPS];
extern const uint8_t ffo_op_caller[FFO_NUM_OPS]; /* enum ffo_caller */
/*
 * The op of that name, if an operator may ask for it. The admin socket of a router passes such a request on to the
 * orchestrator as it is. -EOPNOTSUPP: there is none.
 */
int ffo_op_for_operators(const char *name);
extern const char *const ffo_mode_name[FFO_NUM_MODES];

/*
 * Check a request against its row and take its fields. 0, or -errno with one line in why[]:
 * -EOPNOTSUPP (no such op), -EINVAL (anything else). `id` and `op` stand beside the fields.
 */
int ffo_req_parse(json_t *msg, enum ffo_op *op, union ffo_req *req, char *why, size_t size);

/* Are all fields equal, except for `active` and `version`? */
bool ffo_container_same(const struct ffo_container *a, const struct ffo_container *b);

/* Docker's rule for names: a letter or digit, then letters, digits, "_.-"; < FFO_NAME_MAX. */
bool ffo_name_ok(const char *name);
/*
 * The name of device i of `devices`, the first of which is called `first` ("": FF_DEVICE_NAME). The number at the end
 * of `first` grows: mlx5_0, mlx5_1. False: the name would be too long.
 */
bool ffo_device_name(const char *first, unsigned devices, unsigned i, char name[FFO_NAME_MAX]);
/* A party of the policy: a name, or two with a '/' between them. */
bool ffo_party_ok(const char *party);
/* Parties in any order to a rule in the order that rules have: 0, or -EINVAL (no party). */
int ffo_rule_make(struct ffo_rule *r, const char *a, const char *b, bool allow);
/* A multicast GID's text: 0 or -EINVAL (it is none). */
int ffo_mgid_parse(const char *text, struct in6_addr *mgid);
/* The enum ffo_mode of that name, or -EINVAL. */
int ffo_mode_parse(const char *name);
/* "ENOENT" for -ENOENT, and back; -EPROTO for a name that is none. */
const char *ffo_error_name(int err);
int ffo_error_number(const char *name);

/* Text to address, IPv4 as ::ffff:a.b.c.d. 0 or -EINVAL. */
int ffo_addr_parse(const char *text, struct in6_addr *addr);
/* IPv4 in dotted form. buf: INET6_ADDRSTRLEN bytes. Returns buf. */
const char *ffo_addr_text(const struct in6_addr *addr, char *buf);

/* Structs to JSON: a new reference, or NULL without memory. */
json_t *ffo_container_to_json(const struct ffo_container *c);
json_t *ffo_host_to_json(const struct ffo_host *h);
json_t *ffo_map_to_json(const struct ffo_map *m);
json_t *ffo_rule_to_json(const struct ffo_rule *r);
json_t *ffo_tenant_to_json(const struct ffo_tenant *t);
/* JSON to structs: 0, or -EINVAL when something is missing, of a wrong type or out of range. */
int ffo_container_from_json(json_t *j, struct ffo_container *c);
int ffo_host_from_json(json_t *j, struct ffo_host *h);
int ffo_map_from_json(json_t *j, struct ffo_map *m);
int ffo_rule_from_json(json_t *j, struct ffo_rule *r);
int ffo_tenant_from_json(json_t *j, struct ffo_tenant *t);
/* A [container, rkey] pair, as in map_withdraw and map_list's after and next. */
int ffo_map_id_from_json(json_t *j, uint32_t *container, uint32_t *rkey);

#endif
