//! KubeEdge's kinds in the cluster: made where they are missing, and looked at whether they are served as this cloud needs them.

use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use tokio::time::sleep;
use tracing::info;

/// Who applies them.
const MANAGER: &str = "cloudsim";
/// A definition that was made is served within this.
const ESTABLISHED: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Groups without whose kinds nothing works; of the others nothing acts on in a cluster yet.
const NEEDED: [&str; 4] =
    ["devices.kubeedge.io", "policy.kubeedge.io", "reliablesyncs.kubeedge.io", "rules.kubeedge.io"];

/// Why the cluster's definitions are of no use.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The API refused or failed.
    #[error("CustomResourceDefinition {name} cannot be read or applied")]
    Api {
        /// Which.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// Some are not there.
    #[error(
        "the cluster lacks CustomResourceDefinitions: {}; apply those of this version (`kubectl apply --server-side -f crds/yaml`), or \
         leave out --install-crds=false", .0.join(", ")
    )]
    Missing(Vec<String>),
    /// One is of another version of KubeEdge.
    #[error(
        "CustomResourceDefinition {name} is of another version of KubeEdge: it serves {served}, and this cloud needs {needed}; apply the \
         one of this version (`kubectl apply --server-side -f crds/yaml`)"
    )]
    Version {
        /// Which.
        name: String,
        /// The versions that it serves.
        served: String,
        /// The version that is needed.
        needed: String,
    },
    /// One is there and not served.
    #[error("CustomResourceDefinition {name} is not served {} s after it was applied: {why}", ESTABLISHED.as_secs())]
    NotEstablished {
        /// Which.
        name: String,
        /// What its conditions say.
        why: String,
    },
}

/// Sees to it that the kinds are served. `install`: those that are missing are made, and those that this cloud made are renewed; others are
/// left as they are.
pub(super) async fn ensure(client: &Client, install: bool) -> Result<(), CrdError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut missing = Vec::new();
    let mut needed = Vec::new();
    for crd in crds::all() {
        let name = crd.name_any();
        let failed = |source| CrdError::Api { name: name.clone(), source };
        let found = api.get_opt(&name).await.map_err(failed)?;
        let is_needed = NEEDED.contains(&crd.spec.group.as_str());
        match &found {
            // its own are renewed
            Some(found) if is_needed && !(install && is_own(found)) => check(found, &crd)?,
            None if is_needed && !install => missing.push(name.clone()),
            _ => {}
        }
        if install && found.as_ref().is_none_or(is_own) {
            let apply = PatchParams::apply(MANAGER).force();
            api.patch(&name, &apply, &Patch::Apply(&crd)).await.map_err(failed)?;
            if found.is_none() {
                info!(name, "a CustomResourceDefinition was made");
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
        established(&api, &name).await?;
    }
    Ok(())
}

/// Whether this program has applied it before.
fn is_own(found: &CustomResourceDefinition) -> bool {
    found.managed_fields().iter().any(|fields| fields.manager.as_deref() == Some(MANAGER))
}

fn check(found: &CustomResourceDefinition, ours: &CustomResourceDefinition) -> Result<(), CrdError> {
    let needed =
        ours.spec.versions.iter().find(|version| version.storage).map(|version| version.name.clone());
    let needed = needed.unwrap_or_default();
    let served: Vec<&str> =
        found.spec.versions.iter().filter(|version| version.served).map(|version| &*version.name).collect();
    if served.contains(&needed.as_str()) {
        return Ok(());
    }
    Err(CrdError::Version { name: found.name_any(), served: served.join(", "), needed })
}

/// Waits until the kind is served.
async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), CrdError> {
    let begun = Instant::now();
    loop {
        let found = api.get(name).await.map_err(|source| CrdError::Api { name: name.to_owned(), source })?;
        let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_true = |kind: &str| conditions.iter().any(|is| is.type_ == kind && is.status == "True");
        if is_true("Established") {
            return Ok(());
        }
        if begun.elapsed() > ESTABLISHED {
            let why = conditions.iter().find(|is| is.status != "True").and_then(|is| is.message.clone());
            let why = why.unwrap_or_else(|| "it has no condition".to_owned());
            return Err(CrdError::NotEstablished { name: name.to_owned(), why });
        }
        sleep(RETRY_INTERVAL).await;
    }
}
