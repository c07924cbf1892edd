"""What the tests of the Python client need: the configuration of the cluster that $KUBECONFIG names."""

from kubernetes import config
from kubernetes.client import configuration


def get_e2e_configuration():
    given = configuration.Configuration()
    config.load_kube_config(client_configuration=given)
    return given
