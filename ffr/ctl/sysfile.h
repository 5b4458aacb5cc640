/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sysfile.h - folders, files and links below a container's directory. See sysfile.c. Control
 * thread. What fails is -errno.
 */
#ifndef FFR_CTL_SYSFILE_H
#define FFR_CTL_SYSFILE_H

/* The folder below dir_fd, made if need be. A descriptor. */
int sysfile_dir(int dir_fd, const char *path);
/* In place: who has it open reads the new text. */
int sysfile_write(int dir_fd, const char *name, const char *text);
/* At most 255 bytes. */
int sysfile_printf(int dir_fd, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A link to target, in place of whatever is there. */
int sysfile_link(int dir_fd, const char *name, const char *target);
/* Whatever it is, and what is below it. */
void sysfile_remove(int dir_fd, const char *name);
/* Files and links of other names go. */
void sysfile_keep_one(int dir_fd, const char *name);

#endif
