/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffload.h - a load that verifies itself. tests/system/ffload.c is the program; it knows nothing of
 * what lies below libibverbs, and runs on any RC device.
 *
 * A lane is one connection that is made again whenever it fails, between a source (in the client)
 * and a sink (in the server). The source issues an endless sequence of operations. What operation
 * number `seq` is, how long it is and what it carries follows from (run, lane, seq) alone: ffload_plan.c.
 * So the sink knows what must come next, and needs no header in a message of one byte.
 *
 *	SEND, SEND_IMM, WRITE_IMM	the sink gets a completion: it must be the next such operation
 *			of the plan, of that length, immediate and contents.
 *	WRITE		into slot seq % (2 * window) of the sink. When the next one with a completion
 *			arrives, the sink looks whether all WRITEs before it are there (IBTA 9.6: placed
 *			before what follows on the same QP). Every half window there is such a one.
 *	READ		of a region whose contents never change
 *	READ_BACK	of the slot of an earlier WRITE of the window: what was written must be read
 *	FETCH_ADD, CMP_SWAP	on the lane's own two words: nobody else changes them, so the value that
 *			comes back is known, and an operation done twice or not at all is seen by the next.
 *	SHARED_ADD	adds 1 to the word of all lanes. At the end it is the number of those reported
 *			complete, plus at most those whose fate a failure left open.
 *
 * The sink tells how far it has verified by WRITE_IMM of a number into the source; nothing is posted
 * that is more than a window ahead of that, so a slot is not written again before it was looked at.
 *
 * After a failure the source keeps two numbers: all before `done` was reported complete, nothing from
 * `base` on was posted. It connects again, and tells both. The sink first empties its old QP, then
 * everything before `done` must have been seen, or (its device has died, and completions with it) must
 * lie in its memory where it belongs: no byte lost that was reported complete. Nothing behind `base`
 * may have come. The operations between them may or may not have been done, but in order: atomics by
 * a prefix of them. The new connection begins with `base`.
 *
 * A sink that was started anew (another incarnation) knows nothing: the source begins afresh with it.
 */
#ifndef FFLOAD_H
#define FFLOAD_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define NS_PER_MS     1000000ull
#define NS_PER_S      1000000000ull
#define LL(x)	      ((unsigned long long)(x))

uint64_t load_now(void); /* ns, CLOCK_MONOTONIC */
uint64_t load_random(void);

/* ---- ffload_plan.c: what each operation is ---------------------------------------------------- */

enum load_op {
	OP_SEND,
	OP_SEND_IMM,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_READ_BACK,
	OP_FETCH_ADD,
	OP_CMP_SWAP,
	OP_SHARED_ADD,
	OP_NUM,
};
extern const char *const load_op_str[OP_NUM];

/* Travels in struct load_hello: fixed width, both ends are of one architecture. */
struct load_plan {
	uint64_t run;	   /* random */
	uint32_t lane;	   /* within the run */
	uint32_t min, max; /* bytes of a message */
	uint32_t window;   /* operations under way, at most; a power of 2, at least 4 */
	uint32_t receives; /* that the sink keeps posted; fewer than the window: RNR */
	uint32_t ud;	   /* 1: datagrams */
	uint16_t weight[OP_NUM];
	uint8_t timeout, retry; /* as encoded in ibv_qp_attr */
	uint8_t mtu, zero[3];
};
_Static_assert(sizeof(struct load_plan) == 56, "no holes");

struct load_item {
	enum load_op op;
	uint32_t len;
	uint64_t key;  /* of its contents */
	uint64_t add;  /* FETCH_ADD, SHARED_ADD; CMP_SWAP: the new value */
	uint64_t dice; /* bits for what the plan leaves open: signalled, inline, SGEs */
};

void plan_item(const struct load_plan *plan, uint64_t seq, struct load_item *item);
/* The newest WRITE within a window before seq and not before `since`; false: there is none. */
bool plan_write_before(const struct load_plan *plan, uint64_t seq, uint64_t since, uint64_t *found);
bool plan_two_sided(enum load_op op);
bool plan_valid(const struct load_plan *plan);

/* The sink's memory, one MR: two words, the region that READs read, WRITE slots, receives. */
struct load_layout {
	size_t slot; /* bytes of one */
	size_t region, region_len;
	size_t writes, receives, len;
};
#define LAYOUT_FETCH 0
#define LAYOUT_CAS   8
#define LAYOUT_ACK   16
void plan_layout(const struct load_plan *plan, struct load_layout *l);
uint64_t plan_region_key(const struct load_plan *plan, uint64_t incarnation);

/* Contents: a function of (key, position). */
void pattern_fill(void *buf, size_t len, uint64_t key, uint64_t pos);
long pattern_diff(const void *buf, size_t len, uint64_t key, uint64_t pos); /* -1: none */

/* ---- ffload_report.c: what was seen ------------------------------------------------------------ */

#define LOAD_STATUSES	32
#define LOAD_RECOVERIES 100000

struct load_report {
	const char *role;
	uint64_t started, ended;
	uint64_t ops[OP_NUM], bytes;
	uint64_t verified;		/* operations that the sink has verified */
	uint64_t scanned;		/* of these, in memory, after their completions were lost */
	uint64_t status[LOAD_STATUSES]; /* completions, by enum ibv_wc_status */
	uint64_t wrong;			/* verifications that failed */
	uint64_t peer_wrong;		/* those that the sink told of */
	uint64_t failures, connects;	/* of lanes */
	uint64_t attempts_failed;	/* to connect: refused or timed out */
	uint64_t ambiguous;		/* operations whose fate a failure left open */
	uint64_t reopens;		/* of the device, after it died */
	uint64_t peer_restarts;		/* the sink was another incarnation */
	uint64_t probes, stalls;	/* empty WRITEs to a silent sink; no end of an operation */
	uint64_t async_events;
	uint64_t ud_sent, ud_received, ud_lost, ud_reordered;
	uint64_t last_good, longest_gap; /* over all lanes, ns */
	uint64_t *recovery;		 /* ns, one for each lane that came back */
	unsigned recoveries, lanes, unended;
};

void report_good(struct load_report *r, uint64_t now); /* something was completed well */
void report_recovery(struct load_report *r, uint64_t ns);
void report_json(const struct load_report *r);
void report_text(const struct load_report *r);
/* A verification failed: told at once, the first hundred of them; the program goes on. */
void report_wrong(struct load_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A line of the log, with the time since the start. */
void report_line(const struct load_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- ffload_dev.c: the device, opened again when it has died ------------------------------------ */

enum load_kind { WR_OP, WR_RECV, WR_ACK, WR_PROBE };

struct load_dev {
	struct load_report *report;
	struct ibv_context *ctx; /* NULL: there is none now */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int cqe;
	unsigned generation; /* grows with each opening */
	uint64_t retry_at;
	unsigned cq_events; /* not acknowledged */
	bool dead;
	union ibv_gid gid;
	uint16_t lid;
	enum ibv_mtu mtu;
};

/* 0, or -errno: there is no device (yet). */
int dev_open(struct load_dev *d);
/* Everything of the device but QPs and MRs, which are gone by then. */
void dev_close(struct load_dev *d);
/* What has arrived: completions into wc[n], their number; 0 as well when the device has died. */
int dev_poll(struct load_dev *d, struct ibv_wc *wc, int n);
void dev_arm(struct load_dev *d);
/* Take the events that made the descriptors readable. */
void dev_take_comp_events(struct load_dev *d);
void dev_take_async_events(struct load_dev *d);

uint64_t wr_id_of(enum load_kind kind, unsigned lane, unsigned attempt, uint64_t seq);
static inline enum load_kind wr_kind(uint64_t id)
{
	return (enum load_kind)(id >> 62);
}
static inline unsigned wr_lane(uint64_t id)
{
	return id >> 48 & 0x3fff;
}
static inline unsigned wr_attempt(uint64_t id)
{
	return id >> 32 & 0xffff;
}

/* They may be NULL, and are so afterwards. */
static inline void load_drop_qp(struct ibv_ah **ah, struct ibv_qp **qp)
{
	if (*ah)
		ibv_destroy_ah(*ah);
	if (*qp)
		ibv_destroy_qp(*qp);
	*ah = NULL;
	*qp = NULL;
}

/* What one end of a connection tells the other. */
struct load_end {
	union ibv_gid gid;
	uint32_t qpn, psn;
	uint32_t lid, rkey;
	uint64_t addr;
};

struct ibv_qp *dev_qp(struct load_dev *d, const struct load_plan *plan, unsigned send_wr,
		      unsigned recv_wr);
int dev_qp_init(struct ibv_qp *qp, const struct load_plan *plan);
int dev_qp_connect(struct load_dev *d, struct ibv_qp *qp, const struct load_plan *plan,
		   uint32_t psn, const struct load_end *peer);
void dev_qp_error(struct ibv_qp *qp);
struct ibv_ah *dev_ah(struct load_dev *d, const struct load_end *peer);
#define LOAD_QKEY 0x0ff10ad0u
#define LOAD_GRH  40u

/* ---- what the two ends say to each other, by TCP ------------------------------------------------ */

#define LOAD_MAGIC 0x66666c6f61643031ull

enum load_what { HELLO_CONNECT = 1, HELLO_BYE = 2 };

struct load_hello {
	uint64_t magic;
	uint32_t what, attempt;
	uint64_t incarnation; /* of the sink, as last heard; 0: never */
	uint64_t done, base;  /* see above */
	struct load_plan plan;
	struct load_end end;
};

enum load_answer_status { ANSWER_OK = 1, ANSWER_AGAIN };

struct load_answer {
	uint64_t magic;
	uint32_t status, shared_rkey;
	uint64_t incarnation;
	uint64_t next;	     /* all before it was verified, or skipped */
	uint64_t fetch, cas; /* the lane's words, as the sink reads them */
	uint64_t shared, shared_addr;
	uint64_t wrong; /* that this sink's process found, of that run */
	uint64_t ud_received;
	struct load_end end;
};

/* ---- ffload_source.c ----------------------------------------------------------------------------- */

enum source_state {
	SOURCE_DOWN,	 /* connects when it is time */
	SOURCE_DIALING,	 /* the exchange is under way */
	SOURCE_UP,	 /* posts */
	SOURCE_FLUSHING, /* has failed; what is posted comes back */
	SOURCE_ENDED,	 /* has said good-bye, or nobody is to be told */
};

struct source {
	unsigned index;
	enum source_state state;
	struct load_plan plan;
	struct client *client;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t psn, remote_qpn;
	unsigned generation; /* of the device that qp and mr belong to */
	unsigned attempt;
	uint8_t *mem; /* ACK word, then a slot for each operation of the window */
	size_t mem_len, slot;
	struct ibv_mr *mr;
	struct load_layout layout; /* of the sink's memory */
	struct load_end sink;
	uint64_t shared_addr;
	uint32_t shared_rkey;
	uint64_t incarnation;
	uint64_t since; /* base of this connection */
	uint64_t posted, done, told;
	uint64_t fetch;		  /* the word after all before `done` */
	uint64_t cas, cas_posted; /* after all before `done`, after all posted */
	uint64_t shared_last;	  /* what the last SHARED_ADD found, plus one */
	unsigned receives;	  /* posted, not completed */
	unsigned returned;	  /* of the flushed */
	bool probing;
	bool saw_good; /* since it is up */
	uint64_t last_good, progress_at, up_at, retry_at, deadline;
	uint64_t failed_at;	 /* 0: not failed */
	uint64_t last_posted_at; /* UD: of a datagram */
	int fd;			 /* of the exchange */
	bool connecting;	 /* fd is not connected yet */
	bool bye;		 /* the exchange is the last one */
	struct load_answer answer;
	size_t answer_have;
};

/*
 * What a bad device would do, done once on purpose: the checks must find it. Each is done to an
 * operation, before it is posted.
 */
#define LOAD_LIES(X)                                                                               \
	X(byte, OP_SEND)     /* a bit of the message changes */                                    \
	X(lost, OP_SEND_IMM) /* reported complete, but nothing arrives */                          \
	X(unwritten, OP_WRITE)                                                                     \
	X(unread, OP_READ)                                                                         \
	X(stale, OP_READ_BACK) /* what was there before the WRITE, or elsewhere, is read */        \
	X(twice, OP_FETCH_ADD)                                                                     \
	X(undone, OP_CMP_SWAP)                                                                     \
	X(shared, OP_SHARED_ADD) /* done twice */

enum load_lie {
	LIE_NONE,
#define X(name, op) LIE_##name,
	LOAD_LIES(X)
#undef X
};

struct client {
	enum load_lie lie; /* still to be told */
	struct load_dev dev;
	struct load_report report;
	struct sockaddr_storage *server;
	socklen_t server_len;
	struct source *sources;
	unsigned num;
	bool reconnect, ending;
	uint64_t stall_ns;
	uint64_t rate, issued;		   /* operations a second, of all lanes; 0: no limit */
	uint64_t incarnation;		   /* the newest sink that was heard of */
	uint64_t shared_done, shared_open; /* SHARED_ADDs done, and left open, with that one */
	uint64_t shared_seen;		   /* the word, at the good-byes */
	bool lost;			   /* a lane failed, and is not to come back */
};

int source_init(struct source *s, struct client *c, unsigned index, const struct load_plan *plan);
/* Whatever is to be done now. True if it did something. */
bool source_run(struct source *s, uint64_t now);
void source_wc(struct source *s, const struct ibv_wc *wc, uint64_t now);
/* The exchange's descriptor is ready. */
void source_ready(struct source *s, uint64_t now);
/* The device has died: let go of everything that was its own. */
void source_device_gone(struct source *s, uint64_t now);
void source_fini(struct source *s);
/* Its QP is gone, or will be at once; it connects again at that time. */
void source_down(struct source *s, uint64_t retry_at);
int source_post_recv(struct source *s, unsigned index);
#define SOURCE_RECEIVES 16u

/* ffload_dial.c */
void source_dial(struct source *s, uint64_t now);
void source_attempt_failed(struct source *s, const char *why, uint64_t now);
void source_hang_up(struct source *s);

/* ---- ffload_sink.c -------------------------------------------------------------------------------- */

struct sink_run {
	uint64_t run;
	uint64_t *shared; /* a page */
	struct ibv_mr *mr;
	unsigned generation;
	uint64_t wrong;
	unsigned users;
};

struct sink {
	unsigned index;
	struct server *server;
	struct sink_run *run;
	struct load_plan plan;
	struct load_layout layout;
	uint8_t *mem;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t psn, remote_qpn;
	struct load_end source;
	unsigned generation, attempt;
	uint64_t next;	     /* the first that was not verified yet */
	uint64_t base, past; /* of the last hello, and what `next` was before it */
	uint64_t acked;
	bool acking, broken, expects;	 /* expects: a caller waits for its end */
	uint64_t recv_posted, recv_done; /* receives of this connection */
	bool device_died;		 /* completions may have gone with it */
	uint64_t *seen;			 /* UD: a bit for each of the last UD_SEEN datagrams */
	uint64_t ud_received;
	uint64_t last_heard;
};
#define UD_SEEN	       65536u
#define LOAD_MAX_SINKS 4096u

struct server {
	struct load_dev dev;
	struct load_report report;
	uint64_t incarnation;
	struct sink *sinks[LOAD_MAX_SINKS]; /* by index; some are NULL */
	unsigned num;			    /* indices in use are below it */
	struct sink_run **runs;
	unsigned num_runs;
};

/* A hello has come: the sink that it is for, new or known; NULL: it is nonsense, or there is no room. */
struct sink *sink_of(struct server *srv, const struct load_hello *h);
/* Begin with the hello: the old connection is to come to its end. */
void sink_retire(struct sink *s);
/* Has it? */
bool sink_retired(struct sink *s);
/* Verify what the hello says of the past, and make the new connection. */
void sink_answer(struct sink *s, const struct load_hello *h, struct load_answer *a);
void sink_wc(struct sink *s, const struct ibv_wc *wc);
/* After a batch of completions: tell the source how far it is. */
void sink_tell(struct sink *s);
void sink_device_gone(struct sink *s);
void sink_free(struct sink *s);

#endif
