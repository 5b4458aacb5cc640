/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * advice.h - what an operator is told to do about a problem. `ffctl doctor` and the router's status page say the same.
 * Any thread.
 */
#ifndef FFR_LIB_ADVICE_H
#define FFR_LIB_ADVICE_H

#include <stddef.h>

#define ADVICE_UFFD                                                                                \
	"Linux 6.1 and later have it; a router in a container needs --device /dev/userfaultfd"
#define ADVICE_HOST_DOWN                                                                                       \
	"ffctl doctor on that host; if it is gone for good: container claim --force for its containers, then " \
	"ffctl host rm"
#define ADVICE_HOST_UNREACHED "its log (journalctl SYSLOG_IDENTIFIER=ffr) has the other half"
/* The container, "it" or "its tenant", a number, a limit. */
#define QUOTA_USED_UP	    "container %s: %s has all %llu of %s: its next call that needs one fails"
#define ADVICE_QUOTA	    "ffctl container set NAME raises it"
#define ADVICE_TENANT_QUOTA "ffctl tenant set TENANT raises it"
/* What a lost orchestrator means for the host: without a fence, and with one. */
#define EFFECT_ALONE "what is known goes on, nothing new can be added or found"
#define EFFECT_FENCED                                                                              \
	"no other host is connected either (fence_after), so containers have no device until the " \
	"orchestrator is back"
#define ADVICE_REFUSED "ffctl container check NAME --pid PID"

/* The problem that a container has while one of its counters grows. */
struct traffic_problem {
	const char *counter; /* its name in FF_STATS (obj/stats.h) */
	int is_note;	     /* 0: a problem */
	const char *text;
	const char *advice; /* NULL: there is none */
};
#define NUM_TRAFFIC_PROBLEMS 3
extern const struct traffic_problem traffic_problem[NUM_TRAFFIC_PROBLEMS];

/* About an orchestrator that cannot be reached; why: the reason, as the router has it. */
const char *advice_orchestrator(const char *why);

#endif
