//! `list`, whole or page by page.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{get::metadata_alone, snapshot};
use crate::{
    Api, Body,
    object::{as_map, conversion::all_served},
    registry::Kind,
    request::{accept::Shape, body, call::Call, path::Target},
    selector::Selection,
    status::StatusError,
    table::{self, IncludeObject},
};
use objectstore::{Listing, Object, Page, Scope, StoreError};

/// The continue token, which is opaque to clients.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Continue {
    /// The revision of the first page, that all pages name: a watch from there misses nothing. `None` when changes since then
    /// are no longer known and the client goes on nevertheless: the next page names its own.
    rv: Option<u64>,
    ns: String,
    name: String,
    /// When the first page was read, in seconds since 1970. A token without a revision does not expire.
    #[serde(default)]
    since: i64,
}

/// How long a list in pages shows the revision of its first page: the interval at which kube-apiserver compacts etcd. What changed since
/// then may be known for longer, but clients must be able to see here that a token expires.
const SNAPSHOT_LIFETIME: i64 = 5 * 60;

impl Continue {
    /// Returns the token for the objects after this namespace and name, whatever the revision.
    pub(super) fn after([ns, name]: [String; 2]) -> Self {
        Self {
            rv: None,
            ns,
            name,
            since: 0,
        }
    }

    /// Reports whether the list began too long ago to be shown as it was then. A client may have written anything into the token.
    fn is_expired(&self) -> bool {
        let age = clock::now().as_second().saturating_sub(self.since);
        self.rv.is_some() && age >= SNAPSHOT_LIFETIME
    }

    /// Returns 410, with a token that goes on after this place whatever has changed.
    fn expired_status(&self) -> StatusError {
        StatusError::page_expired(Self::after(self.place()).encode())
    }

    /// Returns the namespace and name of the last object of the page before.
    pub(super) fn place(&self) -> [String; 2] {
        [self.ns.clone(), self.name.clone()]
    }

    /// Returns the token as it is sent to clients.
    pub(super) fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }
}

/// The page and revision that a list asks for.
pub(super) struct PageOptions {
    /// The most items; `None` for all.
    pub(super) limit: Option<usize>,
    pub(super) start: Option<Continue>,
    /// The revision that the list must show.
    exact: Option<u64>,
}

/// Reads the page and revision that the request asks for.
pub(super) fn page_options(api: &Api, call: &Call) -> Result<PageOptions, StatusError> {
    // 0 and less mean all
    let limit = call
        .query
        .number("limit")?
        .and_then(|limit| usize::try_from(limit).ok())
        .filter(|limit| *limit > 0);
    let start = call.query.get("continue").map(decode).transpose()?;
    let exact = exact_revision(api, call, start.is_some(), limit.is_some())?;
    Ok(PageOptions {
        limit,
        start,
        exact,
    })
}

/// A page, before it is encoded.
struct ListPage {
    items: Vec<Object>,
    metadata: Value,
}

/// Answers with the objects of the request's collection.
pub(crate) async fn list(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let selection = selection(call)?;
    let ListPage { items, metadata } = find(api, call, &selection).await?;
    let kind = &call.target.kind;
    if call.shape == Shape::Objects {
        let json = if api.strategy().lists_untyped(kind) {
            let items = strip_kinds(kind, items)?;
            raw_list(
                &kind.list_kind(),
                &kind.api_version(),
                &metadata,
                b"{",
                &items,
            )
        } else {
            let items: Vec<_> = items.into_iter().map(|item| item.json).collect();
            raw_list(
                &kind.list_kind(),
                &kind.api_version(),
                &metadata,
                b"",
                &items,
            )
        };
        return Ok(body::answer(StatusCode::OK, json, &[]));
    }
    if call.shape == Shape::Metadata {
        let items = items
            .iter()
            .map(metadata_alone)
            .collect::<Result<Vec<_>, _>>()?;
        let json = raw_list(
            "PartialObjectMetadataList",
            "meta.k8s.io/v1",
            &metadata,
            b"",
            &items,
        );
        return Ok(body::answer(StatusCode::OK, json, &[]));
    }
    let objects = items
        .iter()
        .map(Object::value)
        .collect::<Result<Vec<_>, _>>()?;
    let include = IncludeObject::parse(call.query.get("includeObject"))?;
    let table = table::table(kind, &objects, metadata, include, true, clock::now());
    Ok(body::answer(
        StatusCode::OK,
        Bytes::from(table.to_string()),
        &[],
    ))
}

/// Returns the scope of the request's collection.
pub(super) fn scope(target: &Target) -> Scope {
    let namespace = (!target.namespace.is_empty()).then(|| target.namespace.clone());
    Scope {
        resource: target.kind.resource().clone(),
        namespace,
    }
}

/// Returns the request's selectors.
pub(super) fn selection(call: &Call) -> Result<Selection, StatusError> {
    Selection::parse(
        &call.target.kind,
        call.query.get("labelSelector"),
        call.query.get("fieldSelector"),
    )
}

/// Returns all selected objects of the collection, without pages.
pub(super) async fn all(
    api: &Api,
    call: &Call,
    selection: &Selection,
) -> Result<(Vec<Object>, u64), StatusError> {
    let listing = api
        .store()
        .list(&scope(&call.target), &Page::default())
        .await?;
    check_damaged(call, &listing)?;
    let mut items = all_served(api, &call.target.kind, listing.items).await?;
    retain_selected(&mut items, selection)?;
    Ok((items, listing.revision))
}

async fn find(api: &Api, call: &Call, selection: &Selection) -> Result<ListPage, StatusError> {
    let PageOptions {
        limit,
        start,
        exact,
    } = page_options(api, call)?;
    if let Some(expired) = start.as_ref().filter(|start| start.is_expired()) {
        return Err(expired.expired_status());
    }
    let (mut at, since) = match &start {
        Some(Continue {
            rv: Some(revision),
            since,
            ..
        }) => (Some(*revision), *since),
        _ => (exact, clock::now().as_second()),
    };
    let mut after = start
        .as_ref()
        .map(|start| (start.ns.clone(), start.name.clone()));
    let mut items = Vec::new();
    loop {
        let page = Page {
            after,
            limit: limit.map(|limit| limit - items.len()),
        };
        let listing = snapshot::list(&**api.store(), &scope(&call.target), &page, at).await;
        let listing = listing.map_err(|error| expired_status(error, start.as_ref()))?;
        check_damaged(call, &listing)?;
        let revision = *at.get_or_insert(listing.revision);
        let last = listing
            .items
            .last()
            .map(|object| (object.key.namespace.clone(), object.key.name.clone()));
        let mut found = all_served(api, &call.target.kind, listing.items).await?;
        retain_selected(&mut found, selection)?;
        items.append(&mut found);
        let full = limit.is_some_and(|limit| items.len() >= limit);
        let Some((ns, name)) = last.filter(|_| listing.remaining > 0) else {
            return Ok(ListPage {
                items,
                metadata: json!({"resourceVersion": revision.to_string()}),
            });
        };
        if full {
            let mut metadata = Map::new();
            metadata.insert("resourceVersion".into(), revision.to_string().into());
            metadata.insert(
                "continue".into(),
                Continue {
                    rv: Some(revision),
                    ns,
                    name,
                    since,
                }
                .encode()
                .into(),
            );
            // with a selector nobody has counted what is left
            if selection.is_everything() {
                metadata.insert("remainingItemCount".into(), listing.remaining.into());
            }
            return Ok(ListPage {
                items,
                metadata: Value::Object(metadata),
            });
        }
        after = Some((ns, name));
    }
}

/// Objects that cannot be read make the list fail if the caller needs all of them; it is otherwise warned of each.
fn check_damaged(call: &Call, listing: &Listing) -> Result<(), StatusError> {
    if call.needs_complete_lists && !listing.damaged.is_empty() {
        return Err(StatusError::incomplete(&listing.damaged));
    }
    for key in &listing.damaged {
        call.warnings.add(format!(
            "{key} is damaged and not listed; delete it, or write it again"
        ));
    }
    Ok(())
}

/// Returns 410 for a list whose revision is no longer known, with a token that goes on without it where the list had begun.
fn expired_status(error: StoreError, start: Option<&Continue>) -> StatusError {
    match (error, start) {
        (StoreError::Expired { .. }, Some(start)) => start.expired_status(),
        (StoreError::Expired { .. }, None) => {
            StatusError::expired("The resourceVersion for the provided list is too old.")
        }
        (error, _) => error.into(),
    }
}

fn retain_selected(items: &mut Vec<Object>, selection: &Selection) -> Result<(), StatusError> {
    if selection.is_everything() {
        return Ok(());
    }
    let mut selected = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        if selection.selects(&item)? {
            selected.push(item);
        }
    }
    *items = selected;
    Ok(())
}

/// Checks `resourceVersion` with `resourceVersionMatch`, and returns the revision that the list must show: an exact one, which a
/// list in pages asks for by naming any. All other lists show what is there now.
fn exact_revision(
    api: &Api,
    call: &Call,
    is_continued: bool,
    is_paged: bool,
) -> Result<Option<u64>, StatusError> {
    let Some(asked) = call.query.resource_version()?.filter(|asked| *asked > 0) else {
        return Ok(None);
    };
    let current = api.store().revision();
    if is_continued {
        let why = "specifying resource version is not allowed when using continue";
        return Err(StatusError::bad_request(why));
    }
    if asked > current {
        return Err(StatusError::too_large_revision(asked, current));
    }
    let is_exact = match call.query.get("resourceVersionMatch") {
        Some(wanted) => wanted == "Exact",
        None => is_paged,
    };
    Ok(is_exact.then_some(asked))
}

fn decode(token: &str) -> Result<Continue, StatusError> {
    let decoded = URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|error| error.to_string());
    let read =
        decoded.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    read.map_err(|why| {
        StatusError::bad_request(format!(
            "invalid continue token: continue key is not valid: {why}"
        ))
    })
}

/// Returns the objects without their kinds, and without the braces that open them.
fn strip_kinds(kind: &Kind, items: Vec<Object>) -> Result<Vec<Bytes>, StatusError> {
    // the form in which all objects are stored
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},",
        json!(kind.kind),
        json!(kind.api_version())
    );
    let without = |item: Object| {
        if item.json.starts_with(head.as_bytes()) {
            return Ok(item.json.slice(head.len()..));
        }
        let mut value = item.value()?;
        remove_kind(&mut value);
        Ok(Bytes::from(value.to_string()).slice(1..))
    };
    items.into_iter().map(without).collect()
}

/// Removes the kind of an object.
pub(super) fn remove_kind(object: &mut Value) {
    let map = as_map(object);
    map.shift_remove("kind");
    map.shift_remove("apiVersion");
}

/// Joins objects that are already encoded into a list; `opening` stands before each.
fn raw_list(
    kind: &str,
    api_version: &str,
    metadata: &Value,
    opening: &[u8],
    items: &[impl AsRef<[u8]>],
) -> Bytes {
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(kind),
        json!(api_version)
    );
    let size: usize = items
        .iter()
        .map(|item| item.as_ref().len() + opening.len() + 1)
        .sum();
    let mut out = BytesMut::with_capacity(head.len() + size + 2);
    out.put_slice(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(opening);
        out.put_slice(item.as_ref());
    }
    out.put_slice(b"]}");
    out.freeze()
}
