"""CEL's conformance tests as rules of a custom resource: python cel.py RECORDED TESTS [--record].

A case is right if the API server's answer is that of kube-apiserver, which is recorded: the rule is refused, true, false or an error.
"""

import base64
import json
import os
import subprocess
import sys

import crd_cases


def literal(value):
    """Returns a value of the tests as CEL, `None` if it has no such form."""
    ((kind, content),) = value.items()
    if kind in ("int64Value", "boolValue", "nullValue"):
        text = {"True": "true", "False": "false", "None": "null", "NULL_VALUE": "null"}.get(str(content), str(content))
        return f"({text})" if text.startswith("-") else text
    if kind == "uint64Value":
        return f"{content}u"
    if kind == "doubleValue":
        special = {"Infinity": 'double("Infinity")', "-Infinity": 'double("-Infinity")', "NaN": 'double("NaN")'}
        return special.get(content) or f"({float(content)!r})"
    if kind == "stringValue":
        return json.dumps(content, ensure_ascii=False)
    if kind == "bytesValue":
        data = base64.b64decode(content) if isinstance(content, str) else bytes(content.values() if isinstance(content, dict) else content)
        return 'b"' + "".join(f"\\x{byte:02x}" for byte in data) + '"'
    if kind == "listValue":
        return collect("[", content.get("values", []), "]", literal)
    if kind == "mapValue":
        return collect("{", content.get("entries", []), "}", entry)
    return content if kind == "typeValue" else None


def entry(one):
    parts = [literal(one["key"]), literal(one["value"])]
    return None if None in parts else ": ".join(parts)


def collect(begin, items, end, form):
    texts = [form(item) for item in items]
    return None if None in texts else begin + ", ".join(texts) + end


def rule(test):
    """Returns the rule that holds if the test passes."""
    text = f"({test['expr']})"
    if "value" in test:
        expected = literal(test["value"])
        if expected is None:
            return None
        # NaN is not equal to itself
        text = f"{text} == {expected}" if "NaN" not in expected else f"{text} != {text}"
    elif "evalError" in test:
        text = f"{text} == {text}"
    for name, bound in test.get("bindings", {}).items():
        value = literal(bound["value"]) if "value" in bound else None
        if value is None:
            return None
        text = f"[{value}].all({name}, {text})"
    return text


def cases(suite, path):
    for inner in suite.get("suites", []):
        yield from cases(inner, [*path, inner["name"]])
    for test in suite.get("tests", []):
        original = test["original"]
        text = rule(original)
        if text is not None:
            schema = {"type": "string", "x-kubernetes-validations": [{"rule": text}]}
            yield "/".join([*path, original["name"]]), schema, ["x"]


def read(path):
    """Returns the tests, which are a module of JavaScript."""
    script = f"import({json.dumps(path)}).then(module => console.log(JSON.stringify(module.tests)))"
    return json.loads(subprocess.run(["node", "-e", script], check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    unique = {case[0]: case for case in cases(read(os.path.abspath(sys.argv.pop(2))), [])}
    crd_cases.main(list(unique.values()))
