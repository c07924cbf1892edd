"""Installs the manifests that projects publish for kubectl, one after another: python installers.py FOLDER.

An installer passes if kubectl applies it, its definitions are established, its workloads run, its objects read as they were applied,
applying it again changes nothing, and deleting it leaves nothing behind.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from commands import run, tell

#: Where the pages of the projects put objects without a namespace, if not in `default`.
NAMESPACES = {"argo-cd": "argocd", "argo-events": "argo-events", "argo-rollouts": "argo-rollouts", "argo-workflows": "argo", "strimzi": "myproject"}
#: Applied on the server, as their pages say, or as they are too large for the client's annotation. The others are applied by the client.
SERVER_SIDE = {"argo-cd", "argo-rollouts", "argo-workflows", "keda", "strimzi"}
#: Secrets that the installer's own programs create. Containers of simulated nodes run no programs.
SECRETS = {"argo-cd": "argocd/argocd-redis", "ingress-nginx": "ingress-nginx/ingress-nginx-admission", "keda": "keda/kedaorg-certs",
           "metallb": "metallb-system/memberlist"}
WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")
#: Seconds.
LIMIT = 90
UNITS = {"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, **{unit: 1000**power for power, unit in enumerate("kMGTPE", 1)},
         **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}}


class Fault(Exception):
    pass


def must(*command, **options):
    try:
        ended = run(*command, **options)
    except subprocess.TimeoutExpired as expired:
        raise Fault(f"{' '.join(map(str, command[:4]))} did not end in time") from expired
    if ended.returncode:
        errors = [line for line in ended.stderr.splitlines() if not line.startswith("Warning: ")]
        raise Fault(f"{' '.join(map(str, command[:4]))}: {' '.join(errors)}")
    return ended.stdout


def install(path, file, namespace):
    applied = [one for one in yaml.load_all(path.read_text(), yaml.CSafeLoader) if one and not is_brief(one)]
    apply = ["kubectl", "apply", *file] + (["--server-side", "--force-conflicts"] if path.stem in SERVER_SIDE else [])
    if namespace != "default":
        must("kubectl", "create", "namespace", namespace)
    must(*apply)
    wait(path, applied, namespace)
    before = read(file)
    for one in applied:
        compare(one, before, namespace)
    # the client says `configured` of objects whose patch changes nothing, so the objects themselves are compared
    must(*apply)
    after = read(file)
    for name, one in before.items():
        old, new = without_status(one), without_status(after.get(name, {"metadata": {}}))
        if difference := lacks(old, new) or lacks(new, old):
            raise Fault(f"applied again, it is another one: {' '.join(filter(None, name))} {difference}")


def is_brief(one):
    """Whether an object is a Job that is deleted once it has ended."""
    return one["kind"] == "Job" and one["spec"].get("ttlSecondsAfterFinished") == 0


def wait(path, applied, namespace):
    """Waits until definitions are established and workloads run."""
    definitions = [f"crd/{one['metadata']['name']}" for one in applied if one["kind"] == "CustomResourceDefinition"]
    if definitions:
        must("kubectl", "wait", "--for=condition=Established", f"--timeout={LIMIT}s", *definitions)
    if path.stem in SECRETS:
        place, _, name = SECRETS[path.stem].partition("/")
        must("kubectl", "create", "secret", "generic", name, "--namespace", place, "--from-literal=auth=any")
    for one in applied:
        if one["kind"] in WORKLOADS:
            name, place = one["metadata"]["name"], one["metadata"].get("namespace", namespace)
            must("kubectl", "rollout", "status", f"{one['kind']}/{name}", "--namespace", place, f"--timeout={LIMIT}s")


def read(file):
    """Returns all objects of a file that the API server has."""
    found = json.loads(must("kubectl", "get", *file, "--ignore-not-found", "--output=json") or "{}")
    found = found.get("items", [found] if found else [])
    return {key(one): one for one in found if not is_brief(one)}


def key(one, namespace=None):
    return one["apiVersion"].partition("/")[0], one["kind"], one["metadata"].get("namespace", namespace), one["metadata"]["name"]


def compare(one, found, namespace):
    """Fails if a field that was applied is not in what the API server has."""
    there = found.get(key(one)) or found.get(key(one, namespace))
    if there is None and one["kind"] == "Job":
        # it has ended, and is deleted if its manifest says so
        return
    if there is None:
        raise Fault(f"not found: {one['kind']} {one['metadata']['name']}")
    # written, but never read
    lost = lacks({name: value for name, value in one.items() if name not in ("status", "stringData")}, there)
    if lost:
        raise Fault(f"{one['kind']} {one['metadata']['name']} was applied with another {lost}")


def lacks(wanted, found, path=""):
    """Returns where something that is wanted is missing or different, or nothing."""
    # nothing is wanted of null, as in `creationTimestamp: null`
    if wanted is None or (wanted in ({}, [], "") and found in (None, {}, [], "")):
        return None
    if isinstance(wanted, dict) and isinstance(found, dict):
        return next(filter(None, (lacks(value, found.get(name), f"{path}.{name}") for name, value in wanted.items())), None)
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return next(filter(None, (lacks(*pair, f"{path}[{number}]") for number, pair in enumerate(zip(wanted, found)))), None)
    if wanted == found or quantity(wanted) == quantity(found) is not None:
        return None
    return f"{path}: {str(wanted)[:80]!r}, {str(found)[:80]!r}"


def quantity(value):
    number = re.fullmatch(r"(\d+(?:\.\d+)?)([numkMGTPE]|[KMGTPE]i)?", str(value))
    return float(number[1]) * UNITS[number[2] or ""] if number else None


def without_status(one):
    metadata = {name: value for name, value in one["metadata"].items() if name not in ("resourceVersion", "managedFields")}
    return {**one, "metadata": metadata, "status": None}


def remove(file, namespace, before):
    """Deletes an installer; fails if anything of it stays, except what the cloud had before."""
    must("kubectl", "delete", *file, "--ignore-not-found", f"--timeout={LIMIT}s", limit=LIMIT + 60)
    if namespace != "default":
        must("kubectl", "delete", "namespace", namespace, f"--timeout={LIMIT}s")
    if left := read(file).keys() - before:
        raise Fault(f"not deleted: {left}")


def judge(path):
    """Returns what is wrong with an installer, and removes it in any case."""
    namespace = NAMESPACES.get(path.stem, "default")
    file, faults = ["--filename", path, *(["--namespace", namespace] if namespace != "default" else [])], []
    before = read(file).keys()
    for step in (lambda: install(path, file, namespace), lambda: remove(file, namespace, before)):
        try:
            step()
        except Fault as fault:
            faults.append(str(fault))
    return faults


def main():
    for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
        faults = judge(path)
        tell("FAILED" if faults else "PASSED", path.stem, "; ".join(faults))


main()
