//! Checks that the account of a session still exists.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use kubeapi::Identity;

/// Reports whether the user is no deleted service account. Accounts of certificates cannot be deleted. If the API does not answer, the
/// account counts as valid, because each request is authorized anyway.
pub(crate) async fn is_valid(client: &Client, user: &Identity) -> bool {
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
