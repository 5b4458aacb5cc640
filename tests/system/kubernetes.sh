#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: netns
# timeout: 300
# kubernetes.sh - ff-device-plugin and a kubelet's stand-in (tests/rig/tools/kubelet.py): registration, devices and their health,
# Allocate, requests that make no sense, broken frames, a kubelet and a router that start again.
. "$(dirname "$0")/../rig/shell/lab.sh"

/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || skip "no python3-grpcio (make deps)"
command -v protoc >/dev/null || skip "no protobuf-compiler (make deps)"
protoc -I "$TREE/ffr/k8s" --python_out "$OUT" "$TREE/ffr/k8s/deviceplugin.proto" || fail "protoc"
own_lab --containers 1
folder=$OUT/kubelet
mkdir "$folder"

"$BUILD/bin/ff-device-plugin" --kubelet "$folder" --admin "$FF_LAB/h0/admin.sock" --devices 20 >"$OUT/plugin" 2>&1 &
plugin=$!
wait_for 30 grep -qs "no kubelet listens at $folder/kubelet.sock: No such file or directory: waiting for it" "$OUT/plugin" ||
	fail "it does not say that it waits: $(<"$OUT/plugin")"
coproc KUBELET { GRPC_VERBOSITY=NONE exec /usr/bin/python3 "$TREE/tests/rig/tools/kubelet.py" "$folder" "$OUT" 2>"$OUT/kubelet.log"; }

answer=
read_answer() {
	read -r -t 30 -u "${KUBELET[0]}" answer || fail "the kubelet says nothing: $(cat "$OUT/kubelet.log" "$OUT/plugin")"
}
says() { # ANSWER COMMAND...
	echo "${*:2}" >&"${KUBELET[1]}"
	read_answer
	[[ $answer == "$1" ]] || fail "${*:2}: $answer, not $1; $(<"$OUT/plugin")"
}
read_answer

step "registration"
REGISTERED='{"version": "v1beta1", "endpoint": "freeflow.sock", "resource": "freeflow.io/rdma"}'
says "$REGISTERED" registered
says '{"pre": false, "preferred": false}' options
healthy() { # Healthy|Unhealthy
	says '{"num": 20, "ids": ["rdma0", "rdma1"], "health": ["'"$1"'"]}' devices
}
healthy Healthy

step "Allocate"
says '[["freeflow.io/rdma=kubernetes"]]' allocate rdma0
says '[["freeflow.io/rdma=kubernetes"], ["freeflow.io/rdma=kubernetes"]]' allocate rdma3 rdma19
ONE='{"status": "INVALID_ARGUMENT", "text": "a container has one RDMA device: ask for 1"}'
says "$ONE" allocate rdma1,rdma2
says "$ONE" allocate rdma1 -
for id in rdma20 rdma-1 rdma01 rdma mlx5_0 rdma99999999999 'rdma1/..'; do
	says '{"status": "INVALID_ARGUMENT", "text": "no such device"}' allocate "$id"
done
says '{"status": "INVALID_ARGUMENT", "text": "how many containers?"}' allocate

step "requests that make no sense"
says '{"status": "INVALID_ARGUMENT", "text": "the request is not understood"}' call Allocate 0affffffffff0f
says '{"status": "INVALID_ARGUMENT", "text": "the request is not understood"}' call Allocate 0a0500
says '{"status": "UNIMPLEMENTED", "text": "no such method"}' call PreStartContainer
says '{"status": "UNIMPLEMENTED", "text": "no such method"}' call ../Allocate

step "broken frames"
python3 - "$folder/freeflow.sock" <<'PY' || fail "broken frames: $(<"$OUT/plugin")"
import os, random, socket, struct, sys
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
def frame(kind, flags, stream, body):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body
SETTINGS = frame(4, 0, 0, b"")
def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
HEAD = literal(b":method", b"POST") + literal(b":scheme", b"http") + literal(b":path", b"/v1beta1.DevicePlugin/Allocate")
random.seed(1)
cases = [b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), PREFACE[:10], PREFACE + b"\xff" * 64,
         PREFACE + SETTINGS + frame(1, 4, 2, HEAD),                       # an even stream
         PREFACE + SETTINGS + frame(0, 1, 1, b"x" * 100),                 # data of no stream
         PREFACE + SETTINGS + frame(1, 5, 1, b"\xff" * 30),               # no HPACK
         PREFACE + SETTINGS + struct.pack(">I", 0xffffff)[1:] + bytes([0, 0, 0, 0, 0, 1]),
         PREFACE + SETTINGS + frame(1, 5, 1, HEAD),                       # no message
         PREFACE + SETTINGS + frame(1, 4, 1, HEAD) + frame(0, 1, 1, b"\x01\0\0\0\0"),
         PREFACE + SETTINGS + frame(1, 4, 1, HEAD) + frame(0, 1, 1, b"\0\xff\xff\xff\xff"),
         PREFACE + SETTINGS + b"".join(frame(1, 4, 1 + 2 * i, HEAD) for i in range(200)),
         PREFACE + SETTINGS + b"".join(frame(1, 4, 1 + 2 * i, HEAD) + frame(3, 0, 1 + 2 * i, b"\0\0\0\x08") for i in range(200)),
         PREFACE + SETTINGS + frame(1, 4, 1, HEAD) + b"".join(frame(0, 0, 1, b"z" * 16000) for i in range(30))]
cases += [PREFACE + SETTINGS + bytes(random.randrange(256) for _ in range(random.randrange(200))) for _ in range(300)]
for i, data in enumerate(cases):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(sys.argv[1])
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass
    except (BrokenPipeError, ConnectionResetError):
        pass
    s.close()
many = []
for i in range(40): # connections that say nothing
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    many.append(s)
PY
running $plugin || fail "the plug-in ended: $(<"$OUT/plugin")"
says '[["freeflow.io/rdma=kubernetes"]]' allocate rdma0

step "a router that goes and comes"
"$LAB" kill router h0 || fail "kill router"
healthy Unhealthy
"$LAB" restart router h0 || fail "restart router"
healthy Healthy

step "a kubelet that starts again"
for ((i = 0; i < 3; i++)); do
	says '{}' restart
	says "$REGISTERED" registered
	healthy Healthy
	says '[["freeflow.io/rdma=kubernetes"]]' allocate rdma0
done

step "its end"
fds=$(find "/proc/$plugin/fd" -mindepth 1 | wc -l)
((fds < 20)) || fail "$fds descriptors are open"
kill $plugin
wait $plugin || fail "it ended with $?: $(<"$OUT/plugin")"
[[ ! -e $folder/freeflow.sock ]] || fail "its socket is left"
for bad in '--devices 0' '--devices many' '--kubelet /nonexistent' 'more'; do
	# shellcheck disable=SC2086
	timeout 5 "$BUILD/bin/ff-device-plugin" $bad >/dev/null 2>&1
	refused $? || fail "$bad is taken"
done
kill "$KUBELET_PID" 2>/dev/null
exit 0
