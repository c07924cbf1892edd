//! EdgeApplications: creates the objects of each application, with a copy of each Deployment for each group of nodes, and reports them.
//!
//! Objects are applied on the server's side, so that a field that somebody else changes is restored if the manifest has it. What the
//! application does not want any more is deleted, if it is the application's. An object whose copy cannot be computed now stays as it is.
//!
//! Source: KubeEdge's ControllerManager. Differences: manifests may be moved, a missing namespace is that of the application, the
//! template's own node selector and affinity stay, and every fault is an event.

mod copies;
mod image;
mod overriders;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use crds::apps::{
    EdgeApplication, EdgeApplicationStatus, ManifestCondition, ManifestStatus, NodeGroup,
    ResourceIdentifier,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Api, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams,
        Preconditions,
    },
    discovery::{self, Scope},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::copies::{Copies, Copy, Fault, Identity, copies};
use super::{
    events::{Component, NewEvent},
    informers::{Failure, Triggers, work},
    workloads::{cluster, pods::controller_of},
};

/// The name under which fields are applied.
const MANAGER: &str = "edgeapplication-controller";
/// The objects that the application may have, as JSON.
const CONTAINED: &str = "apps.kubeedge.io/last-contained-resources";
/// How often objects are looked at whose changes are not watched.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

cluster!(Cluster {
    applications: EdgeApplication,
    deployments: Deployment,
    services: Service,
    groups: NodeGroup,
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let triggers = Triggers::none()
        .and_owned(&cluster.deployments)
        .and_owned(&cluster.services);
    let applications = cluster.applications.clone();
    let queue = (cluster.queues.queue("edgeapplication"), applications);
    work(queue, triggers, cluster, reconcile, stop).await;
}

async fn reconcile(
    application: Arc<EdgeApplication>,
    context: Arc<Cluster>,
) -> Result<Action, Failure> {
    // its objects are left to the garbage collector
    if application.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let Copies { wanted, mut faults } = copies(&application);
    let known = read_contained(&application);
    let all: BTreeSet<Identity> = wanted
        .iter()
        .map(|copy| copy.identity.clone())
        .chain(known.clone())
        .collect();
    // written before anything is created, so that nothing is forgotten
    if !context.write_contained(&application, &all).await? {
        return Ok(Action::await_change());
    }
    let (mut statuses, mut kept) = (Vec::new(), all.clone());
    for copy in &wanted {
        match context.apply(&application, copy).await? {
            Ok(written) => statuses.push(status(
                copy.ordinal,
                Some(&copy.identity),
                is_available(&written),
            )),
            Err(why) => faults.push(Fault {
                ordinal: copy.ordinal,
                identity: Some(copy.identity.clone()),
                why,
            }),
        }
    }
    for identity in find_unwanted(&known, &wanted, &faults) {
        context.delete(&application, &identity).await?;
        kept.remove(&identity);
    }
    context.write_contained(&application, &kept).await?;
    for fault in &faults {
        let text = match &fault.identity {
            Some(identity) => format!("{} {:?}: {}", identity.kind, identity.name, fault.why),
            None => format!("manifest {}: {}", fault.ordinal, fault.why),
        };
        let event = NewEvent::warning(Component::EdgeApplication, "FailedApply", text);
        context.events.record(&*application, event);
        statuses.push(status(fault.ordinal, fault.identity.as_ref(), false));
    }
    for group in context.missing_groups(&application) {
        let text = format!(
            "NodeGroup {group:?} does not exist; create it, otherwise the pods for it stay Pending"
        );
        let event = NewEvent::warning(Component::EdgeApplication, "NodeGroupMissing", text);
        context.events.record(&*application, event);
    }
    statuses.sort_by_key(|status| (status.identifier.ordinal, status.identifier.name.clone()));
    context.write_status(&application, statuses).await?;
    Ok(Action::requeue(LOOK_INTERVAL))
}

/// Returns what the application has, but does not want any more. What a fault is about stays; a manifest that does not say what it is
/// keeps everything.
fn find_unwanted(known: &[Identity], wanted: &[Copy], faults: &[Fault]) -> Vec<Identity> {
    if faults.iter().any(|fault| fault.identity.is_none()) {
        return Vec::new();
    }
    let same = |one: &Identity, other: &Identity| {
        (&one.group, &one.kind, &one.namespace, &one.name)
            == (&other.group, &other.kind, &other.namespace, &other.name)
    };
    let is_unwanted = |identity: &&Identity| {
        let is_wanted = wanted.iter().any(|copy| same(&copy.identity, identity));
        let faulty = faults.iter().filter_map(|fault| fault.identity.as_ref());
        // a fault of a manifest is about all its copies
        let is_faulty = faulty.into_iter().any(|faulty| {
            (&faulty.group, &faulty.kind) == (&identity.group, &identity.kind)
                && (identity.name == faulty.name
                    || identity.name.starts_with(&format!("{}-", faulty.name)))
        });
        !is_wanted && !is_faulty
    };
    known.iter().filter(is_unwanted).cloned().collect()
}

/// Returns the objects of the annotation.
fn read_contained(application: &EdgeApplication) -> Vec<Identity> {
    let text = application.annotations().get(CONTAINED);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Reports whether a Deployment has all its pods; any other object is available once it exists.
fn is_available(object: &DynamicObject) -> bool {
    let is_deployment = object
        .types
        .as_ref()
        .is_some_and(|types| types.kind == "Deployment");
    if !is_deployment {
        return true;
    }
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64);
    let observed = number("/status/observedGeneration").unwrap_or_default();
    observed >= object.metadata.generation.unwrap_or_default()
        && number("/status/readyReplicas").unwrap_or_default()
            == number("/spec/replicas").unwrap_or(1)
}

fn status(ordinal: usize, identity: Option<&Identity>, is_available: bool) -> ManifestStatus {
    let mut identifier = ResourceIdentifier {
        ordinal: i64::try_from(ordinal).unwrap_or(i64::MAX),
        ..ResourceIdentifier::default()
    };
    if let Some(identity) = identity {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        identifier.group = text(&identity.group);
        identifier.version = text(&identity.version);
        identifier.kind = text(&identity.kind);
        identifier.namespace = text(&identity.namespace);
        identifier.name = text(&identity.name);
    }
    ManifestStatus {
        identifier,
        conditions: Some(if is_available {
            ManifestCondition::Available
        } else {
            ManifestCondition::Processing
        }),
    }
}

impl Cluster {
    /// Returns the names of target groups that do not exist.
    fn missing_groups<'a>(
        &self,
        application: &'a EdgeApplication,
    ) -> impl Iterator<Item = &'a str> {
        let targets = &application.spec.workload_scope.target_node_groups;
        let names = targets.iter().map(|target| target.name.as_str());
        names.filter(|name| self.groups.get("", name).is_none())
    }

    fn applications(&self, application: &EdgeApplication) -> Api<EdgeApplication> {
        Api::namespaced(
            self.client.clone(),
            &application.namespace().unwrap_or_default(),
        )
    }

    /// Notes which objects the application may have; `false` if the application is gone.
    async fn write_contained(
        &self,
        application: &EdgeApplication,
        all: &BTreeSet<Identity>,
    ) -> Result<bool, Failure> {
        let known: BTreeSet<Identity> = self
            .newest(application)
            .map(|newest| read_contained(&newest))
            .unwrap_or_default()
            .into_iter()
            .collect();
        if known == *all {
            return Ok(true);
        }
        let patch = json!({"metadata": {"uid": application.uid(), "annotations": {CONTAINED: json!(all).to_string()}}});
        self.patch(application, &patch, false).await
    }

    async fn write_status(
        &self,
        application: &EdgeApplication,
        statuses: Vec<ManifestStatus>,
    ) -> Result<(), Failure> {
        let status = EdgeApplicationStatus {
            workload_status: statuses,
        };
        if application.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": application.uid()}, "status": {"workloadStatus": status.workload_status}});
        self.patch(application, &patch, true).await.map(drop)
    }

    /// Returns the application with this process's own writes; `None` if it is another one now.
    fn newest(&self, application: &EdgeApplication) -> Option<Arc<EdgeApplication>> {
        let namespace = application.namespace().unwrap_or_default();
        let newest = self.applications.get(&namespace, &application.name_any())?;
        (newest.uid() == application.uid()).then_some(newest)
    }

    async fn patch(
        &self,
        application: &EdgeApplication,
        patch: &Value,
        is_status: bool,
    ) -> Result<bool, Failure> {
        let (api, name, parameters) = (
            self.applications(application),
            application.name_any(),
            PatchParams::default(),
        );
        let patch = Patch::Merge(patch);
        let written = if is_status {
            api.patch_status(&name, &parameters, &patch).await
        } else {
            api.patch(&name, &parameters, &patch).await
        };
        match written {
            Ok(written) => self.applications.wrote(written),
            Err(kube::Error::Api(refused)) if refused.code == 404 => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Returns the API of an object's kind; the error says why there is none.
    async fn objects(
        &self,
        identity: &Identity,
    ) -> Result<Result<Api<DynamicObject>, String>, Failure> {
        let Identity {
            group,
            version,
            kind,
            namespace,
            ..
        } = identity;
        let kinds = GroupVersionKind::gvk(group, version, kind);
        let found: Result<(ApiResource, _), _> = discovery::pinned_kind(&self.client, &kinds).await;
        Ok(match found {
            Ok((resource, capabilities)) if capabilities.scope == Scope::Namespaced => Ok(
                Api::namespaced_with(self.client.clone(), namespace, &resource),
            ),
            Ok(_) => {
                Err("it has no namespace; an EdgeApplication cannot own such objects".to_owned())
            }
            Err(kube::Error::Discovery(_)) => Err(format!(
                "the API does not serve {kind} of {}",
                api_version(identity)
            )),
            Err(kube::Error::Api(refused)) if refused.code == 404 => Err(format!(
                "the API does not serve {kind} of {}",
                api_version(identity)
            )),
            Err(error) => return Err(error.into()),
        })
    }

    /// Applies an object; the inner error says why it is refused.
    async fn apply(
        &self,
        application: &EdgeApplication,
        copy: &Copy,
    ) -> Result<Result<DynamicObject, String>, Failure> {
        let api = match self.objects(&copy.identity).await? {
            Ok(api) => api,
            Err(why) => return Ok(Err(why)),
        };
        let name = &copy.identity.name;
        let live = match api.get_opt(name).await {
            Ok(live) => live,
            Err(error) => return refusal(error),
        };
        if let Some(live) = live
            && controller_of(&live)
                .is_none_or(|owner| Some(&owner.uid) != application.metadata.uid.as_ref())
        {
            return Ok(Err(
                "an object of this name exists already, and is not this application's".to_owned(),
            ));
        }
        let parameters = PatchParams::apply(MANAGER).force();
        match api
            .patch(name, &parameters, &Patch::Apply(&copy.object))
            .await
        {
            Ok(written) => Ok(Ok(written)),
            Err(error) => refusal(error),
        }
    }

    /// Deletes an object if it is the application's.
    async fn delete(
        &self,
        application: &EdgeApplication,
        identity: &Identity,
    ) -> Result<(), Failure> {
        let Ok(api) = self.objects(identity).await? else {
            return Ok(());
        };
        let Some(live) = api.get_opt(&identity.name).await? else {
            return Ok(());
        };
        let owner = controller_of(&live).map(|owner| &owner.uid);
        if owner.is_none() || owner != application.metadata.uid.as_ref() {
            return Ok(());
        }
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: live.uid(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(&identity.name, &parameters).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns why the API refuses an object for good; other errors are tried again.
fn refusal<T>(error: kube::Error) -> Result<Result<T, String>, Failure> {
    match error {
        kube::Error::Api(status) if matches!(status.code, 400 | 403 | 405 | 422) => {
            Ok(Err(status.message))
        }
        error => Err(error.into()),
    }
}

fn api_version(identity: &Identity) -> String {
    match identity.group.as_str() {
        "" => identity.version.clone(),
        group => format!("{group}/{}", identity.version),
    }
}
