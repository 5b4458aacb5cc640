/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * internal.h - what peer.c (hosts) and conn.c (connections on their way to be attached) share.
 */
#ifndef FFR_PEER_INTERNAL_H
#define FFR_PEER_INTERNAL_H

#include <netinet/in.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <uv.h>

#include "ffr/lib/log.h"
#include "ffr/peer/peer.h"
#include "ffr/peer/hello.h"

#define PEER_MAX_STRANGERS 128u /* connections in handshake from addresses that are no host's */
#define PEER_MAX_FROM	   16u	/* strangers from one address (IPv6: one /64) */

/* ms; tests have shorter ones */
struct peer_times {
	unsigned int connect;	/* for TCP's handshake: a lost SYN is sent again after 1 s */
	unsigned int handshake; /* for the rest, at the side that connects */
	unsigned int
		accept; /* for the rest, at the side that accepts; shorter, so that a refusal arrives */
	unsigned int retry_min, retry_max;
	unsigned int stable; /* a connection that lived as long was none of the failing ones */
	unsigned int sweep;
	unsigned int look; /* between two looks at the revocation list */
};
extern struct peer_times peer_times;

struct conn;
struct tls;
struct tls_cert;
LIST_HEAD(conn_list, conn);
TAILQ_HEAD(conn_queue, conn);
STAILQ_HEAD(kick_list, peer_ctl);

/* A host. */
struct peer_ctl {
	struct wire_peer p; /* p.ctl is this */
	struct peers *ps;
	UT_hash_handle hh; /* by p.host */
	/* [lock] */
	STAILQ_ENTRY(peer_ctl) kick;
	bool kicked;  /* on ps->kicks */
	bool wanted;  /* peer_want() */
	bool changed; /* what the orchestrator knows of it */
	bool lost;    /* the attached connection, because of `why` */
	char why[96];
	bool attached;
	uint64_t attached_at;		    /* ms, uv_now() */
	uint64_t seq_mine, seq_theirs;	    /* the attached connection's numbers */
	char attached_to[WIRE_INSTANCE_SZ]; /* its router */
	/* control thread */
	uv_timer_t retry;
	unsigned int delay; /* ms until the next try */
	bool told;	    /* of a try in vain, in the log */
	char failed[96];    /* why the last one did, or why the last connection ended */
	bool unused;	    /* by the last sweep */
	uint64_t last_seq;
	struct conn_list conns; /* in handshake, as far as is known that they are of this host */
	struct conn *out;	/* the one that was made here */
	struct tls_cert *cert;	/* of the connection that was attached last; NULL: without TLS */
};

struct peers {
	struct peers_conf conf;
	void (*on_stranger)(void *arg, const char *host);
	void *stranger_arg;
	struct peer_ctl *hosts;
	struct conn_queue conns; /* in handshake, the oldest first */
	uint32_t num_conns, num_strangers;
	struct tls *tls;	      /* NULL: without */
	char wire[128];		      /* peers_wire() */
	struct sockaddr_storage from; /* of connections made here; port 0 */
	int listen_fd;
	uv_poll_t listen;
	uv_timer_t pause; /* no descriptors left: listen again later */
	uv_timer_t sweep;
	uv_timer_t look;   /* at the revocation list, where there is one */
	unsigned int list; /* its number */
	uv_async_t async;
	uint32_t handles;	/* open; freed with the last */
	struct kick_list kicks; /* [lock] hosts that need a look */
	struct log_limit log;	/* of what strangers cause */
};

/* peer.c */
void peers_ask(struct peers *ps, const char *host); /* tells peers_on_stranger() */
struct peer_ctl *host_find(struct peers *ps, const char *name);
bool host_has_addr(const struct peers *ps, const struct sockaddr_storage *sa);
/* A connection that was made here has come to nothing; NULL: as it should. Tries again, if wanted. */
void host_failed(struct peer_ctl *h, const char *why);
void peers_put(struct peers *ps); /* a handle is closed */

/* conn.c */
void peer_conn_connect(struct peer_ctl *h);
void peer_conn_accept(struct peers *ps, int fd, const struct sockaddr_storage *from);
void peer_conn_close(struct conn *c);
/* All that are in handshake. */
void conns_end(struct peers *ps, const char *why);
/* The orchestrator has told of that host: those who wait for it may go on. */
void conns_recheck(struct peers *ps, const char *host);

/* sock.c; addresses are of IPv4 or IPv6 */
int sock_listen(const struct sockaddr_storage *sa); /* or -errno */
/* Connecting, from that address if it is one of ours (family 0: any). Or -errno. */
int sock_connect(const struct sockaddr_storage *from, const struct sockaddr_storage *to);
void sock_setup(int fd);
/* But for the port. */
bool addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* May one be who the other is, when it changes its address as it likes? */
bool addr_near(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* "ADDR:PORT", in buf. */
const char *addr_str(const struct sockaddr_storage *sa, char *buf, size_t size);
#define ADDR_STR_SZ 64

#endif
