// SPDX-License-Identifier: GPL-2.0
/*
 * uplink.c - a link from this kernel's switch to another's, over UDP (IPv4). RapidIO's physical layer
 * loses nothing and keeps order, UDP does not, so frames are numbered: the receiver takes only the one
 * that is next and acknowledges it; the sender keeps up to WINDOW frames and sends them all again when
 * nothing is acknowledged for RESEND.
 *
 * A link is up when each side has the other's session, a random number of its load; HELLO tells it,
 * ten times a second. Silence for three seconds, another session (the peer was loaded anew) or the
 * setting `link` end it; frames under way are lost then, and their requests time out.
 *
 * Datagrams come in softirq context from the socket's encap_rcv, are taken one after another, and go
 * out by ip_queue_xmit(), which any context with interrupts on may call: the configuration accesses
 * of the kernel's route calls wait for their answer with spinlocks held.
 *
 * Whoever can send datagrams from the peer's address and port is the peer, as on a cable.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/inet.h>
#include <linux/ip.h>
#include <linux/net.h>
#include <linux/udp.h>
#include <linux/slab.h>
#include <net/ip.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/udp_tunnel.h>

#include "../compat.h"
#include "vmport_int.h"

#define MAGIC	     0x52494f32 /* "RIO2" */
#define WINDOW	     64
#define BACKLOG	     512
#define RESEND	     msecs_to_jiffies(50)
#define HELLO_EVERY  msecs_to_jiffies(100)
#define SILENCE	     msecs_to_jiffies(3000)
#define FRAME_HEADER sizeof(struct frame)

enum frame_kind { FRAME_HELLO = 1, FRAME_DATA, FRAME_ACK };

struct frame {
	__be32 magic;
	u8 kind;
	u8 reserved[3];
	__be32 session;	     /* the sender's */
	__be32 peer_session; /* the receiver's, as the sender has it; 0: not known */
	__be32 sequence;     /* DATA: of this frame */
	__be32 next;	     /* that the sender waits for: all before are acknowledged */
} __packed;

#define UPLINK_STATS(X)                                                                            \
	X(frames_sent)                                                                             \
	X(frames_received)                                                                         \
	X(frames_resent)                                                                           \
	X(frames_out_of_order)                                                                     \
	X(frames_dropped_injected)                                                                 \
	X(frames_malformed)                                                                        \
	X(links_lost)
#define UPLINK_STAT_FIELD(name) atomic64_t name;

struct vmport_uplink {
	struct platform_device *pdev;
	u8 port; /* of the switch */
	struct socket *socket;
	__be32 local, remote;
	__be16 local_port, remote_port;
	bool enabled; /* the setting `link` */
	bool up;
	u32 drop_rate; /* of received frames, per million */
	u32 session;
	struct {
		UPLINK_STATS(UPLINK_STAT_FIELD)
	} stats;

	spinlock_t lock;
	u32 peer_session;
	unsigned long heard; /* jiffies */
	u32 next_send, next_receive;
	u32 unacked_first;
	struct sk_buff_head unacked; /* copies of what was sent, for sending again */
	struct sk_buff_head backlog; /* beyond the window */
	struct timer_list resend;

	spinlock_t receive_lock; /* one packet after another */
	u8 scratch[VMPORT_FRAME_DATA] __aligned(8);

	struct delayed_work hello;
	bool reported; /* as up, to the switch */
};

unsigned int vmport_uplink_count;
static struct vmport_uplink *uplinks[VMPORT_UPLINKS];

#define count(u, name) atomic64_inc(&(u)->stats.name)

/* ---- datagrams out ------------------------------------------------------------------------------- */

static struct sk_buff *frame_new(u32 length)
{
	u32 head = LL_MAX_HEADER + sizeof(struct iphdr) + sizeof(struct udphdr);
	struct sk_buff *skb = alloc_skb(head + FRAME_HEADER + length, GFP_ATOMIC | __GFP_NOWARN);

	if (skb) {
		skb_reserve(skb, head);
		skb_put_zero(skb, FRAME_HEADER);
	}
	return skb;
}

/* Fills in what is known at this time, and sends. Consumes the frame. */
static void transmit(struct vmport_uplink *u, struct sk_buff *skb, u8 kind, u32 sequence)
{
	struct frame *frame = (struct frame *)skb->data;
	struct sock *sk = u->socket->sk;
	struct udphdr *udp;
	struct flowi4 fl4;
	struct rtable *rt;

	frame->magic = cpu_to_be32(MAGIC);
	frame->kind = kind;
	frame->session = cpu_to_be32(u->session);
	frame->peer_session = cpu_to_be32(READ_ONCE(u->peer_session));
	frame->sequence = cpu_to_be32(sequence);
	frame->next = cpu_to_be32(READ_ONCE(u->next_receive));
	rt = ip_route_output_ports(sock_net(sk), &fl4, sk, u->remote, u->local, u->remote_port,
				   u->local_port, IPPROTO_UDP, 0, 0);
	if (IS_ERR(rt)) {
		kfree_skb(skb);
		return;
	}
	udp = skb_push(skb, sizeof(*udp));
	skb_reset_transport_header(skb);
	udp->source = u->local_port;
	udp->dest = u->remote_port;
	udp->len = htons(skb->len);
	udp_set_csum(false, skb, fl4.saddr, fl4.daddr, skb->len);
	skb_dst_set(skb, &rt->dst);
	skb->ignore_df = 1;
	count(u, frames_sent);
	ip_queue_xmit(sk, skb, flowi4_to_flowi(&fl4));
}

static void transmit_simple(struct vmport_uplink *u, u8 kind)
{
	struct sk_buff *skb = frame_new(0);

	if (skb)
		transmit(u, skb, kind, 0);
}

/* Call with the lock held, which keeps the frames in order on their way out. */
static void transmit_copy(struct vmport_uplink *u, struct sk_buff *skb, u32 sequence)
{
	struct sk_buff *copy = skb_copy(skb, GFP_ATOMIC | __GFP_NOWARN);

	if (copy)
		transmit(u, copy, FRAME_DATA, sequence);
}

/* Call with the lock held. */
static void fill_window(struct vmport_uplink *u)
{
	struct sk_buff *skb;

	while (skb_queue_len(&u->unacked) < WINDOW && (skb = __skb_dequeue(&u->backlog))) {
		__skb_queue_tail(&u->unacked, skb);
		transmit_copy(u, skb, u->next_send++);
	}
	if (!skb_queue_empty(&u->unacked) && !timer_pending(&u->resend))
		mod_timer(&u->resend, jiffies + RESEND);
}

static void resend(struct timer_list *t)
{
	struct vmport_uplink *u = container_of(t, struct vmport_uplink, resend);
	struct sk_buff *skb;
	u32 sequence;

	spin_lock_bh(&u->lock);
	sequence = u->unacked_first;
	skb_queue_walk(&u->unacked, skb)
	{
		count(u, frames_resent);
		transmit_copy(u, skb, sequence++);
	}
	if (!skb_queue_empty(&u->unacked))
		mod_timer(&u->resend, jiffies + RESEND);
	spin_unlock_bh(&u->lock);
}

/* -ENOLINK, -ENOMEM, or -EBUSY: too much waits already. Interrupts on, no hard interrupt. */
int vmport_uplink_send(unsigned int index, const struct vmport_packet *packet)
{
	struct vmport_uplink *u = uplinks[index];
	u32 size = vmport_wire_size(packet);
	struct sk_buff *skb;
	int ret = 0;

	if (!u || !READ_ONCE(u->up))
		return -ENOLINK;
	skb = frame_new(size);
	if (!skb)
		return -ENOMEM;
	vmport_wire_put(skb_put(skb, size), packet);
	spin_lock_bh(&u->lock);
	if (!u->up)
		ret = -ENOLINK;
	else if (packet->type != VMPORT_RESPONSE && skb_queue_len(&u->backlog) >= BACKLOG)
		ret = -EBUSY;
	if (!ret) {
		__skb_queue_tail(&u->backlog, skb);
		fill_window(u);
	}
	spin_unlock_bh(&u->lock);
	if (ret)
		kfree_skb(skb);
	return ret;
}

/* ---- the link's state ---------------------------------------------------------------------------- */

/*
 * Call with the lock held. anew: the peer does not know yet, and learns it from another session of
 * ours; otherwise it is the peer's that is new.
 */
static void link_down(struct vmport_uplink *u, bool anew)
{
	if (u->up)
		count(u, links_lost);
	WRITE_ONCE(u->up, false);
	if (anew)
		u->session = get_random_u32() | 1;
	WRITE_ONCE(u->peer_session, 0);
	u->next_send = 0;
	u->unacked_first = 0;
	WRITE_ONCE(u->next_receive, 0);
	__skb_queue_purge(&u->unacked);
	__skb_queue_purge(&u->backlog);
}

/* Tells the switch of a change, and the peer that we are here. */
static void hello(struct work_struct *work)
{
	struct vmport_uplink *u = container_of(to_delayed_work(work), struct vmport_uplink, hello);
	bool up;

	spin_lock_bh(&u->lock);
	if (u->peer_session && time_after(jiffies, u->heard + SILENCE))
		link_down(u, true);
	up = u->up;
	spin_unlock_bh(&u->lock);
	if (up != u->reported) {
		u->reported = up;
		vmport_switch_link_changed(u->port, up);
	}
	if (READ_ONCE(u->enabled))
		transmit_simple(u, FRAME_HELLO);
	schedule_delayed_work(&u->hello, HELLO_EVERY);
}

bool vmport_uplink_up(unsigned int index)
{
	return index < vmport_uplink_count && uplinks[index] && READ_ONCE(uplinks[index]->up);
}

static void set_enabled(struct vmport_uplink *u, bool enabled)
{
	spin_lock_bh(&u->lock);
	WRITE_ONCE(u->enabled, enabled);
	if (!enabled)
		link_down(u, true);
	spin_unlock_bh(&u->lock);
	mod_delayed_work(system_wq, &u->hello, 0);
}

/* ---- datagrams in -------------------------------------------------------------------------------- */

/* Call with the lock held. Whether the sender of the frame and we know each other. */
static bool meet(struct vmport_uplink *u, const struct frame *frame)
{
	u32 session = be32_to_cpu(frame->session);
	bool known = be32_to_cpu(frame->peer_session) == u->session;

	if (u->peer_session != session) {
		link_down(u, false);
		WRITE_ONCE(u->peer_session, session);
	} else if (u->up && !known) {
		link_down(u, true);
		WRITE_ONCE(u->peer_session, session);
	}
	u->heard = jiffies;
	if (known && !u->up) {
		WRITE_ONCE(u->up, true);
		mod_delayed_work(system_wq, &u->hello, 0);
	}
	return known;
}

/* Call with the lock held. */
static void acknowledged(struct vmport_uplink *u, u32 next)
{
	if (next - u->unacked_first > skb_queue_len(&u->unacked))
		return;
	if (next != u->unacked_first) {
		while (u->unacked_first != next) {
			kfree_skb(__skb_dequeue(&u->unacked));
			u->unacked_first++;
		}
		if (skb_queue_empty(&u->unacked))
			timer_delete(&u->resend);
		else
			mod_timer(&u->resend, jiffies + RESEND);
	}
}

static void deliver(struct vmport_uplink *u, struct sk_buff *skb)
{
	struct vmport_packet packet;

	if (vmport_wire_get(&packet, skb->data + FRAME_HEADER, skb->len - FRAME_HEADER)) {
		count(u, frames_malformed);
		return;
	}
	vmport_arrived(u->port, &packet, u->scratch);
}

/* Call with receive_lock held. */
static void receive(struct vmport_uplink *u, struct sk_buff *skb)
{
	const struct frame *frame = (const struct frame *)skb->data;
	bool expected = false, answer = false;

	spin_lock_bh(&u->lock);
	if (!u->enabled) {
		spin_unlock_bh(&u->lock);
		return;
	}
	if (meet(u, frame)) {
		acknowledged(u, be32_to_cpu(frame->next));
		if (frame->kind == FRAME_DATA) {
			expected = be32_to_cpu(frame->sequence) == u->next_receive;
			if (expected)
				WRITE_ONCE(u->next_receive, u->next_receive + 1);
			else
				count(u, frames_out_of_order);
			answer = true;
		}
		fill_window(u);
	}
	spin_unlock_bh(&u->lock);
	if (expected)
		deliver(u, skb);
	if (answer)
		transmit_simple(u, FRAME_ACK);
}

/* 0: the datagram is ours. */
static int datagram(struct sock *sk, struct sk_buff *skb)
{
	struct vmport_uplink *u = rcu_dereference_sk_user_data(sk);
	const struct frame *frame;

	if (!u)
		goto drop;
	if (ip_hdr(skb)->saddr != u->remote || udp_hdr(skb)->source != u->remote_port)
		goto drop;
	if (!pskb_may_pull(skb, sizeof(struct udphdr)))
		goto drop;
	__skb_pull(skb, sizeof(struct udphdr));
	/* The packet is changed in place, so its bytes must be our own and in one piece. */
	skb = skb_unshare(skb, GFP_ATOMIC);
	if (!skb)
		return 0;
	if (skb->len < FRAME_HEADER || skb_linearize(skb)) {
		count(u, frames_malformed);
		goto drop;
	}
	frame = (const struct frame *)skb->data;
	if (frame->magic != cpu_to_be32(MAGIC) || !frame->session) {
		count(u, frames_malformed);
		goto drop;
	}
	if (vmport_chance(READ_ONCE(u->drop_rate))) {
		count(u, frames_dropped_injected);
		goto drop;
	}
	count(u, frames_received);
	spin_lock_bh(&u->receive_lock);
	receive(u, skb);
	spin_unlock_bh(&u->receive_lock);
drop:
	kfree_skb(skb);
	return 0;
}

/* ---- settings and statistics ----------------------------------------------------------------------- */

static struct vmport_uplink *to_uplink(struct device *dev)
{
	return platform_get_drvdata(to_platform_device(dev));
}

static ssize_t link_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_uplink(dev)->enabled));
}

static ssize_t link_store(struct device *dev, struct device_attribute *attr, const char *buf,
			  size_t n)
{
	bool enabled;
	int ret = kstrtobool(buf, &enabled);

	if (ret)
		return ret;
	set_enabled(to_uplink(dev), enabled);
	return n;
}
static DEVICE_ATTR_RW(link);

static ssize_t up_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_uplink(dev)->up));
}
static DEVICE_ATTR_RO(up);

static ssize_t drop_rate_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_uplink(dev)->drop_rate));
}

static ssize_t drop_rate_store(struct device *dev, struct device_attribute *attr, const char *buf,
			       size_t n)
{
	u32 rate;
	int ret = kstrtou32(buf, 0, &rate);

	if (ret)
		return ret;
	WRITE_ONCE(to_uplink(dev)->drop_rate, rate);
	return n;
}
static DEVICE_ATTR_RW(drop_rate);

#define UPLINK_STAT_FILE(name)                                                                     \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf)   \
	{                                                                                          \
		return sysfs_emit(buf, "%lld\n", atomic64_read(&to_uplink(dev)->stats.name));      \
	}                                                                                          \
	static DEVICE_ATTR_RO(name);
UPLINK_STATS(UPLINK_STAT_FILE)

#define UPLINK_STAT_ATTR(name) &dev_attr_##name.attr,
static struct attribute *uplink_attrs[] = { &dev_attr_link.attr, &dev_attr_up.attr,
					    &dev_attr_drop_rate.attr,
					    UPLINK_STATS(UPLINK_STAT_ATTR) NULL };
ATTRIBUTE_GROUPS(uplink);

/* ---- from load to unload ------------------------------------------------------------------------- */

/* "ADDRESS:PORT-ADDRESS:PORT", ours and the peer's. */
static int parse(struct vmport_uplink *u, const char *text)
{
	u8 local[4], remote[4];
	u16 local_port, remote_port;
	const char *end;

	if (!in4_pton(text, -1, local, ':', &end) || *end != ':')
		return -EINVAL;
	if (sscanf(end, ":%hu-", &local_port) != 1)
		return -EINVAL;
	text = strchr(end, '-');
	if (!text || !in4_pton(text + 1, -1, remote, ':', &end) || *end != ':')
		return -EINVAL;
	if (sscanf(end, ":%hu", &remote_port) != 1 || !local_port || !remote_port)
		return -EINVAL;
	memcpy(&u->local, local, 4);
	memcpy(&u->remote, remote, 4);
	u->local_port = htons(local_port);
	u->remote_port = htons(remote_port);
	return 0;
}

static int socket_new(struct vmport_uplink *u)
{
	struct udp_tunnel_sock_cfg config = { .sk_user_data = u,
					      .encap_type = 1,
					      .encap_rcv = datagram };
	struct sockaddr_in at = { .sin_family = AF_INET };
	int ret = sock_create_kern(&init_net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, &u->socket);

	if (ret)
		return ret;
	at.sin_addr.s_addr = u->local;
	at.sin_port = u->local_port;
	ret = kernel_bind(u->socket, (struct sockaddr *)&at, sizeof(at));
	if (ret) {
		sock_release(u->socket);
		return ret;
	}
	setup_udp_tunnel_sock(&init_net, u->socket, &config);
	return 0;
}

int vmport_uplink_new(unsigned int index, const char *addresses)
{
	struct vmport_uplink *u = kzalloc(sizeof(*u), GFP_KERNEL);
	int ret;

	if (!u)
		return -ENOMEM;
	ret = parse(u, addresses);
	if (ret) {
		pr_err("uplink \"%s\" is not ADDRESS:PORT-ADDRESS:PORT\n", addresses);
		goto err_free;
	}
	u->port = vmport_count + index;
	u->enabled = true;
	u->session = get_random_u32() | 1;
	spin_lock_init(&u->lock);
	spin_lock_init(&u->receive_lock);
	__skb_queue_head_init(&u->unacked);
	__skb_queue_head_init(&u->backlog);
	timer_setup(&u->resend, resend, 0);
	INIT_DELAYED_WORK(&u->hello, hello);
	u->pdev = platform_device_alloc("vmport-uplink", index);
	if (!u->pdev) {
		ret = -ENOMEM;
		goto err_free;
	}
	platform_set_drvdata(u->pdev, u);
	u->pdev->dev.groups = uplink_groups;
	uplinks[index] = u;
	ret = socket_new(u);
	if (ret) {
		pr_err("uplink \"%s\": no socket (%d)\n", addresses, ret);
		goto err_device;
	}
	ret = platform_device_add(u->pdev);
	if (ret)
		goto err_socket;
	schedule_delayed_work(&u->hello, 0);
	return 0;

err_socket:
	udp_tunnel_sock_release(u->socket);
err_device:
	uplinks[index] = NULL;
	platform_device_put(u->pdev);
err_free:
	kfree(u);
	return ret;
}

/* All ports and uplinks still exist, so that what comes in meanwhile finds them. */
void vmport_uplink_free(unsigned int index)
{
	struct vmport_uplink *u = uplinks[index];

	if (!u)
		return;
	platform_device_unregister(u->pdev);
	rcu_assign_sk_user_data(u->socket->sk, NULL);
	synchronize_rcu();
	cancel_delayed_work_sync(&u->hello);
	spin_lock_bh(&u->lock);
	u->enabled = false;
	link_down(u, true);
	spin_unlock_bh(&u->lock);
	timer_delete_sync(&u->resend);
	udp_tunnel_sock_release(u->socket);
	uplinks[index] = NULL;
	kfree(u);
}
