"""What the tests of the asynchronous Python client need: the configuration of the cluster that $KUBECONFIG names."""

import asyncio

from kubernetes.aio import config
from kubernetes.aio.client import configuration


def get_e2e_configuration():
    given = configuration.Configuration()
    asyncio.run(config.load_kube_config(client_configuration=given))
    return given
