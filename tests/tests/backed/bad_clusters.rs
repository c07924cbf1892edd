//! Clusters that cannot be served: each says why, and what to do.

use cloudsim::{Cloud, ClusterOptions, Options, StartError};
use k8s_openapi::{
    api::coordination::v1::Lease,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, api::PostParams};
use serde_json::json;
use tests::{Cluster, Setup};

use crate::chain;

async fn refusal(cluster: ClusterOptions) -> String {
    let options = Options {
        cluster: Some(cluster),
        ..Options::default().any_ports()
    };
    let refused: StartError = Cloud::start(options).await.expect_err("it does not start");
    chain(&refused)
}

async fn cluster() -> Cluster {
    Cluster::start(Setup::default().lease_grace).await
}

#[tokio::test]
async fn each_right_that_is_missing_is_told_with_its_rule() {
    let cluster = cluster().await;
    cluster.revoke("pods/status", "patch").await;
    cluster.revoke("secrets", "watch").await;
    let told = refusal(cluster.options("r").await).await;
    for rule in [
        "ClusterRole: {apiGroups: [\"\"], resources: [pods/status], verbs: [patch]}",
        "ClusterRole: {apiGroups: [\"\"], resources: [secrets], verbs: [watch]}",
        // the same rule is for both
        "ClusterRole: {apiGroups: [\"\"], resources: [configmaps], verbs: [watch]}",
    ] {
        assert_eq!(told.matches(rule).count(), 1, "{told}");
    }
    assert!(!told.contains("[get]"), "{told}");
}

#[tokio::test]
async fn a_cluster_that_is_not_there_or_does_not_know_us_is_named() {
    let cluster = cluster().await;
    let mut stranger = cluster.options("r").await;
    stranger.config.auth_info.token = Some("a.b.c".to_owned().into());
    let told = refusal(stranger).await;
    assert!(
        told.contains("401") || told.contains("Unauthorized"),
        "{told}"
    );
    let mut unverified = cluster.options("r").await;
    unverified.config.accept_invalid_certs = true;
    assert!(
        refusal(unverified)
            .await
            .contains("insecure-skip-tls-verify")
    );
    cluster.link().cut_connections();
    let told = refusal(cluster.options("r").await).await;
    assert!(
        told.contains("no valid response") && told.contains("--kube-context"),
        "{told}"
    );
    let port = e2e::Ports::free().unwrap().api;
    let mut nobody = cluster.options("r").await;
    nobody.config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
    let told = refusal(nobody).await;
    assert!(
        told.contains(&port.to_string()) && told.contains("no valid response"),
        "{told}"
    );
}

#[tokio::test]
async fn two_installations_do_not_serve_one_cluster() {
    let cluster = cluster().await;
    let options = Options {
        cluster: Some(cluster.options("one").await),
        ..Options::default().any_ports()
    };
    let first = Cloud::start(options).await.unwrap();
    tests::eventually("the first leads", async || {
        let leases = Api::<Lease>::namespaced(cluster.client(), "kubeedge");
        if leases.get_opt("cloudsim").await.unwrap().is_some() {
            Ok(())
        } else {
            Err(())
        }
    })
    .await;
    let other = || async {
        ClusterOptions {
            installation: "other".to_owned(),
            ..cluster.options("two").await
        }
    };
    let told = refusal(other().await).await;
    assert!(
        told.contains("installation \"cloudsim\"")
            && told.contains("replica one")
            && told.contains("--installation"),
        "{told}"
    );
    first.stop().await.unwrap();
    // given up at its end: the other one need not wait
    let options = Options {
        cluster: Some(other().await),
        ..Options::default().any_ports()
    };
    Cloud::start(options).await.unwrap().stop().await.unwrap();
}

/// Neither finds the other one there when it looks.
#[tokio::test]
async fn of_two_installations_that_start_together_one_serves() {
    let cluster = cluster().await;
    let start = async |installation: &str| {
        let named = ClusterOptions {
            installation: installation.to_owned(),
            ..cluster.options(&format!("{installation}-1")).await
        };
        Cloud::start(Options {
            cluster: Some(named),
            ..Options::default().any_ports()
        })
        .await
    };
    // at first there is no Lease, and then one that nobody holds
    for round in 0..2 {
        let (serving, refused) = match tokio::join!(start("blue"), start("green")) {
            (Ok(serving), Err(refused)) | (Err(refused), Ok(serving)) => (serving, refused),
            (Ok(_), Ok(_)) => panic!("both serve the cluster in round {round}"),
            (Err(one), Err(other)) => panic!("none serves: {} and {}", chain(&one), chain(&other)),
        };
        let leases = Api::<Lease>::namespaced(cluster.client(), "kubeedge");
        let holder = leases
            .get("cloudsim")
            .await
            .unwrap()
            .spec
            .and_then(|spec| spec.holder_identity)
            .unwrap();
        let told = chain(&refused);
        assert!(
            told.contains(&format!("its replica {holder} holds Lease")),
            "{told}"
        );
        serving.stop().await.unwrap();
    }
}

#[tokio::test]
async fn definitions_of_another_version_are_named_with_what_to_apply() {
    let cluster = cluster().await;
    let definitions = Api::<CustomResourceDefinition>::all(cluster.client());
    let name = "devices.devices.kubeedge.io";
    let mut found = definitions.get(name).await.unwrap();
    // as of a KubeEdge before v1beta1
    found
        .spec
        .versions
        .iter_mut()
        .for_each(|version| version.served = version.name == "v1alpha2");
    definitions
        .replace(name, &PostParams::default(), &found)
        .await
        .unwrap();
    let options = ClusterOptions {
        install_crds: false,
        ..cluster.options("one").await
    };
    let told = refusal(options).await;
    for part in [
        name,
        "another version of KubeEdge",
        "it serves v1alpha2",
        "needs v1beta1",
        "kubectl apply --server-side",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    definitions.delete(name, &Default::default()).await.unwrap();
    let options = ClusterOptions {
        install_crds: false,
        ..cluster.options("one").await
    };
    let told = refusal(options).await;
    assert!(
        told.contains("lacks CustomResourceDefinitions") && told.contains(name),
        "{told}"
    );
}

#[tokio::test]
async fn an_installation_that_has_died_is_followed() {
    let cluster = cluster().await;
    let leases = Api::<Lease>::namespaced(cluster.client(), "kubeedge");
    let left = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "cloudsim", "annotations": {"cloudsim/installation": "gone"}},
        "spec": {"holderIdentity": "gone-1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    leases
        .create(
            &PostParams::default(),
            &serde_json::from_value(left).unwrap(),
        )
        .await
        .unwrap();
    let options = Options {
        cluster: Some(cluster.options("one").await),
        ..Options::default().any_ports()
    };
    let cloud = Cloud::start(options).await.unwrap();
    tests::eventually("this one leads", async || {
        let holder = leases
            .get("cloudsim")
            .await
            .unwrap()
            .spec
            .and_then(|spec| spec.holder_identity);
        if holder.as_deref() == Some("one") {
            Ok(())
        } else {
            Err(holder)
        }
    })
    .await;
    cloud.stop().await.unwrap();
}
