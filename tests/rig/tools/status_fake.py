#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""status_fake.py BUILD PORT: serves the router's status page with numbers in which each text is HTML that would do harm.

The page and its policy are those that the build BUILD has put into the router.
"""
import http.server
import json
import pathlib
import sys
import time

TREE = pathlib.Path(__file__).resolve().parents[3]
PAGE = (TREE / "ffr/admin/status.html").read_bytes()
POLICY = (pathlib.Path(sys.argv[1]) / "ffr/admin/page.csp").read_text(encoding="utf-8")
BAD = "</td><script>window.broken = 1</script><b>x</b><img src=x onerror=alert(1)>"


def numbers():
    container = {
        "name": BAD, "tenant": BAD, "exact": True, "thread": 0, "nic": BAD, "usage": {"max_qp": 1, "max_session": 1,
        "max_registered": 1, BAD: 1}, "limits": {BAD: 5, "tx_rate": 5},
        "counters": {k: int(time.time() * 1000) for k in (
            "tx_bytes rx_bytes send_ops write_ops read_ops atomic_ops flush_ops mw_ops errors rnr retries throttled_ns "
            "cpu_ns").split()},
        "latency": {"count": 1, "buckets": [[1024, 1]]},
        "peers": [{"by": BAD, "qps": 1, "tx_bytes": 1, "rx_bytes": 1, "container": BAD, "tenant": BAD}],
        "peers_left_out": 0}
    problem = {"level": BAD, "text": BAD, "advice": BAD}
    return {
        "containers": [container], "containers_left_out": 0, "problems": [problem],
        "traffic_problems": [dict(problem, counter="rnr")],
        "events": [{"number": 1, "time_ms": 1, "event": BAD, "text": BAD, "container": BAD}],
        "hosts": [{"host": BAD, "up": True, "connected": True}], "nics": [{"name": BAD, "up": True}],
        "router": {"version": BAD, "host": BAD, "time_ms": int(time.time() * 1000), "orchestrator_up": True,
                   "fenced": False, "fast_threads": 1, "hosts_left_out": 0, "problems_left_out": 0}}


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        known = self.path in ("/", "/status.json")
        page = self.path == "/"
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8" if page else "application/json")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(PAGE if page else json.dumps(numbers()).encode())


http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Answer).serve_forever()
