// SPDX-License-Identifier: GPL-2.0
/*
 * regs.c - configuration space: what maintenance reads of an endpoint (a master port) and of the
 * switch find, and what writes do. Registers are those of RapidIO 1.3 to 2.1 by which the kernel's
 * enumeration works: capabilities, device ID, host lock, component tag, standard route table, and
 * the LP-Serial and (switch) error management blocks of the extended features. Any context.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/slab.h>

#include "vmport_int.h"

#define VENDOR	       0xff05 /* not assigned by the RapidIO Trade Association */
#define ENDPOINT       0x0001
#define SWITCH	       0x0002
#define SERIAL_BLOCK   0x0100
#define EM_BLOCK       0x1000
#define NO_HOST	       0xffff
#define PORT_REGS      0x20 /* register map 1 */
#define EM_PORT_REGS   0x40
#define FOUR_ROUTES(r) ((r)&RIO_STD_RTE_CONF_EXTCFGEN)
/* 4 lanes, initialised as such, may send and receive */
#define PORT_CONTROL                                                                               \
	(RIO_PORT_N_CTL_PWIDTH_4 | 0x10000000 | RIO_PORT_N_CTL_EN_RX | RIO_PORT_N_CTL_EN_TX |      \
	 RIO_PORT_N_CTL_P_TYP_SER)
#define BAUD (RIO_LINK_500 << 28)

static struct {
	spinlock_t lock;
	u32 host_lock, tag, default_route;
	u32 select[VMPORT_SWITCH_PORTS]; /* by the port that asks: hosts don't disturb each other */
	u32 control[VMPORT_SWITCH_PORTS];
	u32 detect[VMPORT_SWITCH_PORTS];
	u32 detect_enable[VMPORT_SWITCH_PORTS];
	u32 status[VMPORT_SWITCH_PORTS]; /* error bits that a 1 clears */
	u32 pw_target;
	bool pw_target_set;
	u32 max_id;
	u8 *routes;
} sw;

static u32 switch_ports(void)
{
	return vmport_count + vmport_uplink_count;
}

static u32 id_register(u16 id)
{
	return vmport_sys_size ? id : (id & 0xff) << 16;
}

static u16 id_of_register(u32 value)
{
	return vmport_sys_size ? value & 0xffff : value >> 16 & 0xff;
}

static u32 large(void)
{
	return vmport_sys_size ? RIO_PEF_CTLS : 0;
}

/* The lock of a host: the first takes it, only the same value gives it back. */
static void host_lock(u32 *lock, u32 value)
{
	value &= 0xffff;
	if (*lock == NO_HOST)
		*lock = value;
	else if (*lock == value)
		*lock = NO_HOST;
}

static u32 link_status(u8 port)
{
	return vmport_link_up(port) ? RIO_PORT_N_ERR_STS_PORT_OK : RIO_PORT_N_ERR_STS_PORT_UNINIT;
}

/* ---- an endpoint --------------------------------------------------------------------------------- */

void vmport_endpoint_clear(struct vmport_port *p)
{
	unsigned long flags;

	spin_lock_irqsave(&p->regs_lock, flags);
	p->did = id_register(0xffff);
	p->host_lock = NO_HOST;
	p->tag = 0;
	p->pell = RIO_PELL_ADDR_34;
	p->control = 0;
	if (p->mport.host_deviceid >= 0)
		p->control = RIO_PORT_GEN_HOST | RIO_PORT_GEN_MASTER | RIO_PORT_GEN_DISCOVERED;
	spin_unlock_irqrestore(&p->regs_lock, flags);
}

u16 vmport_device_id(struct vmport_port *p)
{
	return id_of_register(READ_ONCE(p->did));
}

u32 vmport_endpoint_read(struct vmport_port *p, u32 offset)
{
	const u32 operations = RIO_OPS_READ | RIO_OPS_WRITE | RIO_OPS_STREAM_WRITE |
			       RIO_OPS_WRITE_RESPONSE | RIO_OPS_DATA_MSG | RIO_OPS_DOORBELL;

	switch (offset) {
	case RIO_DEV_ID_CAR:
		return ENDPOINT << 16 | VENDOR;
	case RIO_DEV_INFO_CAR:
		return p->index;
	case RIO_ASM_ID_CAR:
		return ENDPOINT << 16 | VENDOR;
	case RIO_ASM_INFO_CAR:
		return 1 << 16 | SERIAL_BLOCK;
	case RIO_PEF_CAR:
		return RIO_PEF_MEMORY | RIO_PEF_PROCESSOR | RIO_PEF_INB_MBOX |
		       RIO_PEF_INB_DOORBELL | RIO_PEF_EXT_FEATURES | RIO_PEF_ADDR_66 |
		       RIO_PEF_ADDR_50 | RIO_PEF_ADDR_34 | large();
	case RIO_SWP_INFO_CAR:
		return 1 << 8;
	case RIO_SRC_OPS_CAR:
		return operations;
	case RIO_DST_OPS_CAR:
		return operations | RIO_DST_OPS_PORT_WRITE;
	case RIO_MBOX_CSR:
		return RIO_MBOX0_AVAIL | RIO_MBOX1_AVAIL | RIO_MBOX2_AVAIL | RIO_MBOX3_AVAIL;
	case RIO_DOORBELL_CSR:
		return RIO_DOORBELL_AVAIL;
	case RIO_PELL_CTRL_CSR:
		return READ_ONCE(p->pell);
	case RIO_DID_CSR:
		return READ_ONCE(p->did);
	case RIO_HOST_DID_LOCK_CSR:
		return READ_ONCE(p->host_lock);
	case RIO_COMPONENT_TAG_CSR:
		return READ_ONCE(p->tag);
	case SERIAL_BLOCK:
		return RIO_EFB_SER_EP_M1_ID;
	case SERIAL_BLOCK + RIO_PORT_GEN_CTL_CSR:
		return READ_ONCE(p->control);
	case SERIAL_BLOCK + RIO_PORT_N_CTL2_CSR(0, 1):
		return BAUD;
	case SERIAL_BLOCK + RIO_PORT_N_ERR_STS_CSR(0, 1):
		return link_status(p->index);
	case SERIAL_BLOCK + RIO_PORT_N_CTL_CSR(0, 1):
		return PORT_CONTROL;
	default:
		return 0;
	}
}

void vmport_endpoint_write(struct vmport_port *p, u32 offset, u32 value)
{
	unsigned long flags;

	spin_lock_irqsave(&p->regs_lock, flags);
	switch (offset) {
	case RIO_PELL_CTRL_CSR:
		WRITE_ONCE(p->pell, value & 7);
		break;
	case RIO_DID_CSR:
		WRITE_ONCE(p->did, id_register(id_of_register(value)));
		break;
	case RIO_HOST_DID_LOCK_CSR:
		host_lock(&p->host_lock, value);
		break;
	case RIO_COMPONENT_TAG_CSR:
		WRITE_ONCE(p->tag, value);
		break;
	case SERIAL_BLOCK + RIO_PORT_GEN_CTL_CSR:
		WRITE_ONCE(p->control, value & 0xe0000000);
		break;
	}
	spin_unlock_irqrestore(&p->regs_lock, flags);
}

/* ---- the switch ---------------------------------------------------------------------------------- */

int vmport_switch_init(void)
{
	u32 i;

	memset(&sw, 0, sizeof(sw));
	spin_lock_init(&sw.lock);
	sw.max_id = RIO_MAX_ROUTE_ENTRIES(vmport_sys_size) - 1;
	sw.routes = kvmalloc(sw.max_id + 1, GFP_KERNEL);
	if (!sw.routes)
		return -ENOMEM;
	memset(sw.routes, RIO_INVALID_ROUTE, sw.max_id + 1);
	sw.host_lock = NO_HOST;
	sw.default_route = RIO_INVALID_ROUTE;
	for (i = 0; i < VMPORT_SWITCH_PORTS; i++) {
		sw.control[i] = PORT_CONTROL;
		sw.detect_enable[i] = RIO_EM_PN_ERRRATE_EN_OK2U | RIO_EM_PN_ERRRATE_EN_U2OK;
	}
	return 0;
}

void vmport_switch_exit(void)
{
	kvfree(sw.routes);
}

/* The switch's port for a device ID; VMPORT_NO_PORT if there is none. */
u8 vmport_route(u16 target)
{
	u8 port;

	if (target > sw.max_id)
		return VMPORT_NO_PORT;
	port = READ_ONCE(sw.routes[target]);
	if (port == RIO_INVALID_ROUTE)
		port = READ_ONCE(sw.default_route);
	return port < switch_ports() ? port : VMPORT_NO_PORT;
}

/* The host has locked a port that it saw without a link: no packet but from the switch itself. */
bool vmport_port_locked(u8 port)
{
	return READ_ONCE(sw.control[port]) & RIO_PORT_N_CTL_LOCKOUT;
}

/* Error management: notes the change, and tells the host if it asked for that. */
void vmport_switch_link_changed(u8 port, bool up)
{
	u32 bit = up ? REM_PED_LINK_U2OK : REM_PED_LINK_OK2U, detect, tag;
	unsigned long flags;
	bool tell;
	u16 target;

	spin_lock_irqsave(&sw.lock, flags);
	sw.detect[port] |= bit;
	sw.status[port] |= RIO_PORT_N_ERR_STS_PW_PEND;
	detect = sw.detect[port];
	tag = sw.tag;
	tell = sw.pw_target_set && sw.detect_enable[port] & bit;
	target = sw.pw_target >> 16;
	spin_unlock_irqrestore(&sw.lock, flags);
	if (tell)
		vmport_send_port_write(port, detect, tag, vmport_sys_size ? target : target & 0xff);
}

static u32 port_read(u32 port, u32 reg)
{
	switch (reg) {
	case RIO_PORT_N_MNT_RSP_CSR(0, 1):
		return RIO_PORT_N_MNT_RSP_RVAL | 0x10; /* OK */
	case RIO_PORT_N_CTL2_CSR(0, 1):
		return BAUD;
	case RIO_PORT_N_ERR_STS_CSR(0, 1):
		return link_status(port) | READ_ONCE(sw.status[port]);
	case RIO_PORT_N_CTL_CSR(0, 1):
		return READ_ONCE(sw.control[port]);
	default:
		return 0;
	}
}

static u32 routes_read(u8 ingress)
{
	u32 select = READ_ONCE(sw.select[ingress]), first = select & 0xffff, value = 0, i;

	if (!FOUR_ROUTES(select))
		return first <= sw.max_id ? sw.routes[first] : RIO_INVALID_ROUTE;
	for (i = 0; i < 4; i++)
		if (first + i <= sw.max_id)
			value |= sw.routes[first + i] << 8 * i;
	return value;
}

static void routes_write(u8 ingress, u32 value)
{
	u32 select = sw.select[ingress], first = select & 0xffff, i;

	for (i = 0; i < (FOUR_ROUTES(select) ? 4 : 1); i++)
		if (first + i <= sw.max_id)
			WRITE_ONCE(sw.routes[first + i], value >> 8 * i & 0xff);
}

u32 vmport_switch_read(u8 ingress, u32 offset)
{
	u32 ports = switch_ports(), reg;

	switch (offset) {
	case RIO_DEV_ID_CAR:
	case RIO_ASM_ID_CAR:
		return SWITCH << 16 | VENDOR;
	case RIO_ASM_INFO_CAR:
		return 1 << 16 | SERIAL_BLOCK;
	case RIO_PEF_CAR:
		return RIO_PEF_SWITCH | RIO_PEF_EXT_FEATURES | RIO_PEF_STD_RT | RIO_PEF_EXT_RT |
		       large();
	case RIO_SWP_INFO_CAR:
		return ports << 8 | ingress;
	case RIO_SRC_OPS_CAR:
		return RIO_SRC_OPS_PORT_WRITE;
	case RIO_SWITCH_RT_LIMIT:
		return sw.max_id;
	case RIO_HOST_DID_LOCK_CSR:
		return READ_ONCE(sw.host_lock);
	case RIO_COMPONENT_TAG_CSR:
		return READ_ONCE(sw.tag);
	case RIO_STD_RTE_CONF_DESTID_SEL_CSR:
		return READ_ONCE(sw.select[ingress]);
	case RIO_STD_RTE_CONF_PORT_SEL_CSR:
		return routes_read(ingress);
	case RIO_STD_RTE_DEFAULT_PORT:
		return READ_ONCE(sw.default_route);
	case SERIAL_BLOCK:
		return EM_BLOCK << 16 | RIO_EFB_SER_EPF_M1_ID;
	case EM_BLOCK:
		return RIO_EFB_ERR_MGMNT;
	case EM_BLOCK + RIO_EM_PW_TGT_DEVID:
		return READ_ONCE(sw.pw_target);
	}
	reg = offset - SERIAL_BLOCK;
	if (reg >= PORT_REGS * 2 && reg < PORT_REGS * (2 + ports))
		return port_read(reg / PORT_REGS - 2, PORT_REGS * 2 + reg % PORT_REGS);
	reg = offset - EM_BLOCK;
	if (reg >= EM_PORT_REGS && reg < EM_PORT_REGS * (1 + ports)) {
		if (reg % EM_PORT_REGS == 0)
			return READ_ONCE(sw.detect[reg / EM_PORT_REGS - 1]);
		if (reg % EM_PORT_REGS == 4)
			return READ_ONCE(sw.detect_enable[reg / EM_PORT_REGS - 1]);
	}
	return 0;
}

static void port_write(u32 port, u32 reg, u32 value)
{
	const u32 errors = RIO_PORT_N_ERR_STS_PW_PEND | RIO_PORT_N_ERR_STS_PORT_ERR |
			   RIO_PORT_N_ERR_STS_OUT_ES | RIO_PORT_N_ERR_STS_INP_ES;

	if (reg == RIO_PORT_N_ERR_STS_CSR(0, 1))
		WRITE_ONCE(sw.status[port], sw.status[port] & ~(value & errors));
	else if (reg == RIO_PORT_N_CTL_CSR(0, 1))
		WRITE_ONCE(sw.control[port], value);
}

void vmport_switch_write(u8 ingress, u32 offset, u32 value)
{
	u32 ports = switch_ports(), reg;
	unsigned long flags;

	spin_lock_irqsave(&sw.lock, flags);
	switch (offset) {
	case RIO_HOST_DID_LOCK_CSR:
		host_lock(&sw.host_lock, value);
		break;
	case RIO_COMPONENT_TAG_CSR:
		WRITE_ONCE(sw.tag, value);
		break;
	case RIO_STD_RTE_CONF_DESTID_SEL_CSR:
		WRITE_ONCE(sw.select[ingress], value);
		break;
	case RIO_STD_RTE_CONF_PORT_SEL_CSR:
		routes_write(ingress, value);
		break;
	case RIO_STD_RTE_DEFAULT_PORT:
		WRITE_ONCE(sw.default_route, value & 0xff);
		break;
	case EM_BLOCK + RIO_EM_PW_TGT_DEVID:
		WRITE_ONCE(sw.pw_target, value);
		sw.pw_target_set = true;
		break;
	}
	reg = offset - SERIAL_BLOCK;
	if (reg >= PORT_REGS * 2 && reg < PORT_REGS * (2 + ports))
		port_write(reg / PORT_REGS - 2, PORT_REGS * 2 + reg % PORT_REGS, value);
	reg = offset - EM_BLOCK;
	if (reg >= EM_PORT_REGS && reg < EM_PORT_REGS * (1 + ports)) {
		if (reg % EM_PORT_REGS == 0)
			WRITE_ONCE(sw.detect[reg / EM_PORT_REGS - 1], value);
		if (reg % EM_PORT_REGS == 4)
			WRITE_ONCE(sw.detect_enable[reg / EM_PORT_REGS - 1], value);
	}
	spin_unlock_irqrestore(&sw.lock, flags);
}
