//! Lists collections from the cloud, page by page, into the copies.

use std::collections::HashSet;

use http::Method;
use serde_json::{Value, json};
use wire::application::Verb;

use super::{
    super::response::ApiError,
    cloud::{CallError, Cloud},
    copies::{Copies, MAX_COPIES_BYTES},
    keys::{key_of, text},
    local::LocalApi,
    watches::Collection,
};

/// The number of objects in one page, which has to fit into one message.
const PAGE_SIZE: usize = 100;
/// The most objects in one list. No node is meant to hold more.
const MAX_OBJECTS: usize = 10_000;
/// The most bytes of one list: half of what all copies may take.
const MAX_LIST_BYTES: u64 = MAX_COPIES_BYTES / 2;

/// Lists collections; cheap to clone.
#[derive(Clone)]
pub(super) struct CollectionLister {
    cloud: Cloud,
    copies: Copies,
    local: LocalApi,
}

impl CollectionLister {
    pub(super) fn new(cloud: Cloud, copies: Copies, local: LocalApi) -> Self {
        Self {
            cloud,
            copies,
            local,
        }
    }

    /// Makes the copies of `collection` equal to the cloud's objects.
    pub(super) async fn renew(&self, collection: &Collection) -> Result<(), CallError> {
        let mut listed = HashSet::new();
        let (mut next, mut revision, mut bytes) = (String::new(), None, 0);
        loop {
            let (page, length) = self.page(collection, &next).await?;
            bytes += length as u64;
            if bytes > MAX_LIST_BYTES {
                return Err(CallError::Refused(ApiError::too_long(&format!(
                    "{} MiB",
                    MAX_LIST_BYTES >> 20
                ))));
            }
            // later pages may be of a later revision
            revision =
                revision.or_else(|| text(&page, "/metadata/resourceVersion").parse::<u64>().ok());
            let kind = text(&page, "/kind")
                .strip_suffix("List")
                .unwrap_or_default();
            for item in items(&page) {
                let object = with_kind(item, kind, text(&page, "/apiVersion"));
                listed.insert(text(&object, "/metadata/uid").to_owned());
                self.copies
                    .put(&key_of(&collection.target, &object), &object)
                    .await
                    .map_err(store_error)?;
            }
            if listed.len() > MAX_OBJECTS {
                return Err(CallError::Refused(ApiError::too_long(&format!(
                    "{MAX_OBJECTS} objects"
                ))));
            }
            next = text(&page, "/metadata/continue").to_owned();
            if next.is_empty() {
                break;
            }
        }
        self.remove_unlisted(collection, &listed, revision.unwrap_or_default())
            .await?;
        self.copies
            .listed
            .add(collection)
            .await
            .map_err(store_error)
    }

    /// Fetches a page. Returns it with its length in bytes.
    async fn page(&self, collection: &Collection, next: &str) -> Result<(Value, usize), CallError> {
        let mut option = json!({"limit": PAGE_SIZE});
        for (name, value) in [
            ("labelSelector", collection.labels.as_str()),
            ("fieldSelector", &collection.fields),
            ("continue", next),
        ] {
            if !value.is_empty() {
                option[name] = value.into();
            }
        }
        let call = self
            .cloud
            .call(&collection.target, Verb::List, &option, Vec::new(), "");
        let answer = self.cloud.execute(call).await?;
        let page = serde_json::from_slice(&answer).map_err(|error| {
            CallError::Refused(ApiError::bad_gateway(&format!(
                "cannot parse the cloud's list: {error}"
            )))
        })?;
        Ok((page, answer.len()))
    }

    /// Removes the copies that match the selectors and that the cloud has not listed.
    async fn remove_unlisted(
        &self,
        collection: &Collection,
        listed: &HashSet<String>,
        revision: u64,
    ) -> Result<(), CallError> {
        let target = &collection.target;
        let query: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("labelSelector", &collection.labels)
            .append_pair("fieldSelector", &collection.fields)
            .finish();
        let selected = self
            .local
            .json(&Method::GET, &format!("{}?{query}", target.path()))
            .await;
        for copy in items(&selected) {
            if !listed.contains(text(copy, "/metadata/uid")) {
                let key = key_of(target, copy);
                self.copies
                    .remove_unlisted(&key, listed, revision)
                    .await
                    .map_err(store_error)?;
            }
        }
        Ok(())
    }
}

fn items(list: &Value) -> &[Value] {
    list.get("items")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Adds kind and apiVersion to an item of a list, which may leave them out.
fn with_kind(item: &Value, kind: &str, api_version: &str) -> Value {
    let mut object = item.clone();
    if let Some(map) = object.as_object_mut() {
        map.entry("kind").or_insert_with(|| kind.into());
        map.entry("apiVersion")
            .or_insert_with(|| api_version.into());
    }
    object
}

fn store_error(error: objectstore::StoreError) -> CallError {
    CallError::Refused(error.into())
}
