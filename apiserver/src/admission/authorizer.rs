//! The `authorizer` of expressions, which decides by RBAC.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::{
    Server,
    access::decision::decide,
    cel::{AuthorizationAttributes, Authorize},
};
use kubeapi::{access::attributes::Attributes, identity::Identity};

/// Decides by the stored roles. It is called on blocking threads, where it may wait.
struct RbacAuthorizer {
    api: Server,
    caller: Identity,
}

/// Returns the authorizer for `caller`.
pub(super) fn authorizer(api: &Server, caller: &Identity) -> Arc<dyn Authorize> {
    Arc::new(RbacAuthorizer {
        api: api.clone(),
        caller: caller.clone(),
    })
}

impl Authorize for RbacAuthorizer {
    fn authorize(&self, question: &AuthorizationAttributes) -> Result<Option<String>, String> {
        let caller = match &question.account {
            None => self.caller.clone(),
            Some((namespace, name)) => Identity::service_account(namespace, name),
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
        handle
            .block_on(decide(&self.api, &caller, &wanted))
            .map_err(|error| error.message().to_owned())
    }
}
