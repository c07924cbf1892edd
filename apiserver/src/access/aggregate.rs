//! Aggregated cluster roles (`aggregationRule`): their rules are updated after each write of a cluster role, before the write is
//! answered. In a real cluster the controller manager does so a moment later.

use serde_json::Value;

use super::roles::{GROUP, list, selects};
use crate::Server;
use kubeapi::{
    object::{
        as_map, items,
        object_size::{MAX_OBJECT_BYTES, is_within},
        text_or_empty,
    },
    status::StatusError,
};
use objectstore::{Expect, Key, Resource, StoreError, Write};

/// The most rounds of updates: aggregated roles may select other aggregated roles, and other writers may interfere.
const MAX_ROUNDS: usize = 8;

/// Updates all aggregated roles. What does not settle (two roles that select each other) is left to the next write.
pub(crate) async fn refresh(api: &Server) -> Result<(), StatusError> {
    for _ in 0..MAX_ROUNDS {
        let roles = list(api, "clusterroles", None).await?;
        let resource = Resource::new(GROUP, "clusterroles");
        if api
            .store()
            .damaged_objects()
            .now()
            .keys()
            .any(|key| key.resource == resource)
        {
            // the rules of a damaged role are not known: those that were aggregated of it stay
            break;
        }
        let writes = changed_roles(&roles);
        if writes.is_empty() {
            break;
        }
        for write in writes {
            match api.store().commit(vec![write]).await {
                // somebody else was faster: the next round sees what they wrote
                Ok(_) | Err(StoreError::Conflict { .. } | StoreError::Missing(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Returns the roles whose rules have changed. `roles` is in the order of names.
fn changed_roles(roles: &[Value]) -> Vec<Write> {
    let writes = roles.iter().filter_map(|role| {
        let selectors = items(role, "/aggregationRule/clusterRoleSelectors");
        if selectors.is_empty() {
            return None;
        }
        let name = text_or_empty(role, "/metadata/name");
        let mut rules: Vec<Value> = Vec::new();
        for other in roles
            .iter()
            .filter(|other| text_or_empty(other, "/metadata/name") != name)
        {
            if selectors.iter().any(|selector| selects(selector, other)) {
                for rule in items(other, "/rules") {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        if items(role, "/rules") == rules {
            return None;
        }
        let mut new = role.clone();
        as_map(&mut new).insert("rules".into(), rules.into());
        if !is_within(&new, MAX_OBJECT_BYTES) {
            tracing::warn!(
                role = name,
                "failed to aggregate rules: the role would be too large; it keeps its rules"
            );
            return None;
        }
        let revision = text_or_empty(role, "/metadata/resourceVersion")
            .parse()
            .unwrap_or_default();
        let key = Key::new(Resource::new(GROUP, "clusterroles"), "", name);
        Some(Write {
            key,
            expect: Expect::Revision(revision),
            value: Some(new),
        })
    });
    writes.collect()
}
