/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * discard.h - descriptors that may take as long as a client likes to close. Control thread; see
 * discard.c.
 */
#ifndef FFR_CTL_DISCARD_H
#define FFR_CTL_DISCARD_H

#include <stdbool.h>

/* Descriptors of a container that wait to be closed; above, it is not let in, and may send no more of them. */
#define DISCARD_MAX 64u

struct discard; /* of a container; NULL until there was something */

/* Close fd, which a client has sent, elsewhere and some time. */
void discard_fd(struct discard **d, int fd);
/*
 * Close a client's connection: here, if nothing waits in it that might take long, else elsewhere. The
 * client sees the end at once. Takes fd.
 */
void discard_socket(struct discard **d, int fd);
/* Do more than DISCARD_MAX wait? sent: of those that clients have sent; else connections count as well. */
bool discard_full(struct discard *d, bool sent);
/* The container goes; what waits is closed all the same. */
void discard_end(struct discard *d);

#endif
