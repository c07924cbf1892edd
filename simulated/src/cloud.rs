//! The cloud: an API that stays, and CloudCore on top of it, which is stopped and started.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use cloudsim::{
    controllers::{
        device::Devices, dynamic::Dynamic, edge::Edge, events::Recorder, namespace_defaults,
        sync::SyncRecords,
    },
    hub::{Acceptor, Limits},
    mailbox::Mailboxes,
    tasks::Tasks,
};
use kube::Client;
use kubeapi::Registry;
use objectstore::{MemoryStore, Resource, Scope, Store, StoreError};
use testkit::Random;
use tokio::{io::DuplexStream, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{store::Slow, watcher::Watcher};

/// How long each half of a commit may take.
const COMMIT: Duration = Duration::from_millis(3);

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::builtin().with_crds(&crds::all()));

/// The cloud.
pub(crate) struct Cloud {
    pub(crate) store: Arc<Slow>,
    pub(crate) client: Client,
    core: Option<Core>,
    _watching: JoinSet<()>,
}

/// CloudCore, which ends at once when this is dropped.
struct Core {
    acceptor: Acceptor,
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Cloud {
    pub(crate) async fn new(seed: u64, watcher: &Watcher) -> Self {
        let store = Slow::new(Random::of(seed, &["cloud"], 0), COMMIT);
        watcher.cloud_is(Arc::clone(store.inner()));
        let api = apiserver::builder(Arc::<Slow>::clone(&store))
            .registry(REGISTRY.clone())
            .build();
        let client = api.client("default");
        namespace_defaults::ensure_initial(&client)
            .await
            .expect("the first namespaces");
        let mut watching = JoinSet::new();
        for plural in ["pods", "nodes", "configmaps", "secrets"] {
            watching.spawn(watch(Arc::clone(store.inner()), plural, watcher.clone()));
        }
        Self {
            store,
            client,
            core: None,
            _watching: watching,
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.core.is_some()
    }

    pub(crate) fn start(&mut self) {
        let (mailboxes, shutdown) = (Mailboxes::default(), CancellationToken::new());
        let edge = Edge::new(self.client.clone(), mailboxes.clone(), "");
        // The recorder's tasks end with the token.
        let events = Recorder::spawn(&Tasks::default(), &self.client, &shutdown);
        let devices = Devices::new(self.client.clone(), mailboxes.clone(), events);
        let controllers = (
            edge.clone(),
            Dynamic::new(self.client.clone(), edge.clone()),
            devices.clone(),
        );
        let records = SyncRecords::new(self.client.clone());
        let acceptor = Acceptor::new(controllers, records, mailboxes, Limits::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(edge.run(shutdown.clone()));
        tasks.spawn(devices.run(shutdown.clone()));
        self.core = Some(Core {
            acceptor,
            tasks,
            shutdown,
        });
    }

    /// Ends CloudCore at once, as a power cut does.
    pub(crate) fn kill(&mut self) {
        self.core = None;
    }

    /// Accepts a node's connection; returns false while there is no CloudCore.
    pub(crate) fn accept(&mut self, node: &str, connection: DuplexStream) -> bool {
        let Some(core) = &mut self.core else {
            return false;
        };
        // This removes tasks that have ended.
        while core.tasks.try_join_next().is_some() {}
        let (acceptor, node, shutdown) = (
            core.acceptor.clone(),
            node.to_owned(),
            core.shutdown.clone(),
        );
        core.tasks
            .spawn(async move { acceptor.accept_node(&node, connection, &shutdown).await });
        true
    }
}

/// Shows the watcher all changes of a collection.
async fn watch(store: Arc<MemoryStore>, plural: &'static str, watcher: Watcher) {
    loop {
        let _: Result<(), StoreError> = async {
            let scope = Scope {
                resource: Resource::new("", plural),
                namespace: None,
            };
            let mut changes = store.watch(scope, store.revision())?;
            loop {
                watcher.record_event("a client of the cloud", &changes.next().await?);
            }
        }
        .await;
    }
}
