//! `kubectl top` and other kubectl commands about the group.

use std::{net::SocketAddr, path::Path, process::Command};

use kubeapi::serve::Server;
use tokio_util::sync::CancellationToken;

use super::fakes::{Answers, World};
use crate::{
    controllers::api_services,
    kubeconfig,
    pki::{self, Pki},
};

/// Returns kubectl's output, and whether it succeeded.
async fn run(kubeconfig: &Path, line: &str) -> (bool, String) {
    let mut command = Command::new(testkit::kubectl());
    let home = kubeconfig.with_file_name("home");
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(line.split(' '))
        .env("HOME", home);
    let output = clock::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Returns the printed words, line by line.
async fn words(kubeconfig: &Path, line: &str) -> Vec<String> {
    let (well, text) = run(kubeconfig, line).await;
    assert!(well, "kubectl {line}: {text}");
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn kubectl_top_shows_nodes_and_pods() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let world = World::new(&[("edge-1", Answers::Well), ("edge-2", Answers::NotConnected)]).await;
    world.pod("web", "edge-1", &["main", "side"]).await;
    world.pod("api", "edge-1", &["main"]).await;
    world.pod("lost", "edge-2", &["main"]).await;
    let client = world.api.client("default");
    let pki = Pki::ensure(&client, &["127.0.0.1".to_owned()])
        .await
        .unwrap();
    let tls = pki::api_tls(pki.server()).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any, Some(tls), world.api.service())
        .await
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("kubeconfig");
    let (certificate, key) = pki.sign_admin().unwrap();
    let url = format!("https://{}", server.local_addr());
    let credentials = kubeconfig::Credentials::new(url, pki.ca().cert_der(), &certificate, &key);
    std::fs::write(&config, credentials.text().unwrap()).unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(server.run(stop.clone()));
    tokio::spawn(api_services::run(client, stop.clone()));

    let rows: &[(&str, &[&str])] = &[
        (
            "top node --no-headers",
            &[
                "edge-1 500m 25% 512Mi 50%",
                "edge-2 <unknown> <unknown> <unknown> <unknown>",
            ],
        ),
        (
            "top node edge-1 --no-headers",
            &["edge-1 500m 25% 512Mi 50%"],
        ),
        (
            "top pod",
            &[
                "NAME CPU(cores) MEMORY(bytes)",
                "api 250m 64Mi",
                "web 500m 128Mi",
            ],
        ),
        (
            "top pod --no-headers --sort-by=cpu",
            &["web 500m 128Mi", "api 250m 64Mi"],
        ),
        (
            "top pod -A --no-headers",
            &["default api 250m 64Mi", "default web 500m 128Mi"],
        ),
        ("top pod -l app=api --no-headers", &["api 250m 64Mi"]),
        (
            "top pod --field-selector metadata.name=web --no-headers",
            &["web 500m 128Mi"],
        ),
        (
            "top pod web --containers --no-headers",
            &["web main 250m 64Mi", "web side 250m 64Mi"],
        ),
        ("get nodes -o name", &["node/edge-1", "node/edge-2"]),
        (
            "get nodes.metrics.k8s.io --no-headers -o name",
            &["nodemetrics.metrics.k8s.io/edge-1"],
        ),
        (
            "api-resources --api-group=metrics.k8s.io --no-headers",
            &[
                "nodes metrics.k8s.io/v1beta1 false NodeMetrics",
                "pods metrics.k8s.io/v1beta1 true PodMetrics",
            ],
        ),
        (
            "wait apiservice/v1beta1.metrics.k8s.io --for=create --timeout=60s",
            &["apiservice.apiregistration.k8s.io/v1beta1.metrics.k8s.io condition met"],
        ),
        ("auth can-i list pods.metrics.k8s.io", &["yes"]),
    ];
    for (line, expected) in rows {
        assert_eq!(words(&config, line).await, *expected, "kubectl {line}");
    }
    let table = words(&config, "get nodes.metrics.k8s.io").await;
    assert_eq!(table[0], "NAME CPU MEMORY WINDOW");
    assert!(table[1].starts_with("edge-1 500m 512Mi "), "{table:?}");
    let explained = words(
        &config,
        "explain nodes --api-version=metrics.k8s.io/v1beta1",
    )
    .await;
    assert!(
        explained.contains(&"KIND: NodeMetrics".to_owned()),
        "{explained:?}"
    );
    let missing = run(&config, "top pod lost").await;
    assert_eq!(
        missing,
        (
            false,
            "Error from server (NotFound): pods.metrics.k8s.io \"lost\" not found\n".to_owned()
        )
    );
    stop.cancel();
}
