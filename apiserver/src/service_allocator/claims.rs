//! Claims in the store: who has which address and which port.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::Ipv4Addr,
};

use serde_json::{Map, Value, json};

use super::{
    fields::{held_claims, node_port, ports_mut},
    ranges::{self, Claim},
    spec::{has_address, has_node_ports},
};
use crate::Server;
use kubeapi::{
    cause::Cause,
    object::{as_map, text_or_empty},
    request::path::Target,
    status::StatusError,
};
use objectstore::{Expect, Key, Listing, Page, Resource, Scope, Store, StoreError, Write};

type Spec = Map<String, Value>;

/// How often chance is tried before a free one is looked for.
const MAX_RANDOM_ATTEMPTS: usize = 16;

impl Claim {
    fn resource(self) -> Resource {
        match self {
            Self::Address(_) => Resource::new("networking.k8s.io", "ipaddresses"),
            // the real server has a bitmap for them, which nobody sees either
            Self::Port(_) => Resource::new("", "nodeports"),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Address(address) => address.to_string(),
            Self::Port(port) => port.to_string(),
        }
    }

    fn key(self) -> Key {
        Key::new(self.resource(), "", self.name())
    }

    fn object(self, owner: &Value) -> Value {
        let mut metadata = json!({"name": self.name(), "uid": clock::uuid().to_string()});
        let spec = json!({"parentRef": owner});
        match self {
            Self::Port(_) => json!({"metadata": metadata, "spec": spec}),
            Self::Address(_) => {
                metadata["labels"] = json!({
                    "ipaddress.kubernetes.io/ip-family": "IPv4",
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                });
                json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": metadata, "spec": spec})
            }
        }
    }
}

/// Whether this is the place of a claim.
pub(crate) fn is_claim(key: &Key) -> bool {
    [Claim::Port(0), Claim::Address(Ipv4Addr::UNSPECIFIED)]
        .iter()
        .any(|claim| claim.resource() == key.resource)
}

async fn is_free(api: &Server, claim: Claim) -> Result<bool, StoreError> {
    match Store::get(&**api.store(), &claim.key()).await {
        // whose it is nobody knows
        Err(StoreError::Damaged { .. }) => Ok(false),
        found => Ok(found?.is_none()),
    }
}

/// One that is free: by chance, so that two who look at the same time hardly ever meet, or else the first there is.
async fn pick(
    api: &Server,
    any: fn() -> Claim,
    mut all: impl Iterator<Item = Claim> + Send,
    not: &BTreeSet<Claim>,
) -> Result<Option<Claim>, StoreError> {
    for _ in 0..MAX_RANDOM_ATTEMPTS {
        let claim = any();
        if !not.contains(&claim) && is_free(api, claim).await? {
            return Ok(Some(claim));
        }
    }
    let scope = Scope {
        resource: any().resource(),
        namespace: None,
    };
    let Listing { items, damaged, .. } = api.store().list(&scope, &Page::default()).await?;
    let names = items.into_iter().map(|object| object.key.name);
    // whose a damaged one is nobody knows
    let taken: HashSet<_> = names
        .chain(damaged.into_iter().map(|key| key.name))
        .collect();
    Ok(all.find(|claim| !not.contains(claim) && !taken.contains(&claim.name())))
}

/// Gives the service an address, or sees whether it can have the one that it asks for.
pub(super) async fn give_address(
    api: &Server,
    spec: &mut Spec,
    before: &BTreeSet<Claim>,
    refuse: impl Fn(Vec<Cause>) -> StatusError,
) -> Result<(), StatusError> {
    if !has_address(spec) {
        return Ok(());
    }
    let asked = spec
        .get("clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if asked == "None" {
        return Ok(());
    }
    if asked.is_empty() {
        let given = pick(api, ranges::any_address, ranges::addresses(), before).await?;
        let given = given.ok_or_else(|| {
            StatusError::internal("failed to allocate a serviceIP: range is full")
        })?;
        spec.insert("clusterIP".into(), given.name().into());
        spec.insert("clusterIPs".into(), json!([given.name()]));
        return Ok(());
    }
    let claim = asked.parse().map(Claim::Address).ok();
    if claim.is_some_and(|claim| before.contains(&claim)) {
        return Ok(());
    }
    let taken = match claim {
        Some(claim) => !is_free(api, claim).await?,
        None => false,
    };
    let why = ranges::refuses_address(&asked);
    match why.or_else(|| taken.then(|| "provided IP is already allocated".to_owned())) {
        None => Ok(()),
        Some(why) => {
            let why = format!("failed to allocate IP {asked}: {why}");
            Err(refuse(vec![Cause::invalid(
                "spec.clusterIPs",
                &json!([asked]),
                &why,
            )]))
        }
    }
}

/// Gives its ports others on the nodes, or sees whether it can have those that it asks for. The same port in several protocols
/// has one number.
pub(super) async fn give_ports(
    api: &Server,
    spec: &mut Spec,
    before: &BTreeSet<Claim>,
    refuse: impl Fn(Vec<Cause>) -> StatusError,
) -> Result<(), StatusError> {
    if !has_node_ports(spec) {
        return Ok(());
    }
    let mut taken = before.clone();
    let mut by_port: BTreeMap<Option<i64>, i64> = BTreeMap::new();
    for (index, port) in ports_mut(spec).iter().enumerate() {
        let asked = node_port(port);
        if asked == 0 {
            continue;
        }
        let claim = Claim::Port(u16::try_from(asked).unwrap_or_default());
        let is_taken = !taken.contains(&claim) && !is_free(api, claim).await?;
        let why = ranges::refuses_port(asked).filter(|_| !before.contains(&claim));
        if let Some(why) =
            why.or_else(|| is_taken.then(|| "provided port is already allocated".to_owned()))
        {
            return Err(refuse(vec![Cause::invalid(
                format!("spec.ports[{index}].nodePort"),
                &asked.into(),
                &why,
            )]));
        }
        taken.insert(claim);
        by_port.insert(port.get("port").and_then(Value::as_i64), asked);
    }
    for port in ports_mut(spec)
        .iter_mut()
        .filter(|port| node_port(port) == 0)
    {
        let number = port.get("port").and_then(Value::as_i64);
        let given = match by_port.get(&number) {
            Some(given) => *given,
            None => match pick(api, ranges::any_port, ranges::ports(), &taken).await? {
                Some(Claim::Port(given)) => i64::from(given),
                _ => {
                    return Err(StatusError::internal(
                        "failed to allocate a nodePort: range is full",
                    ));
                }
            },
        };
        taken.extend(u16::try_from(given).map(Claim::Port));
        by_port.insert(number, given);
        as_map(port).insert("nodePort".into(), given.into());
    }
    Ok(())
}

/// The claims that are stored for a service, whatever it says itself.
pub(super) async fn stored_claims(
    api: &Server,
    target: &Target,
) -> Result<BTreeSet<Claim>, StatusError> {
    let mut claims = BTreeSet::new();
    for resource in [
        Claim::Port(0).resource(),
        Claim::Address(Ipv4Addr::UNSPECIFIED).resource(),
    ] {
        let scope = Scope {
            resource,
            namespace: None,
        };
        for object in api.store().list(&scope, &Page::default()).await?.items {
            if is_of(&object.value()?, target) {
                let name = &object.key.name;
                let address = name.parse().map(Claim::Address).ok();
                claims.extend(address.or_else(|| name.parse().map(Claim::Port).ok()));
            }
        }
    }
    Ok(claims)
}

/// Whether the claim is the service's.
fn is_of(claim: &Value, target: &Target) -> bool {
    text_or_empty(claim, "/spec/parentRef/namespace") == target.namespace
        && text_or_empty(claim, "/spec/parentRef/name") == target.name
}

/// The writes that make the claims `before` those of `new`.
pub(super) async fn difference(
    api: &Server,
    target: &Target,
    before: &BTreeSet<Claim>,
    new: Option<&Value>,
) -> Result<Vec<Write>, StatusError> {
    let after = new.map(held_claims).unwrap_or_default();
    let owner = json!({"group": "", "resource": "services", "namespace": target.namespace, "name": target.name});
    let mut writes: Vec<_> = after
        .difference(before)
        .map(|claim| Write {
            key: claim.key(),
            expect: Expect::Absent,
            value: Some(claim.object(&owner)),
        })
        .collect();
    for claim in before.difference(&after) {
        // a service that was stored without the claims has none to release
        let Some(stored) = Store::get(&**api.store(), &claim.key()).await? else {
            continue;
        };
        if stored.value().is_ok_and(|stored| is_of(&stored, target)) {
            writes.push(Write {
                key: claim.key(),
                expect: Expect::Revision(stored.revision),
                value: None,
            });
        }
    }
    Ok(writes)
}
