/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_carriers.c - which carriers a configuration gives the router, in which order, and what each is told.
 */
#include "tests/rig/unit/unit.h"
#include "ffr/carriers.h"
#include "ffr/nic/nic.h"
#include "ffr/remote/remote.h"
#include "ffr/rio/rio.h"

static void those_that_the_configuration_names(void **state)
{
	struct nic_conf nic = { .name = "rxe0", .port = 1 };
	const char *locks;
	static const struct {
		uint32_t nics;
		bool rio;
		const struct carrier *list[CARRIERS_ALL + 1];
	} cases[] = {
		{ 0, false, { &wire_carrier } },
		{ 1, false, { &nic_carrier, &wire_carrier } },
		{ 0, true, { &rio_carrier, &wire_carrier } },
		{ 1, true, { &nic_carrier, &rio_carrier, &wire_carrier } },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ffr_conf conf = { .nics = &nic,
					 .num_nics = cases[i].nics,
					 .has_rio = cases[i].rio };
		struct carrier_use got[CARRIERS_ALL + 1];

		memset(got, 0xff, sizeof(got));
		locks = carriers_choose(&conf, got);
		assert_true(cases[i].nics ? locks && !strcmp(locks, "nic") : !locks);
		for (unsigned k = 0; k == 0 || cases[i].list[k - 1]; k++) {
			assert_ptr_equal(got[k].ops, cases[i].list[k]);
			if (got[k].ops == &nic_carrier)
				assert_ptr_equal(got[k].conf, &nic);
			if (got[k].ops == &rio_carrier)
				assert_ptr_equal(got[k].conf, &conf.rio);
		}
	}
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(those_that_the_configuration_names));
}
