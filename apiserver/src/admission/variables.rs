//! The variables of expressions about requests.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::attributes::Attributes;
use crate::cel::{Activation, AuthorizationAttributes, Authorize, Check, Decl, Val};
use kubeapi::registry::Kind;

/// The type of `request`.
static REQUEST: LazyLock<Decl> = LazyLock::new(|| {
    let kind = || Decl::native(["group", "version", "kind"].map(|name| (name, Decl::String)));
    let resource =
        || Decl::native(["group", "version", "resource"].map(|name| (name, Decl::String)));
    let user = Decl::native([
        ("username", Decl::String),
        ("uid", Decl::String),
        ("groups", Decl::list(Decl::String)),
        ("extra", Decl::map(Decl::String, Decl::list(Decl::String))),
    ]);
    Decl::native([
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", Decl::String),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", Decl::String),
        ("name", Decl::String),
        ("namespace", Decl::String),
        ("operation", Decl::String),
        ("userInfo", user),
        ("dryRun", Decl::Bool),
        ("options", Decl::Dyn),
    ])
});

/// The names of variables that are not given by the object.
pub(super) const AUTHORIZER: &str = "authorizer";
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// What every expression may name. `has_params`: there are parameters too.
pub(super) fn declarations(has_params: bool) -> Vec<(&'static str, Decl)> {
    let mut declared = vec![
        ("object", Decl::Dyn),
        ("oldObject", Decl::Dyn),
        ("request", REQUEST.clone()),
        ("namespaceObject", Decl::Dyn),
        (AUTHORIZER, Decl::Opaque("authorizer")),
        (REQUEST_RESOURCE, Decl::Opaque("resource_check")),
    ];
    declared.extend(has_params.then_some(("params", Decl::Dyn)));
    declared
}

/// The values of the variables that expressions can use.
#[derive(Clone, Debug)]
pub(super) struct ExpressionInput {
    pub(super) object: Arc<Value>,
    pub(super) old: Arc<Value>,
    pub(super) request: Value,
    pub(super) namespace: Arc<Value>,
    pub(super) params: Value,
    pub(super) authorizer: Check,
    pub(super) request_resource: Check,
}

impl ExpressionInput {
    /// `attributes` in the version in which the request is judged, `asked` is that in which it came in.
    /// `authorizer` answers what its caller may do.
    pub(super) fn new(
        authorizer: Arc<dyn Authorize>,
        attributes: &Attributes,
        asked: &Kind,
        namespace: &Arc<Value>,
    ) -> Self {
        let question = AuthorizationAttributes {
            group: asked.group.clone(),
            resource: asked.plural.clone(),
            subresource: attributes.part_name().to_owned(),
            namespace: attributes.namespace.clone(),
            name: attributes.name.clone(),
            ..AuthorizationAttributes::default()
        };
        Self {
            object: Arc::clone(&attributes.object),
            old: Arc::clone(&attributes.old),
            request: Value::Object(attributes.request(asked)),
            namespace: Arc::clone(namespace),
            params: Value::Null,
            authorizer: Check::authorizer(Arc::clone(&authorizer)),
            request_resource: Check::resource(authorizer, question),
        }
    }

    /// The values for an evaluation.
    pub(super) fn activation(&self) -> Activation<'_> {
        let mut activation = Activation::default();
        activation.set("object", Val::read(&self.object, &Decl::Dyn));
        activation.set("oldObject", Val::read(&self.old, &Decl::Dyn));
        activation.set("request", Val::read(&self.request, &REQUEST));
        activation.set("namespaceObject", Val::read(&self.namespace, &Decl::Dyn));
        activation.set("params", Val::read(&self.params, &Decl::Dyn));
        activation.set(AUTHORIZER, Val::Check(Arc::new(self.authorizer.clone())));
        activation.set(
            REQUEST_RESOURCE,
            Val::Check(Arc::new(self.request_resource.clone())),
        );
        activation
    }
}
