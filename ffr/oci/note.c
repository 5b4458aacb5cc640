/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * note.c - a file for each container that runs: what poststop undoes, and whose addresses are followed. Root's folder;
 * a note whose process is gone is of a container that ended without anybody's telling.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

json_int_t note_began(pid_t pid)
{
	unsigned long long ticks = 0;
	char path[64], line[1024];
	const char *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	p = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	/* behind the name: the state, and 18 numbers */
	if (!p ||
	    sscanf(p,
		   ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
		   &ticks) != 1)
		return 0;
	return (json_int_t)ticks;
}

static const char *note_path(const char *id, char buf[PATH_MAX])
{
	snprintf(buf, PATH_MAX, NOTES "/%s.json", id);
	return buf;
}

bool note_id(const char *file, char id[OCI_ID_MAX])
{
	size_t n = strlen(file);

	if (n < 6 || n - 5 >= OCI_ID_MAX || strcmp(file + n - 5, ".json"))
		return false;
	snprintf(id, OCI_ID_MAX, "%.*s", (int)(n - 5), file);
	return true;
}

int note_write(const char *id, const struct note *n)
{
	json_t *j = json_pack("{s:s, s:s, s:b, s:b, s:I, s:I}", "name", n->name, "admin", n->admin,
			      "added", (int)n->added, "follow", (int)n->follow, "pid",
			      (json_int_t)n->pid, "began", note_began(n->pid));
	char path[PATH_MAX];
	int err;

	mkdir(NOTES, 0700);
	err = json_dump_file(j, note_path(id, path), JSON_COMPACT);
	json_decref(j);
	return err ? -EIO : 0;
}

static bool take_text(const json_t *j, const char *key, char *to, size_t size)
{
	const char *text = json_string_value(json_object_get(j, key));

	return text && (size_t)snprintf(to, size, "%s", text) < size;
}

int note_read(const char *id, struct note *n)
{
	char path[PATH_MAX];
	json_t *j = json_load_file(note_path(id, path), 0, NULL);
	json_int_t pid = json_integer_value(json_object_get(j, "pid"));
	bool ok = take_text(j, "name", n->name, sizeof(n->name)) && pid > 0 && pid <= INT_MAX;

	/* one of before several routers were told apart has none */
	if (!take_text(j, "admin", n->admin, sizeof(n->admin)))
		n->admin[0] = '\0';
	if (ok) {
		n->added = json_is_true(json_object_get(j, "added"));
		n->follow = json_is_true(json_object_get(j, "follow"));
		n->pid = (pid_t)pid;
		n->runs = note_began(n->pid) == json_integer_value(json_object_get(j, "began"));
	}
	json_decref(j);
	return ok ? 0 : -ENOENT;
}

void note_touch(const char *id)
{
	char path[PATH_MAX];
	int fd = open(note_path(id, path), O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
}

void note_remove(const char *id)
{
	char path[PATH_MAX];

	unlink(note_path(id, path));
}
