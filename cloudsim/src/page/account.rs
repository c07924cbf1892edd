//! Checks that the account and the token of a visitor are still valid.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use kubeapi::Identity;

use super::Visitor;
use crate::reviews::{ReviewError, owner_of};

/// Reports whether the token of a visitor is valid, and the account exists. Accounts of certificates cannot be deleted. If the API does not
/// answer, both count as valid, because each request is authorized anyway.
pub(crate) async fn is_valid(client: &Client, visitor: &Visitor) -> bool {
    let user = &visitor.identity;
    if let Some(token) = &visitor.token {
        let owner = owner_of(client, &token.0).await;
        return match owner {
            Ok(owner) => owner.username.as_deref() == Some(&*user.user),
            Err(ReviewError::Api(_)) => true,
            Err(ReviewError::NoToken | ReviewError::UnknownToken) => false,
        };
    }
    let Some((namespace, name)) = Identity::account_of(&user.user) else {
        return true;
    };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    match accounts.get_opt(name).await {
        Ok(Some(account)) => {
            user.uid.is_empty() || account.metadata.uid.as_deref() == Some(&*user.uid)
        }
        Ok(None) => false,
        Err(_) => true,
    }
}
