/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_router.h - a router on a real socket for tests of ffl's control side: a thread that answers
 * every message of the table as a router would, or wrongly, as the test says.
 */
#ifndef FAKE_ROUTER_H
#define FAKE_ROUTER_H

#include <pthread.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"

/* How the answer to `fault_type` is wrong. */
enum fault {
	FAULT_NONE,
	FAULT_STATUS, /* -EMFILE or fault_status, body zeroed: not wrong at all */
	FAULT_UNKNOWN, /* -EOPNOTSUPP and no body, of a router that does not know the message: not wrong either */
	FAULT_SHORT, /* last byte missing */
	FAULT_LONG,  /* a byte too many */
	FAULT_HEADER_ONLY,
	FAULT_MAGIC,
	FAULT_TYPE,
	FAULT_SEQ,
	FAULT_TAIL,	  /* elements that are not there */
	FAULT_POSITIVE,	  /* status 5 */
	FAULT_RANGE,	  /* status INT32_MIN */
	FAULT_FD,	  /* a descriptor more than the answer has */
	FAULT_FD_UNTOLD,  /* and the header does not tell of it */
	FAULT_FD_MISSING, /* the header tells of one that did not come */
	FAULT_FD_MANY,	  /* more than any answer has */
	FAULT_CLOSE,	  /* no answer, the connection closed */
	FAULT_SILENT,	  /* no answer */
	FAULT_NUM
};

#define ROUTER_CONNS 8
#define ROUTER_GIDS  4

#define ROUTER_NONCE "sixteen letters" /* with its 0 */
struct router {
	char dir[64], path[96]; /* the socket */
	int listen_fd, stop_fd;
	pthread_t thread;
	int conn[ROUTER_CONNS];
	int async[ROUTER_CONNS]; /* our end of the event sockets */
	enum fault fault;
	enum ff_msg_type fault_type;
	int32_t fault_status; /* of FAULT_STATUS; 0: the usual one */
	_Atomic uint32_t calls[FF_MSG_NUM];
	_Atomic uint32_t malformed; /* requests of wrong length, or number of descriptors */
	_Atomic uint32_t accepted, closed;
	uint32_t next_handle;
	uint8_t gid[ROUTER_GIDS][16];
	uint32_t gid_type[ROUTER_GIDS];
	struct ff_query_device_resp dev;
	struct ff_query_port_resp port;
	struct ff_create_ah_req ah; /* the last one */
	struct ff_hello_req hello;
	unsigned int hello_ms;	 /* before the answer to a HELLO */
	const char *device_name; /* without the number */
	uint32_t device;	 /* that was asked for last */
	uint16_t num_devices;	 /* 0: it knows no DEVICE */
	bool challenge;		 /* HELLO needs the nonce ROUTER_NONCE */
	uint32_t hello_version;	 /* what HELLO's answer says; 0: the library's */
	uint64_t hello_seg0;	 /* the same of segment 0's bytes; 0: as many as it needs */
	int seg_fd;		 /* memfd of segment 0 of the last connection */
	unsigned seg_flags;	 /* of memfd_create(): MFD_ALLOW_SEALING, or none */
};

void router_start(struct router *r);
void router_stop(struct router *r); /* closes all; a stopped one may be stopped again */
void router_event(struct router *r, uint32_t type, uint32_t kind, uint32_t handle);
/* Wait until the router has seen n connections end. */
void router_wait_closed(struct router *r, uint32_t n);

#endif
