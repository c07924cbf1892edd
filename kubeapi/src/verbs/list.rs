//! `list`, whole or page by page.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::get::metadata_alone;
use crate::{
    Api, Body,
    accept::Shape,
    body,
    call::Call,
    conversion::all_served,
    path::Target,
    selector::Selection,
    status::StatusError,
    store::{Listing, Object, Page, Scope, StoreError},
    table::{self, IncludeObject},
};

/// The continue token, which is opaque to clients.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    /// The revision of the first page, that all pages name: a watch from there misses nothing. `None` when changes since then
    /// are no longer known and the client goes on nevertheless: the next page names its own.
    rv: Option<u64>,
    ns: String,
    name: String,
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
        let items: Vec<_> = items.into_iter().map(|item| item.json).collect();
        let json = raw_list(&kind.list_kind(), &kind.api_version(), &metadata, &items);
        return Ok(body::answer(StatusCode::OK, json, &[]));
    }
    if call.shape == Shape::Metadata {
        let items = items.iter().map(metadata_alone).collect::<Result<Vec<_>, _>>()?;
        let json = raw_list("PartialObjectMetadataList", "meta.k8s.io/v1", &metadata, &items);
        return Ok(body::answer(StatusCode::OK, json, &[]));
    }
    let objects = items.iter().map(Object::value).collect::<Result<Vec<_>, _>>()?;
    let include = IncludeObject::parse(call.query.get("includeObject"))?;
    let table = table::table(kind, &objects, metadata, include, true, Timestamp::now());
    Ok(body::answer(StatusCode::OK, Bytes::from(table.to_string()), &[]))
}

/// Returns the scope of the request's collection.
pub(super) fn scope(target: &Target) -> Scope {
    let namespace = (!target.namespace.is_empty()).then(|| target.namespace.clone());
    Scope { resource: target.kind.resource().clone(), namespace }
}

/// Returns the request's selectors.
pub(super) fn selection(call: &Call) -> Result<Selection, StatusError> {
    Selection::parse(&call.target.kind, call.query.get("labelSelector"), call.query.get("fieldSelector"))
}

/// Returns all selected objects of the collection, without pages.
pub(super) async fn all(
    api: &Api,
    call: &Call,
    selection: &Selection,
) -> Result<(Vec<Object>, u64), StatusError> {
    let listing = api.store().list(&scope(&call.target), &Page::default()).await?;
    check_damaged(call, &listing)?;
    let mut items = all_served(&call.target.kind, listing.items)?;
    retain_selected(&mut items, selection)?;
    Ok((items, listing.revision))
}

async fn find(api: &Api, call: &Call, selection: &Selection) -> Result<ListPage, StatusError> {
    // 0 and less mean all
    let limit =
        call.query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let start = call.query.get("continue").map(decode).transpose()?;
    check_revision(api, call, start.is_some())?;
    if let Some(start) = &start {
        check_start(api, call, start)?;
    }
    let mut after = start.as_ref().map(|start| (start.ns.clone(), start.name.clone()));
    let mut items = Vec::new();
    loop {
        let page = Page { after, limit: limit.map(|limit| limit - items.len()) };
        let listing = api.store().list(&scope(&call.target), &page).await?;
        check_damaged(call, &listing)?;
        let revision = start.as_ref().and_then(|start| start.rv).unwrap_or(listing.revision);
        let last = listing.items.last().map(|object| (object.key.namespace.clone(), object.key.name.clone()));
        let mut found = all_served(&call.target.kind, listing.items)?;
        retain_selected(&mut found, selection)?;
        items.append(&mut found);
        let full = limit.is_some_and(|limit| items.len() >= limit);
        let Some((ns, name)) = last.filter(|_| listing.remaining > 0) else {
            return Ok(ListPage { items, metadata: json!({"resourceVersion": revision.to_string()}) });
        };
        if full {
            let mut metadata = Map::new();
            metadata.insert("resourceVersion".into(), revision.to_string().into());
            metadata.insert("continue".into(), encode(&Continue { rv: Some(revision), ns, name }).into());
            // with a selector nobody has counted what is left
            if selection.is_everything() {
                metadata.insert("remainingItemCount".into(), listing.remaining.into());
            }
            return Ok(ListPage { items, metadata: Value::Object(metadata) });
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
        call.warnings.add(format!("{key} is damaged and not listed; delete it, or write it again"));
    }
    Ok(())
}

fn retain_selected(items: &mut Vec<Object>, selection: &Selection) -> Result<(), StatusError> {
    if selection.is_everything() {
        return Ok(());
    }
    let mut selected = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        if selection.matches(&item.value()?) {
            selected.push(item);
        }
    }
    *items = selected;
    Ok(())
}

/// Checks `resourceVersion` with `resourceVersionMatch`: a list shows the current state, so it serves any revision that is not newer,
/// and an exact one only where it is the current one.
fn check_revision(api: &Api, call: &Call, continued: bool) -> Result<(), StatusError> {
    let Some(asked) = call.query.resource_version()?.filter(|asked| *asked > 0) else { return Ok(()) };
    let current = api.store().revision();
    let exact = call.query.get("resourceVersionMatch") == Some("Exact");
    match () {
        () if continued => {
            Err(StatusError::bad_request("specifying resource version is not allowed when using continue"))
        }
        () if asked > current => Err(StatusError::too_large_revision(asked, current)),
        () if exact && asked < current => Err(StatusError::expired(format!(
            "The provided resource version is too old: {asked} ({current}), list without resourceVersionMatch=Exact"
        ))),
        () => Ok(()),
    }
}

/// Pages show the present, and a watch from the first one's revision tells what changed between them: as long as the changes
/// since then are known.
fn check_start(api: &Api, call: &Call, start: &Continue) -> Result<(), StatusError> {
    let Some(revision) = start.rv else { return Ok(()) };
    match api.store().watch(scope(&call.target), revision) {
        Err(StoreError::Expired { .. }) => {
            let (ns, name) = (start.ns.clone(), start.name.clone());
            Err(StatusError::page_expired(encode(&Continue { rv: None, ns, name })))
        }
        opened => Ok(opened.map(drop)?),
    }
}

fn encode(place: &Continue) -> String {
    URL_SAFE_NO_PAD.encode(json!(place).to_string())
}

fn decode(token: &str) -> Result<Continue, StatusError> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| StatusError::bad_request("continue key is not valid: list again without it"))
}

/// Joins objects that are already encoded into a list.
fn raw_list(kind: &str, api_version: &str, metadata: &Value, items: &[impl AsRef<[u8]>]) -> Bytes {
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(kind),
        json!(api_version)
    );
    let size: usize = items.iter().map(|item| item.as_ref().len() + 1).sum();
    let mut out = BytesMut::with_capacity(head.len() + size + 2);
    out.put_slice(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(item.as_ref());
    }
    out.put_slice(b"]}");
    out.freeze()
}
