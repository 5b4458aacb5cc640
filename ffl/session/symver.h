/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * symver.h - binding functions to the version nodes of libibverbs.map, and to libc's. Any file of ffl.
 *
 * A verb of the public ABI needs nothing from here: it is defined under its own name, and the
 * version script gives it its default version. Two kinds of names need more than one version:
 *
 * - the 33 names that the 2006 ABI (IBVERBS_1.0) shares with today's: compat_1_0.c;
 * - the names that rdma-core keeps for its providers. It renames their node, IBVERBS_PRIVATE_NN,
 *   at each incompatible release, so a name has been in all nodes from the one that introduced it.
 *
 * .symver makes one symbol for each version of a definition in the same file, which must be global
 * and of another name; the map's "local: *" hides that name afterwards.
 */
#ifndef FFL_SESSION_SYMVER_H
#define FFL_SESSION_SYMVER_H

#include <features.h>

#define FFL_SYMVER(def, name, version) __asm__(".symver " #def ", " #name version)
#define FFL_PRIVATE(def, name, nn)     FFL_SYMVER(def, name, "@IBVERBS_PRIVATE_" #nn)

/*
 * A function of libc by its oldest version, which all glibcs have, wherever it is. Nothing with musl.
 */
#ifndef __GLIBC__
#define FFL_LIBC_BASE(name)
#elif defined(__x86_64__)
#define FFL_LIBC_BASE(name) FFL_SYMVER(name, name, "@GLIBC_2.2.5")
#else
#define FFL_LIBC_BASE(name) FFL_SYMVER(name, name, "@GLIBC_2.17")
#endif

/* In all private nodes from NN on. The newest is the default, which dlsym finds. */
#define FFL_PRIVATE_65(def, name) FFL_SYMVER(def, name, "@@IBVERBS_PRIVATE_65")
#define FFL_PRIVATE_64(def, name)                                                                  \
	FFL_PRIVATE(def, name, 64);                                                                \
	FFL_PRIVATE_65(def, name)
#define FFL_PRIVATE_59(def, name)                                                                  \
	FFL_PRIVATE(def, name, 59);                                                                \
	FFL_PRIVATE_64(def, name)
#define FFL_PRIVATE_34(def, name)                                                                  \
	FFL_PRIVATE(def, name, 34);                                                                \
	FFL_PRIVATE(def, name, 57);                                                                \
	FFL_PRIVATE_59(def, name)
#define FFL_PRIVATE_33(def, name)                                                                  \
	FFL_PRIVATE(def, name, 33);                                                                \
	FFL_PRIVATE_34(def, name)
#define FFL_PRIVATE_25(def, name)                                                                  \
	FFL_PRIVATE(def, name, 25);                                                                \
	FFL_PRIVATE_33(def, name)
#define FFL_PRIVATE_22(def, name)                                                                  \
	FFL_PRIVATE(def, name, 22);                                                                \
	FFL_PRIVATE_25(def, name)
#define FFL_PRIVATE_21(def, name)                                                                  \
	FFL_PRIVATE(def, name, 21);                                                                \
	FFL_PRIVATE_22(def, name)
#define FFL_PRIVATE_20(def, name)                                                                  \
	FFL_PRIVATE(def, name, 20);                                                                \
	FFL_PRIVATE_21(def, name)
#define FFL_PRIVATE_19(def, name)                                                                  \
	FFL_PRIVATE(def, name, 19);                                                                \
	FFL_PRIVATE_20(def, name)
#define FFL_PRIVATE_18(def, name)                                                                  \
	FFL_PRIVATE(def, name, 18);                                                                \
	FFL_PRIVATE_19(def, name)
#define FFL_PRIVATE_17(def, name)                                                                  \
	FFL_PRIVATE(def, name, 17);                                                                \
	FFL_PRIVATE_18(def, name)
#define FFL_PRIVATE_16(def, name)                                                                  \
	FFL_PRIVATE(def, name, 16);                                                                \
	FFL_PRIVATE_17(def, name)
#define FFL_PRIVATE_15(def, name)                                                                  \
	FFL_PRIVATE(def, name, 15);                                                                \
	FFL_PRIVATE_16(def, name)

#endif
