//! Revokes a node's certificates when its Node is deleted; the machine has to join again.
//!
//! In: events of Nodes. Out: records of [`NodeCertificates`], and ended sessions.

use std::{collections::BTreeMap, pin::pin};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    pki::{NodeCertificates, RecordError},
    sessions::Sessions,
};

/// Runs until `shutdown`.
pub async fn run(
    client: Client,
    certificates: NodeCertificates,
    sessions: Sessions,
    shutdown: CancellationToken,
) {
    let revoker = Revoker {
        certificates,
        sessions,
    };
    // cancel-safe: what was not seen is in the next list
    shutdown.run_until_cancelled(revoker.watch(client)).await;
}

struct Revoker {
    certificates: NodeCertificates,
    sessions: Sessions,
}

impl Revoker {
    async fn watch(&self, client: Client) {
        let nodes = Api::<PartialObjectMeta<Node>>::all(client);
        let mut listed = BTreeMap::new();
        let mut events =
            pin!(watcher::watcher(nodes, watcher::Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            let done = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    Ok(())
                }
                Ok(Event::InitApply(node)) => {
                    listed.insert(node.name_any(), node.uid().unwrap_or_default());
                    self.record_seen(&node.name_any(), &node.uid().unwrap_or_default())
                        .await
                }
                Ok(Event::InitDone) => self.handle_list(&std::mem::take(&mut listed)).await,
                Ok(Event::Apply(node)) => {
                    self.record_seen(&node.name_any(), &node.uid().unwrap_or_default())
                        .await
                }
                Ok(Event::Delete(node)) => self.remove_node(&node.name_any()).await,
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to watch Nodes; retrying"
                    );
                    Ok(())
                }
            };
            if let Err(error) = done {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to update certificate records of a node"
                );
            }
        }
    }

    /// Handles an existing Node with this name and uid.
    async fn record_seen(&self, name: &str, uid: &str) -> Result<(), RecordError> {
        match self.certificates.uid(name).await? {
            Some(known) if known == uid => Ok(()),
            // the Node that the record names was deleted and created again while nobody watched
            Some(_) => self.remove_node(name).await,
            None => self.certificates.set_uid(name, uid).await,
        }
    }

    /// Handles a complete list of Nodes.
    async fn handle_list(&self, listed: &BTreeMap<String, String>) -> Result<(), RecordError> {
        for (name, _) in self.certificates.all_registered().await? {
            if !listed.contains_key(&name) {
                self.remove_node(&name).await?;
            }
        }
        Ok(())
    }

    async fn remove_node(&self, name: &str) -> Result<(), RecordError> {
        let any = self.certificates.reset(name).await?;
        self.sessions.end(name);
        if any {
            info!(node = name, "Node deleted; certificates revoked");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::api::PostParams;
    use objectstore::MemoryStore;
    use testkit::eventually;
    use wire::enroll::{Ca, Csr, Usage};

    use super::*;
    use crate::pki::Name;

    #[tokio::test]
    async fn a_deleted_nodes_certificate_counts_no_more_also_where_nobody_watched() {
        let store = MemoryStore::new();
        let client = apiserver::builder(store.clone()).build().client("default");
        let (certificates, nodes) = (
            NodeCertificates::new(store),
            Api::<Node>::all(client.clone()),
        );
        let ca = Ca::generate(clock::system_now()).unwrap();
        let mut shown = Vec::new();
        for name in ["early", "late", "stays"] {
            let (csr, usages) = (
                Csr::for_node(name).unwrap(),
                Usage::parse_header(None).unwrap(),
            );
            let given = ca
                .sign_edge(
                    csr.der(),
                    &usages,
                    Duration::from_secs(3600),
                    clock::system_now(),
                )
                .unwrap();
            certificates
                .record_issued(name, &given, ca.cert_der(), Duration::ZERO, None)
                .await
                .unwrap();
            assert!(
                certificates
                    .admit(name, &given, ca.cert_der())
                    .await
                    .unwrap()
            );
            let mut node = Node::default();
            node.metadata.name = Some(name.to_owned());
            let made = nodes.create(&PostParams::default(), &node).await.unwrap();
            if name == "early" {
                certificates
                    .set_uid(name, &made.uid().unwrap())
                    .await
                    .unwrap();
                nodes.delete(name, &Default::default()).await.unwrap();
            }
            shown.push((name, given));
        }
        let shutdown = CancellationToken::new();
        let _stop = shutdown.clone().drop_guard();
        tokio::spawn(run(
            client,
            certificates.clone(),
            Sessions::default(),
            shutdown,
        ));
        let until = async |name: &str, wanted: Name| {
            eventually(&format!("{name} is {wanted:?}"), async || {
                let found = certificates
                    .name(name, ca.cert_der(), Duration::ZERO)
                    .await
                    .unwrap();
                if found == wanted { Ok(()) } else { Err(found) }
            })
            .await;
        };
        until("early", Name::Free).await;
        eventually("the uid of late", async || {
            certificates.uid("late").await.unwrap().ok_or("none")
        })
        .await;
        nodes.delete("late", &Default::default()).await.unwrap();
        until("late", Name::Free).await;
        for (name, given) in shown {
            let admitted = certificates
                .admit(name, &given, ca.cert_der())
                .await
                .unwrap();
            assert_eq!(admitted, name == "stays", "{name}");
        }
    }
}
