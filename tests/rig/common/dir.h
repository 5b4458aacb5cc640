/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* dir.h - what a process has of something, as a folder of /proc tells it. An inline; no state. */
#ifndef TEST_DIR_H
#define TEST_DIR_H

#include <dirent.h>
#include <stdlib.h>

/* Entries of the folder but "." and ".."; of /proc/self/fd with the descriptor that this needs. */
static inline unsigned dir_count(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	if (!d)
		abort();
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

#endif
