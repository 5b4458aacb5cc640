/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * events.c - the op that tells of the last events, and lets a connection follow them. Control
 * thread; socket.c sends what follows.
 *
 * Tests: unit/admin/test_events.c, system/events.sh
 */
#include <errno.h>

#include "ffr/admin/admin.h"
#include "ffr/obj/events.h"

json_t *event_json(const struct event *e)
{
	json_t *j = json_pack("{s:I, s:I, s:s, s:s}", "number", (json_int_t)e->number, "time_ms",
			      (json_int_t)e->at, "event", event_name[e->kind], "text", e->text);

	if (j && *e->container)
		json_object_set_new(j, "container", json_string(e->container));
	return j;
}

/* The last "count" of those that are kept; with "follow" those that happen from now on, too. */
void admin_events(struct admin_conn *conn, json_t *msg)
{
	json_int_t count = json_integer_value(json_object_get(msg, "count"));
	uint64_t next = event_next(), from = event_oldest();
	json_t *list = json_array(), *answer;

	if (count < 0) {
		json_decref(list);
		admin_error(conn, -EINVAL, "\"count\" is below 0");
		return;
	}
	if ((uint64_t)count < next - from)
		from = next - (uint64_t)count;
	for (; from < next; from++)
		json_array_append_new(list, event_json(event_get(from)));
	answer = json_pack("{s:o}", "events", list);
	if (json_is_true(json_object_get(msg, "follow")))
		admin_follow(conn, answer, next);
	else
		admin_reply(conn, answer);
}
