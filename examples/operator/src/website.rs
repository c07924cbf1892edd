//! What a website is.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page, and how many serve it.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus"
)]
#[kube(shortname = "site", derive = "PartialEq")]
#[kube(printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#)]
#[kube(scale(
    spec_replicas_path = ".spec.replicas",
    status_replicas_path = ".status.readyReplicas"
))]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The image of a web server that has the pages in it.
    pub image: String,
    /// How many serve.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 10))]
    pub replicas: i32,
}

/// What has become of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// `Starting` until all replicas are ready, then `Online`.
    pub phase: String,
    /// How many are ready.
    pub ready_replicas: i32,
}

fn one() -> i32 {
    1
}
