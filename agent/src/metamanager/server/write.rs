//! Writes: the cloud carries them out, and the result is copied before the client gets its response.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header, request::Parts};
use kubeapi::{Body, store::Key};
use serde_json::{Value, json};
use wire::application::{PatchInfo, Target, Verb};

use super::{
    super::answer::{Refusal, object},
    ask::Failure,
    json::{object_of, parsed, raw},
    keys::{key, key_of, text},
    query::Query,
    route::Ask,
    service::ApiServer,
};

/// The field that says which revision of an object a request means.
const REVISION: &str = "/metadata/resourceVersion";

impl ApiServer {
    /// Executes a write.
    pub(super) async fn write(
        &self,
        ask: &Ask,
        parts: &Parts,
        body: Bytes,
    ) -> Result<Response<Body>, Refusal> {
        let query = Query::of(&parts.uri);
        let (option, body) = match ask.verb {
            Verb::Patch => (self.patch(ask, &query, &parts.headers, &body).await?, Vec::new()),
            Verb::Delete => (self.deletion(ask, &query, &parts.headers, &body).await?, Vec::new()),
            _ => {
                let mut object = object_of(&parts.headers, &body)?;
                self.make_clouds(&key(&ask.target), &mut object, REVISION).await?;
                (query.write_options(), object.to_string().into_bytes())
            }
        };
        // a write of the status has a verb of its own
        let part = if ask.verb == Verb::UpdateStatus || ask.verb == Verb::Patch { "" } else { &ask.part };
        let call = self.cloud.call(&ask.target, ask.verb, &option, body, part);
        let answer = match self.cloud.ask(call).await {
            Ok(answer) => answer,
            Err(Failure::Refused(refusal)) => {
                if refusal.is_not_found() && ask.part.is_empty() && !ask.target.name.is_empty() {
                    self.copies.remove(&key(&ask.target), "").await?;
                }
                return Err(refusal);
            }
            Err(Failure::Away(away)) => {
                return Err(away.refusal("writes are carried out by the cloud, nothing was changed"));
            }
        };
        let code = if ask.verb == Verb::Create { StatusCode::CREATED } else { StatusCode::OK };
        let is_only_tried = query.get("dryRun").is_some();
        match ask.verb {
            Verb::Delete if is_only_tried => Ok(raw(code, answer)),
            Verb::Delete => self.deleted(&ask.target, answer).await,
            _ if is_only_tried || !matches!(ask.part.as_str(), "" | "status") => Ok(raw(code, answer)),
            _ => self.written(&ask.target, code, &answer).await,
        }
    }

    async fn patch(
        &self,
        ask: &Ask,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Value, Refusal> {
        let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|text| text.split(';').next()).unwrap_or_default().trim();
        let mut data = body.to_vec();
        // a patch that is a list, or YAML, has no revision in this place
        if let Ok(mut patch @ Value::Object(_)) = serde_json::from_slice::<Value>(body)
            && self.make_clouds(&key(&ask.target), &mut patch, REVISION).await?
        {
            data = patch.to_string().into_bytes();
        }
        let info = PatchInfo {
            name: ask.target.name.clone(),
            patch_type: media_type.to_owned(),
            data,
            options: query.write_options(),
            subresources: (!ask.part.is_empty()).then(|| vec![ask.part.clone()]),
        };
        Ok(serde_json::to_value(info).unwrap_or_default())
    }

    async fn deletion(
        &self,
        ask: &Ask,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Value, Refusal> {
        let options = if body.is_empty() { Value::Null } else { object_of(headers, body)? };
        let mut options = query.delete_options(options);
        self.make_clouds(&key(&ask.target), &mut options, "/preconditions/resourceVersion").await?;
        Ok(options)
    }

    /// Replaces the revision of this server, which a client has read, by the cloud's. Returns whether there was one.
    async fn make_clouds(&self, key: &Key, object: &mut Value, pointer: &str) -> Result<bool, Refusal> {
        let revision = text(object, pointer).to_owned();
        if revision.is_empty() || revision == "0" {
            return Ok(false);
        }
        let clouds = self.copies.clouds_revision(key, &revision).await?;
        if let Some(place) = object.pointer_mut(pointer) {
            *place = clouds.into();
        }
        Ok(true)
    }

    /// Returns the response with the object after a write, at this server's revision.
    async fn written(
        &self,
        target: &Target,
        code: StatusCode,
        answer: &[u8],
    ) -> Result<Response<Body>, Refusal> {
        let mut written: Value = parsed(answer)?;
        let key = key_of(target, &written);
        if key.name.is_empty() {
            return Ok(raw(code, answer.to_vec()));
        }
        self.copies.put(&key, &written).await?;
        if let (Some(copy), Some(place)) = (self.copies.get(&key).await?, written.pointer_mut(REVISION)) {
            *place = copy.pointer(REVISION).cloned().unwrap_or_default();
        }
        Ok(object(code, &written))
    }

    /// Returns the response to a deletion, after the copy was updated or removed.
    async fn deleted(&self, target: &Target, answer: Vec<u8>) -> Result<Response<Body>, Refusal> {
        let key = key(target);
        let call = self.cloud.call(target, Verb::Get, &json!({}), Vec::new(), "");
        match self.cloud.ask(call).await {
            Ok(left) => self.copies.put(&key, &parsed(&left)?).await?,
            Err(Failure::Refused(refusal)) if refusal.is_not_found() => {
                let uid = self.copies.get(&key).await?.map(|copy| text(&copy, "/metadata/uid").to_owned());
                self.copies.remove(&key, &uid.unwrap_or_default()).await?;
            }
            // the next read will find out
            Err(_) => {}
        }
        if answer.is_empty() || answer == b"null" {
            let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
            return Ok(object(StatusCode::OK, &done));
        }
        Ok(raw(StatusCode::OK, answer))
    }
}
