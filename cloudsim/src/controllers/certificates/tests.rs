//! Requests against an API in memory: approved ones are signed; a request for another node's names never is.

use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;
use kube::{api::PostParams, runtime::wait::await_condition};
use objectstore::MemoryStore;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use testkit::within;
use wire::enroll::{Csr, identity_of, pem_certificate_request, server_names_of};

use super::*;
use crate::sessions::Sessions;

fn request(name: &str, user: &str, address: &str) -> CertificateSigningRequest {
    let csr = Csr::for_server("edge-1", &[address.parse().unwrap()]).unwrap();
    let mut request = CertificateSigningRequest::default();
    request.metadata.name = Some(name.to_owned());
    request.spec = CertificateSigningRequestSpec {
        request: ByteString(pem_certificate_request(csr.der()).into_bytes()),
        signer_name: SIGNER.to_owned(),
        usages: Some(vec![
            "digital signature".to_owned(),
            "server auth".to_owned(),
        ]),
        username: Some(user.to_owned()),
        groups: Some(vec!["system:nodes".to_owned()]),
        ..CertificateSigningRequestSpec::default()
    };
    request
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn what_is_the_nodes_own_is_signed_and_nothing_else() {
    let client = apiserver::builder(MemoryStore::new())
        .build()
        .client("default");
    let api = Api::<CertificateSigningRequest>::all(client.clone());
    let ca = Arc::new(Ca::generate(clock::system_now()).unwrap());
    let (cloud, sessions) = (vec!["192.0.2.1".to_owned()], Sessions::default());
    let signer = Signer {
        approves: true,
        signs: true,
        ca,
        approver: Approver { cloud, sessions },
    };
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(run(client.clone(), signer, stop));
    let by_hand = "system:node:edge-2";
    for (name, user, address) in [
        ("good", "system:node:edge-1", "127.0.0.1"),
        ("far", "system:node:edge-1", "192.0.2.1"),
        ("forged", by_hand, "127.0.0.1"),
    ] {
        api.create(&PostParams::default(), &request(name, user, address))
            .await
            .unwrap();
    }
    let until = async |name: &str, wanted: fn(&CertificateSigningRequest) -> bool| {
        let is_so = move |found: Option<&CertificateSigningRequest>| found.is_some_and(wanted);
        let found = within(name, await_condition(api.clone(), name, is_so))
            .await
            .unwrap();
        found.unwrap()
    };
    let good = until("good", |request| {
        request
            .status
            .as_ref()
            .is_some_and(|status| status.certificate.is_some())
    })
    .await;
    let pem = good.status.unwrap().certificate.unwrap().0;
    let cert = CertificateDer::from_pem_slice(&pem).unwrap();
    assert_eq!(
        identity_of(&cert).unwrap(),
        wire::enroll::Identity::Node("edge-1".to_owned())
    );
    assert_eq!(
        server_names_of(&cert).unwrap().1,
        ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]
    );
    for name in ["far", "forged"] {
        let denied = until(name, |request| {
            conditions(request)
                .iter()
                .any(|condition| condition.type_ == "Denied")
        })
        .await;
        assert!(denied.status.unwrap().certificate.is_none());
    }

    // even if a person has approved it
    let forged = Api::<CertificateSigningRequest>::all(client.clone())
        .get("forged")
        .await
        .unwrap();
    let again = CertificateSigningRequest {
        metadata: kube::api::ObjectMeta {
            name: Some("by-hand".to_owned()),
            ..Default::default()
        },
        spec: CertificateSigningRequestSpec {
            groups: None,
            ..forged.spec
        },
        status: None,
    };
    api.create(&PostParams::default(), &again).await.unwrap();
    let yes = json!({"status": {"conditions": [condition("Approved", "ByHand", "yes")]}});
    api.patch_approval("by-hand", &PatchParams::default(), &Patch::Merge(yes))
        .await
        .unwrap();
    let failed = until("by-hand", |request| {
        conditions(request)
            .iter()
            .any(|condition| condition.type_ == "Failed")
    })
    .await;
    assert!(failed.status.unwrap().certificate.is_none());

    let hours = |hours| clock::now() + jiff::SignedDuration::from_hours(hours);
    cleaner::clean(&client, clock::now()).await.unwrap();
    assert_eq!(
        api.list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        4
    );
    cleaner::clean(&client, hours(2)).await.unwrap();
    assert!(
        api.list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}
