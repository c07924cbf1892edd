//! Scratch.
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, ObjectMeta, PostParams};
use kubeapi::store::MemoryStore;
use serde_json::json;
use std::time::Instant;
fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
        let client = kubeapi::Api::builder(MemoryStore::new()).build().client("default");
        let metadata = ObjectMeta { name: Some("default".into()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        let n: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(20000);
        let api = Api::<Pod>::default_namespaced(client);
        let pods: Vec<Pod> = (0..n).map(|i| serde_json::from_value(json!({
            "metadata": {"name": format!("pod-{i}"), "labels": {"app": "bench"}},
            "spec": {"containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"]}]},
        })).unwrap()).collect();
        let begun = Instant::now();
        let created = stream::iter(pods).map(|pod| { let api = api.clone(); async move {
            tokio::spawn(async move { api.create(&PostParams::default(), &pod).await.map(drop) }).await } });
        let out: Vec<_> = created.buffer_unordered(16).collect().await;
        for o in out { o.unwrap().unwrap(); }
        println!("{:.0} pods/s", n as f64 / begun.elapsed().as_secs_f64());
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        println!("{}", status.lines().find(|l| l.starts_with("VmRSS")).unwrap());
    });
}
