# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# harden.mk - what is built so that a bug in it is harder to use. Included by the Makefile and by
# tests/bench/Makefile; tests/conformance/hardening.sh looks for all of it in the built files.
#
# HARDEN_CFLAGS    stack canaries where a function has an array or gives an address of its stack away,
#                  large frames probed page by page; landing pads and shadow stacks on x86, landing
#                  pads and signed return addresses on arm64, which do nothing where the CPU has none. Not beneath
#                  sanitizers: AddressSanitizer's frames are then not aligned to cache lines
# HARDEN_FORTIFY   libc's calls checked against the size of what they write to. It needs an optimizing
#                  compiler, gets into the way of sanitizers' interceptors, and who says something
#                  of it in CFLAGS or CPPFLAGS has the last word.
# HARDEN_LDFLAGS   everything bound at start and read-only then, no executable stack. Shadow stacks are
#                  claimed for the whole file, also where libc's start files do not say so of themselves
#                  (Debian 12's); landing pads are not claimed for these, which may have none.

HARDEN_MACHINE := $(shell $(CC) -dumpmachine)
HARDEN_X86 := $(filter x86_64% i%86%,$(HARDEN_MACHINE))
HARDEN_ARM64 := $(filter aarch64%,$(HARDEN_MACHINE))
HARDEN_CFLAGS := $(if $(SAN)$(TSAN)$(COV),,-fstack-protector-strong -fstack-clash-protection \
	$(if $(HARDEN_X86),-fcf-protection) $(if $(HARDEN_ARM64),-mbranch-protection=standard))
HARDEN_FORTIFY = $(if $(SAN)$(TSAN)$(COV)$(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,$(if \
	$(filter -O -O1 -O2 -O3 -Os -Ofast,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3))
HARDEN_LDFLAGS := -z relro -z now -z noexecstack $(if $(HARDEN_X86),-z shstk)
