"""Asks an API server about schemas and rules of custom resources, many at a time: which it refuses, and which values they admit.

A case is a property of a CustomResourceDefinition: (name, schema, values). Its answer is `refused`, or one word for each value: `valid`,
`invalid`, or `error` if a rule could not be evaluated.
"""

import json
import re
import sys
import time
import urllib.parse
from pathlib import Path

from kubernetes import client, config

GROUP = "judges.example.com"
#: Cases in one definition.
BATCH = 20


class Api:
    """Requests without a model."""

    def __init__(self):
        self.client = config.new_client_from_config()

    def call(self, method, path, body=None):
        """Returns the code and the decoded body."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        self.client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        try:
            answer = self.client.call_api(method, self.client.configuration.host + path, headers, body, _request_timeout=60)
            code, text = answer.status, answer.read()
        except client.ApiException as error:
            code, text = error.status, error.body
        try:
            return code, json.loads(text or "{}")
        except ValueError:
            return code, {"message": str(text)}


def definition(number, properties):
    names = {"plural": f"batch{number}s", "singular": f"batch{number}", "kind": f"Batch{number}", "listKind": f"Batch{number}List"}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{names['plural']}.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}


def causes(body):
    return (body.get("details") or {}).get("causes") or []


def ask(cases):
    """Returns the answer to each case by its name."""
    api, answers = Api(), {}
    for number in range(0, len(cases), BATCH):
        answers.update(ask_batch(api, number, cases[number:number + BATCH]))
    return answers


def ask_batch(api, number, cases):
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cases, answers = {f"f{place}": case for place, case in enumerate(cases)}, {}
    while cases:
        body = definition(number, {key: case[1] for key, case in cases.items()})
        code, answer = api.call("POST", definitions, body)
        if code == 201:
            break
        refused = {key for cause in causes(answer) for key in re.findall(r"properties\[spec\]\.properties\[(f\d+)\]", cause.get("field", ""))}
        if code != 422 or not refused & cases.keys():
            # not decoded: only one at a time shows which
            if len(cases) == 1:
                refused = set(cases)
            else:
                for place, case in enumerate(cases.values()):
                    answers.update(ask_batch(api, f"{number}x{place}", [case]))
                return answers
        for key in refused & cases.keys():
            answers[cases.pop(key)[0]] = "refused"
    if not cases:
        return answers
    path = f"/apis/{GROUP}/v1/namespaces/default/batch{number}s"
    wait(api, path)
    for key, (name, _, values) in cases.items():
        answers[name] = " ".join(judge(api, number, path, key, value) for value in values)
    api.call("DELETE", f"{definitions}/batch{number}s.{GROUP}")
    return answers


def wait(api, path):
    """Waits until the kind is served."""
    until = time.monotonic() + 30
    while (answer := api.call("GET", path))[0] != 200:
        if time.monotonic() > until:
            sys.exit(f"{path} is not served: {answer}")
        time.sleep(0.05)


def judge(api, number, path, key, value):
    body = {"apiVersion": f"{GROUP}/v1", "kind": f"Batch{number}", "metadata": {"name": "one"}, "spec": {key: value}}
    for _ in range(100):
        code, answer = api.call("POST", path + "?" + urllib.parse.urlencode({"dryRun": "All"}), body)
        # a definition that is new may not be served by each worker yet
        if code != 404:
            break
        time.sleep(0.05)
    if code == 201:
        return "valid"
    messages = [cause.get("message", "") for cause in causes(answer)]
    return "error" if any(" evaluating rule: " in message for message in messages) else "invalid" if code == 422 else str(code)


def compare(cases, recorded, record):
    """Prints a line for each case: whether the answer is the one that kube-apiserver gave; or records the answers."""
    answers = ask(cases)
    if record:
        Path(recorded).write_text("".join(f"{json.dumps([name, answers[name]])}\n" for name, _, _ in cases))
        return
    expected = dict(json.loads(line) for line in Path(recorded).read_text().splitlines())
    for name, _, _ in cases:
        found, wanted = answers[name], expected.get(name, "nothing")
        outcome = "PASSED" if found == wanted else "FAILED"
        print(f"{outcome} {name} :: {'' if found == wanted else f'kube-apiserver: {wanted}, here: {found}'}")


def main(cases):
    recorded, *rest = sys.argv[1:]
    compare(cases, recorded, rest == ["--record"])
