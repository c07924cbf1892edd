"""JSON Schema's test suite as schemas of custom resources: python json_schema.py RECORDED [--record], in the suite's folder.

A case is right if the API server's answer is that of kube-apiserver, which is recorded: the schema is refused, or which values it admits.
Schemas of custom resources are structural, so a place without a type gets x-kubernetes-preserve-unknown-fields.
"""

import json
from pathlib import Path

import crd_cases


def structural(schema):
    if not isinstance(schema, dict):
        return schema
    result = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = structural(result[key])
    if isinstance(result.get("properties"), dict):
        result["properties"] = {name: structural(one) for name, one in result["properties"].items()}
    if "type" not in result:
        result["x-kubernetes-preserve-unknown-fields"] = True
    return result


def cases(folder):
    for file in sorted(folder.glob("*.json")):
        for group in json.loads(file.read_text()):
            schema = {key: value for key, value in group["schema"].items() if key != "$schema"} if isinstance(group["schema"], dict) else group["schema"]
            yield f"{file.stem}: {group['description']}", structural(schema), [test["data"] for test in group["tests"]]


if __name__ == "__main__":
    unique = {}
    for draft in ("draft4", "draft7"):
        for name, schema, values in cases(Path("tests") / draft):
            unique[f"{draft} {name}"] = (f"{draft} {name}", schema, values)
    crd_cases.main(list(unique.values()))
