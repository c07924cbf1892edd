//! Objects of lists, watches and controllers that are decoded one by one: one of a wrong type hides no other.

use std::{borrow::Cow, fmt::Debug};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use crate::object_watch::{Untyped, without_values};

/// An object, or why it cannot be decoded. `Api<LenientObject<K>>` lists and watches what `Api<K>` does, which fails as a whole when one
/// object is no `K`: its definition allows more than the type, or another program has written the store.
#[derive(Clone, Debug)]
pub struct LenientObject<K>(Content<K>);

#[derive(Clone, Debug)]
enum Content<K> {
    Decoded(K),
    Undecodable(Box<UndecodableObject>),
}

/// An object that cannot be decoded: its name, and the reason without values of the object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot decode {kind} {}: {why}; correct the object", self.path())]
pub struct UndecodableObject {
    kind: String,
    /// Name, namespace, UID and version; nothing else is known.
    pub metadata: ObjectMeta,
    why: String,
}

impl UndecodableObject {
    /// Returns `NAMESPACE/NAME`, or the name of an object without namespace.
    fn path(&self) -> String {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        match &self.metadata.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }

    /// Logs that the object is ignored.
    pub fn log(&self) {
        tracing::warn!(
            kind = self.kind,
            namespace = self.metadata.namespace,
            name = self.metadata.name,
            resource_version = self.metadata.resource_version,
            error = self.why,
            "cannot decode object; it is ignored, correct the object"
        );
    }
}

impl<K> LenientObject<K> {
    /// Returns the object.
    ///
    /// # Errors
    /// It is no `K`.
    pub fn as_decoded(&self) -> Result<&K, &UndecodableObject> {
        match &self.0 {
            Content::Decoded(object) => Ok(object),
            Content::Undecodable(error) => Err(error),
        }
    }

    /// Returns the object by value.
    ///
    /// # Errors
    /// It is no `K`.
    pub fn into_decoded(self) -> Result<K, Box<UndecodableObject>> {
        match self.0 {
            Content::Decoded(object) => Ok(object),
            Content::Undecodable(error) => Err(error),
        }
    }

    /// Returns the object; one that cannot be decoded is logged.
    pub fn decoded_or_logged(&self) -> Option<&K> {
        self.as_decoded().inspect_err(|error| error.log()).ok()
    }
}

/// Returns the objects of a list that can be decoded; the others are logged.
pub fn keep_decoded<K>(list: impl IntoIterator<Item = LenientObject<K>>) -> Vec<K> {
    let decoded = list.into_iter().map(LenientObject::into_decoded);
    let logged = decoded.map(|object| object.inspect_err(|error| error.log()));
    logged.filter_map(Result::ok).collect()
}

impl<'de, K> Deserialize<'de> for LenientObject<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let untyped = Untyped::deserialize(deserializer)?;
        Ok(Self(match untyped.decode() {
            Ok(object) => Content::Decoded(object),
            Err(error) => {
                let kind = K::kind(&()).into_owned();
                Content::Undecodable(Box::new(UndecodableObject {
                    why: without_values(&kind, &error),
                    kind,
                    metadata: untyped.metadata,
                }))
            }
        }))
    }
}

impl<K: Resource<DynamicType = ()>> Resource for LenientObject<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Content::Decoded(object) => object.meta(),
            Content::Undecodable(error) => &error.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Content::Decoded(object) => object.meta_mut(),
            Content::Undecodable(error) => &mut error.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        NamespaceResourceScope,
        api::{
            batch::v1::Job,
            certificates::v1::CertificateSigningRequest,
            core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service},
        },
    };
    use kube::{
        Api as Objects, Client, ResourceExt,
        api::{DynamicObject, ListParams, PostParams},
        core::{ApiResource, ClusterResourceScope},
    };
    use objectstore::MemoryStore;
    use serde_json::{Value, json};

    use super::*;
    use crate::Api;

    /// Creates one sound and one wrong object, and returns what a list has of them.
    async fn list<K>(untyped: fn(&Client, &ApiResource) -> Objects<DynamicObject>, wrong: Value)
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: 'static,
    {
        let client = Api::builder(MemoryStore::new()).build().client("default");
        let resource = ApiResource::erase::<K>(&());
        let kind = &resource.kind;
        for (name, fields) in [("bad", wrong), ("good", json!({}))] {
            let mut object = json!({"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}});
            let fields = fields.as_object().unwrap().clone();
            object.as_object_mut().unwrap().extend(fields);
            let object = serde_json::from_value(object).unwrap();
            let (api, params) = (untyped(&client, &resource), PostParams::default());
            api.create(&params, &object).await.unwrap();
        }
        let all = ListParams::default();
        let whole = Objects::<K>::all(client.clone()).list(&all).await;
        assert!(whole.is_err(), "{kind}");
        let listed = Objects::<LenientObject<K>>::all(client).list(&all).await;
        let (bad, good): (Vec<_>, Vec<_>) =
            (listed.unwrap().into_iter()).partition(|object| object.as_decoded().is_err());
        let names = |of: &[LenientObject<K>]| -> Vec<String> {
            of.iter().map(ResourceExt::name_any).collect()
        };
        assert_eq!(
            (names(&bad), names(&good)),
            (vec!["bad".into()], vec!["good".into()])
        );
        let why = bad[0].as_decoded().unwrap_err();
        let (why, path) = (why.to_string(), why.path());
        let begin = format!("cannot decode {kind} {path}: ");
        assert!(why.starts_with(&begin) && path.ends_with("bad"), "{why}");
        assert!(!why.contains("hidden"), "{why}");
        assert_eq!(keep_decoded(bad.into_iter().chain(good)).len(), 1, "{kind}");
    }

    async fn list_namespaced<K>(wrong: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        list::<K>(
            |client, kind| Objects::default_namespaced_with(client.clone(), kind),
            wrong,
        )
        .await;
    }

    async fn list_of_cluster<K>(wrong: Value)
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        list::<K>(
            |client, kind| Objects::all_with(client.clone(), kind),
            wrong,
        )
        .await;
    }

    #[tokio::test]
    async fn an_object_of_a_wrong_type_hides_no_other_of_a_list() {
        list_namespaced::<ConfigMap>(json!({"data": "hidden"})).await;
        list_namespaced::<Secret>(json!({"data": ["hidden"]})).await;
        list_namespaced::<Service>(json!({"spec": "hidden"})).await;
        list_namespaced::<Pod>(json!({"spec": {"containers": 1}})).await;
        list_namespaced::<Job>(json!({"spec": {"parallelism": "hidden"}})).await;
        list_of_cluster::<Node>(json!({"spec": {"taints": 7}})).await;
        list_of_cluster::<Namespace>(json!({"spec": 7})).await;
        list_of_cluster::<CertificateSigningRequest>(json!({"status": 7})).await;
    }
}
