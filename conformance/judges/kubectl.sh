#!/usr/bin/env bash
# Runs kubectl's tests, the functions of Kubernetes' test/cmd, against a running cloud: bash kubectl.sh KUBECONFIG PORT FOLDER
# It is run in the sources of Kubernetes with kubectl in _output/bin, and prints a line for each function. Their output is in FOLDER.
# legacy-script.sh calls the functions; what it does around them, it does for a kube-apiserver of its own, so this script does it.

set -o errexit -o nounset -o pipefail
unset KUBECONFIG
export TERM=xterm LANG=C SECURE_API_PORT=$2 ALLOW_SKEW=1 SUPPORTED_RESOURCES="*"
LOGS=$3/functions LIMIT=${LIMIT:-300}
mkdir -p "$LOGS"

# kube-apiserver allows everything to everyone and has a token in a file. Here, the token is a service account's.
export PATH=$PWD/_output/bin:$PATH
admin=(kubectl --kubeconfig "$1")
"${admin[@]}" create clusterrolebinding allow-all --clusterrole=cluster-admin --group=system:authenticated --group=system:unauthenticated
"${admin[@]}" create serviceaccount admin --namespace kube-system
token=$("${admin[@]}" create token admin --namespace kube-system --duration=6h)
[[ -d _output/cmd ]] || cp -r test/cmd _output/cmd
for script in _output/cmd/*.sh; do
  sed "s/admin-token/$token/g" "$script" > "test/cmd/${script##*/}"
done
# its Services have the addresses 10.0.0.0/24
{ grep -rlF '10.0.0.' test/cmd hack/testdata || true; } | xargs -r sed -i 's/\b10\.0\.0\./10.96.0./g'

source hack/lib/init.sh
source hack/lib/test.sh
source test/cmd/legacy-script.sh
kube::util::ensure-temp-dir
export HOME=$KUBE_TEMP TMPDIR=$KUBE_TEMP CONTEXT=test
kube::util::ensure-gnu-sed
"${admin[@]}" config view --raw --minify --output 'jsonpath={.clusters[0].cluster.certificate-authority-data}' | base64 -d > "$TMPDIR/apiserver.crt"
kubectl config set-credentials test-admin --token "$token"
kubectl config set-cluster local --insecure-skip-tls-verify --server "https://127.0.0.1:$SECURE_API_PORT"
kubectl config set-context "$CONTEXT" --user test-admin --cluster local
kubectl config use-context "$CONTEXT"
# kube-apiserver has no class of storage and no definitions, and its CA has another name
"${admin[@]}" delete storageclass,crd --all
kube::util::test_client_certificate_authentication_enabled() { :; }
# the object that hack/make-rules/test-cmd.sh creates, as no kubelet runs
kubectl create -f - <<< '{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "127.0.0.1", "annotations": {"save-managers": "true"}},
  "status": {"capacity": {"memory": "1Gi"}}}'

# In place of the function of legacy-script.sh, which writes JUnit's XML: it has control characters, which XML forbids.
record_command() {
  local name=$1 log=$LOGS/$1.log status=0 outcome=PASSED message=""
  set +o errexit +o nounset -o monitor
  ("$name") > "$log" 2>&1 &
  local function=$! waited=0
  while kill -0 "$function" 2> /dev/null && (( waited++ < LIMIT * 5 )); do sleep 0.2; done
  kill -KILL -- "-$function" 2> /dev/null
  wait "$function"
  status=$?
  set -o errexit -o nounset +o monitor
  if (( status )); then
    outcome=FAILED
    message=$({ grep -m1 -A3 'FAIL!' "$log"; tail -n 3 "$log"; } | sed 's/\x1b[^m]*m//g; s/\x1b(B//g' | tr '\n' ' ')
  fi
  echo "$outcome $name :: $message"
}

# The tests between the functions print nothing that counts, but end everything if they fail.
runTests
