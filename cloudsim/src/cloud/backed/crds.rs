//! KubeEdge's CustomResourceDefinitions in the cluster: creates missing ones, and checks that they are served in the needed version.

use std::time::Duration;

use clock::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use tokio::time::sleep;
use tracing::info;

/// The field manager of applied definitions.
const MANAGER: &str = "cloudsim";
/// How long a new definition may take to be served.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// The groups that are required; no controller acts on the others in a cluster yet.
const REQUIRED_GROUPS: [&str; 4] = [
    "devices.kubeedge.io",
    "policy.kubeedge.io",
    "reliablesyncs.kubeedge.io",
    "rules.kubeedge.io",
];

/// The cluster's definitions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// An API call failed.
    #[error("cannot read or apply CustomResourceDefinition {name}")]
    Api {
        /// The name of the definition.
        name: String,
        /// The API's error.
        source: kube::Error,
    },
    /// Definitions are missing.
    #[error(
        "the cluster lacks CustomResourceDefinitions: {}; apply this version's (`kubectl apply --server-side -f crds/yaml`), or remove \
         --install-crds=false", .0.join(", ")
    )]
    Missing(Vec<String>),
    /// A definition is of another version of KubeEdge.
    #[error(
        "CustomResourceDefinition {name} is of another version of KubeEdge: it serves {served}, and this cloud needs {needed}; apply the \
         one of this version (`kubectl apply --server-side -f crds/yaml`)"
    )]
    Version {
        /// The name of the definition.
        name: String,
        /// The versions that it serves.
        served: String,
        /// The version that is needed.
        needed: String,
    },
    /// A definition is not served.
    #[error("CustomResourceDefinition {name} is not served {} s after it was applied: {why}", ESTABLISH_TIMEOUT.as_secs())]
    NotEstablished {
        /// The name of the definition.
        name: String,
        /// The message of its condition.
        why: String,
    },
}

/// Makes sure that the kinds are served. With `install`, missing definitions are created and those that this cloud created are updated;
/// others are left as they are.
pub(super) async fn ensure(client: &Client, install: bool) -> Result<(), CrdError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut missing = Vec::new();
    let mut needed = Vec::new();
    for crd in crds::all() {
        let name = crd.name_any();
        let failed = |source| CrdError::Api {
            name: name.clone(),
            source,
        };
        let found = api.get_opt(&name).await.map_err(failed)?;
        let is_needed = REQUIRED_GROUPS.contains(&crd.spec.group.as_str());
        match &found {
            // those that this program applied are updated
            Some(found) if is_needed && !(install && is_own(found)) => check(found, &crd)?,
            None if is_needed && !install => missing.push(name.clone()),
            _ => {}
        }
        if install && found.as_ref().is_none_or(is_own) {
            let apply = PatchParams::apply(MANAGER).force();
            api.patch(&name, &apply, &Patch::Apply(&crd))
                .await
                .map_err(failed)?;
            if found.is_none() {
                info!(name, "CustomResourceDefinition created");
            }
        }
        if is_needed {
            needed.push(name);
        }
    }
    if !missing.is_empty() {
        return Err(CrdError::Missing(missing));
    }
    for name in needed {
        wait_established(&api, &name).await?;
    }
    Ok(())
}

/// Reports whether this program has applied the definition before.
fn is_own(found: &CustomResourceDefinition) -> bool {
    found
        .managed_fields()
        .iter()
        .any(|fields| fields.manager.as_deref() == Some(MANAGER))
}

fn check(
    found: &CustomResourceDefinition,
    ours: &CustomResourceDefinition,
) -> Result<(), CrdError> {
    let needed = ours
        .spec
        .versions
        .iter()
        .find(|version| version.storage)
        .map(|version| version.name.clone());
    let needed = needed.unwrap_or_default();
    let served: Vec<&str> = found
        .spec
        .versions
        .iter()
        .filter(|version| version.served)
        .map(|version| &*version.name)
        .collect();
    if served.contains(&needed.as_str()) {
        return Ok(());
    }
    Err(CrdError::Version {
        name: found.name_any(),
        served: served.join(", "),
        needed,
    })
}

/// Waits until the kind is served.
async fn wait_established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), CrdError> {
    let begun = Instant::now();
    loop {
        let found = api.get(name).await.map_err(|source| CrdError::Api {
            name: name.to_owned(),
            source,
        })?;
        let conditions = found
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let is_true = |kind: &str| {
            conditions
                .iter()
                .any(|is| is.type_ == kind && is.status == "True")
        };
        if is_true("Established") {
            return Ok(());
        }
        if begun.elapsed() > ESTABLISH_TIMEOUT {
            let why = conditions
                .iter()
                .find(|is| is.status != "True")
                .and_then(|is| is.message.clone());
            let why = why.unwrap_or_else(|| "it has no condition".to_owned());
            return Err(CrdError::NotEstablished {
                name: name.to_owned(),
                why,
            });
        }
        sleep(RETRY_INTERVAL).await;
    }
}
