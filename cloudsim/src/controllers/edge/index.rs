//! Which node has which pod, and what its pods reference: the map that decides who gets an object and who may ask. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crds::policy::ServiceAccountAccessSpec;
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
    /// For whom the pod asks for tokens.
    audiences: BTreeSet<String>,
}

/// What decides on a token that is bound to a pod.
#[derive(Debug)]
pub(super) struct PodToken<'a> {
    pub(super) uid: &'a str,
    /// Empty for a mirror pod, which runs as nobody.
    pub(super) account: &'a str,
    pub(super) audiences: &'a BTreeSet<String>,
}

/// Namespace and name of a pod.
type Key = (String, String);

/// The pods that are bound to a node.
#[derive(Debug, Default)]
pub(super) struct Index {
    pods: BTreeMap<Key, PodEntry>,
    /// The pods of each node: all nodes ask for theirs when they come back at once.
    by_node: HashMap<String, BTreeSet<Key>>,
    /// What accounts may do to which anything is granted, by namespace and name.
    granted: BTreeMap<(String, String), Arc<ServiceAccountAccessSpec>>,
}

impl Index {
    /// This is what the account may do now.
    pub(super) fn granted(&mut self, namespace: &str, account: &str, access: ServiceAccountAccessSpec) {
        self.granted.insert((namespace.to_owned(), account.to_owned()), Arc::new(access));
    }

    /// Nothing is granted to the account any more.
    pub(super) fn withdrawn(&mut self, namespace: &str, account: &str) {
        self.granted.remove(&(namespace.to_owned(), account.to_owned()));
    }

    /// Keeps only the grants of `current` (after a list has started over). Answers what was dropped.
    pub(super) fn retain_granted(&mut self, current: &BTreeSet<(String, String)>) -> Vec<(String, String)> {
        let gone: Vec<_> = self.granted.keys().filter(|key| !current.contains(*key)).cloned().collect();
        self.granted.retain(|key, _| current.contains(key));
        gone
    }

    /// The pods on `node`.
    fn on(&self, node: &str) -> impl Iterator<Item = (&Key, &PodEntry)> {
        self.by_node.get(node).into_iter().flatten().filter_map(|key| Some((key, self.pods.get(key)?)))
    }

    fn put(&mut self, key: Key, entry: PodEntry) {
        self.by_node.entry(entry.node.clone()).or_default().insert(key.clone());
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

    /// What the accounts of pods on `node` may do.
    pub(super) fn accesses_on(&self, node: &str) -> Vec<Arc<ServiceAccountAccessSpec>> {
        let accounts: BTreeSet<_> =
            self.on(node).map(|((namespace, _), entry)| (namespace.clone(), entry.account.clone())).collect();
        accounts.iter().filter_map(|account| self.granted.get(account).cloned()).collect()
    }

    /// What the pod's account may do, where anything is granted to it.
    fn access(&self, namespace: &str, entry: &PodEntry) -> Option<ObjectPath> {
        let key = (namespace.to_owned(), entry.account.clone());
        self.granted.contains_key(&key).then(|| ObjectPath::new(ObjectKind::Access, key.0, key.1))
    }

    /// The pod was created or changed. Answers the nodes that should look at it: its own, and the one it was on before.
    pub(super) fn applied(&mut self, pod: &Pod) -> BTreeSet<String> {
        let key = (pod.namespace().unwrap_or_default(), pod.name_any());
        let spec = pod.spec.as_ref();
        let node = spec.and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty());
        let old = self.take(&key);
        let mut nodes: BTreeSet<String> = old.map(|old| old.node).into_iter().collect();
        if let Some(node) = node {
            // a mirror pod runs as nobody and names nothing, whatever an older API has taken
            let is_mirror = is_mirror(pod);
            let account = match spec.and_then(|spec| spec.service_account_name.clone()) {
                _ if is_mirror => String::new(),
                account => account.unwrap_or_else(|| "default".into()),
            };
            let entry = PodEntry {
                uid: pod.uid().unwrap_or_default(),
                node: node.clone(),
                account,
                references: if is_mirror { BTreeSet::new() } else { references(pod) },
                claims: if is_mirror { BTreeSet::new() } else { claims(pod) },
                audiences: if is_mirror { BTreeSet::new() } else { audiences(pod) },
            };
            self.put(key, entry);
            nodes.insert(node);
        }
        nodes
    }

    /// The pod is gone. Answers the node that had it.
    pub(super) fn removed(&mut self, pod: &Pod) -> Option<String> {
        self.take(&(pod.namespace().unwrap_or_default(), pod.name_any())).map(|entry| entry.node)
    }

    /// Keeps only the pods of `current` (after a list has started over). Answers what the nodes of the dropped ones should look at.
    pub(super) fn retain(&mut self, current: &BTreeSet<(String, String)>) -> Vec<(String, ObjectPath)> {
        let gone: Vec<_> = self.pods.keys().filter(|key| !current.contains(*key)).cloned().collect();
        gone.into_iter()
            .flat_map(|key| {
                let entry = self.take(&key)?;
                let access = self.access(&key.0, &entry);
                let pod = ObjectPath::new(ObjectKind::Pod, key.0, key.1);
                Some([Some(pod), access].into_iter().flatten().map(move |path| (entry.node.clone(), path)))
            })
            .flatten()
            .collect()
    }

    /// What `node` should hold: itself, what its pods reference, and the pods.
    pub(super) fn desired(&self, node: &str) -> BTreeSet<ObjectPath> {
        let mut paths = BTreeSet::from([ObjectPath::new(ObjectKind::Node, "", node)]);
        for ((namespace, name), entry) in self.on(node) {
            paths.extend(entry.references.iter().cloned());
            paths.extend(self.access(namespace, entry));
            paths.insert(ObjectPath::new(ObjectKind::Pod, namespace, name));
        }
        paths
    }

    /// What the pod's node should look at because of the pod: the pod, what it references and what its account may do.
    pub(super) fn around(&self, namespace: &str, name: &str) -> BTreeSet<ObjectPath> {
        let mut paths = BTreeSet::from([ObjectPath::new(ObjectKind::Pod, namespace, name)]);
        if let Some(entry) = self.pods.get(&(namespace.to_owned(), name.to_owned())) {
            paths.extend(entry.references.iter().cloned());
            paths.extend(self.access(namespace, entry));
        }
        paths
    }

    /// The nodes with a pod that references `path`, or runs as the account that it is about.
    pub(super) fn nodes_referencing(&self, path: &ObjectPath) -> BTreeSet<String> {
        let references = |((namespace, _), entry): &(&(String, String), &PodEntry)| match path.kind {
            ObjectKind::Access => *namespace == path.namespace && entry.account == path.name,
            _ => entry.references.contains(path),
        };
        self.pods.iter().filter(references).map(|(_, entry)| entry.node.clone()).collect()
    }

    /// What pods reference of this kind.
    pub(super) fn referenced(&self, kind: ObjectKind) -> BTreeSet<ObjectPath> {
        let all = self.pods.values().flat_map(|entry| &entry.references);
        all.filter(|path| path.kind == kind).cloned().collect()
    }

    /// Whether `node` holds or needs `path`.
    pub(super) fn concerns(&self, node: &str, path: &ObjectPath) -> bool {
        match path.kind {
            ObjectKind::Node => path.name == node,
            ObjectKind::Pod => self.pod_on(node, &path.namespace, &path.name),
            ObjectKind::Access => self.account_on(node, &path.namespace, &path.name),
            ObjectKind::ConfigMap | ObjectKind::Secret => {
                self.on(node).any(|(_, entry)| entry.references.contains(path))
            }
            // the device controller's
            ObjectKind::DeviceModel | ObjectKind::Device => false,
        }
    }

    /// The node that the pod is bound to.
    pub(super) fn node_of(&self, namespace: &str, name: &str) -> Option<&str> {
        self.pods.get(&(namespace.to_owned(), name.to_owned())).map(|entry| entry.node.as_str())
    }

    /// Whether the pod is bound to `node`.
    pub(super) fn pod_on(&self, node: &str, namespace: &str, name: &str) -> bool {
        self.node_of(namespace, name) == Some(node)
    }

    /// Whether a pod on `node` uses the persistent volume claim.
    pub(super) fn claim_on(&self, node: &str, namespace: &str, claim: &str) -> bool {
        self.on(node).any(|((ns, _), entry)| ns == namespace && entry.claims.contains(claim))
    }

    /// Whether a pod on `node` runs as the service account.
    pub(super) fn account_on(&self, node: &str, namespace: &str, account: &str) -> bool {
        self.on(node).any(|((ns, _), entry)| ns == namespace && entry.account == account)
    }

    /// The pod of this name, if it is on `node`, as far as its account's tokens go.
    pub(super) fn pod_token(&self, node: &str, namespace: &str, name: &str) -> Option<PodToken<'_>> {
        let entry = self.pods.get(&(namespace.to_owned(), name.to_owned()))?;
        let token = PodToken { uid: &entry.uid, account: &entry.account, audiences: &entry.audiences };
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
        index.applied(&pod("a", "edge-1", "shared"));
        index.applied(&pod("b", "edge-2", "own"));
        assert!(index.concerns("edge-1", &config("shared")) && !index.concerns("edge-1", &config("own")));
        assert!(index.pod_on("edge-1", "ns", "a") && !index.pod_on("edge-1", "ns", "b"));
        assert!(!index.concerns("edge-1", &ObjectPath::new(ObjectKind::Node, "", "edge-2")));
        assert_eq!(index.nodes_referencing(&config("own")), ["edge-2".to_owned()].into());
        assert_eq!(index.desired("edge-1").len(), 3);
    }

    #[test]
    fn tokens_are_for_accounts_of_pods_on_the_node() {
        let mut index = Index::default();
        index.applied(&pod("a", "edge-1", "x"));
        assert!(index.account_on("edge-1", "ns", "robot") && !index.account_on("edge-2", "ns", "robot"));
        assert!(!index.account_on("edge-1", "ns", "admin"));
        assert_eq!(index.pod_token("edge-1", "ns", "a").unwrap().uid, "uid-a");
        assert!(index.pod_token("edge-2", "ns", "a").is_none());
    }

    #[test]
    fn a_node_hears_what_the_accounts_of_its_pods_may_do() {
        let mut index = Index::default();
        let robot_path = ObjectPath::new(ObjectKind::Access, "ns", "robot");
        index.applied(&pod("a", "edge-1", "x"));
        assert!(!index.desired("edge-1").contains(&robot_path), "nothing is granted yet");
        index.granted("ns", "robot", ServiceAccountAccessSpec::default());
        index.granted("ns", "other", ServiceAccountAccessSpec::default());
        assert!(
            index.desired("edge-1").contains(&robot_path) && index.around("ns", "a").contains(&robot_path)
        );
        assert_eq!(index.nodes_referencing(&robot_path), ["edge-1".to_owned()].into());
        assert_eq!((index.accesses_on("edge-1").len(), index.accesses_on("edge-2").len()), (1, 0));
        assert!(index.concerns("edge-1", &robot_path) && !index.concerns("edge-2", &robot_path));
        let gone = index.retain(&BTreeSet::new());
        assert!(gone.contains(&("edge-1".to_owned(), robot_path.clone())), "{gone:?}");
        assert!(!index.concerns("edge-1", &robot_path));
        assert_eq!(index.retain_granted(&[("ns".to_owned(), "other".to_owned())].into()).len(), 1);
        index.withdrawn("ns", "other");
        assert!(index.granted.is_empty());
    }

    #[test]
    fn a_mirror_pod_opens_nothing() {
        let mut index = Index::default();
        let mut mirror = pod("m", "edge-1", "shared");
        mirror.metadata.annotations = Some([("kubernetes.io/config.mirror".into(), "h".into())].into());
        index.applied(&mirror);
        assert!(index.pod_on("edge-1", "ns", "m") && !index.concerns("edge-1", &config("shared")));
        assert!(!index.account_on("edge-1", "ns", "robot"));
    }

    #[test]
    fn a_pod_without_a_node_concerns_nobody() {
        let mut index = Index::default();
        assert!(index.applied(&pod("a", "", "x")).is_empty());
        assert!(index.desired("").len() == 1);
    }

    #[test]
    fn what_a_new_list_lacks_is_dropped_and_told() {
        let mut index = Index::default();
        index.applied(&pod("a", "edge-1", "x"));
        index.applied(&pod("b", "edge-1", "x"));
        let gone = index.retain(&[("ns".to_owned(), "a".to_owned())].into());
        assert_eq!(gone, [("edge-1".to_owned(), ObjectPath::new(ObjectKind::Pod, "ns", "b"))]);
        assert_eq!(index.desired("edge-1").len(), 3, "itself, the pod that is left and its ConfigMap");
        index.applied(&pod("a", "edge-2", "x"));
        assert_eq!((index.desired("edge-1").len(), index.desired("edge-2").len()), (1, 3), "it has moved");
        index.removed(&pod("a", "edge-2", "x"));
        assert!(index.pods.is_empty() && index.by_node.is_empty());
    }
}
