//! Writes: the cloud carries them out, and the result is copied before the client gets its response.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header, request::Parts};
use kubeapi::Body;
use objectstore::Key;
use serde_json::{Value, json};
use wire::application::{PatchInfo, Target, Verb};

use super::{
    super::response::{ApiError, object_response},
    cloud::CallError,
    json::{object_of, parse_answer, raw_response},
    keys::{key, key_of, text},
    query::Query,
    route::ObjectRequest,
    service::ApiServer,
};

/// The field that says which revision of an object a request means.
const RESOURCE_VERSION: &str = "/metadata/resourceVersion";

impl ApiServer {
    /// Executes a write.
    pub(super) async fn write(
        &self,
        request: &ObjectRequest,
        parts: &Parts,
        body: Bytes,
    ) -> Result<Response<Body>, ApiError> {
        let query = Query::of(&parts.uri);
        let (option, body) = match request.verb {
            Verb::Patch => (
                self.patch(request, &query, &parts.headers, &body).await?,
                Vec::new(),
            ),
            Verb::Delete => (
                self.deletion(request, &query, &parts.headers, &body)
                    .await?,
                Vec::new(),
            ),
            _ => {
                let mut object = object_of(&parts.headers, &body)?;
                self.translate_revision(&key(&request.target), &mut object, RESOURCE_VERSION)
                    .await?;
                (query.write_options(), object.to_string().into_bytes())
            }
        };
        // a write of the status has a verb of its own
        let part = if request.verb == Verb::UpdateStatus || request.verb == Verb::Patch {
            ""
        } else {
            &request.part
        };
        let call = self
            .cloud
            .call(&request.target, request.verb, &option, body, part);
        let answer = match self.cloud.execute(call).await {
            Ok(answer) => answer,
            Err(CallError::Refused(refusal)) => {
                if refusal.is_not_found()
                    && request.part.is_empty()
                    && !request.target.name.is_empty()
                {
                    self.copies.remove(&key(&request.target), "").await?;
                }
                return Err(refusal);
            }
            Err(CallError::Unavailable(away)) => {
                return Err(away.error("writes are carried out by the cloud, nothing was changed"));
            }
        };
        let code = if request.verb == Verb::Create {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        let is_only_tried = query.get("dryRun").is_some();
        match request.verb {
            Verb::Delete if is_only_tried => Ok(raw_response(code, answer)),
            Verb::Delete => self.delete_response(&request.target, answer).await,
            _ if is_only_tried || !matches!(request.part.as_str(), "" | "status") => {
                Ok(raw_response(code, answer))
            }
            _ => self.write_response(&request.target, code, &answer).await,
        }
    }

    async fn patch(
        &self,
        request: &ObjectRequest,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Value, ApiError> {
        let media_type = headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let media_type = media_type
            .and_then(|text| text.split(';').next())
            .unwrap_or_default()
            .trim();
        let mut data = body.to_vec();
        // a patch that is a list, or YAML, has no revision in this place
        if let Ok(mut patch @ Value::Object(_)) = serde_json::from_slice::<Value>(body)
            && self
                .translate_revision(&key(&request.target), &mut patch, RESOURCE_VERSION)
                .await?
        {
            data = patch.to_string().into_bytes();
        }
        let info = PatchInfo {
            name: request.target.name.clone(),
            patch_type: media_type.to_owned(),
            data,
            options: query.write_options(),
            subresources: (!request.part.is_empty()).then(|| vec![request.part.clone()]),
        };
        Ok(serde_json::to_value(info).unwrap_or_default())
    }

    async fn deletion(
        &self,
        request: &ObjectRequest,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Value, ApiError> {
        let options = if body.is_empty() {
            Value::Null
        } else {
            object_of(headers, body)?
        };
        let mut options = query.delete_options(options);
        self.translate_revision(
            &key(&request.target),
            &mut options,
            "/preconditions/resourceVersion",
        )
        .await?;
        Ok(options)
    }

    /// Replaces the revision of this server, which a client has read, by the cloud's. Returns whether there was one.
    async fn translate_revision(
        &self,
        key: &Key,
        object: &mut Value,
        pointer: &str,
    ) -> Result<bool, ApiError> {
        let revision = text(object, pointer).to_owned();
        if revision.is_empty() || revision == "0" {
            return Ok(false);
        }
        let clouds = self.copies.cloud_revision(key, &revision).await?;
        if let Some(place) = object.pointer_mut(pointer) {
            *place = clouds.into();
        }
        Ok(true)
    }

    /// Returns the response with the object after a write, at this server's revision.
    async fn write_response(
        &self,
        target: &Target,
        code: StatusCode,
        answer: &[u8],
    ) -> Result<Response<Body>, ApiError> {
        let mut written: Value = parse_answer(answer)?;
        let key = key_of(target, &written);
        if key.name.is_empty() {
            return Ok(raw_response(code, answer.to_vec()));
        }
        self.copies.put(&key, &written).await?;
        if let (Some(copy), Some(place)) = (
            self.copies.get(&key).await?,
            written.pointer_mut(RESOURCE_VERSION),
        ) {
            *place = copy.pointer(RESOURCE_VERSION).cloned().unwrap_or_default();
        }
        Ok(object_response(code, &written))
    }

    /// Returns the response to a deletion, after the copy was updated or removed.
    async fn delete_response(
        &self,
        target: &Target,
        answer: Vec<u8>,
    ) -> Result<Response<Body>, ApiError> {
        let key = key(target);
        let call = self
            .cloud
            .call(target, Verb::Get, &json!({}), Vec::new(), "");
        match self.cloud.execute(call).await {
            Ok(left) => self.copies.put(&key, &parse_answer(&left)?).await?,
            Err(CallError::Refused(refusal)) if refusal.is_not_found() => {
                let uid = self
                    .copies
                    .get(&key)
                    .await?
                    .map(|copy| text(&copy, "/metadata/uid").to_owned());
                self.copies.remove(&key, &uid.unwrap_or_default()).await?;
            }
            // the next read will find out
            Err(_) => {}
        }
        if answer.is_empty() || answer == b"null" {
            let done =
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
            return Ok(object_response(StatusCode::OK, &done));
        }
        Ok(raw_response(StatusCode::OK, answer))
    }
}
