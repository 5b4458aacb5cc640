# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""cri.py - what a node's kubelet tells its container runtime, by hand: the published interface (CRI v1), by Python's gRPC.

cri.py SOCKET FOLDER COMMAND WORDS...: FOLDER has the module made from cri.proto; what a pod was made of is kept there. What
fails is said on standard error by its gRPC text, and the status is 1.
	ready						RuntimeReady and NetworkReady
	pod CGROUP NAMESPACE NAME [KEY=VALUE...]	RunPodSandbox with these annotations; prints its number
	ip POD						its address
	create POD NAME IMAGE DEVICE CMD...		CreateContainer with that CDI device, or "-"; prints its number.
							"annotation:DEVICE": by the annotation, as older kubelets say it
	start|stop|remove CONTAINER			StartContainer, StopContainer at once, RemoveContainer
	exec CONTAINER CMD...				ExecSync: its output, and its status
	end POD						StopPodSandbox, RemovePodSandbox
"""
import os
import sys

import grpc

sys.path.insert(0, sys.argv[2])
import cri_pb2 as pb  # noqa: E402

folder = sys.argv[2]
channel = grpc.insecure_channel("unix:" + sys.argv[1])


def call(method, request, answer=pb.Empty):
    rpc = channel.unary_unary("/runtime.v1.RuntimeService/" + method, lambda r: r.SerializeToString(), answer.FromString)
    return rpc(request, timeout=60)


def command(name, *words):
    if name == "ready":
        conditions = call("Status", pb.Empty(), pb.StatusResponse).status.conditions
        for c in conditions:
            if not c.status:
                print(c.type, c.message)
        return 0 if conditions and all(c.status for c in conditions) else 1
    if name == "pod":
        group, space, pod = words[:3]
        config = pb.PodSandboxConfig(hostname=pod)
        config.metadata.name, config.metadata.namespace, config.metadata.uid = pod, space, space + "-" + pod
        config.linux.cgroup_parent = group
        for w in words[3:]:
            key, value = w.split("=", 1)
            config.annotations[key] = value
        number = call("RunPodSandbox", pb.RunPodSandboxRequest(config=config), pb.Id).id
        with open(os.path.join(folder, number), "wb") as f:
            f.write(config.SerializeToString())
        print(number)
    elif name == "ip":
        print(call("PodSandboxStatus", pb.Id(id=words[0]), pb.PodSandboxStatusResponse).status.network.ip)
    elif name == "create":
        pod, cont, image, device = words[:4]
        request = pb.CreateContainerRequest(pod_sandbox_id=pod)
        with open(os.path.join(folder, pod), "rb") as f:
            request.sandbox_config.ParseFromString(f.read())
        request.config.metadata.name = cont
        request.config.image.image = image
        request.config.command.extend(words[4:])
        if device.startswith("annotation:"):
            request.config.annotations["cdi.k8s.io/test"] = device.split(":", 1)[1]
        elif device != "-":
            request.config.cdi_devices.add().name = device
        print(call("CreateContainer", request, pb.Id).id)
    elif name in ("start", "stop", "remove"):
        call(name.capitalize() + "Container", pb.Id(id=words[0]))
    elif name == "exec":
        a = call("ExecSync", pb.ExecSyncRequest(container_id=words[0], cmd=words[1:], timeout=50), pb.ExecSyncResponse)
        sys.stdout.write((a.stdout + a.stderr).decode())
        return a.exit_code
    elif name == "end":
        call("StopPodSandbox", pb.Id(id=words[0]))
        call("RemovePodSandbox", pb.Id(id=words[0]))
    else:
        return 2
    return 0


try:
    sys.exit(command(*sys.argv[3:]))
except grpc.RpcError as e:
    sys.exit(e.code().name + ": " + e.details())
