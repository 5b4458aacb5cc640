/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * events.h - what happened on this host that operators want to know of: a ring of the last
 * EVENTS_KEPT events. Control thread.
 *
 * A reader keeps the number of the event that it wants next. So a slow reader costs nothing here, and
 * it can tell by the numbers how many events it has missed. admin/socket.c sends the events to
 * `ffctl events --follow`.
 */
#ifndef FFR_OBJ_EVENTS_H
#define FFR_OBJ_EVENTS_H

#include <stdint.h>

struct container;

#define EVENTS_KEPT 1024u

/* X(KIND, name) */
#define FFR_EVENTS(X)                                                                              \
	X(ATTACHED, attached)	      /* a container is on this host from now on */                \
	X(DETACHED, detached)	      /* a container is not any more */                            \
	X(OPENED, opened)	      /* a program has opened the device */                        \
	X(CLOSED, closed)	      /* its session has ended */                                  \
	X(LIMIT, limit)		      /* a container has reached a limit for the first time */     \
	X(CONNECTED, connected)	      /* the orchestrator is reached */                            \
	X(DISCONNECTED, disconnected) /* the orchestrator is lost */                               \
	X(FENCED, fenced)	      /* this host is cut off: its containers have no device */    \
	X(UNFENCED, unfenced)

enum event_kind {
#define X(KIND, name) EVENT_##KIND,
	FFR_EVENTS(X)
#undef X
		EVENT_NUM_KINDS
};

struct event {
	uint64_t number; /* 1 is the router's first; rising by 1 */
	uint64_t at;	 /* ms since 1970 */
	enum event_kind kind;
	char container[64]; /* "": none */
	char text[192];
};

extern const char *const event_name[EVENT_NUM_KINDS];

/* c: whose it is, or NULL. Text that is too long is cut off. */
void event_add(enum event_kind kind, const struct container *c, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * An event that programs of the container can cause at any rate. At most LOG_BURST of a container's
 * in LOG_WINDOW seconds are kept, so that it cannot push others' out of the ring; the next one says
 * how many were left out.
 */
void event_add_client(enum event_kind kind, struct container *c, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The number of the next one that will happen. */
uint64_t event_next(void);
/* NULL: it is not kept any more, or has not happened. */
const struct event *event_get(uint64_t number);
/* The oldest one that is kept. */
uint64_t event_oldest(void);

/* fn is called after each event; NULL: nobody is. */
void event_listen(void (*fn)(void *arg), void *arg);

#endif
