//! The kinds that the API serves: Kubernetes' own, and those of the cloud's CustomResourceDefinitions as of the last request.

use std::{sync::Arc, time::Duration};

use clock::Instant;
use componentbase::Link;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kubeapi::Api;
use objectstore::StoreError;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tracing::{debug, warn};
use wire::application::Target;

use super::{
    copies::Copies,
    keys::{resource, text},
    list::CollectionLister,
    watches::Collection,
};

/// How long the definitions count as fresh: a client that starts asks a hundred times for discovery.
const DEFINITIONS_FRESH_FOR: Duration = Duration::from_secs(5);

/// The kinds; cheap to clone.
#[derive(Clone)]
pub(super) struct Kinds {
    api: Api,
    copies: Copies,
    lists: CollectionLister,
    asked: Arc<Mutex<Option<(Link, Instant)>>>,
}

impl Kinds {
    pub(super) fn new(api: Api, copies: Copies, lists: CollectionLister) -> Self {
        Self {
            api,
            copies,
            lists,
            asked: Arc::default(),
        }
    }

    /// Serves the stored definitions.
    pub(super) async fn load(&self) -> Result<(), StoreError> {
        let stored = self.copies.all(&resource(&definitions().target)).await?;
        let mut read = Vec::new();
        for definition in stored {
            match CustomResourceDefinition::deserialize(&definition.value()?) {
                Ok(definition) => read.push(definition),
                Err(error) => {
                    warn!(%error, key = %definition.key, "cannot decode a CustomResourceDefinition; ignored")
                }
            }
        }
        self.api.serve(&read);
        Ok(())
    }

    /// Fetches the definitions from the cloud, unless that was done just now or the cloud cannot be reached. One caller fetches
    /// at a time; the others wait for the result.
    pub(super) async fn refresh(&self, link: Option<Link>) {
        let Some(link) = link else { return };
        let mut asked = self.asked.lock().await;
        if asked
            .is_some_and(|(then, since)| then == link && since.elapsed() < DEFINITIONS_FRESH_FOR)
        {
            return;
        }
        match self.lists.renew(&definitions()).await {
            Ok(()) => {
                if let Err(error) = self.load().await {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to read CustomResourceDefinitions"
                    );
                }
            }
            Err(failure) => {
                debug!(error = %failure, "failed to fetch CustomResourceDefinitions from the cloud")
            }
        }
        *asked = Some((link, Instant::now()));
    }

    /// Reports whether there is such a collection.
    pub(super) fn knows(&self, target: &Target) -> bool {
        self.api
            .registry()
            .find(&target.group, &target.version, &target.plural)
            .is_some()
    }

    /// Returns the collection of an object that comes without its path.
    pub(super) fn collection_of(&self, object: &Value) -> Target {
        let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let registry = self.api.registry();
        let known = registry
            .kinds()
            .iter()
            .find(|known| known.group == group && known.kind == kind);
        let plural = known.map_or_else(|| plural_of(kind), |known| known.plural.clone());
        Target {
            group: group.to_owned(),
            version: version.to_owned(),
            plural,
            ..Target::default()
        }
    }
}

/// Returns the collection of all CustomResourceDefinitions.
pub(super) fn definitions() -> Collection {
    let target = Target {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        ..Target::default()
    };
    Collection {
        target,
        labels: String::new(),
        fields: String::new(),
    }
}

/// Guesses the plural of a kind.
fn plural_of(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind == "endpoints" {
        return kind;
    }
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::plural_of;

    #[test]
    fn plurals_are_guessed_as_the_cloud_guesses_them() {
        for (kind, plural) in [
            ("Pod", "pods"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Endpoints", "endpoints"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }
}
