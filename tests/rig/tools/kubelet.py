# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""kubelet.py - a stand-in for a node's kubelet: the published interface of device plug-ins (v1beta1), by Python's gRPC.

kubelet.py FOLDER MODULES: serves FOLDER/kubelet.sock and takes commands on standard input, one a line; each is answered by one
line of JSON.
	registered		what was registered last; waits for it
	devices			the next list of a ListAndWatch that is kept open
	allocate ID,ID ID	an Allocate with a container for each word; "-" asks for none
	options			GetDevicePluginOptions
	call METHOD HEX		a request of these bytes to that method: the status
	restart			as a kubelet does: all sockets in the folder go, and there is a new one
"""
import concurrent.futures
import glob
import json
import os
import queue
import sys

import grpc

sys.path.insert(0, sys.argv[2])
import deviceplugin_pb2 as pb  # noqa: E402

folder = sys.argv[1]
registrations = queue.Queue()
server = channel = watch = None


def register(request, context):
    registrations.put(request)
    return pb.Empty()


def start():
    global server
    for old in glob.glob(folder + "/*.sock"):
        os.unlink(old)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
    handler = grpc.unary_unary_rpc_method_handler(register, pb.RegisterRequest.FromString, pb.Empty.SerializeToString)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),))
    server.add_insecure_port("unix:" + folder + "/kubelet.sock")
    server.start()


def call(method, request, answer):
    rpc = channel.unary_unary("/v1beta1.DevicePlugin/" + method, lambda r: r if isinstance(r, bytes) else r.SerializeToString(),
                              answer.FromString)
    try:
        return rpc(request, timeout=10)
    except grpc.RpcError as e:
        return {"status": e.code().name, "text": e.details()}


def command(words):
    global channel, watch
    if words[0] == "registered":
        r = registrations.get(timeout=20)
        # a new channel's sub-channels must not be the old one's, whose socket has gone
        channel = grpc.insecure_channel("unix:" + folder + "/" + r.endpoint, options=[("grpc.use_local_subchannel_pool", 1)])
        watch = None
        return {"version": r.version, "endpoint": r.endpoint, "resource": r.resource_name}
    if words[0] == "devices":
        if watch is None:
            rpc = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch", pb.Empty.SerializeToString,
                                       pb.ListAndWatchResponse.FromString)
            watch = rpc(pb.Empty(), timeout=60)
        devices = next(watch).devices
        return {"num": len(devices), "ids": [d.ID for d in devices[:2]], "health": sorted({d.health for d in devices})}
    if words[0] == "allocate":
        request = pb.AllocateRequest()
        for w in words[1:]:
            request.container_requests.add().devicesIDs.extend([] if w == "-" else w.split(","))
        a = call("Allocate", request, pb.AllocateResponse)
        return a if isinstance(a, dict) else [[d.name for d in r.cdi_devices] for r in a.container_responses]
    if words[0] == "options":
        a = call("GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions)
        return a if isinstance(a, dict) else {"pre": a.pre_start_required, "preferred": a.get_preferred_allocation_available}
    if words[0] == "call":
        a = call(words[1], bytes.fromhex(words[2] if len(words) > 2 else ""), pb.Empty)
        return a if isinstance(a, dict) else {"status": "OK"}
    if words[0] == "restart":
        server.stop(None).wait()
        start()
        return {}
    return {"status": "unknown command"}


start()
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    try:
        print(json.dumps(command(line.split())), flush=True)
    except Exception as e:  # the test's to judge
        print(json.dumps({"exception": repr(e)}), flush=True)
