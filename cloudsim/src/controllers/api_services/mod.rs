//! APIServices for the groups and versions that the API serves itself, for clients that list them; and whether the servers of other
//! APIServices are available, to which the API forwards requests.
//!
//! Source: the registration and availability controllers of Kubernetes' API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    pin::pin,
    time::Duration,
};

use futures::{StreamExt, future::join_all, stream};
use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Time,
    kube_aggregator::pkg::apis::apiregistration::v1::{
        APIService, APIServiceCondition, APIServiceSpec, APIServiceStatus,
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use kubeapi::{LenientObject, keep_decoded};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::Notify, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    changes::{changed_objects, changes},
    workloads::seconds,
};

mod availability;

/// The label of APIServices that are managed here.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// How often they are checked, in addition to changes of definitions and of the services of other servers.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The wait after a failed call.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How often they are checked while the server of one is not available.
const UNAVAILABLE_INTERVAL: Duration = Duration::from_secs(5);

/// The label that names the service of an EndpointSlice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The services behind which other API servers are, by namespace and name: their changes are a reason to check.
#[derive(Debug, Default)]
struct UsedServices(Mutex<BTreeSet<(String, String)>>);

impl UsedServices {
    fn replace(&self, others: &[APIService]) {
        let references = others
            .iter()
            .filter_map(|other| other.spec.as_ref()?.service.as_ref());
        let names = references.map(|service| {
            let name = |part: &Option<String>| part.clone().unwrap_or_default();
            (name(&service.namespace), name(&service.name))
        });
        *self.0.lock() = names.collect();
    }

    /// Reports whether an object is one of them, or belongs to one by this label.
    fn has(&self, object: ObjectMeta, label: Option<&str>) -> bool {
        let name = match label {
            Some(label) => object.labels.and_then(|mut labels| labels.remove(label)),
            None => object.name,
        };
        let place = (
            object.namespace.unwrap_or_default(),
            name.unwrap_or_default(),
        );
        self.0.lock().contains(&place)
    }
}

/// Runs until `stop`.
pub async fn run(client: Client, stop: CancellationToken) {
    let changed = Notify::new();
    let used = UsedServices::default();
    let definitions = changes::<CustomResourceDefinition>(client.clone());
    let registered = changes::<APIService>(client.clone());
    let services = changed_objects::<Service>(client.clone());
    let services = services.filter_map(async |service| used.has(service?, None).then_some(()));
    let slices = changed_objects::<EndpointSlice>(client.clone());
    let slices =
        slices.filter_map(async |slice| used.has(slice?, Some(SERVICE_NAME)).then_some(()));
    let own = stream::select(definitions, registered);
    let mut all = pin!(stream::select(own, stream::select(services, slices)));
    // in parallel with the checks: a watch that is not polled may hold what a check waits for, such as a connection to the database
    let watch = async {
        while all.next().await.is_some() {
            changed.notify_one();
        }
        pending::<()>().await;
    };
    clock::select! {
        () = watch => {}
        () = check_all(&client, &used, &changed, &stop) => {}
    }
}

/// Checks all whenever they have `changed`, and from time to time, until `stop`.
async fn check_all(
    client: &Client,
    used: &UsedServices,
    changed: &Notify,
    stop: &CancellationToken,
) {
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // every branch can be dropped at its await: a notified change is only a reason to check
        clock::select! {
            () = stop.cancelled() => return,
            () = changed.notified() => {}
            _ = ticks.tick() => {}
        }
        match stop.run_until_cancelled(ensure(client, used)).await {
            Some(Ok(true)) | None => {}
            Some(Ok(false)) => ticks.reset_after(UNAVAILABLE_INTERVAL),
            Some(Err(error)) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to write APIServices; retrying"
                );
                ticks.reset_after(RETRY_INTERVAL);
            }
        }
    }
}

/// Creates missing ones, and deletes those of what is no longer served. Returns whether the servers of all others are available.
async fn ensure(client: &Client, used: &UsedServices) -> Result<bool, kube::Error> {
    let api = Api::<APIService>::all(client.clone());
    let mut served = BTreeMap::from([("v1.".to_owned(), (String::new(), "v1".to_owned()))]);
    for group in client.list_api_groups().await?.groups {
        for version in group.versions {
            let name = format!("{}.{}", version.version, group.name);
            served.insert(name, (group.name.clone(), version.version));
        }
    }
    let all = Api::<LenientObject<APIService>>::all(client.clone());
    let mut others = Vec::new();
    for known in keep_decoded(all.list(&ListParams::default()).await?) {
        let name = known.name_any();
        let is_local = known
            .spec
            .as_ref()
            .is_some_and(|spec| spec.service.is_none());
        if !is_local {
            served.remove(&name);
            others.push(known);
            continue;
        }
        if served.contains_key(&name) && is_available(&known) {
            served.remove(&name);
        } else if served.contains_key(&name) {
            served.remove(&name);
            mark_available(&api, &name).await?;
        } else if served.remove(&name).is_none() && known.labels().contains_key(AUTOMANAGED) {
            ignore_not_found(api.delete(&name, &DeleteParams::default()).await.map(drop))?;
        }
    }
    for (name, (group, version)) in served {
        match api
            .create(&PostParams::default(), &local(&name, &group, &version))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made?),
        }
        mark_available(&api, &name).await?;
    }
    used.replace(&others);
    // last, and all at once: a server that does not answer holds up nothing else
    let checks = others.iter().map(|known| check(client, &api, known));
    let found = join_all(checks).await;
    found.into_iter().try_fold(true, |all, one| Ok(all && one?))
}

/// Checks the server of an APIService and sets the condition. Returns whether it answers.
async fn check(
    client: &Client,
    api: &Api<APIService>,
    service: &APIService,
) -> Result<bool, kube::Error> {
    let found = availability::find(client, service).await?;
    let last = last_condition(service);
    let is_same = last.is_some_and(|last| {
        last.status == found.status
            && last.reason.as_deref() == Some(found.reason)
            && last.message.as_deref() == Some(&found.message)
    });
    if !is_same {
        let since = last
            .filter(|last| last.status == found.status)
            .and_then(|last| last.last_transition_time.clone());
        let condition = condition(found.status, found.reason, &found.message, since);
        set_condition(api, &service.name_any(), condition).await?;
    }
    Ok(found.status == "True")
}

fn last_condition(service: &APIService) -> Option<&APIServiceCondition> {
    let status = service.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Available")
}

fn is_available(service: &APIService) -> bool {
    last_condition(service).is_some_and(|condition| condition.status == "True")
}

fn condition(
    status: &str,
    reason: &str,
    message: &str,
    since: Option<Time>,
) -> APIServiceCondition {
    APIServiceCondition {
        type_: "Available".into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_transition_time: since.or_else(|| Some(seconds(clock::now()))),
    }
}

async fn mark_available(api: &Api<APIService>, name: &str) -> Result<(), kube::Error> {
    let message = "Local APIServices are always available";
    set_condition(api, name, condition("True", "Local", message, None)).await
}

async fn set_condition(
    api: &Api<APIService>,
    name: &str,
    condition: APIServiceCondition,
) -> Result<(), kube::Error> {
    let status = APIServiceStatus {
        conditions: Some(vec![condition]),
    };
    let patch = Patch::Merge(json!({"status": status}));
    ignore_not_found(
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .map(drop),
    )
}

/// Builds an APIService; Kubernetes' own groups have higher priority than custom ones.
fn local(name: &str, group: &str, version: &str) -> APIService {
    let is_own = !group.contains('.') || group.ends_with(".k8s.io");
    let (managed, group_priority, version_priority) = match group {
        "" => ("onstart", 18000, 1),
        _ if is_own => ("onstart", 17000, 15),
        _ => ("true", 1000, 100),
    };
    APIService {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(
                AUTOMANAGED.to_owned(),
                managed.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        spec: Some(APIServiceSpec {
            group: Some(group.to_owned()).filter(|group| !group.is_empty()),
            version: Some(version.to_owned()),
            group_priority_minimum: group_priority,
            version_priority,
            ..APIServiceSpec::default()
        }),
        status: None,
    }
}

/// Ignores that the object is already gone.
fn ignore_not_found(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::runtime::wait::await_condition;
    use objectstore::MemoryStore;
    use testkit::within;

    use super::*;

    #[tokio::test]
    async fn each_group_and_version_has_its_own() {
        let client = apiserver::builder(MemoryStore::new())
            .build()
            .client("default");
        let stop = CancellationToken::new();
        tokio::spawn(run(client.clone(), stop.clone()));
        let api = Api::<APIService>::all(client.clone());
        let until = async |name: &'static str, there: bool| {
            let holds = move |one: Option<&APIService>| match one {
                Some(service) => there && is_available(service),
                None => !there,
            };
            let waited = await_condition(api.clone(), name, holds);
            within(name, waited).await.unwrap()
        };
        let core = until("v1.", true).await.unwrap();
        assert_eq!(core.labels()[AUTOMANAGED], "onstart");
        let apps = until("v1.apps", true).await.unwrap();
        let spec = apps.spec.unwrap();
        assert_eq!(
            (spec.group.as_deref(), spec.version.as_deref(), spec.service),
            (Some("apps"), Some("v1"), None)
        );
        let names =
            json!({"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"});
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": {"name": "boats.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names,
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
        }))
        .unwrap();
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        definitions
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
        let boats = until("v1.example.com", true).await.unwrap();
        assert_eq!(boats.labels()[AUTOMANAGED], "true");
        definitions
            .delete("boats.example.com", &DeleteParams::default())
            .await
            .unwrap();
        let definition = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = definitions
            .patch("boats.example.com", &PatchParams::default(), &definition)
            .await;
        until("v1.example.com", false).await;
        let remote: APIService = serde_json::from_value(json!({
            "metadata": {"name": "v1.fish.example.com"},
            "spec": {"group": "fish.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "service": {"namespace": "default", "name": "fish"}, "caBundle": "Y2E="},
        }))
        .unwrap();
        api.create(&PostParams::default(), &remote).await.unwrap();
        let message = "service/fish in \"default\" is not present";
        let refused = |one: Option<&APIService>| {
            let status = one.and_then(|service| service.status.as_ref());
            let conditions = status.and_then(|status| status.conditions.as_ref());
            conditions.into_iter().flatten().any(|condition| {
                condition.status == "False" && condition.message.as_deref() == Some(message)
            })
        };
        let waited = await_condition(api.clone(), "v1.fish.example.com", refused);
        within("the condition of another server", waited)
            .await
            .unwrap();
        let default: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        let namespaces = Api::<Namespace>::all(client.clone());
        namespaces
            .create(&PostParams::default(), &default)
            .await
            .unwrap();
        // its service appears: it is not asked for only after half a minute
        let created = tokio::time::Instant::now();
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "fish"}, "spec": {"ports": [{"port": 443, "name": "https"}]},
        }))
        .unwrap();
        let services = Api::<Service>::namespaced(client.clone(), "default");
        services
            .create(&PostParams::default(), &service)
            .await
            .unwrap();
        let lacks_endpoints = |one: Option<&APIService>| {
            let last = one.and_then(last_condition);
            last.is_some_and(|last| last.reason.as_deref() == Some("EndpointsNotFound"))
        };
        let waited = await_condition(api.clone(), "v1.fish.example.com", lacks_endpoints);
        within("the condition after a change of the service", waited)
            .await
            .unwrap();
        assert!(
            created.elapsed() < UNAVAILABLE_INTERVAL / 2,
            "{:?}",
            created.elapsed()
        );
        stop.cancel();
    }
}
