# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ffl's part of the Makefile: libibverbs.so.1, and librdmacm.so.1 which is linked with it.
#
# -z nodelete: fork handlers and mappings outlive a dlclose(). -Bsymbolic-functions: a library's
# calls of its own functions are not for others to intercept.

FFL_CM_SRCS := $(wildcard ffl/cm/*.c ffl/rsocket/*.c)
FFL_SRCS := $(filter-out $(FFL_CM_SRCS),$(wildcard ffl/*/*.c))
FFL_OBJS := $(patsubst %.c,$(B)/%.o,$(FFL_SRCS))
FFL_CM_OBJS := $(patsubst %.c,$(B)/%.o,$(FFL_CM_SRCS))
FFL_LDFLAGS := -shared -Wl,-soname,libibverbs.so.1 -Wl,--version-script=ffl/libibverbs.map \
	-Wl,-z,nodelete -Wl,-Bsymbolic-functions $(if $(SAN),,-Wl,-z,defs)
FFL_CM_LDFLAGS := $(subst libibverbs,librdmacm,$(FFL_LDFLAGS))
# musl knows no versions.
FFL_LDFLAGS += $(if $(LIBC),,-Wl$(,)--version-script=ffl/glibc.map)

$(FFL_OBJS) $(FFL_CM_OBJS): PIC := -fPIC -fvisibility=hidden

# musl-gcc looks at musl's headers only: the kernel's and RDMA's are the machine's, by links.
ifeq ($(LIBC),musl)
OUR_CPPFLAGS += -idirafter $(B)/include
$(FFL_OBJS) $(FFL_CM_OBJS): | $(B)/include
$(B)/include:
	@mkdir -p $@
	ln -s $(addprefix /usr/include/,linux asm-generic infiniband rdma) $@
	ln -s /usr/include/$(shell gcc -print-multiarch)/asm $@
endif

$(B)/lib/libibverbs.so.1: $(FFL_OBJS) ffl/libibverbs.map ffl/glibc.map
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) $(OUR_CFLAGS) $(OUR_LDFLAGS) $(FFL_LDFLAGS) -o $@ $(FFL_OBJS)

$(B)/lib/librdmacm.so.1: $(FFL_CM_OBJS) ffl/librdmacm.map $(B)/lib/libibverbs.so.1
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) $(OUR_CFLAGS) $(OUR_LDFLAGS) $(FFL_CM_LDFLAGS) -o $@ $(FFL_CM_OBJS) $(B)/lib/libibverbs.so.1

# By these names programs load them with dlopen().
$(B)/lib/libibverbs.so $(B)/lib/librdmacm.so: %: %.1
	$(Q)ln -sf $(@F).1 $@

FFL_LIBS := $(foreach l,libibverbs librdmacm,$(B)/lib/$l.so.1 $(B)/lib/$l.so)
ALL += $(FFL_LIBS)
