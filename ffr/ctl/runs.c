/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * runs.c - which containers run, as the hooks of their runtimes tell (ffr/oci). Control thread.
 *
 * A container that runs is in use, also while none of its programs has the device open, so nobody moves it to another
 * host. It is told with the runtime's id, and only what is told with the same one ends it. The next router knows it too
 * (kept.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"

int container_runs_recall(struct container *c)
{
	struct container_ctl *ct = c->ctl;
	char id[KEPT_MAX];
	int err = kept_read(c, KEPT_RUNS, id);

	if (err)
		return err == -ENOENT ? 0 : err;
	ct->runs = strdup(id);
	return ct->runs ? 0 : -ENOMEM;
}

bool container_runs_id_ok(const char *id)
{
	return *id && strlen(id) < RUNS_ID_MAX &&
	       !id[strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-")];
}

int container_runs_tell(struct container *c, const char *id, bool runs)
{
	struct container_ctl *ct = c->ctl;
	char *copy;
	int err;

	if (!container_runs_id_ok(id))
		return -EINVAL;
	if (ct->runs && strcmp(ct->runs, id))
		return runs ? -EBUSY : 0;
	if (!runs) {
		free(ct->runs);
		ct->runs = NULL;
		kept_forget(ct->ctl, c->name, KEPT_RUNS);
	} else if (!ct->runs) {
		copy = strdup(id);
		err = copy ? kept_write(c, KEPT_RUNS, id) : -ENOMEM;
		if (err) {
			free(copy);
			return err;
		}
		ct->runs = copy;
	}
	if (ct->ctl->hooks)
		ct->ctl->hooks->session_changed(ct->ctl->orch);
	return 0;
}
