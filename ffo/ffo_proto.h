/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffo_proto.h - the protocol between routers (or tools) and the orchestrator: the table of ops with
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
 *	host_register	-
 *	host_list	hosts: [{name, instance, up, last_seen}, ...] by rising name; next: value
 *			for `after` when there are more
 *	container_add	container: {id, name, tenant, ips, lid, mode, host, epoch}
 *	container_set	container: as it is now
 *	container_rm	container: as it was
 *	container_get	container
 *	container_list	containers: [...] by rising id; next: value for `after` when there are more
 *	map_publish	stored: number; refused: [[row index, error name], ...]
 *	map_withdraw	removed: number
 *	map_list	maps: [row, ...] by rising (container, rkey); next: [container, rkey] when
 *			there are more
 *	map_drop	-
 *
 * An op that a side does not know is answered with EOPNOTSUPP, so ops can be added without a new
 * version; changing one needs it.
 *
 * A mapping's row is an array of integers in the order of FFO_MAP_FIELDS. JSON integers are signed
 * here, so 64-bit fields travel in two's complement: an address above 2^63 is a negative number.
 */
#ifndef FFO_PROTO_H
#define FFO_PROTO_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FFO_PROTO_VERSION 1

#define FFO_SOCKET_DEFAULT "unix:/run/freeflow/ffo.sock"

#define FFO_LINE_MAX  262144u /* bytes of a message, newline included */
#define FFO_BATCH_MAX 1024u   /* rows of one map_publish, map_withdraw or page of map_list */
#define FFO_PAGE_MAX  256u    /* objects of one page of container_list or host_list */
#define FFO_NAME_MAX  64u     /* bytes of a name, NUL included */
#define FFO_TEXT_MAX  128u    /* bytes of other text, NUL included */
#define FFO_ADDR_MAX  2u      /* addresses of a container */
#define FFO_LID_MAX   0xbfffu /* unicast LIDs are 1..0xbfff (IBTA 4.1.3) */

/*
 * X(NAME, name, caller). Callers:
 *	NEW	a connection that has not said hello yet, once
 *	ANY	every connection after hello
 *	HOST	a connection that host_register made the router of a host
 */
#define FFO_OPS(X)                                                                                 \
	X(HELLO, hello, NEW)                                                                       \
	X(HOST_REGISTER, host_register, ANY)                                                       \
	X(HOST_LIST, host_list, ANY)                                                               \
	X(CONTAINER_ADD, container_add, ANY)                                                       \
	X(CONTAINER_SET, container_set, ANY)                                                       \
	X(CONTAINER_RM, container_rm, ANY)                                                         \
	X(CONTAINER_GET, container_get, ANY)                                                       \
	X(CONTAINER_LIST, container_list, ANY)                                                     \
	X(MAP_PUBLISH, map_publish, HOST)                                                          \
	X(MAP_WITHDRAW, map_withdraw, HOST)                                                        \
	X(MAP_LIST, map_list, ANY)                                                                 \
	X(MAP_DROP, map_drop, HOST)

enum ffo_caller { FFO_CALLER_NEW, FFO_CALLER_ANY, FFO_CALLER_HOST };

enum ffo_op {
#define X(NAME, name, caller) FFO_OP_##NAME,
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
 *
 * A container is named by "container", its id, or, where that is absent, by "name".
 */
#define FFO_FIELDS_hello(F, op)                                                                    \
	F(op, UINT, version, REQ) /* highest version that the client speaks */                     \
	F(op, NAME, host, OPT)	  /* where the client runs; for the log */

/* instance: of one start of a router. A connection with the same one takes an older one's place. */
#define FFO_FIELDS_host_register(F, op)                                                            \
	F(op, NAME, host, REQ)                                                                     \
	F(op, TEXT, instance, OPT)

#define FFO_FIELDS_host_list(F, op)                                                                \
	F(op, NAME, after, OPT) /* hosts whose names sort behind it, by byte */                    \
	F(op, UINT, limit, OPT) /* FFO_PAGE_MAX at most, which is the default */

/*
 * tenant: "default" when absent; mode: "adaptive"; host: the caller's own. ips: 1..FFO_ADDR_MAX
 * strings; when absent, one of each family is allocated.
 */
#define FFO_FIELDS_container_add(F, op)                                                            \
	F(op, NAME, name, REQ)                                                                     \
	F(op, NAME, tenant, OPT)                                                                   \
	F(op, LIST, ips, OPT)                                                                      \
	F(op, NAME, mode, OPT)                                                                     \
	F(op, NAME, host, OPT)

/* What is absent stays as it is. Another host: the epoch grows, the mappings go. */
#define FFO_FIELDS_container_set(F, op)                                                            \
	F(op, UINT, container, OPT)                                                                \
	F(op, NAME, name, OPT)                                                                     \
	F(op, LIST, ips, OPT)                                                                      \
	F(op, NAME, mode, OPT)                                                                     \
	F(op, NAME, host, OPT)

#define FFO_FIELDS_container_rm(F, op)                                                             \
	F(op, UINT, container, OPT)                                                                \
	F(op, NAME, name, OPT)

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

#define FFO_CTYPE_NAME const char *
#define FFO_CTYPE_TEXT const char *
#define FFO_CTYPE_UINT uint32_t
#define FFO_CTYPE_LIST json_t *

/* struct ffo_req_<op>: a request's fields, checked. Pointers live as long as the JSON object. */
#define F(op, type, name, need) FFO_CTYPE_##type name;
#define X(NAME, name, caller)                                                                      \
	struct ffo_req_##name {                                                                    \
		FFO_FIELDS_##name(F, name)                                                         \
	};
FFO_OPS(X)
#undef X
#undef F

union ffo_req {
#define X(NAME, name, caller) struct ffo_req_##name name;
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
	struct in6_addr ip[FFO_ADDR_MAX]; /* [0] is GID 0; IPv4 as ::ffff:a.b.c.d */
	char name[FFO_NAME_MAX];	  /* unique in the whole cluster */
	char tenant[FFO_NAME_MAX];
	char host[FFO_NAME_MAX];
};

struct ffo_host {
	char name[FFO_NAME_MAX];
	char instance[FFO_TEXT_MAX];
	uint64_t last_seen; /* seconds since 1970: last registration or end of its connection */
	bool up;	    /* its router is connected; not stored */
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
extern const char *const ffo_mode_name[FFO_NUM_MODES];

/*
 * Check a request against its row and take its fields. 0, or -errno with one line in why[]:
 * -EOPNOTSUPP (no such op), -EINVAL (anything else). `id` and `op` stand beside the fields.
 */
int ffo_req_parse(json_t *msg, enum ffo_op *op, union ffo_req *req, char *why, size_t size);

/* Docker's rule for names: a letter or digit, then letters, digits, "_.-"; < FFO_NAME_MAX. */
bool ffo_name_ok(const char *name);
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
/* JSON to structs: 0, or -EINVAL when something is missing, of a wrong type or out of range. */
int ffo_container_from_json(json_t *j, struct ffo_container *c);
int ffo_host_from_json(json_t *j, struct ffo_host *h);
int ffo_map_from_json(json_t *j, struct ffo_map *m);
/* A [container, rkey] pair, as in map_withdraw and map_list's after and next. */
int ffo_map_id_from_json(json_t *j, uint32_t *container, uint32_t *rkey);

#endif
