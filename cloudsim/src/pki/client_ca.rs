//! Publishes the CA of client certificates: ConfigMap `kube-system/extension-apiserver-authentication`.
//!
//! kube-scheduler, kube-controller-manager, metrics-server and every other server with Kubernetes' apiserver library read it to
//! authenticate the API's clients. Source: Kubernetes' cluster authentication trust controller.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use wire::enroll::{Ca, pem_certificate};

use super::PkiError;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// The key of the CA of client certificates, PEM.
const CLIENT_CA_KEY: &str = "client-ca-file";
/// The key of the CA of the API's own certificate for forwarded requests, PEM.
const FRONT_PROXY_CA_KEY: &str = "requestheader-client-ca-file";

/// Writes the ConfigMap, or sets the CAs in the existing one. `ca_pem` is the CA that signs clients, `front_proxy` signs the
/// certificate with which the API forwards requests (`APIService`).
pub async fn publish(client: &Client, ca_pem: &str, front_proxy: &Ca) -> Result<(), PkiError> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    let front_proxy_pem = pem_certificate(front_proxy.cert_der());
    let entry = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let data = [
        entry(CLIENT_CA_KEY, ca_pem),
        entry("requestheader-allowed-names", r#"["front-proxy-client"]"#),
        entry(FRONT_PROXY_CA_KEY, &front_proxy_pem),
        entry(
            "requestheader-extra-headers-prefix",
            r#"["X-Remote-Extra-"]"#,
        ),
        entry("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        entry("requestheader-username-headers", r#"["X-Remote-User"]"#),
    ];
    let metadata = ObjectMeta {
        name: Some(NAME.to_owned()),
        ..ObjectMeta::default()
    };
    let map = ConfigMap {
        metadata,
        data: Some(data.into()),
        ..ConfigMap::default()
    };
    match api.create(&PostParams::default(), &map).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        result => return result.map(drop).map_err(PkiError::ClientCa),
    }
    let newest =
        serde_json::json!({"data": {CLIENT_CA_KEY: ca_pem, FRONT_PROXY_CA_KEY: front_proxy_pem}});
    let patched = api
        .patch(NAME, &PatchParams::default(), &Patch::Merge(newest))
        .await;
    patched.map(drop).map_err(PkiError::ClientCa)
}
