# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""manifests.py - deploy/kubernetes against the schemas of Kubernetes' objects: extracts of the published API (1.28 to 1.31), written
down here, of the fields that our manifests have. No other field passes, so a misspelt one does not; and what a
schema cannot say: selectors that fit their pods, mounts that have a volume, names that are there."""
import sys

import jsonschema
import yaml


def obj(required="", **fields):
    return {"type": "object", "properties": fields, "required": required.split(), "additionalProperties": False}


def arr(items):
    return {"type": "array", "items": items, "minItems": 1}


def one(*words):
    return {"enum": list(words)}


NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}
PORT_NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 15}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
TEXT, BOOL, COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 0}
WORDS = {"type": "object", "additionalProperties": TEXT}
QUANTITY = {"anyOf": [COUNT, {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"}]}
QUANTITIES = {"type": "object", "additionalProperties": QUANTITY}
RESOURCES = obj(limits=QUANTITIES, requests=QUANTITIES)
META = obj("name", name=NAME, namespace=NAME, labels=WORDS, annotations=WORDS)
SELECTOR = obj("matchLabels", matchLabels=WORDS)
PROBE = obj(exec=obj("command", command=arr(TEXT)), tcpSocket=obj("port", port=PORT), periodSeconds=COUNT)
CAPABILITIES = obj(add=arr(TEXT), drop=arr(TEXT))
CONTAINER = obj("name image", name=PORT_NAME, image=TEXT, imagePullPolicy=one("Always", "IfNotPresent", "Never"), command=arr(TEXT),
                args=arr(TEXT), ports=arr(obj("containerPort", name=PORT_NAME, containerPort=PORT)), livenessProbe=PROBE,
                readinessProbe=PROBE, resources=RESOURCES,
                securityContext=obj(privileged=BOOL, allowPrivilegeEscalation=BOOL, readOnlyRootFilesystem=BOOL,
                                    capabilities=CAPABILITIES, seLinuxOptions=obj(type=TEXT)),
                volumeMounts=arr(obj("name mountPath", name=NAME, mountPath=TEXT, readOnly=BOOL)))
VOLUME = obj("name", name=NAME, emptyDir=obj(), persistentVolumeClaim=obj("claimName", claimName=NAME),
             secret=obj("secretName", secretName=NAME, defaultMode={"type": "integer", "minimum": 0, "maximum": 511}),
             hostPath=obj("path", path=TEXT, type=one("", "Directory", "DirectoryOrCreate", "Socket")))
POD = obj("containers", serviceAccountName=NAME, priorityClassName=NAME, hostPID=BOOL, hostNetwork=BOOL,
          restartPolicy=one("Always", "OnFailure", "Never"),
          securityContext=obj(runAsUser=COUNT, runAsGroup=COUNT, fsGroup=COUNT, runAsNonRoot=BOOL),
          tolerations=arr(obj(operator=one("Exists", "Equal"), key=TEXT)),
          affinity=obj(podAntiAffinity=obj(requiredDuringSchedulingIgnoredDuringExecution=arr(
              obj("topologyKey", labelSelector=SELECTOR, topologyKey=TEXT)))),
          containers=arr(CONTAINER), volumes=arr(VOLUME))
TEMPLATE = obj("metadata spec", metadata=obj("labels", labels=WORDS), spec=POD)
CLAIM = obj("accessModes resources", accessModes=arr(one("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")), resources=RESOURCES)
RULE = obj("apiGroups resources verbs", apiGroups=arr(TEXT), resources=arr(TEXT), verbs=arr(one("get", "list", "watch", "create")))
KINDS = {
    ("v1", "Namespace"): {},
    ("v1", "ServiceAccount"): {"automountServiceAccountToken": BOOL},
    ("v1", "Service"): {"spec": obj("ports", clusterIP=TEXT, publishNotReadyAddresses=BOOL, selector=WORDS,
                                    ports=arr(obj("port", name=PORT_NAME, port=PORT)))},
    ("v1", "Pod"): {"spec": POD},
    ("v1", "PersistentVolumeClaim"): {"spec": CLAIM},
    ("policy/v1", "PodDisruptionBudget"): {"spec": obj("selector", maxUnavailable=COUNT, selector=SELECTOR)},
    ("rbac.authorization.k8s.io/v1", "Role"): {"rules": arr(RULE)},
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): {
        "subjects": arr(obj("kind name", kind=one("User", "Group", "ServiceAccount"), name=TEXT, apiGroup=TEXT)),
        "roleRef": obj("kind name apiGroup", kind=one("Role", "ClusterRole"), name=NAME, apiGroup=TEXT)},
    ("apps/v1", "Deployment"): {"spec": obj("selector template", replicas=COUNT, selector=SELECTOR, template=TEMPLATE,
                                            strategy=obj(type=one("Recreate", "RollingUpdate")))},
    ("apps/v1", "DaemonSet"): {"spec": obj("selector template", selector=SELECTOR, template=TEMPLATE)},
    ("apps/v1", "StatefulSet"): {"spec": obj(
        "selector template serviceName", serviceName=NAME, replicas=COUNT, podManagementPolicy=one("OrderedReady", "Parallel"),
        selector=SELECTOR, template=TEMPLATE, volumeClaimTemplates=arr(obj("metadata spec", metadata=META, spec=CLAIM)))},
}


def complaints(o):
    kind = (o.get("apiVersion"), o.get("kind")) if isinstance(o, dict) else None
    if kind not in KINDS:
        yield "no known kind: %s" % (kind,)
        return
    schema = obj("apiVersion kind metadata", apiVersion=TEXT, kind=TEXT, metadata=META, **KINDS[kind])
    for e in jsonschema.Draft7Validator(schema).iter_errors(o):
        yield "%s: %s" % ("/".join(map(str, e.absolute_path)), e.message)
    spec = o.get("spec", {})
    template = spec.get("template", o if kind[1] == "Pod" else {})
    want, labels = spec.get("selector", {}).get("matchLabels"), template.get("metadata", {}).get("labels", {})
    if "template" in spec and not want.items() <= labels.items():
        yield "its selector does not fit its pods"
    volumes = {v["name"] for v in template.get("spec", {}).get("volumes", [])}
    volumes |= {v["metadata"]["name"] for v in spec.get("volumeClaimTemplates", [])}
    for c in template.get("spec", {}).get("containers", []):
        for m in c.get("volumeMounts", []):
            if m["name"] not in volumes:
                yield "container %s mounts %s, which is no volume" % (c["name"], m["name"])
            volumes.add(m["name"])


def together(objects):
    """What one object names and another is; all but the one that stands for a user's are in our namespace."""
    have = {(o["kind"], o["metadata"]["name"]) for o in objects}
    for o in objects:
        spec = o.get("spec", {})
        pod = spec.get("template", {}).get("spec", {})
        names = [("ServiceAccount", pod.get("serviceAccountName")), ("Service", spec.get("serviceName"))]
        names += [("PersistentVolumeClaim", v.get("persistentVolumeClaim", {}).get("claimName")) for v in pod.get("volumes", [])]
        names.append((o.get("roleRef", {}).get("kind"), o.get("roleRef", {}).get("name")))
        for n in names:
            if n[1] and n not in have:
                yield "%s %s: there is no %s %s" % (o["kind"], o["metadata"]["name"], *n)
        if o["kind"] not in ("Namespace", "Pod") and o["metadata"].get("namespace") != "freeflow":
            yield "%s %s: in no namespace of ours" % (o["kind"], o["metadata"]["name"])


found, objects = [], []
for path in sys.argv[1:]:
    with open(path) as f:
        for o in yaml.safe_load_all(f):
            found += ["%s: %s" % (path, c) for c in complaints(o)]
            objects.append(o)
if not found:
    found = list(together(objects))
print("\n".join(found) or "%d objects of %d files" % (len(objects), len(sys.argv) - 1))
sys.exit(bool(found))
