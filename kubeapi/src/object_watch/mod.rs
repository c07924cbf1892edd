//! A watch of typed objects whose machinery does not depend on their type: kube's [`watcher()`] is compiled once, for objects of which only
//! the metadata is read, and an object becomes one of its type when it is handed on.
//!
//! Source: `kube::runtime::watcher`, whose events and errors these are.

mod undecodable;

use std::{
    borrow::Cow,
    fmt,
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

use self::undecodable::Undecodable;
pub(crate) use self::undecodable::without_values;

/// The pause before everything is listed again when an object was deleted that could not be decoded.
const RELIST_DELAY: Duration = Duration::from_secs(5);

/// Returns the version of an object that the receiver of the events has, by namespace and name.
type LastVersion<K> = Box<dyn FnMut(&str, &str) -> Option<K> + Send>;

/// Lists and watches all objects of a kind, and does both again after an error, as [`watcher()`] does: the caller sets the pace, for
/// example by waiting after an error. [`ObjectWatch`] describes what happens to objects that are no `K`.
pub fn watch_objects<K>(client: Client, config: Config) -> ObjectWatch<K>
where
    K: Resource<DynamicType = ()>,
{
    ObjectWatch::new(client, config, false)
}

/// The same with kube's default backoff after errors.
pub fn watch_objects_with_backoff<K>(client: Client, config: Config) -> ObjectWatch<K>
where
    K: Resource<DynamicType = ()>,
{
    ObjectWatch::new(client, config, true)
}

/// The events of [`watch_objects`], which never end.
///
/// An object that cannot be decoded as `K` is logged as a warning, once for each of its versions, and holds up no other object:
///
/// - A change is skipped: the receiver keeps the version that it has.
/// - In a list, the version of [`ObjectWatch::with_last_version`] replaces it, so that it does not count as deleted. An object that the
///   receiver does not have is skipped.
/// - A deletion is that of the last version. Without one, everything is listed again after five seconds.
///
/// # Errors
/// Those of [`watcher()`].
pub struct ObjectWatch<K> {
    watch: Watch,
    last_version: LastVersion<K>,
}

impl<K: Resource<DynamicType = ()>> ObjectWatch<K> {
    fn new(client: Client, config: Config, backoff: bool) -> Self {
        Self {
            watch: Watch::new(client, ApiResource::erase::<K>(&()), config, backoff),
            last_version: Box::new(|_, _| None),
        }
    }

    /// Asks for the version that the receiver has, by namespace (empty for none) and name, if an object cannot be decoded.
    #[must_use]
    pub fn with_last_version(
        mut self,
        last_version: impl FnMut(&str, &str) -> Option<K> + Send + 'static,
    ) -> Self {
        self.last_version = Box::new(last_version);
        self
    }
}

impl<K> Unpin for ObjectWatch<K> {}

impl<K> fmt::Debug for ObjectWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectWatch").finish_non_exhaustive()
    }
}

/// The events of one kind, of any type.
struct Watch {
    client: Client,
    resource: ApiResource,
    config: Config,
    backoff: bool,
    events: BoxStream<'static, watcher::Result<Event<Untyped>>>,
    undecodable: Undecodable,
}

impl Watch {
    fn new(client: Client, resource: ApiResource, config: Config, backoff: bool) -> Self {
        let mut watch = Self {
            undecodable: Undecodable::new(&resource.kind),
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
        let delay = tokio::time::sleep(RELIST_DELAY).into_stream();
        let nothing = delay.filter_map(async |()| None);
        self.events = nothing.chain(self.begin()).boxed();
    }
}

impl<K> ObjectWatch<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    /// Returns the event with the object as one of its type, if the receiver is to get it.
    fn decode_event(&mut self, event: Event<Untyped>) -> Option<Event<K>> {
        match event {
            Event::Init => {
                self.watch.undecodable.begin_list();
                Some(Event::Init)
            }
            Event::InitDone => {
                self.watch.undecodable.end_list();
                Some(Event::InitDone)
            }
            Event::Apply(object) => self.decode_object(&object).ok().map(Event::Apply),
            Event::InitApply(object) => match self.decode_object(&object) {
                Ok(typed) => Some(Event::InitApply(typed)),
                Err(last) => last.map(Event::InitApply),
            },
            Event::Delete(object) => match self.decode_object(&object) {
                Ok(typed) | Err(Some(typed)) => {
                    self.watch.undecodable.forget(&object.metadata);
                    Some(Event::Delete(typed))
                }
                Err(None) => {
                    self.watch.undecodable.forget(&object.metadata);
                    self.watch.restart();
                    None
                }
            },
        }
    }

    /// Returns the object as one of its type, or else the version of it that the receiver has.
    fn decode_object(&mut self, object: &Untyped) -> Result<K, Option<K>> {
        let error = match object.decode() {
            Ok(typed) => {
                self.watch.undecodable.forget(&object.metadata);
                return Ok(typed);
            }
            Err(error) => error,
        };
        let meta = &object.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let last = (self.last_version)(namespace, meta.name.as_deref().unwrap_or_default());
        // an object of the same name that was deleted meanwhile is another one
        let last = last.filter(|last| last.meta().uid == meta.uid);
        self.watch.undecodable.report(meta, &error);
        Err(last)
    }
}

impl<K> Stream for ObjectWatch<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    type Item = watcher::Result<Event<K>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.watch.events.poll_next_unpin(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(event)) => {
                    if let Some(event) = self.decode_event(event) {
                        return Poll::Ready(Some(Ok(event)));
                    }
                }
            }
        }
    }
}

/// An object as it came, of which only that much is read that a watch can go on.
#[derive(Clone, Debug)]
pub(crate) struct Untyped {
    pub(crate) metadata: ObjectMeta,
    json: Box<RawValue>,
}

impl Untyped {
    /// In a function of its own that calls one of serde_json's alone: it is compiled for each type.
    pub(crate) fn decode<K: DeserializeOwned>(&self) -> serde_json::Result<K> {
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
