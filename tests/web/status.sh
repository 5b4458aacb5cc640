#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# night: netns
# timeout: 300
# status.sh - the router's status page in a headless Chromium: what it shows of two containers under load, that it does
# nothing that its policy forbids, and that names of any kind stay text. `status.sh FILE` keeps a picture of it, which
# docs/img/status.png is.
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/load.sh"

command -v chromium >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium \
	>"$OUT/apt" 2>&1 || skip "no chromium, and apt-get installs none: $(tail -n 1 "$OUT/apt")"

SHOT=${1-$OUT/status.png}
PAGE=http://127.0.0.1:9790/
# As bad a name as a router takes.
WORST=0-..__script.alert-1-.

# browse URL: the steps from standard input, in the network of h0.
browse() {
	nsenter --net="/run/netns/$(lab_id "$OWN_LAB")-h0" python3 "$TREE/tests/rig/tools/browser.py" "$1"
}

own_lab --containers 3
net=/run/netns/$(lab_id "$OWN_LAB")-h0
nsenter --net="$net" ip link set lo up
sed -i 's,^metrics = .*,metrics = "tcp:127.0.0.1:9790",' "$OWN_LAB/h0/ffr.conf"
"$LAB" restart router h0 || fail "restart"
router_ctl container add "$WORST" --ip 10.99.0.9 >/dev/null || fail "container add"
router_ctl container set h0c1 --tx-rate 1Gbit --max-qp 2 >/dev/null || fail "container set"

step "two containers under load, one at its quota and throttled"
load_server h0c0
load_client h0c1 h0c0 --seconds 0 -q 2
load_moves 60 || fail "no traffic"
# shellcheck disable=SC2016 # JavaScript
browse "$PAGE" >"$OUT/page" <<STEPS || fail "the page: $(cat "$OUT/page")"
until document.title === "freeflow on h0"
until before && [...document.querySelectorAll("#containers tr")].some(tr => tr.cells[0].textContent === "h0c1" && /[1-9].*[kMG]bit/.test(tr.cells[4].textContent) && tr.cells[7].textContent !== "-")
until [...document.querySelectorAll("#problems div")].some(d => d.className === "note" && d.textContent.startsWith("container h0c1: throttled") && d.textContent.includes("-> ffctl container show"))
print [...document.querySelectorAll("#containers tr")].map(tr => tr.cells[0].textContent).sort().join(" ")
print [...document.querySelectorAll("#peers tr")].map(tr => [...tr.cells].slice(0, 4).map(td => td.textContent).join(" ")).sort().join(", ")
print [...document.querySelectorAll("#containers tr")].find(tr => tr.cells[0].textContent === "h0c1").cells[14].textContent
print [...document.querySelectorAll("#problems .problem")].some(d => d.textContent.includes("container h0c1: it has all 2 of max_qp") && d.textContent.includes("-> ffctl container set"))
print document.querySelectorAll("#latency rect").length > 3
print [...document.querySelectorAll("#events tr")].some(tr => tr.cells[1].textContent === "attached" && tr.cells[2].textContent === "h0c2")
shot $SHOT 1400 900
print at("containers").closest("div").scrollWidth <= at("containers").closest("div").clientWidth
print (at("filter").value = "h0c1", at("filter").dispatchEvent(new Event("input")), document.querySelectorAll("#containers tr").length)
print (document.querySelector("#containers tr").click(), at("whose").textContent.startsWith("of requests of h0c1"))
STEPS
mapfile -t said <"$OUT/page"
[[ ${said[0]} == "$WORST h0c0 h0c1 h0c2" ]] || fail "containers: ${said[0]}"
[[ ${said[1]} == "h0c0 h0c1 host 2, h0c1 h0c0 host 2" ]] || fail "who talks to whom: ${said[1]}"
[[ ${said[2]} == "tx rate 1Gbit/s, qp 2 of 2"* ]] || fail "limits: ${said[2]}"
[[ ${said[*]:3:4} == "true true true true" ]] || fail "quota, latency, events, no column cut off: ${said[*]:3:4}"
[[ ${said[*]:7:2} == "1 true" ]] || fail "one container chosen: ${said[*]:7:2}"
load_stop 0
load_server_stop 0

step "the router is stopped: the page says so, and goes on when it is back"
mkfifo "$OUT/steps"
browse "$PAGE" <"$OUT/steps" >"$OUT/page" 2>&1 &
browser=$!
exec {steps}>"$OUT/steps"
browser_says() { # TEXT STEP: asks for the step, and waits until it is done
	printf 'until %s\nprint "%s"\n' "$2" "$1" >&"$steps"
	wait_for 90 grep -qx "$1" "$OUT/page" || fail "$(cat "$OUT/page")"
}
browser_says opened 'document.title === "freeflow on h0"'
"$LAB" kill router h0 {steps}>&- || fail "kill"
browser_says gone 'at("state").textContent.startsWith("no answer: ")'
"$LAB" restart router h0 {steps}>&- || fail "restart"
browser_says "goes on" 'at("state").textContent.startsWith("router ")'
exec {steps}>&-
wait $browser # it tells of the requests that had no answer

step "names that no router gives: HTML stays text"
nsenter --net="$net" python3 "$TREE/tests/rig/tools/status_fake.py" "$BUILD" 9791 2>"$OUT/fake" &
fake=$!
wait_for 30 nsenter --net="$net" curl -sf -o "$OUT/first" http://127.0.0.1:9791/ || fail "$(cat "$OUT/fake")"
browse http://127.0.0.1:9791/ >"$OUT/page" <<'STEPS' || fail "the page: $(cat "$OUT/page")"
until before && document.querySelectorAll("#peers tr").length === 1
print document.querySelectorAll("body img, body iframe, #containers script, td b").length
print [...document.querySelectorAll("td, div, span, h1")].filter(e => e.children.length === 0 && e.textContent.includes("<img src=x onerror=alert(1)>")).length > 8
print window.broken === undefined
STEPS
mapfile -t said <"$OUT/page"
[[ ${said[*]} == "0 true true" ]] || fail "a name became HTML: ${said[*]}"
kill $fake
wait $fake
exit 0
