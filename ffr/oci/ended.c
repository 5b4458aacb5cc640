/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ended.c - telling the router that a container has ended: the container does not run and, if the hook has added it, is
 * to be removed. The poststop hook does this (main.c). A container may also end without the router's knowledge, because
 * its engine was killed or the router did not run. Then the next start of that name (main.c) or ff-hook follow
 * (follow.c) tells the router. They find such a container by its note, whose process is gone.
 *
 * A container that starts again has the name of its old note, so while a hook works only hooks may look: notes_lock().
 *
 * Tests: system/addresses.sh
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/lib/log.h"
#include "ffr/oci/oci.h"

int notes_lock(bool alone)
{
	int fd, err;

	mkdir(NOTES, 0700);
	fd = open(NOTES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	do
		err = flock(fd, alone ? LOCK_EX | LOCK_NB : LOCK_SH) ? -errno : 0;
	while (err == -EINTR);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int tell_runs(const char *admin, const char *name, const char *id, bool runs, char why[WHY_SZ])
{
	int err = 0;
	json_t *answer = ask(admin,
			     json_pack("{s:s, s:s, s:s, s:b}", "op", "container_runs", "name", name,
				       "id", id, "runs", runs),
			     &err, why);

	json_decref(answer);
	return answer ? 0 : err;
}

void forget(const char *admin, const char *name)
{
	char why[WHY_SZ];
	int err;

	json_decref(
		ask(admin, json_pack("{s:s, s:s}", "op", "container_rm", "name", name), &err, why));
}

bool end_gone(const char *admin, const char *name)
{
	char id[OCI_ID_MAX], why[WHY_SZ];
	DIR *d = opendir(NOTES);
	struct dirent *e;
	bool added = false;
	struct note n;

	while (d && (e = readdir(d))) {
		if (!note_id(e->d_name, id) || note_read(id, &n) || n.runs ||
		    strcmp(n.name, name) || (*n.admin && strcmp(n.admin, admin)) ||
		    tell_runs(admin, name, id, false, why))
			continue;
		added |= n.added;
		note_remove(id);
	}
	if (d)
		closedir(d);
	return added;
}

/* Does a container of that name run, by whichever id? */
static bool one_runs(const char *name)
{
	char id[OCI_ID_MAX];
	DIR *d = opendir(NOTES);
	struct dirent *e;
	bool found = false;
	struct note n;

	while (d && !found && (e = readdir(d)))
		found = note_id(e->d_name, id) && !note_read(id, &n) && n.runs &&
			!strcmp(n.name, name);
	if (d)
		closedir(d);
	return found;
}

static int end(const char *admin, const char *id, const struct note *n)
{
	char why[WHY_SZ];
	int err = tell_runs(admin, n->name, id, false, why);

	if (err && err != -ENOENT) /* ENOENT: somebody has removed it */
		return err;
	if (!err && n->added && !one_runs(n->name))
		forget(admin, n->name);
	note_remove(id);
	log_info("container %s: it has ended without a word to the router, which knows it by now",
		 n->name);
	return 0;
}

bool end_all_gone(const char *admin)
{
	int err = 0, lock = notes_lock(true);
	DIR *d = lock < 0 ? NULL : opendir(NOTES);
	char id[OCI_ID_MAX];
	struct dirent *e;
	struct note n;

	while (d && !err && (e = readdir(d)))
		if (note_id(e->d_name, id) && !note_read(id, &n) && !n.runs &&
		    !strcmp(n.admin, admin))
			err = end(admin, id, &n);
	if (d)
		closedir(d);
	if (lock >= 0)
		close(lock);
	return d && !err;
}
