//! Limit ranges: defaults for new pods, and limits for pods and claims. Source: Kubernetes' admission plugin `LimitRanger`.

use serde_json::{Map, Value};

use crate::Server;
use kubeapi::{
    object::{as_map, child, default_to, items, quantity::Quantity, text_or_empty},
    registry::Builtin,
    request::path::Target,
    status::StatusError,
};
use objectstore::{Object, Page, Scope};

/// Amounts by resource.
type Amounts = Map<String, Value>;

/// Refuses with 403 a resized pod that asks for more or less than it may.
pub(crate) async fn check_resized(
    api: &Server,
    target: &Target,
    new: &Value,
) -> Result<(), StatusError> {
    let mut faults = Vec::new();
    for range in ranges(api, &target.namespace).await? {
        for limit in items(&range, "/spec/limits") {
            pod(new, limit, &mut faults);
        }
    }
    refuse(target, new, &faults)
}

/// Fills in the default requests and limits of a new pod's containers. 403 for a pod or claim that asks for more or less than it may.
pub(crate) async fn admit(
    api: &Server,
    target: &Target,
    object: &mut Value,
) -> Result<(), StatusError> {
    let is_pod = target.kind.is(Builtin::Pod);
    if !is_pod && !target.kind.is(Builtin::PersistentVolumeClaim) {
        return Ok(());
    }
    let ranges = ranges(api, &target.namespace).await?;
    let limits: Vec<_> = ranges
        .iter()
        .flat_map(|range| items(range, "/spec/limits"))
        .collect();
    let mut faults = Vec::new();
    if is_pod {
        for limit in limits
            .iter()
            .filter(|limit| text_or_empty(limit, "/type") == "Container")
        {
            fill(object, limit);
        }
        limits
            .iter()
            .for_each(|limit| pod(object, limit, &mut faults));
    } else {
        let requests = amounts(object, "/spec/resources/requests");
        for limit in limits
            .iter()
            .filter(|limit| text_or_empty(limit, "/type") == "PersistentVolumeClaim")
        {
            check(limit, &requests, &requests, &mut faults);
        }
    }
    refuse(target, object, &faults)
}

fn refuse(target: &Target, object: &Value, faults: &[String]) -> Result<(), StatusError> {
    let why = match faults {
        [] => return Ok(()),
        [fault] => fault.clone(),
        faults => format!("[{}]", faults.join(", ")),
    };
    Err(StatusError::forbidden(
        &target.kind,
        text_or_empty(object, "/metadata/name"),
        &why,
    ))
}

async fn ranges(api: &Server, namespace: &str) -> Result<Vec<Value>, StatusError> {
    let Some(kind) = api.registry().of(Builtin::LimitRange).cloned() else {
        return Ok(Vec::new());
    };
    let scope = Scope {
        resource: kind.resource().clone(),
        namespace: Some(namespace.to_owned()),
    };
    let found = api.store().list(&scope, &Page::default()).await?;
    Ok(found
        .items
        .iter()
        .map(Object::value)
        .collect::<Result<_, _>>()?)
}

/// Fills in the containers' missing values; a missing request is first taken from the container's own limit.
fn fill(pod: &mut Value, limit: &Value) {
    let (requests, limits) = (
        amounts(limit, "/defaultRequest"),
        amounts(limit, "/default"),
    );
    let spec = child(as_map(pod), "spec");
    for list in ["initContainers", "containers"] {
        let containers = spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let resources = child(container, "resources");
            let own = resources
                .get("limits")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default();
            for (field, defaults) in [
                ("requests", &own),
                ("requests", &requests),
                ("limits", &limits),
            ] {
                for (name, amount) in defaults {
                    default_to(child(resources, field), name, amount.clone());
                }
            }
        }
    }
}

/// Checks a pod against a limit of containers or of pods.
fn pod(pod: &Value, limit: &Value, faults: &mut Vec<String>) {
    let containers = || items(pod, "/spec/containers").iter();
    let of = |container: &Value| {
        (
            amounts(container, "/resources/requests"),
            amounts(container, "/resources/limits"),
        )
    };
    match text_or_empty(limit, "/type") {
        "Container" => {
            for container in containers().chain(items(pod, "/spec/initContainers")) {
                let (requests, limits) = of(container);
                check(limit, &requests, &limits, faults);
            }
        }
        "Pod" => {
            let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
            for (own_requests, own_limits) in containers().map(of) {
                add(&mut requests, &own_requests);
                add(&mut limits, &own_limits);
            }
            check(limit, &requests, &limits, faults);
        }
        _ => {}
    }
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let before = sum.get(name).and_then(quantity);
        let total = match (before, quantity(amount)) {
            (Some(before), Some(more)) => before.plus(more).to_string().into(),
            _ => amount.clone(),
        };
        sum.insert(name.clone(), total);
    }
}

/// Checks amounts against the minimum and the maximum, with the API server's texts.
fn check(limit: &Value, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
    let type_ = text_or_empty(limit, "/type");
    let known = |amounts: &Amounts, name: &str| {
        Some((amounts.get(name)?.clone(), quantity(amounts.get(name)?)?))
    };
    let shown = |amount: &Value| {
        amount
            .as_str()
            .map_or_else(|| amount.to_string(), str::to_owned)
    };
    for (name, least) in &amounts(limit, "/min") {
        let Some(bound) = quantity(least) else {
            continue;
        };
        let rule = format!("minimum {name} usage per {type_} is {}", shown(least));
        match (known(requests, name), known(limits, name)) {
            (None, _) => faults.push(format!("{rule}.  No request is specified")),
            (Some((text, request)), _) if request < bound => {
                faults.push(format!("{rule}, but request is {}", shown(&text)));
            }
            (_, Some((text, limit))) if limit < bound => {
                faults.push(format!("{rule}, but limit is {}", shown(&text)));
            }
            _ => {}
        }
    }
    for (name, most) in &amounts(limit, "/max") {
        let Some(bound) = quantity(most) else {
            continue;
        };
        let rule = format!("maximum {name} usage per {type_} is {}", shown(most));
        match (known(limits, name), known(requests, name)) {
            (None, _) => faults.push(format!("{rule}.  No limit is specified")),
            (Some((text, limit)), _) if limit > bound => {
                faults.push(format!("{rule}, but limit is {}", shown(&text)));
            }
            (_, Some((text, request))) if request > bound => {
                faults.push(format!("{rule}, but request is {}", shown(&text)));
            }
            _ => {}
        }
    }
    for (name, ratio) in &amounts(limit, "/maxLimitRequestRatio") {
        let Some(bound) = quantity(ratio) else {
            continue;
        };
        let rule = format!(
            "{name} max limit to request ratio per {type_} is {}",
            shown(ratio)
        );
        match (known(requests, name), known(limits, name)) {
            (Some((_, request)), Some((_, limit))) if request.is_positive() => {
                if limit.ratio(request) > bound.ratio(Quantity::ONE) {
                    faults.push(format!(
                        "{rule}, but provided ratio is {:.6}",
                        limit.ratio(request)
                    ));
                }
            }
            (_, None) => faults.push(format!("{rule}, but no limit is specified or limit is 0")),
            _ => faults.push(format!(
                "{rule}, but no request is specified or request is 0"
            )),
        }
    }
}

fn amounts(object: &Value, pointer: &str) -> Amounts {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

fn quantity(amount: &Value) -> Option<Quantity> {
    amount
        .as_str()
        .map_or_else(|| Quantity::parse(&amount.to_string()), Quantity::parse)
}
