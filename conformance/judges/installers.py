"""Installs what projects publish for `kubectl apply`, and removes it again: python installers.py FOLDER. An installer passes if the API server
takes all its objects, a second application would change nothing, its definitions are served, its workloads become ready on simulated
nodes, and all of it can be deleted."""

import json
import subprocess
import sys
from pathlib import Path

import yaml

#: The kinds whose pods are waited for.
WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")


class Step(Exception):
    """A step that failed; the text is what kubectl said."""


def kubectl(*command, limit=240):
    done = subprocess.run(["kubectl", *command], capture_output=True, text=True, timeout=limit)
    if done.returncode:
        raise Step(f"kubectl {' '.join(command[:2])}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def judge(file):
    with open(file) as text:
        objects = [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]
    kubectl("create", "namespace", file.stem)
    # for objects that name no namespace, as the projects' pages say
    kubectl("config", "set-context", "--current", "--namespace", file.stem)
    given = ["-f", str(file)]
    # kubectl's annotation has room for smaller ones only
    if any(len(json.dumps(one)) > 200_000 for one in objects):
        given.append("--server-side")
    named = {one["metadata"]["namespace"] for one in objects if one["metadata"].get("namespace")}
    made = {one["metadata"]["name"] for one in objects if one["kind"] == "Namespace"}
    for name in named - made - set(kubectl("get", "namespaces", "--output=jsonpath={.items[*].metadata.name}").split()):
        kubectl("create", "namespace", name)
    kubectl("apply", *given)
    if names := [one["metadata"]["name"] for one in objects if one["kind"] == "CustomResourceDefinition"]:
        kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", *names)
    for one in objects:
        if one["kind"] in WORKLOADS:
            place = one["metadata"].get("namespace") or file.stem
            kubectl("rollout", "status", f"{one['kind']}/{one['metadata']['name']}".lower(), "--namespace", place, "--timeout=120s")
    kubectl("diff", *given)
    kubectl("delete", "--ignore-not-found", "--timeout=120s", "-f", str(file))


def main():
    for file in sorted(Path(sys.argv[1]).glob("*.yaml")):
        try:
            judge(file)
            outcome, why = "PASSED", ""
        except (Step, subprocess.TimeoutExpired) as failed:
            outcome, why = "FAILED", " ".join(str(failed).split())[:600]
        # its webhooks must not judge the next one
        subprocess.run(["kubectl", "delete", "--ignore-not-found", "--wait=false", "-f", str(file)], capture_output=True, timeout=240)
        print(f"{outcome} {file.stem} :: {why}", flush=True)


main()
