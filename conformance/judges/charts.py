"""Installs Helm charts, each into a namespace of its own: python charts.py FOLDER. A chart passes if the API server takes all its objects."""

import sys
from pathlib import Path

import yaml

from commands import run, tell

#: It has the definitions that other charts use.
FIRST = "prometheus-operator-crds"


def judge(chart):
    """Returns the outcome of a chart and why."""
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    missing = [one["name"] for one in described.get("dependencies") or [] if not list((chart / "charts").glob(f"{one['name']}*"))]
    if missing:
        return "SKIPPED", f"it needs charts that are not here: {', '.join(missing)}"
    namespace = chart.name
    # with the versions that the API server has
    made = run("helm", "template", "judge", str(chart), "--include-crds", "--namespace", namespace, "--dry-run=server")
    if made.returncode:
        return "SKIPPED", f"it cannot be rendered with its defaults: {made.stderr.strip()}"
    run("kubectl", "create", "namespace", namespace)
    # as Helm does, for objects without a namespace
    run("kubectl", "config", "set-context", "--current", "--namespace", namespace)
    applied = run("kubectl", "apply", "--server-side", "-f", "-", given=made.stdout)
    return ("FAILED", applied.stderr.strip()) if applied.returncode else ("PASSED", "")


def main():
    charts = [path.parent for path in Path(sys.argv[1]).glob("*/Chart.yaml")]
    for chart in sorted(charts, key=lambda chart: (chart.name != FIRST, chart.name)):
        outcome, why = judge(chart)
        tell(outcome, chart.name, why)


main()
