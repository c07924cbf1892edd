//! The attributes of a request that policies and webhooks see.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use kubeapi::{
    Api, Identity,
    object::{conversion::convert, scale::scale_of, text_or_empty},
    registry::{Kind, Registry},
    request::{call::Call, path::Target, subresource::Subresource},
    status::StatusError,
};

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// `CONNECT`: a stream or a proxy is opened.
    Connect,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The attributes of an admission request.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    pub(super) kind: Arc<Kind>,
    pub(super) part: Option<Subresource>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) operation: Operation,
    /// The new object; null for a deletion.
    pub(super) object: Arc<Value>,
    /// The old object; null for a creation.
    pub(super) old: Arc<Value>,
    pub(super) caller: Identity,
    pub(super) dry_run: bool,
    pub(super) options: Value,
}

/// A version of a kind that a rule may match.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) kind: Arc<Kind>,
}

impl Attributes {
    pub(super) fn of(
        call: &Call,
        target: &Target,
        operation: Operation,
        old: Option<&Value>,
        object: Option<&Value>,
    ) -> Self {
        let caller = call.caller.clone().unwrap_or_else(Identity::master);
        let dry_run = call.query.dry_run();
        let kind = Arc::clone(&target.kind);
        // whoever scales writes a scale
        let scaled = |object: &Value| match (target.part, kind.scale()) {
            (Some(Subresource::Scale), Some(paths)) => scale_of(&paths, object),
            _ => object.clone(),
        };
        Self {
            part: target.part,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            operation,
            object: Arc::new(object.map_or(Value::Null, scaled)),
            old: Arc::new(old.map_or(Value::Null, scaled)),
            caller,
            dry_run,
            options: options(call, operation, dry_run),
            kind,
        }
    }

    /// As in `pods` or `pods/status`.
    pub(super) fn part_name(&self) -> &'static str {
        self.part.map_or("", Subresource::name)
    }

    /// Reports whether the objects are namespaces.
    pub(super) fn is_namespace(&self) -> bool {
        self.kind.group.is_empty() && self.kind.plural == "namespaces"
    }

    /// Returns all served versions of the kind, the request's own first.
    pub(super) fn versions(&self, registry: &Registry) -> Vec<Version> {
        let own = Version {
            kind: Arc::clone(&self.kind),
        };
        let others = registry.kinds().iter().filter(|kind| {
            kind.defined.is_some()
                && kind.resource() == self.kind.resource()
                && kind.version != self.kind.version
        });
        std::iter::once(own)
            .chain(others.map(|kind| Version {
                kind: Arc::clone(kind),
            }))
            .collect()
    }

    /// Returns the attributes with the objects converted to another version.
    pub(super) async fn in_version(
        &self,
        api: &Api,
        version: &Version,
    ) -> Result<Self, StatusError> {
        if version.kind.version == self.kind.version {
            return Ok(self.clone());
        }
        let kind = &version.kind;
        let converted = async |object: &Value| {
            // a scale has no other version
            if object.is_null() || self.part.is_some_and(|part| part.kind(kind).is_some()) {
                return Ok(object.clone());
            }
            let objects = vec![object.clone()];
            let converted = convert(api, kind, &kind.api_version(), objects).await?;
            Ok::<_, StatusError>(converted.into_iter().next().unwrap_or_default())
        };
        Ok(Self {
            object: Arc::new(converted(&self.object).await?),
            old: Arc::new(converted(&self.old).await?),
            kind: Arc::clone(kind),
            ..self.clone()
        })
    }

    /// Returns the `AdmissionRequest` without the objects. `self` is the request in the version in which it is reviewed, `asked` the
    /// one that was received.
    pub(super) fn request(&self, asked: &Kind) -> Map<String, Value> {
        let kind = |kind: &Kind| match self.part.and_then(|part| part.kind(kind)) {
            Some((group, version, name)) => {
                json!({"group": group, "version": version, "kind": name})
            }
            None => json!({"group": kind.group, "version": kind.version, "kind": kind.kind}),
        };
        let resource = |kind: &Kind| json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
        let request = json!({
            "kind": kind(&self.kind), "resource": resource(&self.kind), "subResource": self.part_name(),
            "requestKind": kind(asked), "requestResource": resource(asked), "requestSubResource": self.part_name(),
            "name": self.name, "namespace": if self.is_namespace() { &self.name } else { &self.namespace },
            "operation": self.operation.name(), "userInfo": self.caller.user_info(),
            "dryRun": self.dry_run, "options": self.options,
        });
        match request {
            Value::Object(request) => request,
            _ => Map::new(),
        }
    }

    /// Returns the labels that an object selector is matched against: of the new and of the old object.
    pub(super) fn label_sets(&self) -> impl Iterator<Item = &Value> {
        [&*self.object, &*self.old]
            .into_iter()
            .filter(|object| object.is_object())
    }
}

fn options(call: &Call, operation: Operation, dry_run: bool) -> Value {
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update if call.query.get("force").is_some() => "PatchOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    for name in ["fieldManager", "fieldValidation"] {
        if let Some(value) = call
            .query
            .get(name)
            .filter(|_| operation != Operation::Delete)
        {
            options[name] = value.into();
        }
    }
    options
}

/// The name of an object that is about to be created may be given by the server.
pub(super) fn name_of(target: &Target, object: &Value) -> String {
    if target.name.is_empty() {
        text_or_empty(object, "/metadata/name").to_owned()
    } else {
        target.name.clone()
    }
}
