//! The strategy of a whole API server: the table of which part does what at each step of a request.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Response, request::Parts};
use kubeapi::{
    Api, Body, Identity, Kind, defaults,
    object::{conversion::ConversionRequest, object_size},
    registry::{Builtin, KindSchema},
    request::{
        body::RequestBody,
        call::Call,
        duplicates::DuplicateFields,
        path::{IssuerDocument, RequestPath, Target},
        remote::{RemotePath, RemoteVersion},
        subresource::Subresource,
    },
    status::StatusError,
    strategy::{Origin, QuotaLock, ReviewRequest, Strategy},
    validate::{FieldValidation, decode},
};
use objectstore::{Key, Write};
use serde_json::{Value, json};

use crate::{
    access, admission, aggregation, applied, checks, conversion, definitions, plugins, prepare,
    quota,
    server::{Server, ServerState},
    service_allocator, token_request, validate,
};

/// The strategy of a whole API server.
pub(crate) struct ServerStrategy(Arc<ServerState>);

impl ServerStrategy {
    pub(crate) fn new(state: Arc<ServerState>) -> Self {
        Self(state)
    }

    fn server(&self, api: &Api) -> Server {
        Server::new(api, &self.0)
    }
}

#[async_trait]
impl Strategy for ServerStrategy {
    async fn prepare(&self, api: &Api) -> Result<(), StatusError> {
        let server = self.server(api);
        definitions::ready(&server).await?;
        access::ready(&server).await
    }

    async fn authorize(
        &self,
        api: &Api,
        parts: &Parts,
        place: &RequestPath,
    ) -> Result<Identity, StatusError> {
        access::admit(&self.server(api), parts, place).await
    }

    async fn review(
        &self,
        api: &Api,
        review: ReviewRequest<'_>,
        body: RequestBody,
    ) -> Result<Response<Body>, StatusError> {
        let body = kubeapi::request::body::read(body).await?;
        access::review(&self.server(api), review, body).await
    }

    async fn connect(&self, api: &Api, call: &Call, options: &Value) -> Result<(), StatusError> {
        admission::connect(&self.server(api), call, options).await
    }

    async fn request_token(&self, api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
        token_request::answer(&self.server(api), call).await
    }

    fn issuer_document(&self, api: &Api, which: IssuerDocument, host: &str) -> Option<Value> {
        let published = self.server(api).token_issuer()?.published_keys()?;
        Some(match which {
            IssuerDocument::Configuration => json!({
                "issuer": published.issuer,
                "jwks_uri": format!("https://{host}/openid/v1/jwks"),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [published.algorithm],
            }),
            IssuerDocument::Keys => json!({"keys": published.keys}),
        })
    }

    async fn begin_write(&self, _: &Api, call: &Call) -> Result<(), StatusError> {
        checks::compile(&call.target.kind).await
    }

    fn decode_applied(&self, call: &Call, object: &mut Value) -> Result<(), StatusError> {
        let kind = &call.target.kind;
        applied::check_declared(kind, object)?;
        applied::check_repeated(call)?;
        if kind.is(Builtin::CustomResourceDefinition) {
            definitions::readable::drop_unreadable_items(object);
        }
        defaults::normalise(kind, object);
        if let KindSchema::Published(schema) = kind.schema() {
            schema.normalise(object);
        }
        Ok(())
    }

    fn check_applied(
        &self,
        call: &Call,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<(), StatusError> {
        prepare::check_limits(&call.target.kind, &call.target.name, old, new)?;
        Ok(object_size::check(new, old)?)
    }

    fn decode(&self, call: &Call, object: &mut Value) -> Result<Vec<String>, StatusError> {
        let kind = &call.target.kind;
        let validation = FieldValidation::parse(call.query.get("fieldValidation"))?;
        let repeated = DuplicateFields::of(&call.headers, &call.body, validation);
        let mut warnings = decode(kind, object, repeated, validation)?;
        if kind.is(Builtin::CustomResourceDefinition) {
            definitions::readable::drop_unreadable_items(object);
            definitions::readable::check_readable(object)?;
        }
        if call.target.part.is_none() && self.0.only_stores(kind) {
            warnings.push(format!("{} is stored but has no effect here", kind.kind));
        }
        Ok(warnings)
    }

    async fn admit_new(
        &self,
        api: &Api,
        target: &Target,
        object: &mut Value,
    ) -> Result<(), StatusError> {
        plugins::admit(&self.server(api), target, object).await
    }

    fn prepare_create(
        &self,
        call: &Call,
        object: &mut Value,
        sent: Option<&Value>,
        origin: Origin,
    ) -> Result<(), StatusError> {
        prepare::create(call, object, sent, origin)
    }

    async fn admit_create(
        &self,
        api: &Api,
        call: &Call,
        target: &Target,
        object: Value,
    ) -> Result<Value, StatusError> {
        let server = self.server(api);
        let object = admission::mutate(&server, call, target, None, object).await?;
        object_size::check(&object, None)?;
        let causes = validate::create(&target.kind, &object);
        let checked = checks::check(&target.kind, &target.name, causes, None, object);
        let (object, warnings) = checked.await?;
        warnings
            .into_iter()
            .for_each(|warning| call.warnings.add(warning));
        access::check_escalation(&server, call, None, &object).await?;
        admission::check(&server, target, None, &object).await?;
        admission::review(&server, call, target, None, &object).await?;
        Ok(object)
    }

    async fn remote_versions(&self, api: &Api) -> Arc<[RemoteVersion]> {
        aggregation::versions(&self.server(api)).await
    }

    async fn forward(
        &self,
        api: &Api,
        remote: &RemotePath,
        parts: Parts,
        body: RequestBody,
    ) -> Result<Response<Body>, StatusError> {
        aggregation::forward(&self.server(api), remote, parts, body).await
    }

    async fn remote_resources(&self, api: &Api, version: &RemoteVersion) -> Option<Value> {
        aggregation::resources(&self.server(api), version).await
    }

    fn converts(&self) -> bool {
        true
    }

    async fn convert(
        &self,
        api: &Api,
        request: ConversionRequest<'_>,
        objects: Vec<Value>,
    ) -> Result<Vec<Value>, StatusError> {
        conversion::convert(&self.server(api), request, objects).await
    }

    fn requires_resource_version(&self, kind: &Kind) -> bool {
        !kind.allows_unconditional_update()
    }

    fn prepare_update(
        &self,
        call: &Call,
        old: &Value,
        new: &mut Value,
        origin: Origin,
    ) -> Result<(), StatusError> {
        prepare::update(call, old, new, origin)
    }

    async fn admit_update(
        &self,
        api: &Api,
        call: &Call,
        old: &Value,
        new: Value,
    ) -> Result<Value, StatusError> {
        let (server, target) = (self.server(api), &call.target);
        let new = admission::mutate(&server, call, target, Some(old), new).await?;
        object_size::check(&new, Some(old))?;
        let causes = validate::update(&target.kind, old, &new, target.part);
        let checked = checks::check(&target.kind, &target.name, causes, Some(old), new);
        let (new, warnings) = checked.await?;
        warnings
            .into_iter()
            .for_each(|warning| call.warnings.add(warning));
        if target.part == Some(Subresource::Resize) {
            plugins::limits::check_resized(&server, target, &new).await?;
        }
        access::check_escalation(&server, call, Some(old), &new).await?;
        admission::review(&server, call, target, Some(old), &new).await?;
        Ok(new)
    }

    async fn admit_delete(&self, api: &Api, call: &Call, old: &Value) -> Result<(), StatusError> {
        admission::review_deletion(&self.server(api), call, &call.target, old).await
    }

    async fn check_replacement(
        &self,
        api: &Api,
        call: &Call,
        old: &Value,
        new: &Value,
    ) -> Result<(), StatusError> {
        let server = self.server(api);
        access::check_signer(&server, call, old, new).await?;
        admission::check(&server, &call.target, Some(old), new).await
    }

    async fn admit_quota(
        &self,
        api: &Api,
        target: &Target,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<QuotaLock, StatusError> {
        let server = self.server(api);
        match old {
            None => quota::admit(&server, target, new).await,
            Some(old) => quota::admit_change(&server, target, old, new).await,
        }
    }

    fn check_size(&self, old: Option<&Value>, new: &Value) -> Result<(), StatusError> {
        Ok(object_size::check(new, old)?)
    }

    fn allocates(&self, target: &Target) -> bool {
        service_allocator::concerns(target)
    }

    async fn allocate(
        &self,
        api: &Api,
        target: &Target,
        old: Option<&Value>,
        new: Option<&mut Value>,
    ) -> Result<Vec<Write>, StatusError> {
        service_allocator::settle(&self.server(api), target, old, new).await
    }

    fn is_allocation(&self, key: &Key) -> bool {
        service_allocator::is_claim(key)
    }

    async fn after_write(
        &self,
        api: &Api,
        call: &Call,
        succeeded: bool,
    ) -> Result<(), StatusError> {
        let (server, target) = (self.server(api), &call.target);
        admission::refresh(&server, target);
        if target.kind.is(Builtin::ApiService) {
            server.aggregation().forget();
        }
        if !succeeded {
            return Ok(());
        }
        if target.kind.is(Builtin::ClusterRole) {
            access::aggregate(&server).await?;
        }
        quota::refresh(&server, target).await?;
        if target.kind.is(Builtin::CustomResourceDefinition) || target.kind.is_terminating() {
            // what is served changes before the writer hears that it has written
            definitions::refresh(&server).await?;
        }
        Ok(())
    }

    fn collects_garbage(&self) -> bool {
        true
    }

    fn lists_untyped(&self, kind: &Kind) -> bool {
        kind.defined.is_none()
    }

    fn fills_defaults_on_read(&self) -> bool {
        true
    }
}
