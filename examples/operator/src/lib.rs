//! An operator of the usual kind: for each `Website` a Deployment and a Service, its state in `status`, a finalizer that lets
//! it take leave, and events of what it did. It knows only [`kube::Client`]: what runs here runs on any cluster.

mod desired;
mod website;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::StreamExt;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Service},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResourceExt, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::{Action, Controller},
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{self, finalizer},
        wait::{await_condition, conditions},
        watcher,
    },
};
use serde_json::json;

pub use self::website::{Website, WebsiteSpec, WebsiteStatus};

/// The name under which the operator owns fields and reports events.
const NAME: &str = "website-operator";
/// What keeps a website until the operator has seen that it goes.
pub const FINALIZER: &str = "example.com/website";
/// How long a definition may take to be served.
const SERVED_TIMEOUT: Duration = Duration::from_secs(30);
/// When to try again what has failed.
const RETRY: Duration = Duration::from_secs(1);

/// Why a website could not be made so.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the API refused")]
    Api(#[from] kube::Error),
    #[error("cannot update the finalizer")]
    Finalizer(#[source] Box<finalizer::Error<Error>>),
}

struct Context {
    client: Client,
    recorder: Recorder,
}

/// Applies the definition of websites, and waits until they are served.
pub async fn install(client: &Client) -> anyhow::Result<()> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definition = Website::crd();
    let name = definition.name_any();
    definitions
        .patch(
            &name,
            &PatchParams::apply(NAME).force(),
            &Patch::Apply(&definition),
        )
        .await?;
    let established = await_condition(definitions, &name, conditions::is_crd_established());
    tokio::time::timeout(SERVED_TIMEOUT, established)
        .await
        .context("websites are not served in time")??;
    Ok(())
}

/// Keeps all websites until it is dropped.
pub async fn run(client: Client) {
    let websites = Api::<Website>::all(client.clone());
    let any = watcher::Config::default;
    let reporter = Reporter {
        controller: NAME.into(),
        instance: None,
    };
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), reporter),
        client: client.clone(),
    });
    Controller::new(websites, any())
        .owns(Api::<Deployment>::all(client.clone()), any())
        .owns(Api::<Service>::all(client), any())
        .run(reconcile, |_, _, _| Action::requeue(RETRY), context)
        // a failure is tried again; there is nothing else to do about it
        .for_each(|_| async {})
        .await;
}

async fn reconcile(website: Arc<Website>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = website.namespace().unwrap_or_default();
    let websites = Api::<Website>::namespaced(context.client.clone(), &namespace);
    finalizer(&websites, FINALIZER, website, async |event| match event {
        finalizer::Event::Apply(website) => apply(&website, &namespace, &context).await,
        finalizer::Event::Cleanup(website) => {
            let leave = "The website is taken down".to_owned();
            tell(&website, &context, "TakenDown", leave).await?;
            Ok(Action::await_change())
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

async fn apply(website: &Website, namespace: &str, context: &Context) -> Result<Action, Error> {
    let (name, ours) = (website.name_any(), PatchParams::apply(NAME).force());
    let deployments = Api::<Deployment>::namespaced(context.client.clone(), namespace);
    let deployment = Patch::Apply(desired::deployment(website));
    let deployment: Deployment = deployments.patch(&name, &ours, &deployment).await?;
    let services = Api::<Service>::namespaced(context.client.clone(), namespace);
    services
        .patch(&name, &ours, &Patch::Apply(desired::service(website)))
        .await?;

    let ready = deployment
        .status
        .and_then(|status| status.ready_replicas)
        .unwrap_or_default();
    let phase = if ready >= website.spec.replicas {
        "Online"
    } else {
        "Starting"
    };
    let status = WebsiteStatus {
        phase: phase.to_owned(),
        ready_replicas: ready,
    };
    if website.status.as_ref() == Some(&status) {
        return Ok(Action::await_change());
    }
    let was = website.status.as_ref().map(|status| status.phase.as_str());
    if was != Some(phase) {
        tell(
            website,
            context,
            phase,
            format!("{ready} of {} replicas are ready", website.spec.replicas),
        )
        .await?;
    }
    let websites = Api::<Website>::namespaced(context.client.clone(), namespace);
    websites
        .patch_status(
            &name,
            &PatchParams::default(),
            &Patch::Merge(json!({"status": status})),
        )
        .await?;
    Ok(Action::await_change())
}

async fn tell(
    website: &Website,
    context: &Context,
    reason: &str,
    note: String,
) -> Result<(), Error> {
    let event = Event {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        note: Some(note),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    Ok(context
        .recorder
        .publish(&event, &website.object_ref(&()))
        .await?)
}
