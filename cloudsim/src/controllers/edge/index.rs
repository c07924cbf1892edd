//! The pods of each node and what they reference: determines which nodes get an object and which may ask for it. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use clock::HashMap;
use crds::policy::{ServiceAccountAccess, ServiceAccountAccessSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{
    mirror::is_mirror,
    references::{audiences, claims, references},
};
use crate::mailbox::{ObjectKind, ObjectPath};

#[derive(Debug, PartialEq, Eq)]
struct PodEntry {
    uid: String,
    node: String,
    account: String,
    references: BTreeSet<ObjectPath>,
    claims: BTreeSet<String>,
    /// The audiences of the tokens that the pod requests.
    audiences: BTreeSet<String>,
}

/// What decides about a token that is bound to a pod.
#[derive(Debug)]
pub(super) struct PodToken<'a> {
    pub(super) uid: &'a str,
    /// The pod's service account; empty for a mirror pod, which has none.
    pub(super) account: &'a str,
    pub(super) audiences: &'a BTreeSet<String>,
}

/// The namespace and name of a pod.
type Key = (String, String);

/// The index of pods that are bound to nodes.
#[derive(Debug, Default)]
pub(super) struct Index {
    pods: BTreeMap<Key, PodEntry>,
    /// The pods of each node: all nodes ask for theirs when they come back at once.
    by_node: HashMap<String, BTreeSet<Key>>,
    /// The rights of service accounts to which anything is granted, by namespace and name.
    granted: BTreeMap<(String, String), Granted>,
}

/// The rights of a service account.
#[derive(Debug, PartialEq)]
struct Granted {
    /// The UID of their object.
    uid: String,
    rights: Arc<ServiceAccountAccessSpec>,
}

impl Index {
    /// Sets the rights of a service account. Returns whether they differ: each further node of the account changes only the status of the
    /// object, which is no news for the others.
    pub(super) fn set_access(&mut self, path: &ObjectPath, access: ServiceAccountAccess) -> bool {
        let key = (path.namespace.clone(), path.name.clone());
        let granted = Granted {
            uid: access.metadata.uid.unwrap_or_default(),
            rights: Arc::new(access.spec),
        };
        let is_known = self.granted.get(&key) == Some(&granted);
        self.granted.insert(key, granted);
        !is_known
    }

    /// Removes the rights of a service account.
    pub(super) fn withdrawn(&mut self, namespace: &str, account: &str) {
        self.granted
            .remove(&(namespace.to_owned(), account.to_owned()));
    }

    /// Keeps only the rights of `current`, after a new list. Returns the removed ones.
    pub(super) fn retain_granted(
        &mut self,
        current: &BTreeSet<(String, String)>,
    ) -> Vec<(String, String)> {
        let gone: Vec<_> = self
            .granted
            .keys()
            .filter(|key| !current.contains(*key))
            .cloned()
            .collect();
        self.granted.retain(|key, _| current.contains(key));
        gone
    }

    /// Returns the pods on `node`.
    fn on(&self, node: &str) -> impl Iterator<Item = (&Key, &PodEntry)> {
        self.by_node
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|key| Some((key, self.pods.get(key)?)))
    }

    fn put(&mut self, key: Key, entry: PodEntry) {
        self.by_node
            .entry(entry.node.clone())
            .or_default()
            .insert(key.clone());
        self.pods.insert(key, entry);
    }

    fn take(&mut self, key: &Key) -> Option<PodEntry> {
        let entry = self.pods.remove(key)?;
        if let Some(keys) = self.by_node.get_mut(&entry.node) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_node.remove(&entry.node);
            }
        }
        Some(entry)
    }

    /// Returns the rights of the accounts of pods on `node`.
    pub(super) fn accesses_on(&self, node: &str) -> Vec<Arc<ServiceAccountAccessSpec>> {
        let accounts: BTreeSet<_> = self
            .on(node)
            .map(|((namespace, _), entry)| (namespace.clone(), entry.account.clone()))
            .collect();
        accounts
            .iter()
            .filter_map(|account| Some(Arc::clone(&self.granted.get(account)?.rights)))
            .collect()
    }

    /// Returns the path of the access of the pod's account, if anything is granted to it.
    fn access(&self, namespace: &str, entry: &PodEntry) -> Option<ObjectPath> {
        let key = (namespace.to_owned(), entry.account.clone());
        self.granted
            .contains_key(&key)
            .then(|| ObjectPath::new(ObjectKind::Access, key.0, key.1))
    }

    /// Adds or updates a pod. Returns the nodes to notify: its own and its previous one.
    pub(super) fn apply(&mut self, pod: &Pod) -> BTreeSet<String> {
        let key = (pod.namespace().unwrap_or_default(), pod.name_any());
        let spec = pod.spec.as_ref();
        let node = spec
            .and_then(|spec| spec.node_name.clone())
            .filter(|node| !node.is_empty());
        let old = self.take(&key);
        let mut nodes: BTreeSet<String> = old.map(|old| old.node).into_iter().collect();
        if let Some(node) = node {
            // a mirror pod has no account and references nothing, whatever an older API has accepted
            let is_mirror = is_mirror(pod);
            let account = match spec.and_then(|spec| spec.service_account_name.clone()) {
                _ if is_mirror => String::new(),
                account => account.unwrap_or_else(|| "default".into()),
            };
            let entry = PodEntry {
                uid: pod.uid().unwrap_or_default(),
                node: node.clone(),
                account,
                references: if is_mirror {
                    BTreeSet::new()
                } else {
                    references(pod)
                },
                claims: if is_mirror {
                    BTreeSet::new()
                } else {
                    claims(pod)
                },
                audiences: if is_mirror {
                    BTreeSet::new()
                } else {
                    audiences(pod)
                },
            };
            self.put(key, entry);
            nodes.insert(node);
        }
        nodes
    }

    /// Removes a pod. Returns its node.
    pub(super) fn remove(&mut self, pod: &Pod) -> Option<String> {
        self.take(&(pod.namespace().unwrap_or_default(), pod.name_any()))
            .map(|entry| entry.node)
    }

    /// Keeps only the pods of `current`, after a new list. Returns what the nodes of removed pods should look at.
    pub(super) fn retain(
        &mut self,
        current: &BTreeSet<(String, String)>,
    ) -> Vec<(String, ObjectPath)> {
        let gone: Vec<_> = self
            .pods
            .keys()
            .filter(|key| !current.contains(*key))
            .cloned()
            .collect();
        gone.into_iter()
            .flat_map(|key| {
                let entry = self.take(&key)?;
                let access = self.access(&key.0, &entry);
                let pod = ObjectPath::new(ObjectKind::Pod, key.0, key.1);
                Some(
                    [Some(pod), access]
                        .into_iter()
                        .flatten()
                        .map(move |path| (entry.node.clone(), path)),
                )
            })
            .flatten()
            .collect()
    }

    /// Returns what `node` should hold: its Node, what its pods reference, and the pods.
    pub(super) fn desired_objects(&self, node: &str) -> BTreeSet<ObjectPath> {
        let mut paths = BTreeSet::from([ObjectPath::new(ObjectKind::Node, "", node)]);
        for ((namespace, name), entry) in self.on(node) {
            paths.extend(entry.references.iter().cloned());
            paths.extend(self.access(namespace, entry));
            paths.insert(ObjectPath::new(ObjectKind::Pod, namespace, name));
        }
        paths
    }

    /// Returns what the pod's node should look at: the pod, its references and its account's access.
    pub(super) fn related_paths(&self, namespace: &str, name: &str) -> BTreeSet<ObjectPath> {
        let mut paths = BTreeSet::from([ObjectPath::new(ObjectKind::Pod, namespace, name)]);
        if let Some(entry) = self.pods.get(&(namespace.to_owned(), name.to_owned())) {
            paths.extend(entry.references.iter().cloned());
            paths.extend(self.access(namespace, entry));
        }
        paths
    }

    /// Returns the nodes with a pod that references `path`, or whose account it concerns.
    pub(super) fn nodes_referencing(&self, path: &ObjectPath) -> BTreeSet<String> {
        let references = |((namespace, _), entry): &(&(String, String), &PodEntry)| match path.kind
        {
            ObjectKind::Access => *namespace == path.namespace && entry.account == path.name,
            _ => entry.references.contains(path),
        };
        self.pods
            .iter()
            .filter(references)
            .map(|(_, entry)| entry.node.clone())
            .collect()
    }

    /// Returns the objects of this kind that pods reference.
    pub(super) fn referenced_objects(&self, kind: ObjectKind) -> BTreeSet<ObjectPath> {
        let all = self.pods.values().flat_map(|entry| &entry.references);
        all.filter(|path| path.kind == kind).cloned().collect()
    }

    /// Reports whether `node` holds or needs `path`.
    pub(super) fn concerns(&self, node: &str, path: &ObjectPath) -> bool {
        match path.kind {
            ObjectKind::Node => path.name == node,
            ObjectKind::Pod => self.pod_on(node, &path.namespace, &path.name),
            ObjectKind::Access => self.account_on(node, &path.namespace, &path.name),
            ObjectKind::ConfigMap | ObjectKind::Secret => self
                .on(node)
                .any(|(_, entry)| entry.references.contains(path)),
            // handled by the device controller
            ObjectKind::DeviceModel | ObjectKind::Device => false,
        }
    }

    /// Returns the node of a pod.
    pub(super) fn node_of(&self, namespace: &str, name: &str) -> Option<&str> {
        self.pods
            .get(&(namespace.to_owned(), name.to_owned()))
            .map(|entry| entry.node.as_str())
    }

    /// Reports whether the pod is bound to `node`.
    pub(super) fn pod_on(&self, node: &str, namespace: &str, name: &str) -> bool {
        self.node_of(namespace, name) == Some(node)
    }

    /// Reports whether a pod on `node` uses the persistent volume claim.
    pub(super) fn claim_on(&self, node: &str, namespace: &str, claim: &str) -> bool {
        self.on(node)
            .any(|((ns, _), entry)| ns == namespace && entry.claims.contains(claim))
    }

    /// Reports whether a pod on `node` runs as the service account.
    pub(super) fn account_on(&self, node: &str, namespace: &str, account: &str) -> bool {
        self.on(node)
            .any(|((ns, _), entry)| ns == namespace && entry.account == account)
    }

    /// Returns what decides about tokens of this pod, if it is on `node`.
    pub(super) fn pod_token(
        &self,
        node: &str,
        namespace: &str,
        name: &str,
    ) -> Option<PodToken<'_>> {
        let entry = self.pods.get(&(namespace.to_owned(), name.to_owned()))?;
        let token = PodToken {
            uid: &entry.uid,
            account: &entry.account,
            audiences: &entry.audiences,
        };
        (entry.node == node).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, node: &str, config: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
            "spec": {"nodeName": node, "serviceAccountName": "robot",
                "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": config}}]}]},
        }))
        .unwrap()
    }

    fn config(name: &str) -> ObjectPath {
        ObjectPath::new(ObjectKind::ConfigMap, "ns", name)
    }

    #[test]
    fn a_node_concerns_its_own_pods_and_their_references_only() {
        let mut index = Index::default();
        index.apply(&pod("a", "edge-1", "shared"));
        index.apply(&pod("b", "edge-2", "own"));
        assert!(
            index.concerns("edge-1", &config("shared"))
                && !index.concerns("edge-1", &config("own"))
        );
        assert!(index.pod_on("edge-1", "ns", "a") && !index.pod_on("edge-1", "ns", "b"));
        assert!(!index.concerns("edge-1", &ObjectPath::new(ObjectKind::Node, "", "edge-2")));
        assert_eq!(
            index.nodes_referencing(&config("own")),
            ["edge-2".to_owned()].into()
        );
        assert_eq!(index.desired_objects("edge-1").len(), 3);
    }

    #[test]
    fn tokens_are_for_accounts_of_pods_on_the_node() {
        let mut index = Index::default();
        index.apply(&pod("a", "edge-1", "x"));
        assert!(
            index.account_on("edge-1", "ns", "robot") && !index.account_on("edge-2", "ns", "robot")
        );
        assert!(!index.account_on("edge-1", "ns", "admin"));
        assert_eq!(index.pod_token("edge-1", "ns", "a").unwrap().uid, "uid-a");
        assert!(index.pod_token("edge-2", "ns", "a").is_none());
    }

    #[test]
    fn a_node_hears_what_the_accounts_of_its_pods_may_do() {
        let mut index = Index::default();
        let robot_path = ObjectPath::new(ObjectKind::Access, "ns", "robot");
        index.apply(&pod("a", "edge-1", "x"));
        assert!(
            !index.desired_objects("edge-1").contains(&robot_path),
            "nothing is granted yet"
        );
        let other_path = ObjectPath::new(ObjectKind::Access, "ns", "other");
        assert!(index.set_access(&robot_path, ServiceAccountAccess::default()));
        assert!(index.set_access(&other_path, ServiceAccountAccess::default()));
        let mut access = ServiceAccountAccess::default();
        access.status.get_or_insert_default().node_list = vec!["edge-1".to_owned()];
        assert!(
            !index.set_access(&robot_path, access.clone()),
            "only its nodes differ"
        );
        access.metadata.uid = Some("2".to_owned());
        assert!(index.set_access(&robot_path, access), "it was made again");
        assert!(
            index.desired_objects("edge-1").contains(&robot_path)
                && index.related_paths("ns", "a").contains(&robot_path)
        );
        assert_eq!(
            index.nodes_referencing(&robot_path),
            ["edge-1".to_owned()].into()
        );
        assert_eq!(
            (
                index.accesses_on("edge-1").len(),
                index.accesses_on("edge-2").len()
            ),
            (1, 0)
        );
        assert!(index.concerns("edge-1", &robot_path) && !index.concerns("edge-2", &robot_path));
        let gone = index.retain(&BTreeSet::new());
        assert!(
            gone.contains(&("edge-1".to_owned(), robot_path.clone())),
            "{gone:?}"
        );
        assert!(!index.concerns("edge-1", &robot_path));
        assert_eq!(
            index
                .retain_granted(&[("ns".to_owned(), "other".to_owned())].into())
                .len(),
            1
        );
        index.withdrawn("ns", "other");
        assert!(index.granted.is_empty());
    }

    #[test]
    fn a_mirror_pod_opens_nothing() {
        let mut index = Index::default();
        let mut mirror = pod("m", "edge-1", "shared");
        mirror.metadata.annotations =
            Some([("kubernetes.io/config.mirror".into(), "h".into())].into());
        index.apply(&mirror);
        assert!(index.pod_on("edge-1", "ns", "m") && !index.concerns("edge-1", &config("shared")));
        assert!(!index.account_on("edge-1", "ns", "robot"));
    }

    #[test]
    fn a_pod_without_a_node_concerns_nobody() {
        let mut index = Index::default();
        assert!(index.apply(&pod("a", "", "x")).is_empty());
        assert!(index.desired_objects("").len() == 1);
    }

    #[test]
    fn what_a_new_list_lacks_is_dropped_and_told() {
        let mut index = Index::default();
        index.apply(&pod("a", "edge-1", "x"));
        index.apply(&pod("b", "edge-1", "x"));
        let gone = index.retain(&[("ns".to_owned(), "a".to_owned())].into());
        assert_eq!(
            gone,
            [(
                "edge-1".to_owned(),
                ObjectPath::new(ObjectKind::Pod, "ns", "b")
            )]
        );
        assert_eq!(
            index.desired_objects("edge-1").len(),
            3,
            "itself, the pod that is left and its ConfigMap"
        );
        index.apply(&pod("a", "edge-2", "x"));
        assert_eq!(
            (
                index.desired_objects("edge-1").len(),
                index.desired_objects("edge-2").len()
            ),
            (1, 3),
            "it has moved"
        );
        index.remove(&pod("a", "edge-2", "x"));
        assert!(index.pods.is_empty() && index.by_node.is_empty());
    }
}
