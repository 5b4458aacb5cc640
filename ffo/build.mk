# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ffo's part of the Makefile: libffo.a, which the router links for its embedded orchestrator and as
# the client's side of the protocol, and the daemon.

FFO_SRCS := $(wildcard ffo/*/*.c ffo/*/*/*.c)

$(B)/libffo.a: $(patsubst %.c,$(B)/%.o,$(FFO_SRCS))

$(B)/bin/ffo: $(B)/ffo/main.o $(B)/libffo.a $(B)/ffr/lib/log.o $(B)/ffr/lib/sandbox.o \
	$(B)/ffr/lib/landlock.o $(B)/ffr/lib/sd.o $(B)/ffr/lib/accept.o
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(LINK) -o $@ $^ -luv -ljansson -lsqlite3 -lssl -lcrypto -lzookeeper_st \
		-lseccomp -lcap-ng -lbsd -lpthread

ALL += $(B)/libffo.a $(B)/bin/ffo
