//! A served API, and `kubectl` with a kubeconfig for it.

use std::{net::SocketAddr, process::Stdio};

use apiserver::Builder;
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::{
    api::core::v1::{Namespace, Pod},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client,
    api::{Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use kubeapi::{Registry, serve::Server};
use objectstore::MemoryStore;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{PROCESS_TIMEOUT, within, within_timeout};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::pki::Authority;

/// A served API with the namespace `default`.
pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    pub(crate) shutdown: CancellationToken,
    pub(crate) server: JoinHandle<()>,
    home: TempDir,
}

/// What `kubectl` said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

fn widgets() -> CustomResourceDefinition {
    let size = json!({"type": "integer", "description": "How large it is."});
    let spec = json!({"type": "object", "properties": {"size": size}});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
                ],
            }],
        },
    }))
    .unwrap()
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::of(|builder| builder).await
    }

    /// One whose API is made as `with` says.
    pub(crate) async fn of(with: impl FnOnce(Builder) -> Builder) -> Self {
        let authority = Authority::new();
        let builder = apiserver::builder(MemoryStore::new())
            .registry(Registry::builtin().with_crds(&[widgets()]));
        let api = with(builder).build();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(any, Some(authority.server_config()), api.service())
            .await
            .unwrap();
        let (address, shutdown) = (server.local_addr(), CancellationToken::new());
        let server = tokio::spawn(server.run(shutdown.clone()));
        let client = api.client("default");
        let namespaces = kube::Api::all(client.clone());
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let world = Self {
            authority,
            address,
            client,
            shutdown,
            server,
            home: TempDir::new().unwrap(),
        };
        world.write_kubeconfig();
        world
    }

    fn write_kubeconfig(&self) {
        let pair = self.authority.client("admin", "system:masters");
        let encoded = |text: &str| STANDARD.encode(text);
        let cluster = json!({
            "server": format!("https://{}", self.address),
            "certificate-authority-data": encoded(&self.authority.pem()),
        });
        let user = json!({
            "client-certificate-data": encoded(&pair.certificate), "client-key-data": encoded(&pair.key),
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        std::fs::write(self.home.path().join("config"), config.to_string()).unwrap();
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(testkit::kubectl());
        // blanks within an argument are written as `~`
        command.args(line.split(' ').map(|word| word.replace('~', " ")));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("TZ", "UTC")
            // no shell: kubectl splits this at the blanks
            .env("KUBE_EDITOR", "sed -i s/before/after/")
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("config"));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn start(&self, line: &str) -> Child {
        self.command(line)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run kubectl: {error}"))
    }

    /// Runs `kubectl` with `input` on its standard input.
    pub(crate) async fn run_with(&self, line: &str, input: &str) -> Said {
        let mut child = self.start(line);
        let mut stdin = child.stdin.take().unwrap();
        // one that reads nothing may be gone already
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = within_timeout(
            PROCESS_TIMEOUT,
            &format!("kubectl {line}"),
            child.wait_with_output(),
        )
        .await;
        let output = output.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said {
            ok: output.status.success(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// What `kubectl` prints, which must succeed.
    pub(crate) async fn run(&self, line: &str, input: &str) -> String {
        let said = self.run_with(line, input).await;
        assert!(said.ok, "kubectl {line}: {}{}", said.out, said.err);
        said.out
    }

    pub(crate) async fn kubectl(&self, line: &str) -> String {
        self.run(line, "").await
    }

    /// What `kubectl` complains about.
    pub(crate) async fn fail(&self, line: &str, input: &str) -> String {
        let said = self.run_with(line, input).await;
        assert!(!said.ok, "kubectl {line} went through: {}", said.out);
        said.err
    }

    /// `kubectl` in the background; its lines can be read while it runs.
    pub(crate) fn follow(&self, line: &str) -> Following {
        let mut child = self.start(line);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Following {
            lines,
            _child: child,
        }
    }

    pub(crate) fn pods(&self) -> kube::Api<Pod> {
        kube::Api::default_namespaced(self.client.clone())
    }

    /// Changes the status of a pod as a kubelet would.
    pub(crate) async fn report(&self, pod: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.pods()
            .patch_status(pod, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until the deletion of a pod has begun.
    pub(crate) async fn ends(&self, pod: &str) {
        let is_ending =
            |pod: Option<&Pod>| pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
        within(
            "the beginning of the deletion",
            await_condition(self.pods(), pod, is_ending),
        )
        .await
        .unwrap();
    }
}

/// A `kubectl` that goes on, and ends with this.
pub(crate) struct Following {
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Following {
    /// Reads until a line that begins with `start`.
    pub(crate) async fn until(&mut self, start: &str) {
        let found = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.starts_with(start) {
                    return true;
                }
            }
            false
        };
        let what = format!("a line that begins with {start:?}");
        assert!(
            within_timeout(PROCESS_TIMEOUT, &what, found).await,
            "{what}: kubectl has ended"
        );
    }
}
