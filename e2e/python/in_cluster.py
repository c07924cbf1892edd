"""What the official client sees with the configuration that every pod has.

With an argument, the API is looked for at that host and port 443 instead of what the variables say. Prints one line of JSON: the names of
the ConfigMaps of the namespace `default`, and how a list of Secrets was answered.
"""

import json
import os
import sys

from kubernetes import client, config
from kubernetes.client.rest import ApiException

if len(sys.argv) > 1:
    os.environ.update(KUBERNETES_SERVICE_HOST=sys.argv[1], KUBERNETES_SERVICE_PORT="443")
config.load_incluster_config()
api = client.CoreV1Api()
maps = [item.metadata.name for item in api.list_namespaced_config_map("default").items]
try:
    api.list_namespaced_secret("default")
    secrets = 200
except ApiException as error:
    secrets = error.status
print(json.dumps({"maps": sorted(maps), "secrets": secrets}))
