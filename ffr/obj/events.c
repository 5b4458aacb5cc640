/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* events.c - see events.h. Control thread. */
#include "ffr/obj/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ffr/lib/log.h"
#include "ffr/obj/objects.h"

const char *const event_name[EVENT_NUM_KINDS] = {
#define X(KIND, name) [EVENT_##KIND] = #name,
	FFR_EVENTS(X)
#undef X
};

static struct event ring[EVENTS_KEPT]; /* by number */
static uint64_t next = 1;
static void (*listener)(void *arg);
static void *listener_arg;

uint64_t event_next(void)
{
	return next;
}

uint64_t event_oldest(void)
{
	return next > EVENTS_KEPT ? next - EVENTS_KEPT : 1;
}

const struct event *event_get(uint64_t number)
{
	return number >= event_oldest() && number < next ? &ring[number % EVENTS_KEPT] : NULL;
}

void event_listen(void (*fn)(void *arg), void *arg)
{
	listener = fn;
	listener_arg = arg;
}

static void add(enum event_kind kind, const struct container *c, const char *fmt, va_list ap)
{
	struct event *e = &ring[next % EVENTS_KEPT];
	struct timespec ts;

	static_assert(sizeof(e->container) == sizeof(c->name), "a container's name");
	clock_gettime(CLOCK_REALTIME, &ts);
	*e = (struct event){
		.number = next++,
		.at = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000,
		.kind = kind,
	};
	if (c)
		memcpy(e->container, c->name, sizeof(e->container));
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	for (char *p = e->text; *p;
	     p++) /* one line, and UTF-8 even where a character was cut off */
		if (*p < ' ' || *p > '~')
			*p = '?';
	if (listener)
		listener(listener_arg);
}

void event_add(enum event_kind kind, const struct container *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(kind, c, fmt, ap);
	va_end(ap);
}

void event_add_client(enum event_kind kind, struct container *c, const char *fmt, ...)
{
	struct timespec ts;
	uint32_t left_out;
	char text[128];
	va_list ap;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (!log_allowed(&c->events, (uint64_t)ts.tv_sec, &left_out))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (left_out)
		event_add(kind, c, "%s; %u events of its programs were left out before", text,
			  left_out);
	else
		event_add(kind, c, "%s", text);
}
