#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""draw.py - draws the pictures of the documents: each function below is one SVG in this folder.

Colours follow the reader's scheme, light or dark. Run it after a change, and look at both.
"""
import pathlib
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
LINE = 17  # from one line of text to the next
STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
.small { font-size: 12px; fill: #57606a; } .title { font-weight: 600; }
.box { fill: #eef2f6; stroke: #6e7781; } .frame { fill: none; stroke: #8c959f; stroke-dasharray: 5 4; }
.client { fill: #fff4e0; stroke: #b9770e; } .trusted { fill: #e3f4e6; stroke: #2e7d32; } .data { fill: #e2eefc; stroke: #0969da; }
.call { stroke: #6e7781; fill: none; } .bytes { stroke: #0969da; fill: none; stroke-width: 2.5; }
.callhead { fill: #6e7781; } .byteshead { fill: #0969da; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .small { fill: #9198a1; } .box { fill: #21262d; stroke: #9198a1; } .frame { stroke: #6e7681; }
.client { fill: #3a2d12; stroke: #d29922; } .trusted { fill: #12321a; stroke: #3fb950; } .data { fill: #10294a; stroke: #4493f8; }
.call { stroke: #9198a1; } .bytes { stroke: #4493f8; } .callhead { fill: #9198a1; } .byteshead { fill: #4493f8; }
}
"""


class Picture:
    """Units are pixels; y grows downwards."""

    def __init__(self, name, width, height, title):
        self.name = name
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            "<!-- SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB; made by draw.py -->",
            f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", "<defs>"]
        for kind in ("call", "bytes"):
            self.parts.append(
                f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
                f'markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path class="{kind}head" d="M0 0 10 5 0 10z"/></marker>')
        self.parts.append("</defs>")

    def text(self, x, y, lines, kind="", anchor="start"):
        for i, line in enumerate(lines.split("\n")):
            self.parts.append(f'<text x="{x}" y="{y + i * LINE}" class="{kind}" text-anchor="{anchor}">{escape(line)}</text>')

    def box(self, x, y, width, height, title, small="", kind="box"):
        """A title in the middle of the first line, what is small below it."""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" class="{kind}"/>')
        self.text(x + width / 2, y + 20, title, "title", "middle")
        if small:
            self.text(x + width / 2, y + 20 + LINE * (1 + title.count("\n")), small, "small", "middle")

    def frame(self, x, y, width, height, title):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" class="frame"/>')
        self.text(x + 10, y + 20, title, "title")

    def arrow(self, points, label="", at=None, kind="call", both=False, anchor="middle"):
        path = " ".join(f"{x},{y}" for x, y in points)
        start = f' marker-start="url(#{kind})"' if both else ""
        self.parts.append(f'<polyline points="{path}" class="{kind}" marker-end="url(#{kind})"{start}/>')
        if label:
            (x1, y1), (x2, y2) = points[0], points[-1]
            x, y = at or ((x1 + x2) / 2, (y1 + y2) / 2 - 6)
            self.text(x, y, label, "small", anchor)

    def save(self):
        (HERE / f"{self.name}.svg").write_text("\n".join(self.parts) + "\n</svg>\n", encoding="utf-8")


def one_host():
    p = Picture("one-host", 860, 420, "freeflow on one host: two containers, the router between them")
    p.frame(10, 10, 210, 190, "container A")
    p.box(30, 42, 170, 66, "program", "unmodified, any user", "client")
    p.box(30, 122, 170, 62, "library: ffl", "libibverbs, librdmacm", "box")
    p.arrow([(115, 108), (115, 121)])
    p.frame(10, 220, 210, 190, "container B")
    p.box(30, 252, 170, 66, "program", "unmodified, any user", "client")
    p.box(30, 332, 170, 62, "library: ffl", "libibverbs, librdmacm", "box")
    p.arrow([(115, 318), (115, 331)])
    p.frame(380, 10, 470, 400, "host")
    p.box(400, 60, 200, 76, "control thread", "calls, rdma_cm, operators,\nother hosts", "trusted")
    p.box(400, 190, 200, 94, "fast threads", "take WRs out of rings,\nmove bytes,\nput completions in", "data")
    p.box(400, 330, 200, 62, "pages of A and B", "that the router shares", "data")
    p.text(500, 50, "router: ffr", "title", "middle")
    p.box(640, 60, 190, 76, "orchestrator: ffo", "in the router, or a daemon:\nwho is where, policy", "trusted")
    p.box(640, 190, 190, 62, "keeper", "looks into clients'\nprocesses", "trusted")
    p.box(640, 330, 190, 62, "operator: ffctl", "limits, policy, counters", "box")
    p.arrow([(200, 145), (300, 145), (300, 85), (399, 85)], "Unix sockets: calls", (296, 76), both=True)
    p.arrow([(200, 345), (310, 345), (310, 110), (399, 110)], both=True)
    p.arrow([(200, 165), (330, 165), (330, 220), (399, 220)], "rings", (348, 212), "bytes", True)
    p.arrow([(200, 365), (330, 365), (330, 255), (399, 255)], "rings", (348, 270), "bytes", True)
    p.arrow([(500, 284), (500, 329)], "one copy", (508, 311), "bytes", True, "start")
    p.arrow([(500, 136), (500, 189)], "fast lock", (508, 167), both=True, anchor="start")
    p.arrow([(600, 98), (639, 98)], both=True)
    p.arrow([(600, 112), (627, 112), (627, 220), (639, 220)], both=True)
    p.arrow([(639, 361), (613, 361), (613, 126), (601, 126)])
    p.save()


def two_hosts():
    p = Picture("two-hosts", 860, 330, "freeflow on two hosts: two routers, the wire, the orchestrator")
    for x, name, host in ((10, "web", "h0"), (550, "db", "h1")):
        p.frame(x, 10, 300, 210, f"host {host}")
        p.box(x + 20, 40, 260, 50, f"container {name}", "program and library", "client")
        p.box(x + 20, 140, 260, 62, f"router of {host}", "queues, memory, limits of its containers", "data")
        p.arrow([(x + 90, 90), (x + 90, 139)], "calls", (x + 82, 119), both=True, anchor="end")
        p.arrow([(x + 190, 90), (x + 190, 139)], "rings, pages", (x + 200, 119), "bytes", True, "start")
    p.arrow([(290, 171), (569, 171)], "", None, "bytes", True)
    p.text(430, 110, "carrier: the wire (TCP, TLS),", "small", "middle")
    p.text(430, 128, "an RDMA NIC of each host,", "small", "middle")
    p.text(430, 146, "or RapidIO", "small", "middle")
    p.text(430, 190, "messages, bytes", "small", "middle")
    p.box(320, 252, 220, 70, "orchestrator", "ffo or ZooKeeper: containers,\naddresses, policy, rkeys", "trusted")
    p.arrow([(160, 202), (160, 288), (319, 288)], "who has this address?", (168, 280), both=True, anchor="start")
    p.arrow([(700, 202), (700, 288), (541, 288)], "who may talk to whom?", (692, 280), both=True, anchor="end")
    p.save()


def write():
    p = Picture("write", 860, 430, "The life of an 8-byte WRITE between two containers of a host")
    lanes = ((110, "sender's program", "client"), (330, "ring in shared memory", "box"), (550, "router's fast thread", "data"),
             (760, "receiver's memory", "client"))
    for x, title, kind in lanes:
        p.box(x - 95, 10, 190, 32, title, "", kind)
        p.parts.append(f'<line x1="{x}" y1="42" x2="{x}" y2="420" class="frame"/>')
    steps = (
        (84, 110, 330, "ibv_post_send: the SQE,\nits sequence number last", "call"),
        (138, 110, 330, "doorbell, only if\nthe router asks for one", "call"),
        (184, 330, 550, "its turn: copy the SQE once,\ncheck the copy", "call"),
        (232, 550, 550, "", "call"),
        (300, 550, 760, "8 bytes, into a page\nthat the router shares", "bytes"),
        (352, 550, 330, "the CQE, its phase last", "call"),
        (404, 330, 110, "ibv_poll_cq finds it", "call"))
    for y, x1, x2, label, kind in steps:
        if x1 == x2:
            p.box(x1 - 95, y - 26, 190, 60, "peer, rkey, rights", "from the router's tables,\nnot the sender's word", "box")
            continue
        lines = label.count("\n")
        p.arrow([(x1, y + 8 * lines), (x2, y + 8 * lines)], label, ((x1 + x2) / 2, y - 8 - 8 * lines), kind)
    p.save()


def page():
    p = Picture("page", 860, 330, "What happens to a registered page")
    p.box(10, 60, 200, 80, "private page", "as malloc() or mmap()\ngave it to the program", "client")
    p.box(330, 10, 240, 80, "shadow page", "a page of the router's file, at the\nsame address, same content", "data")
    p.box(330, 130, 240, 80, "still private", "large memory, until a part of it\nis used again", "client")
    p.box(330, 250, 240, 70, "private for good", "stacks, read-only files, attributes\nthat a file cannot have", "client")
    p.box(660, 10, 190, 80, "one copy", "the router has the page\nmapped", "data")
    p.box(660, 160, 190, 90, "two copies", "through /proc/PID/mem,\nwith a system call for\neach", "box")
    p.arrow([(110, 60), (110, 40), (329, 40)], "small, or used again", (220, 32))
    p.arrow([(210, 110), (270, 110), (270, 165), (329, 165)], "1 MB and more", (222, 186), anchor="start")
    p.arrow([(110, 140), (110, 285), (329, 285)], "cannot be replaced", (220, 277))
    p.arrow([(450, 130), (450, 91)], "replaced in the background", (460, 115), anchor="start")
    p.text(640, 285, "ibv_dereg_mr() changes nothing:\na page stays what it became.", "small")
    p.arrow([(570, 45), (659, 45)], "", None, "bytes", True)
    p.arrow([(570, 175), (659, 195)], "", None, "bytes", True)
    p.arrow([(570, 285), (620, 285), (620, 215), (659, 215)], "", None, "bytes", True)
    p.save()


def trust():
    p = Picture("trust", 860, 400, "Who trusts whom")
    p.frame(10, 10, 220, 380, "hostile")
    p.box(30, 50, 180, 90, "client", "messages, descriptors,\nrings, memory, timing", "client")
    p.box(30, 170, 180, 80, "other user of the host", "cannot reach sockets", "client")
    p.box(30, 280, 180, 90, "network", "whoever listens reads\nnothing with wire_tls", "client")
    p.frame(300, 10, 260, 380, "few rights")
    p.box(320, 50, 220, 90, "router", "has all traffic and registered\nmemory of its containers", "data")
    p.box(320, 170, 220, 80, "keeper and its opener", "look into processes that\nhanded themselves over", "data")
    p.box(320, 280, 220, 90, "another host's router", "speaks for its own containers,\nwith a certificate", "data")
    p.frame(630, 10, 220, 380, "trusted")
    p.box(650, 50, 180, 90, "orchestrator", "who is where,\nwhat is allowed", "trusted")
    p.box(650, 170, 180, 80, "first process", "all rights, listens\nto nobody", "trusted")
    p.box(650, 280, 180, 90, "operator", "root, or an operator's\ncertificate", "trusted")
    p.arrow([(210, 95), (319, 95)], "copy, check", (265, 87))
    p.arrow([(210, 325), (319, 325)], "TLS", (265, 317))
    p.arrow([(540, 95), (649, 95)], "asks", (600, 87))
    p.arrow([(430, 170), (430, 141)], "checked descriptors", (438, 160), anchor="start")
    p.arrow([(649, 210), (541, 210)], "starts", (624, 202))
    p.arrow([(540, 325), (575, 325), (575, 126), (541, 126)])
    p.arrow([(740, 280), (740, 265), (600, 265), (600, 112), (541, 112)], "limits, policy", (735, 277), anchor="end")
    p.save()


one_host()
two_hosts()
write()
page()
trust()
