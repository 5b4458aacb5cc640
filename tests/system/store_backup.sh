#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# store_backup.sh - ffctl store backup and restore: while the router runs, what is there already, who owns the file, and
# that the router takes the store that was restored.
# test: netns
# all: system-san
. "$(dirname "$0")/../rig/shell/lab.sh"
. "$(dirname "$0")/../rig/shell/own_router.sh"

# refused STATUS WORDS ARG...: ffctl ARG... ends with that status and one line that has these words.
refused() {
	local status=$1 words=$2
	shift 2
	ctl "$@" >"$OUT/out" 2>"$OUT/err"
	(($? == status)) || fail "ffctl $*: not status $status: $(cat "$OUT/err")"
	[[ $(wc -l <"$OUT/err") == 1 ]] || fail "ffctl $*: not one line: $(cat "$OUT/err")"
	grep -qF -e "$words" "$OUT/err" || fail "ffctl $*: no '$words': $(cat "$OUT/err")"
}

start "store = \"$D/r.db\""
ctl container add web --ip 10.77.7.7 --tenant red >/dev/null || fail "add web"
ctl tenant set red --max-qp 10 || fail "tenant set"
ctl policy allow red blue || fail "policy"

step "a backup of a router that runs"
backup=$OUT/backup
ctl store backup "$backup" >"$OUT/out" || fail "backup"
grep -qE "^$backup: store [0-9a-f]{12}, 1 container, [0-9]+ bytes$" "$OUT/out" || fail "$(cat "$OUT/out")"
[[ $(stat -c %a "$backup") == 600 ]] || fail "mode $(stat -c %a "$backup")"
sum=$(sha256sum <"$backup")
refused 5 "exists: a backup overwrites nothing" store backup "$backup"
[[ $(sha256sum <"$backup") == "$sum" ]] || fail "it was overwritten"
refused 1 "No such file or directory" store backup "$OUT/none/backup"
ctl --json store backup "$OUT/second" >"$OUT/json" || fail "backup --json"
python3 -c 'import json, sys
a = json.load(sys.stdin)
sys.exit(a["containers"] != 1 or len(a["store"]) != 32 or a["file"] != sys.argv[1])' "$OUT/second" <"$OUT/json" ||
	fail "$(cat "$OUT/json")"
[[ $(find "$OUT" -maxdepth 1 -name 'backup*' -o -maxdepth 1 -name 'second*' | wc -l) == 2 ]] || fail "$(ls "$OUT")"

step "a restore is refused"
ctl container add late >/dev/null || fail "add late"
refused 1 "another process has it open: stop the ffr or ffo" store restore "$backup" "$D/r.db" --force
stop
refused 5 "a store is there: move it away, or use --force" store restore "$backup" "$D/r.db"
refused 1 "is not a database" store restore "$D/log" "$D/r.db" --force
refused 4 "No such file" store restore "$OUT/none" "$D/r.db" --force
start
[[ $(ctl ls -q | tr '\n' ' ') == "late web " ]] || fail "$(ctl ls)"
stop

step "a restore"
ctl store restore "$backup" "$D/r.db" --force >"$OUT/out" || fail "restore"
grep -qE "^$D/r.db: store [0-9a-f]{12}, 1 container, " "$OUT/out" || fail "$(cat "$OUT/out")"
start
[[ $(ctl ls -q) == web ]] || fail "$(ctl ls)"
ctl tenant list | grep >/dev/null '^red  *max-qp  *10 ' || fail "$(ctl tenant list)"
ctl policy list | grep >/dev/null '^blue  *red  *allow' || fail "$(ctl policy list)"
ctl --json store backup "$OUT/third" >"$OUT/json2" || fail "backup"
[[ $(grep store "$OUT/json2") == "$(grep store "$OUT/json")" ]] || fail "another identity: $(cat "$OUT/json" "$OUT/json2")"
stop

step "a router that is an attacker's"
mkdir "$OUT/bad"
for piece in 'AAAA' 'AAAA====' 'AAAAAAAA' 'AAA' ''; do
	python3 -c 'import json, os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1] + ".new")
s.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
c, _ = s.accept()
os.unlink(sys.argv[1])
c.recv(4096)
c.sendall((json.dumps({"ok": True, "copy": 1, "size": 2, "piece": sys.argv[2]}) + "\n").encode())' "$OUT/bad/admin.sock" "$piece" &
	wait_for 30 test -S "$OUT/bad/admin.sock" || fail "no socket"
	refused 1 "the router's answer is not understood" --admin "$OUT/bad/admin.sock" store backup "$OUT/bad/backup"
	wait $! || fail "the socket's program"
done
[[ ! -e $OUT/bad/backup ]] || fail "there is a backup"

step "the owner of a store that was not there"
mkdir "$OUT/folder"
chown nobody:nogroup "$OUT/folder"
chmod 755 "$OUT"
ctl store restore "$backup" "$OUT/folder/new.db" >/dev/null || fail "restore"
[[ $(stat -c '%U %a' "$OUT/folder/new.db") == "nobody 600" ]] || fail "$(ls -l "$OUT/folder")"
ln -s "$OUT/elsewhere" "$OUT/folder/link.db"
chmod 711 "$OUT"
refused 1 "link.db" store restore "$backup" "$OUT/folder/link.db"
[[ ! -e $OUT/elsewhere ]] || fail "root followed a link of the folder's owner"
exit 0
