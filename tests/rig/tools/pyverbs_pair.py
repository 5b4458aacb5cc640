# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""pyverbs_pair.py RC|UC|UD|ONESIDED PORT [SERVER] - 100 messages of 1,000 bytes each way with pyverbs, or
100 WRITEs, READs and FETCH_ADDs of the client on the server's memory, every byte checked; without
SERVER it is the server. QP numbers, addresses and keys go over TCP."""

import json
import socket
import struct
import sys

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SIZE, COUNT, GRH, QKEY = 1000, 100, 40, 0x1234
QP_TYPE = {"RC": e.IBV_QPT_RC, "UC": e.IBV_QPT_UC, "UD": e.IBV_QPT_UD, "ONESIDED": e.IBV_QPT_RC}
REMOTE = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ |
          e.IBV_ACCESS_REMOTE_ATOMIC)


def poll(cq):
    while True:
        num, wcs = cq.poll()
        if num:
            assert wcs[0].status == e.IBV_WC_SUCCESS, f"status {wcs[0].status}"
            return wcs[0]


def attributes(kind, remote):
    attr = QPAttr(port_num=1)
    attr.qkey = QKEY
    if kind == "ONESIDED":
        attr.qp_access_flags = REMOTE
    if kind != "UD":
        attr.dest_qp_num = remote["qpn"]
        attr.path_mtu = e.IBV_MTU_1024
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.retry_cnt, attr.rnr_retry, attr.timeout = 12, 7, 7, 14
        attr.ah_attr = path(remote)
    return attr


def path(remote):
    return AHAttr(gr=GlobalRoute(dgid=GID(remote["gid"]), sgid_index=0), is_global=1, port_num=1)


def meet(port, server):
    if server:
        return socket.create_connection((server, port))
    with socket.create_server(("", port)) as listening:
        return listening.accept()[0]


def text(who, i):
    return (f"{who} {i} " * SIZE)[:SIZE]


def main():
    kind, port = sys.argv[1], int(sys.argv[2])
    server = sys.argv[3] if len(sys.argv) > 3 else None
    me, peer = ("client", "server") if server else ("server", "client")
    ctx = Context(name="ff0")
    pd, cq = PD(ctx), CQ(ctx, 16)
    access = REMOTE if kind == "ONESIDED" else e.IBV_ACCESS_LOCAL_WRITE
    out, into = MR(pd, SIZE, access), MR(pd, SIZE + GRH, access)
    cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
    qp = QP(pd, QPInitAttr(qp_type=QP_TYPE[kind], scq=cq, rcq=cq, cap=cap, sq_sig_all=1))
    skip = GRH if kind == "UD" else 0

    with meet(port, server) as peer_socket:
        told, tell = peer_socket.makefile("r"), peer_socket.makefile("w")
        print(json.dumps({"qpn": qp.qp_num, "gid": ctx.query_gid(1, 0).gid, "addr": into.buf,
                          "rkey": into.rkey}), file=tell, flush=True)
        remote = json.loads(told.readline())
        qp.to_rts(attributes(kind, remote))
        ah = AH(pd, attr=path(remote)) if kind == "UD" else None

        def receive():
            qp.post_recv(RecvWR(sg=[SGE(into.buf, SIZE + skip, into.lkey)], num_sge=1))

        receive()
        print("ready", file=tell, flush=True)
        assert told.readline() == "ready\n"
        if kind == "ONESIDED" and me == "client":
            one_sided(qp, cq, out, into, remote)
        for i in range(COUNT if kind != "ONESIDED" else 0):
            got = False
            if me == "client":
                send(qp, out, text(me, i), ah, remote)
            while not got:
                wc = poll(cq)
                got = wc.opcode & e.IBV_WC_RECV
            data = into.read(SIZE, skip).decode()
            assert data == text(peer, i), f"message {i} is not what {peer} sent"
            receive()
            if me == "server":
                send(qp, out, text(me, i), ah, remote)
        if me == "server" and kind != "ONESIDED":
            poll(cq)
        print("done", file=tell, flush=True)
        assert told.readline() == "done\n"
        if me == "server" and kind == "ONESIDED":
            assert into.read(SIZE, 8).decode() == text(peer, COUNT - 1), "not what was written last"
            assert struct.unpack("Q", into.read(8, 0)) == (COUNT,), "not every FETCH_ADD was done once"
    print(f"{kind}: {COUNT} {'rounds' if kind == 'ONESIDED' else 'messages'} verified")


def one_sided(qp, cq, out, into, remote):
    """The server's memory: a counter of 8 bytes, then a text."""
    def carry_out(opcode, mr, length, at, *atomic):
        wr = SendWR(opcode=opcode, sg=[SGE(mr.buf, length, mr.lkey)], num_sge=1)
        if atomic:
            wr.set_wr_atomic(remote["rkey"], remote["addr"] + at, *atomic)
        else:
            wr.set_wr_rdma(remote["rkey"], remote["addr"] + at)
        qp.post_send(wr)
        poll(cq)

    for i in range(COUNT):
        data = text("client", i)
        out.write(data, SIZE)
        carry_out(e.IBV_WR_RDMA_WRITE, out, SIZE, 8)
        carry_out(e.IBV_WR_RDMA_READ, into, SIZE, 8)
        assert into.read(SIZE, 0).decode() == data, f"what was read is not text {i}"
        carry_out(e.IBV_WR_ATOMIC_FETCH_AND_ADD, into, 8, 0, 1)
        assert struct.unpack("Q", into.read(8, 0)) == (i,), "another counter"


def send(qp, mr, data, ah, remote):
    mr.write(data, SIZE)
    wr = SendWR(opcode=e.IBV_WR_SEND, sg=[SGE(mr.buf, SIZE, mr.lkey)], num_sge=1)
    if ah:
        wr.set_wr_ud(ah, remote["qpn"], QKEY)
    qp.post_send(wr)


if __name__ == "__main__":
    main()
