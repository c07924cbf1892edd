//! Finds the workloads that may adopt an orphan. Pure except for the lookup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
    runtime::reflector::ObjectRef,
};

use super::{pods::controller_of, shared::Namespaced};
use crate::controllers::informers::{Change, Informer};

/// Returns the owners in the object's namespace whose selector it matches, if it has no controller.
pub(super) fn adopters<O: Namespaced, K: Namespaced>(
    owners: &Informer<O>,
    selector: impl Fn(&O) -> Option<LabelSelector> + Send + 'static,
) -> impl Fn(&Change<K>) -> Vec<ObjectRef<O>> + Send + 'static {
    let owners = owners.clone();
    move |change| {
        let object = &change.object;
        if change.gone || controller_of(&**object).is_some() || object.labels().is_empty() {
            return Vec::new();
        }
        let owners = owners.in_namespace(&object.namespace().unwrap_or_default());
        let wants = |owner: &O| {
            let selector = selector(owner).and_then(|selector| Selector::try_from(selector).ok());
            selector.is_some_and(|selector| {
                !selector.selects_all() && selector.matches(object.labels())
            })
        };
        owners
            .iter()
            .filter(|owner| wants(owner))
            .map(|owner| ObjectRef::from_obj(&**owner))
            .collect()
    }
}
