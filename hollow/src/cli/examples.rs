//! Examples and notes at the end of help pages.

/// The examples of `cloudsim --help`.
pub(super) const EXAMPLES: &str = "\
Examples:
  A cloud on this machine, and kubectl for it:
    cloudsim up
    export KUBECONFIG=$PWD/cloudsim.kubeconfig
    kubectl get nodes

  The same with three nodes in the same process, which run pods without containers:
    cloudsim up --nodes 3

  A cloud for other machines, with its state on disk:
    cloudsim up --address 0.0.0.0 --data-dir /var/lib/cloudsim

  A cloud in the background:
    cloudsim up --detach --nodes 3
    cloudsim status
    cloudsim down

  Watch nodes connect, and the names of disconnected ones for a script:
    cloudsim nodes --watch
    cloudsim nodes -o json | jq '.nodes[] | select(.session == null).name'

  Encrypt Secrets and keys on disk, and check the database:
    cloudsim db new-key /etc/cloudsim.key
    cloudsim up --data-dir /var/lib/cloudsim --key-file /etc/cloudsim.key
    cloudsim db check --data-dir /var/lib/cloudsim --key-file /etc/cloudsim.key

  The join token, and one for a single node:
    cloudsim token
    cloudsim token --node edge-1 --ttl 10m

  Free the name of a node for another machine:
    cloudsim node reset edge-1

  Find out why a pod does not run:
    cloudsim why pod/hello

  Write an archive for a bug report, without secrets:
    cloudsim bundle

  List devices, and set a property's desired value:
    cloudsim devices
    cloudsim devices set default/thermometer target=25

  List rules, and send a message through one:
    cloudsim rules
    cloudsim rules send edge-1 default/hello --body on

  Degrade the link of one node, and cut that of another:
    cloudsim faults set edge-1 --profile Satellite
    cloudsim faults cut edge-2

  A hundred simulated nodes that join a cloud elsewhere:
    cloudsim hollow --cloud cloud.example.org --token-file token --nodes 100

  Cluster mode, for example with kind:
    cloudsim up --kube-context kind-kind --address 0.0.0.0
    cloudsim token --kubeconfig ~/.kube/config

  A scenario from a file, with a JUnit report:
    cloudsim run examples/scenarios/cut.yaml --junit outcome.xml

Environment:
  KUBECONFIG                         Kubeconfig files, as for kubectl
  CLOUDSIM_LOG, CLOUDSIM_LOG_FORMAT  Values of --log-filter and --log-format
  NO_COLOR                           Print no colours
  CLICOLOR_FORCE                     Print colours in a pipe, too";

/// The notes of `cloudsim bundle --help`.
pub(super) const BUNDLE_NOTES: &str = "\
The archive has the objects of the API, connected nodes, events, metrics, versions, options and the log of a cloud in the \
background. Only its owner can read it.
Values of Secrets, ConfigMaps and environment variables, tokens, keys and passwords are replaced by ***. errors.txt names what \
could not be read.";

/// The notes of `cloudsim conformance --help`.
pub(super) const CONFORMANCE_NOTES: &str = "\
Exit code: 0 no case failed, 1 a case failed. Skipped cases do not count.
Test a cloud that runs here:
  cloudsim conformance --cloud 127.0.0.1
Test an edge, which joins with the printed command:
  cloudsim conformance --edge --address 192.0.2.10";

/// The notes of `cloudsim record --help`.
pub(super) const RECORD_NOTES: &str = "\
Nodes join the proxy with the printed command. The proxy joins the cloud under the same names, with keys of its own. After a restart \
with the same --data-dir, nodes connect again; the token is needed only for new nodes.
Between a cloud and a node on this machine:
  cloudsim record session.rec --cloud 127.0.0.1 --token \"$(cloudsim token)\" \\
    --https-port 20002 --ws-port 20000 --tunnel-port 20004";

/// The notes of `cloudsim replay --help`.
pub(super) const REPLAY_NOTES: &str = "\
Exit code: 0 no difference, 1 the other side responded differently, 2 not replayed.
Play the edge against a cloud that runs here:
  cloudsim replay session.rec --as edge --cloud 127.0.0.1 --token \"$(cloudsim token)\"
Play the cloud against an edge, which joins with the printed command:
  cloudsim replay session.rec --as cloud --address 192.0.2.10";

/// The notes of `cloudsim selftest --help`.
pub(super) const SELFTEST_NOTES: &str = "\
Exit code: 0 passed, 1 failed.
The cluster is that of --kubeconfig, of $KUBECONFIG, or of the pod in which the command runs.";
