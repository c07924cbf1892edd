//! The CA of the API server's clients is rotated while the cloud runs.

use std::time::SystemTime;

use cloudsim::streams::{ClientCa, KubeletOptions};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tests::{Setup, World, eventually};
use wire::enroll::{Ca, pem_certificate};

use crate::raw::Caller;

#[tokio::test]
async fn a_rotated_client_ca_is_in_force_without_a_restart() {
    let world = World::with(Setup {
        nodes: 0,
        kubelets: Some(KubeletOptions {
            port: 0,
            client_ca: ClientCa::Cluster,
            client_names: Vec::new(),
            service: None,
        }),
        ..Setup::default()
    })
    .await;
    let address = world.cloud().addresses().kubelets.unwrap();
    let get = async |caller: &Caller| {
        let answer = caller.https(address, "/nodes/none/metrics", "", b"").await;
        answer
            .map(|(status, _)| status)
            .map_err(|error| error.to_string())
    };
    let old = Caller::admin(&world).await;
    let ca = Ca::generate(SystemTime::now()).unwrap();
    let new = Caller::with(&world, ca.sign_admin(SystemTime::now()).unwrap()).await;
    // accepted, but there is no such node
    assert_eq!(get(&old).await, Ok(503));
    get(&new).await.unwrap_err();
    let maps = Api::<ConfigMap>::namespaced(world.client(), "kube-system");
    let publish = async |text: &str| {
        let patch = Patch::Merge(json!({"data": {"client-ca-file": text}}));
        let name = "extension-apiserver-authentication";
        maps.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    // both, as while a CA is rotated; a text without a certificate changes nothing
    let own = pem_certificate(crate::raw::authority(&world).await.cert_der());
    let next = pem_certificate(ca.cert_der());
    for (text, is_old_accepted) in [
        (format!("{own}{next}"), true),
        (next.clone(), false),
        ("none".to_owned(), false),
    ] {
        publish(&text).await;
        eventually("the CA is in force", async || {
            match (get(&old).await.is_ok(), get(&new).await) {
                (is_old, Ok(503)) if is_old == is_old_accepted => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }
}
