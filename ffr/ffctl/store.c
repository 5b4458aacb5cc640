/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * store.c - ffctl store: take another store, back it up, restore it.
 *
 * A backup's bytes come in answers of the process that has the store open, so that process needs no
 * access to the backup's file. A restore asks nobody: it writes the file of a store that no process
 * has open.
 *
 * Tests: system/store_backup.sh
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffo/store/sqlite/copy.h"
#include "ffr/ffctl/ffctl.h"

void cmd_store_accept(int argc, char **argv)
{
	long long kept, gone;
	json_t *answer;

	no_more(argc, argv, 1);
	answer = router_call(json_pack("{s:s}", "op", "store_accept"));
	if (json_only(answer, NULL))
		return;
	kept = int_of(answer, "kept");
	gone = int_of(answer, "gone");
	printf("%lld container%s put into the orchestrator's store", kept, kept == 1 ? "" : "s");
	if (gone)
		printf("; %lld could not be, and ended here: the router's log tells why", gone);
	putchar('\n');
	json_decref(answer);
}

static void print_copy(const char *file, const struct sqlite_copy *c, size_t bytes)
{
	if (json_out)
		json_print(json_pack("{s:s, s:s, s:I, s:I}", "file", file, "store", c->id,
				     "containers", (json_int_t)c->containers, "bytes",
				     (json_int_t)bytes));
	else
		printf("%s: store %.12s, %ld container%s, %zu bytes\n", file, c->id, c->containers,
		       c->containers == 1 ? "" : "s", bytes);
}

/* ---- backup ---------------------------------------------------------------------------------- */

struct image {
	unsigned char *data;
	size_t size, have;
};

/* Bytes of an answer's piece, behind those that are there. The router may be an attacker's. */
static void image_take(struct image *im, const json_t *answer)
{
	const char *text = str_of(answer, "piece");
	size_t len = strlen(text), whole = len / 4 * 3, padding = 0;

	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	/* OpenSSL writes all of `whole`, also what is padding: image_fetch() has room for that */
	if (!len || len % 4 || whole - padding > im->size - im->have ||
	    EVP_DecodeBlock(im->data + im->have, (const unsigned char *)text, (int)len) !=
		    (int)whole)
		fail("the router's answer is not understood");
	im->have += whole - padding;
}

static struct image image_fetch(void)
{
	json_t *answer = router_call(json_pack("{s:s}", "op", "store_backup"));
	json_int_t copy = int_of(answer, "copy"), size = int_of(answer, "size");
	struct image im = { 0 };

	im.data = size > 0 && size <= UINT32_MAX ? malloc((size_t)size + 3) : NULL;
	if (!im.data)
		fail("a store of %lld bytes: %s", (long long)size, strerror(ENOMEM));
	im.size = (size_t)size;
	image_take(&im, answer);
	json_decref(answer);
	while (im.have < im.size) {
		answer = router_call(json_pack("{s:s, s:I, s:I}", "op", "store_backup", "copy",
					       copy, "offset", (json_int_t)im.have));
		image_take(&im, answer);
		json_decref(answer);
	}
	return im;
}

static char unfinished[PATH_MAX];

static void drop_unfinished(void)
{
	unlink(unfinished);
}

/* The file beside FILE, whole and on the disk. An error ends the program, and removes it. */
static void write_unfinished(const struct image *im)
{
	int fd = open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n = 1;

	if (fd < 0)
		fail("%s: %m", unfinished);
	fail_hook = drop_unfinished;
	for (size_t done = 0; n > 0 && done < im->size; done += (size_t)n)
		n = write(fd, im->data + done, im->size - done);
	if (n <= 0 || fsync(fd) || close(fd))
		fail("%s: %m", unfinished);
}

void cmd_store_backup(int argc, char **argv)
{
	struct sqlite_copy c;
	const char *file;
	struct image im;
	char why[200];

	if (argc < 2)
		usage_fail("store backup: a file's name is missing");
	no_more(argc, argv, 2);
	file = argv[1];
	if (!access(file, F_OK))
		fail_status(EXIT_EXISTS, "%s exists: a backup overwrites nothing", file);
	if (snprintf(unfinished, sizeof(unfinished), "%s.%d", file, (int)getpid()) >=
	    (int)sizeof(unfinished))
		fail("%s: %s", file, strerror(ENAMETOOLONG));
	im = image_fetch();
	write_unfinished(&im);
	if (sqlite_copy_load(&c, unfinished, why, sizeof(why)))
		fail("the copy of the store is not whole: %s", why);
	if (link(unfinished, file)) /* and not rename(), which overwrites */
		fail("%s: %m", file);
	unlink(unfinished);
	print_copy(file, &c, im.size);
	sqlite_copy_close(&c);
	free(im.data);
}

/* ---- restore --------------------------------------------------------------------------------- */

/*
 * From here on as the owner of the store's folder: the store is to be that user's. It might be
 * attacked, and have put a link there.
 */
static void become_owner_of_folder(const char *store)
{
	char *copy = strdup(store), *dir = copy ? dirname(copy) : NULL;
	struct stat st;

	if (!dir || stat(dir, &st))
		fail("%s: %m", dir ? dir : store);
	if (!geteuid() && st.st_uid &&
	    (setgroups(0, NULL) || setegid(st.st_gid) || seteuid(st.st_uid)))
		fail("user %u: %m", st.st_uid);
	free(copy);
}

static bool restore_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },
		{ 0 },
	};
	bool force = false;
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (o != 'f')
			option_fail(o, argv);
		force = true;
	}
	if (argc - optind < 2)
		usage_fail("store restore: the backup and the store's file are needed");
	no_more(argc, argv, optind + 2);
	return force;
}

void cmd_store_restore(int argc, char **argv)
{
	bool force = restore_options(argc, argv);
	const char *from = argv[optind], *to = argv[optind + 1];
	struct sqlite_copy c;
	struct stat st;
	char why[200];
	int err;

	if (stat(from, &st))
		fail_status(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_FAILURE, "%s: %m", from);
	if (sqlite_copy_load(&c, from, why, sizeof(why)))
		fail("%s: %s", from, why);
	become_owner_of_folder(to);
	err = sqlite_copy_write(&c, to, force, why, sizeof(why));
	if (err == -EEXIST)
		fail_status(EXIT_EXISTS, "%s: %s: move it away, or use --force", to, why);
	if (err == -EBUSY)
		fail("%s: %s: stop the ffr or ffo that uses it", to, why);
	if (err == -EBADMSG)
		fail("%s: %s: move it, and %s-wal, away", to, why, to);
	if (err)
		fail("%s: %s", to, why);
	print_copy(to, &c, (size_t)st.st_size);
	sqlite_copy_close(&c);
}
