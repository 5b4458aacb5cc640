/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * halves.h - programs whose cases have two halves, in two processes, which exchange addresses and keep step
 * over a stream socket.
 *
 *	PROGRAM [CASE...]			both halves here, joined by a socket pair
 *	PROGRAM --server [PORT]			serve until the client says that it is done
 *	PROGRAM --client HOST [--port PORT] [CASE...]
 *
 * The serving half runs in a process of its own, which the other one may ask to be killed.
 */
#ifndef HALVES_H
#define HALVES_H

#include "tests/rig/verbs/vt.h"

struct half {
	const char *name;
	void (*client)(void), (*server)(void);
};

/* What main() is to return. */
int halves_main(int argc, char **argv, const struct half *halves, unsigned num);

/* The whole of main() of a program with these cases: HALVES_MAIN({ "name", client, server }, ...). */
#define HALVES_MAIN(...)                                                                           \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static const struct half halves[] = { __VA_ARGS__ };                               \
                                                                                                   \
		return halves_main(argc, argv, halves, ARRAY_SIZE(halves));                        \
	}

extern int halves_sock; /* to the other half, in the process of a half */
void halves_put(int fd, const void *data, size_t len);
/* False at the end of the stream. */
bool halves_get(int fd, void *data, size_t len);
void halves_exchange(const struct vt_addr *mine, struct vt_addr *theirs);
/* Both halves come to this point before either goes on. */
void halves_meet(char mark);
/* Connected to the other half's, which calls it, too. */
void halves_open(struct vt_end *e, const struct vt_param *par);

#endif
