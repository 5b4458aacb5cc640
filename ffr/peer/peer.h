/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer.h - connections between routers: who the other hosts are, and how two of them meet. See
 * peer.c for the handshake.
 *
 * peer.c brings authenticated connections about on the control thread; the wire (wire/tcp.c)
 * carries frames on them, [lock]. One host has at most one attached connection with another.
 *
 * The room ffr/peer/ may use fast/ (the lock, struct backend_ops) and ffo's TLS; the room that asks the orchestrator
 * registers here (peers_on_stranger()). Control thread, until the software device has the stream.
 */
#ifndef FFR_PEER_PEER_H
#define FFR_PEER_PEER_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/socket.h>

struct fast_host;
struct peer_ctl;
struct peers;
struct remote_qp;
struct wire_io;
struct wire_tcp;

#define WIRE_HOST_SZ 64 /* bytes, with the NUL: of a host's, a cluster's name */
#define WIRE_INSTANCE_SZ                                                                           \
	128 /* bytes, with the NUL: of what tells one start of a router from another */
#define WIRE_NONCE_SZ	16
#define WIRE_MAGIC	"ffwire\r\n"
#define WIRE_PROTO	7  /* version of handshake and frames: the highest that is spoken here, */
#define WIRE_PROTO_MIN	7  /* and the lowest */
#define WIRE_NIC_NET_SZ 16 /* bytes, with the NUL: of the name of a network of NICs */
#define WIRE_NICS_MAX	8u /* NICs of a host */

/* Why a host does not take a connection; wire_hello.status and wire_verdict.code. */
#define WIRE_REFUSALS(X)                                                                           \
	X(OK, "it is taken")                                                                       \
	X(DUPLICATE, "there is a connection of these two hosts already")                           \
	X(VERSION, "no version of the protocol in common")                                         \
	X(CLUSTER, "another cluster")                                                              \
	X(NOT_ME, "another host was expected at this address")                                     \
	X(SELF, "it has the name of this host")                                                    \
	X(UNKNOWN, "the orchestrator does not know the host")                                      \
	X(DOWN, "the orchestrator says that the host is down")                                     \
	X(INSTANCE, "the orchestrator knows another start of the host's router")                   \
	X(ADDRESS, "it does not come from the host's address")                                     \
	X(CERTIFICATE, "the certificate is not the host's")                                        \
	X(BUSY, "too many connections at once")

enum wire_refusal {
#define X(name, text) WIRE_##name,
	WIRE_REFUSALS(X)
#undef X
		WIRE_REFUSALS_NUM
};

/*
 * The first that either side sends: the one that connects at once, the other as its answer. Numbers
 * in network byte order; text ends with NUL and has only NULs after it.
 */
struct wire_hello {
	uint8_t magic[8];  /* WIRE_MAGIC */
	uint32_t length;   /* bytes: sizeof(struct wire_hello) */
	uint16_t version;  /* the highest that the sender speaks */
	uint16_t oldest_v; /* the lowest that the sender speaks */
	uint16_t status;   /* of an answer: enum wire_refusal, WIRE_OK: it goes on */
	uint16_t reserved; /* 0 */
	uint32_t zero;	   /* 0 */
	uint64_t seq;	   /* number of this connection among the sender's with that host */
	uint64_t oldest;   /* the lowest number of those that the sender still has */
	uint8_t nonce[WIRE_NONCE_SZ];
	char cluster[WIRE_HOST_SZ];
	char host[WIRE_HOST_SZ]; /* the sender */
	char to[WIRE_HOST_SZ];	 /* whom the sender wants to talk to */
	char instance[WIRE_INSTANCE_SZ];
};
_Static_assert(sizeof(struct wire_hello) == 376, "");

/* From the host with the greater name, which decides what connections there are; see peer.c. */
struct wire_verdict {
	uint8_t magic[4]; /* the first of WIRE_MAGIC */
	uint16_t code;	  /* enum wire_refusal */
	uint16_t zero;	  /* 0 */
};
_Static_assert(sizeof(struct wire_verdict) == 8, "");

/* A NIC of another host, as its router tells of it. */
struct wire_nic {
	union ibv_gid gid;
	char net[WIRE_NIC_NET_SZ]; /* in which network it is; "": in none */
	uint32_t ud_qpn, ud_qkey;  /* its router's UD QP on it; 0: none */
	uint64_t ud_out;	   /* what is in front of our datagrams to that */
};

/* Another host. Fields that are not said to be otherwise are [lock]. */
struct wire_peer {
	/* peer.c: as the orchestrator knows it */
	char host[WIRE_HOST_SZ];	 /* never changes */
	char instance[WIRE_INSTANCE_SZ]; /* "": not known */
	struct sockaddr_storage addr;	 /* family 0: it takes no connections */
	bool up;
	/* peer.c: of the attached connection */
	uint32_t generation; /* grows with each attach */
	uint16_t version;    /* of handshake and frames: the highest that both speak */
	struct peer_ctl *ctl;
	uint32_t refs; /* peer_get(); at 0 it is freed some time after its last connection */

	/* the wire's: */
	struct wire_tcp *tcp; /* NULL while not attached */
	bool nic_told;	      /* all of nic[] is known */
	uint32_t num_nics;    /* that it has; 0: it has told of none yet */
	uint32_t nics_told;   /* bits: which of them is known */
	struct wire_nic nic[WIRE_NICS_MAX];
	uint64_t nic_ud_in; /* what is in front of its datagrams; 0: there are none */
	void *by;	    /* what carries its frames beside the stream; NULL: nothing */
	_Atomic(const char *) carrier; /* what does now, for operators; NULL: the stream */
	uint64_t by_after;	       /* ns: not before then again */
	uint64_t mcast_give_up; /* ns: until then datagrams for a group wait for it; 0: none did yet */
	LIST_HEAD(, remote_qp) qps;
};

/* ---- control thread ------------------------------------------------------------------------- */

struct tls_files;

/* Strings stay the caller's, and are there as long as the peers are. */
struct peers_conf {
	struct uv_loop_s *loop;
	struct fast_host *fast;	     /* its threads[0] has the wires */
	const char *host;	     /* this one's name */
	const char *instance;	     /* this start of its router */
	const char *cluster;	     /* routers of other ones are refused */
	const char *listen;	     /* "tcp:ADDR:PORT" */
	const char *advertise;	     /* the same as other hosts reach it; NULL: as it is */
	bool check_addr;	     /* without TLS: a host comes from its own address only */
	const struct tls_files *tls; /* of peers_create() only; NULL: without */
};
/* Reads keys and certificates, and listens. `err` gets one line. 0 or -errno. */
int peers_create(struct peers **out, const struct peers_conf *conf, char *err, size_t size);
/*
 * Detaches and closes everything; handles close while the loop runs. Nothing may be attached
 * afterwards. NULL is fine: a single host.
 */
/* Are there new certificates? The log tells. NULL is fine. */
void peers_look(struct peers *ps);
void peers_free(struct peers *ps);
/* Where it listens, "tcp:ADDR:PORT", as other hosts are to be told; "": nowhere. NULL is fine. */
const char *peers_wire(const struct peers *ps);

/* What has become of the connection with a host; text lives until the return. */
struct peer_state {
	const char *host;
	bool up;	 /* its router is connected to the orchestrator, as that has said last */
	bool wanted;	 /* there is something to send, or was */
	bool attached;	 /* there is a connection */
	const char *why; /* the last one could not be made, or ended; "": none has */
};
/* One call for each host that is known here. NULL is fine. */
void peers_each(struct peers *ps, void (*fn)(void *arg, const struct peer_state *s), void *arg);

/*
 * How many other hosts are connected? If none is, a connection to each is tried, until there is one. *known: hosts
 * that are known here. ps NULL is fine.
 */
uint32_t peers_seek(struct peers *ps, uint32_t *known);

/*
 * fn is called when somebody connects who says that he is that host, which is not known here, or not up, or
 * of another instance. The orchestrator is to be asked: peer_of_host() with its answer, at any time, lets
 * the handshake go on. Not [lock]; must not call back at once. NULL: nobody knows more.
 */
void peers_on_stranger(struct peers *ps, void (*fn)(void *arg, const char *host), void *arg);

/*
 * [lock] A host as the orchestrator knows it: created, or updated, by name. instance, wire: NULL or
 * "" not known. Who keeps the pointer beyond the lock takes a reference. NULL: out of memory, or the
 * name or the wire address makes no sense (said in the log), or it is this host's; or ps is NULL.
 */
struct wire_peer *peer_of_host(struct peers *ps, const char *host, const char *instance,
			       const char *wire, bool up);
/* [lock] */
void peer_get(struct wire_peer *p);
void peer_put(struct wire_peer *p);

/* ---- the wire tells peer.c, [lock], any thread ------------------------------------------------ */

/* There is something to send and no connection: connect, and again until attached or unwanted. */
void peer_want(struct wire_peer *p);
void peer_unwant(struct wire_peer *p);
/* The attached connection has ended, p->tcp is NULL, the stream is closed. `why` is copied. */
void peer_lost(struct wire_peer *p, const char *why);

#endif
