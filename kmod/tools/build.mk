# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The programs of ffrio: of the host, beside the router. (kmod/Makefile builds them for the tests in VMs.)

RIO_TOOLS := $(B)/bin/ffrio_ping $(B)/bin/ffrio_perf
$(RIO_TOOLS): $(B)/bin/%: $(B)/kmod/tools/%.o $(B)/kmod/tools/ffrio_tool.o $(B)/kmod/tools/ffrio_lib.o
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(LINK) -o $@ $^

ALL += $(RIO_TOOLS)
