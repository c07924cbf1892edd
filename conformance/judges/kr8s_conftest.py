"""What kr8s's tests need: the cluster that $KUBECONFIG names, instead of a new one of kind."""

import gc
import os
import shutil
import subprocess
from pathlib import Path

import pytest


class Cluster:
    """The part of kind's interface that the tests use."""

    kubeconfig_path = Path(os.environ["KUBECONFIG"])
    kubectl_path = Path(shutil.which("kubectl"))

    def kubectl(self, *arguments):
        return subprocess.run(["kubectl", *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def ensure_gc():
    gc.collect()
    yield
    gc.collect()


@pytest.fixture(scope="session", autouse=True)
def k8s_cluster():
    return Cluster()
