//! `authorizer` in expressions: the roles in force.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::{
    access::{attributes::Attributes, decision::decide},
    api::Api,
    cel::{Authorize, Question},
    identity::Identity,
};

/// The roles in force. Asked beside the workers, where waiting holds up nobody.
struct Roles {
    api: Api,
    caller: Identity,
}

/// Answers what `caller` may do.
pub(super) fn authorizer(api: &Api, caller: &Identity) -> Arc<dyn Authorize> {
    Arc::new(Roles { api: api.clone(), caller: caller.clone() })
}

impl Authorize for Roles {
    fn authorize(&self, question: &Question) -> Result<Option<String>, String> {
        let caller = match &question.account {
            None => self.caller.clone(),
            Some((namespace, name)) => Identity {
                user: format!("system:serviceaccount:{namespace}:{name}"),
                groups: vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ],
            },
        };
        let resource = match question.subresource.as_str() {
            "" => question.resource.clone(),
            part => format!("{}/{part}", question.resource),
        };
        let wanted = Attributes {
            verb: question.verb.clone(),
            group: question.group.clone(),
            resource,
            namespace: question.namespace.clone(),
            name: question.name.clone(),
            path: question.path.clone(),
        };
        let handle = Handle::try_current().map_err(|error| error.to_string())?;
        handle.block_on(decide(&self.api, &caller, &wanted)).map_err(|error| error.message().to_owned())
    }
}
