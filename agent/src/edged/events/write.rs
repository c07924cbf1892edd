//! Tells the API, one event after the other.

use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use tokio::sync::mpsc;

use super::{
    Occurrence,
    series::{Series, Write},
};

/// Tells until there is nobody left who could record.
pub(crate) async fn run(client: Client, node_name: String, mut occurrences: mpsc::Receiver<Occurrence>) {
    let mut series = Series::new(node_name);
    while let Some(occurrence) = occurrences.recv().await {
        let Some(write) = series.take(occurrence, Timestamp::now()) else { continue };
        if let Err(error) = tell(&client, write).await {
            // Offline is no news here, and an event about an event would be one too many.
            tracing::debug!(error = &error as &dyn std::error::Error, "an event is lost");
        }
    }
}

async fn tell(client: &Client, write: Write) -> kube::Result<()> {
    let (Write::Create(event) | Write::Patch(event)) = &write;
    let api =
        Api::<Event>::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or("default"));
    if let Write::Patch(event) = &write {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        // All of it: whoever passes it on must see whose it is without having the event.
        match api.patch(name, &PatchParams::default(), &Patch::Merge(event)).await {
            Err(kube::Error::Api(answer)) if answer.code == StatusCode::NOT_FOUND.as_u16() => {}
            other => return other.map(drop),
        }
    }
    api.create(&PostParams::default(), event).await.map(drop)
}
