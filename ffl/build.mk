# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ffl's part of the Makefile: libibverbs.so.1.
#
# -z now as in the programs that use it: a symbol that is missing is seen at start. -z nodelete:
# fork handlers and mappings outlive a dlclose(). -Bsymbolic-functions: the library's calls of its
# own functions are not for others to intercept.

FFL_SRCS := $(wildcard ffl/*.c)
FFL_OBJS := $(patsubst %.c,$(B)/%.o,$(FFL_SRCS))
FFL_LDFLAGS := -shared -Wl,-soname,libibverbs.so.1 -Wl,--version-script=ffl/libibverbs.map \
	-Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-Bsymbolic-functions \
	$(if $(SAN),,-Wl,-z,defs)

$(FFL_OBJS): CFLAGS += -fPIC -fvisibility=hidden

$(B)/lib/libibverbs.so.1: $(FFL_OBJS) ffl/libibverbs.map
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(FFL_LDFLAGS) -o $@ $(FFL_OBJS)

ALL += $(B)/lib/libibverbs.so.1
