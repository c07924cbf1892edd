//! A watch of typed objects whose machinery does not depend on their type: kube's [`watcher()`] is compiled once, for objects of which only
//! the metadata is read, and an object becomes one of its type when it is handed on.
//!
//! Source: `kube::runtime::watcher`, whose events and errors these are.

use std::{
    borrow::Cow,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, stream::BoxStream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource,
    core::{ApiResource, DynamicResourceScope},
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event, watcher},
    },
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;

/// The pause before everything is listed again when an object could not be read as one of its type.
const UNREADABLE_DELAY: Duration = Duration::from_secs(5);

/// Lists and watches all objects of a kind, and does both again after an error, as [`watcher()`] does: the caller sets the pace, for
/// example by waiting after an error.
///
/// # Errors
/// Those of [`watcher()`]. An object that is no `K` ends the list or watch with [`watcher::Error::WatchFailed`], and all objects are listed
/// again after five seconds, so that nobody takes it for deleted.
pub fn watch_objects<K>(
    client: Client,
    config: Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + Unpin + 'static
where
    K: Resource<DynamicType = ()> + DeserializeOwned + 'static,
{
    Typed::new(Watch::new(
        client,
        ApiResource::erase::<K>(&()),
        config,
        false,
    ))
}

/// The same with kube's default backoff after errors.
pub fn watch_objects_with_backoff<K>(
    client: Client,
    config: Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + Unpin + 'static
where
    K: Resource<DynamicType = ()> + DeserializeOwned + 'static,
{
    Typed::new(Watch::new(
        client,
        ApiResource::erase::<K>(&()),
        config,
        true,
    ))
}

/// The events of one kind, of any type.
struct Watch {
    client: Client,
    resource: ApiResource,
    config: Config,
    backoff: bool,
    events: BoxStream<'static, watcher::Result<Event<Untyped>>>,
}

impl Watch {
    fn new(client: Client, resource: ApiResource, config: Config, backoff: bool) -> Self {
        let mut watch = Self {
            client,
            resource,
            config,
            backoff,
            events: futures::stream::empty().boxed(),
        };
        watch.events = watch.begin();
        watch
    }

    fn begin(&self) -> BoxStream<'static, watcher::Result<Event<Untyped>>> {
        let api = Api::<Untyped>::all_with(self.client.clone(), &self.resource);
        let events = watcher(api, self.config.clone());
        if self.backoff {
            events.default_backoff().boxed()
        } else {
            events.boxed()
        }
    }

    /// Lists everything again, a little later.
    fn restart(&mut self) {
        let delay = tokio::time::sleep(UNREADABLE_DELAY).into_stream();
        let nothing = delay.filter_map(async |()| None);
        self.events = nothing.chain(self.begin()).boxed();
    }
}

struct Typed<K> {
    watch: Watch,
    of: PhantomData<fn() -> K>,
}

impl<K> Typed<K> {
    fn new(watch: Watch) -> Self {
        Self {
            watch,
            of: PhantomData,
        }
    }
}

impl<K: DeserializeOwned> Stream for Typed<K> {
    type Item = watcher::Result<Event<K>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = match ready!(self.watch.events.poll_next_unpin(context)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            Some(Ok(event)) => event,
        };
        let typed = typed(event).map_err(|error| {
            self.watch.restart();
            watcher::Error::WatchFailed(kube::Error::SerdeError(error))
        });
        Poll::Ready(Some(typed))
    }
}

fn typed<K: DeserializeOwned>(event: Event<Untyped>) -> serde_json::Result<Event<K>> {
    Ok(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(object.typed()?),
        Event::InitApply(object) => Event::InitApply(object.typed()?),
        Event::Delete(object) => Event::Delete(object.typed()?),
    })
}

/// An object as it came, of which only that much is read that a watch can go on.
#[derive(Clone, Debug)]
struct Untyped {
    metadata: ObjectMeta,
    json: Box<RawValue>,
}

impl Untyped {
    /// In a function of its own that calls one of serde_json's alone: it is compiled for each type.
    fn typed<K: DeserializeOwned>(&self) -> serde_json::Result<K> {
        serde_json::from_str(self.json.get())
    }
}

impl<'de> Deserialize<'de> for Untyped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Head {
            metadata: Identity,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Identity {
            name: Option<String>,
            namespace: Option<String>,
            uid: Option<String>,
            resource_version: Option<String>,
        }

        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Head { metadata } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, json })
    }
}

impl Resource for Untyped {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests;
