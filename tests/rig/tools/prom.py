# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""prom.py SOCKET DASHBOARD [RULES]: what the router's HTTP server says is what Prometheus' text format 0.0.4
demands, and more strictly; every metric that DASHBOARD and RULES (of alerts) name is there; requests that are wrong, large
or slow are refused or ended, while others are served. Prints the samples, NAME{LABELS} VALUE."""
import json
import re
import socket
import sys
import time

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
VALUE = re.compile(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
OF_HISTOGRAM = ("_bucket", "_sum", "_count")


def check(ok, *what):
    if not ok:
        sys.exit("prom: " + " ".join(map(str, what)))


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(path)
    return s


def ask(path, request):
    """Status, headers and body; status 0 if the connection was closed instead."""
    s = connect(path)
    try:
        s.sendall(request)
    except BrokenPipeError:
        pass
    data = b""
    try:
        while chunk := s.recv(65536):
            data += chunk
    except ConnectionResetError:
        pass
    if not data:
        return 0, {}, b""
    top, _, body = data.partition(b"\r\n\r\n")
    lines = top.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    return int(lines[0].split()[1]), headers, body


def request(what, extra=""):
    return f"{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{extra}\r\n".encode()


def labels_of(text):
    found = [(m[1], m[2]) for m in re.finditer(LABEL, text or "")]
    names = [name for name, _ in found]
    check(len(set(names)) == len(names), "a label twice:", text)
    return tuple(sorted(found))


def family_of(name, types):
    """The metric that a sample belongs to."""
    for suffix in OF_HISTOGRAM:
        base = name.removesuffix(suffix)
        if base != name and types.get(base) == "histogram":
            return base
    return name


def parse(text):
    """{(name, labels): value} after checking every line, and the types."""
    check(text.endswith("\n"), "the last line has no end")
    helps, types, samples, order = {}, {}, {}, []
    for line in text.split("\n")[:-1]:
        if m := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
            check(m[1] not in helps, "HELP twice:", line)
            helps[m[1]] = m[2]
            order.append(m[1])
            continue
        if m := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            check(m[1] not in types and order[-1] == m[1], "TYPE is not after its HELP:", line)
            types[m[1]] = m[2]
            continue
        m = SAMPLE.fullmatch(line)
        check(m, "not a sample:", line)
        name, value = m[1], m[m.lastindex]
        family = family_of(name, types)
        check(family in types, "no TYPE:", line)
        check(family == order[-1], "not with its family:", line)
        check(VALUE.fullmatch(value), "not a value:", line)
        check((types[family] == "counter") == name.endswith("_total"), "_total is for counters:", line)
        check(types[family] != "histogram" or name != family, "a bare histogram:", line)
        key = name, labels_of(m[2])
        check(key not in samples, "twice:", line)
        samples[key] = float(value)
    check(set(helps) == set(types), "HELP and TYPE go together")
    for family in types:
        check(family.startswith("freeflow_"), "name:", family)
    return samples, types


def check_histograms(samples, types):
    series = {}
    for (name, labels), value in samples.items():
        family = family_of(name, types)
        if types[family] != "histogram":
            continue
        rest = tuple(l for l in labels if l[0] != "le")
        entry = series.setdefault((family, rest), {"buckets": []})
        if name.endswith("_bucket"):
            entry["buckets"].append((float(dict(labels)["le"].replace("+Inf", "inf")), value))
        else:
            entry[name.removeprefix(family)] = value
    check(series, "no histogram")
    for key, entry in series.items():
        bounds = [le for le, _ in entry["buckets"]]
        counts = [n for _, n in entry["buckets"]]
        check(bounds == sorted(set(bounds)), "bounds:", key, bounds)
        check(counts == sorted(counts), "not cumulative:", key, counts)
        check(bounds[-1] == float("inf"), "no +Inf:", key)
        check(counts[-1] == entry["_count"] and "_sum" in entry, "_count, _sum:", key)


def check_dashboard(path, names):
    """Names of metrics in its queries."""
    text = json.dumps([p["targets"] for p in json.load(open(path))["panels"]])
    used = set(re.findall(r"freeflow_[a-z0-9_]+", text + open(path).read()))
    check(used, "the dashboard asks for nothing")
    check(used <= names, "not exposed:", used - names)


def check_rules(path, families):
    """Each alert has an expression over metrics that exist, and says what is wrong."""
    import yaml  # not in the VMs, whose scripts give no RULES

    with open(path) as f:
        alerts = [r for g in yaml.safe_load(f)["groups"] for r in g["rules"]]
    check(alerts, "no alert")
    check(len({a["alert"] for a in alerts}) == len(alerts), "an alert twice")
    for alert in alerts:
        used = set(re.findall(r"freeflow_[a-z0-9_]+", alert["expr"]))
        check(used or alert["expr"].startswith("up{"), "no metric:", alert)
        check(used <= families, "not exposed:", used - families)
        check(alert["annotations"]["summary"] and alert["labels"]["severity"] in ("critical", "warning"), alert)


def check_bad_requests(path):
    check(ask(path, request("GET /nothing"))[0] == 404, "GET /nothing")
    status, headers, _ = ask(path, request("POST /metrics", "Content-Length: 0\r\n"))
    check(status == 405 and headers["allow"] == "GET, HEAD", "POST", status)
    status, _, body = ask(path, request("HEAD /metrics"))
    check(status == 200 and not body, "HEAD", status)
    check(ask(path, request("GET /metrics", "X: " + "y" * 65536 + "\r\n"))[0] in (0, 413, 431),
          "a large header")
    check(ask(path, b"\x00\x01nonsense\r\n\r\n")[0] in (0, 400), "nonsense")


def check_slow(path):
    """One that sends a part of its request only is ended; others need not wait for that."""
    slow, start = connect(path), time.monotonic()
    slow.sendall(b"GET /metrics HT")
    check(ask(path, request("GET /metrics"))[0] == 200, "beside a slow one")
    check(time.monotonic() - start < 4, "it waited for the slow one")
    while slow.recv(4096):
        pass
    check(time.monotonic() - start < 15, "the slow one was not ended")


def main():
    path, dashboard, *rules = sys.argv[1:]
    status, headers, body = ask(path, request("GET /metrics"))
    check(status == 200, "status", status)
    check(headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", headers)
    check(int(headers["content-length"]) == len(body), "length")
    samples, types = parse(body.decode("ascii"))
    check_histograms(samples, types)
    check_dashboard(dashboard, {name for name, _ in samples})
    for path_of_rules in rules:
        check_rules(path_of_rules, set(types))
    check_bad_requests(path)
    check_slow(path)
    for (name, labels), value in samples.items():
        print(name + "{" + ",".join(f'{k}="{v}"' for k, v in labels) + "}", f"{value:.0f}" if value.is_integer() else value)


main()
