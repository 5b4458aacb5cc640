/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* advice.c - see advice.h. */
#include "ffr/lib/advice.h"

#include <string.h>

const struct traffic_problem traffic_problem[NUM_TRAFFIC_PROBLEMS] = {
	{ "throttled_ns", 1, "throttled: it waits for its rate limit, or its tenant's",
	  "ffctl container show and ffctl tenant list have the limits" },
	{ "rnr", 1, "its peers had no receive posted (RNR)",
	  "programs post too few receives, or are too slow to post them" },
	{ "retries", 1, "requests were sent again", NULL },
};

const char *advice_orchestrator(const char *why)
{
	static const struct {
		const char *word, *advice;
	} known[] = {
		{ "store accept",
		  "give the orchestrator its store back; where it is lost, set policy and tenants' "
		  "limits again and run `ffctl store accept` on each host" },
		{ "refused", "start ffo there, or correct `orchestrator` in ffr.conf" },
		{ "not answer", "a firewall drops it, or its host is down" },
		{ "timed out", "a firewall drops it, or its host is down" },
		{ "No such file", "start ffo here, or correct `orchestrator` in ffr.conf" },
		{ "ertificate",
		  "wire_cert, wire_key and wire_ca of ffr.conf and ffo's own must be of one "
		  "CA, and the dates right" },
		{ "unreachable", "there is no route to it" },
		{ "store ",
		  "restore the file from a copy, or move it away to begin with an empty store" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(why, known[i].word))
			return known[i].advice;
	return "journalctl SYSLOG_IDENTIFIER=ffr tells more; /usr/share/doc/freeflow/docs/operate/several-hosts.md has the set-up";
}
