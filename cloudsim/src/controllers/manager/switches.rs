//! The switches of controllers. Pure.

use std::{collections::BTreeSet, str::FromStr};

macro_rules! controllers {
    ($($controller:ident = $name:literal,)*) => {
        /// A controller that can be switched off.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum ControllerName {
            $(#[doc = concat!("`", $name, "`")] $controller,)*
        }

        impl ControllerName {
            /// All controllers.
            pub(crate) const ALL: &[Self] = &[$(Self::$controller,)*];

            /// Returns the name in `--controllers`.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$controller => $name,)*
                }
            }
        }
    };
}

// The names are those of kube-controller-manager; `scheduler` and `persistentvolume-provisioner` are cloudsim's own,
// `serviceaccountaccess` is CloudCore's policy controller, `taskmanager` its module of this name; `nodegroup` and `edgeapplication` are in
// its ControllerManager.
controllers! {
    CronJob = "cronjob",
    CsrApproving = "csrapproving",
    CsrCleaner = "csrcleaner",
    CsrSigning = "csrsigning",
    DaemonSet = "daemonset",
    Deployment = "deployment",
    Disruption = "disruption",
    EdgeApplication = "edgeapplication",
    Endpoint = "endpoint",
    EndpointSlice = "endpointslice",
    EndpointSliceMirroring = "endpointslicemirroring",
    GarbageCollector = "garbage-collector",
    Job = "job",
    Namespace = "namespace",
    NodeGroup = "nodegroup",
    NodeLifecycle = "node-lifecycle",
    PersistentVolumeBinder = "persistentvolume-binder",
    PersistentVolumeClaimProtection = "persistentvolumeclaim-protection",
    PersistentVolumeProtection = "persistentvolume-protection",
    PersistentVolumeProvisioner = "persistentvolume-provisioner",
    PodGarbageCollector = "pod-garbage-collector",
    ReplicaSet = "replicaset",
    ReplicationController = "replicationcontroller",
    RootCaCertificatePublisher = "root-ca-certificate-publisher",
    Scheduler = "scheduler",
    ServiceAccount = "serviceaccount",
    ServiceAccountAccess = "serviceaccountaccess",
    StatefulSet = "statefulset",
    TaintEviction = "taint-eviction",
    TaskManager = "taskmanager",
}

/// The controllers that run; by default all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switches(BTreeSet<ControllerName>);

/// There is no controller of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {0:?}; use `*`, a name, or a name after a minus, of: {names}", names = names().join(", "))]
pub struct UnknownController(String);

fn names() -> Vec<&'static str> {
    ControllerName::ALL
        .iter()
        .map(|controller| controller.as_str())
        .collect()
}

impl Default for Switches {
    /// All.
    fn default() -> Self {
        Self(ControllerName::ALL.iter().copied().collect())
    }
}

impl Switches {
    /// Switches all controllers off.
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Reports whether the controller runs.
    pub(crate) fn is_on(&self, controller: ControllerName) -> bool {
        self.0.contains(&controller)
    }
}

impl FromStr for Switches {
    type Err = UnknownController;

    /// Parses a list as kube-controller-manager's `--controllers`: `*` is all, `name` adds one, `-name` removes one; the empty text is
    /// none.
    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let known = |name: &str| {
            let name = name.strip_suffix("-controller").unwrap_or(name);
            let found = ControllerName::ALL
                .iter()
                .copied()
                .find(|known| known.as_str() == name);
            found.ok_or_else(|| UnknownController(name.to_owned()))
        };
        let (mut on, mut off) = (BTreeSet::new(), BTreeSet::new());
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            match (item, item.strip_prefix('-')) {
                ("*", _) => on.extend(ControllerName::ALL),
                (_, Some(name)) => drop(off.insert(known(name)?)),
                (name, None) => drop(on.insert(known(name)?)),
            }
        }
        Ok(Self(on.difference(&off).copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn a_list_says_which_controllers_run() {
        let on = |text: &str| text.parse::<Switches>().map(|switches| switches.0.len());
        assert_eq!(on("*").unwrap(), ControllerName::ALL.len());
        assert_eq!(on("").unwrap(), 0);
        assert_eq!(
            on("*,-job,-cronjob-controller").unwrap(),
            ControllerName::ALL.len() - 2
        );
        assert_eq!(on("-job,*").unwrap(), ControllerName::ALL.len() - 1);
        let one: Switches = "deployment".parse().unwrap();
        assert!(one.is_on(ControllerName::Deployment) && !one.is_on(ControllerName::Job));
        assert!(
            "*,-jobs"
                .parse::<Switches>()
                .unwrap_err()
                .to_string()
                .contains("\"jobs\"")
        );
    }

    /// The table in `docs/controllers.md` has a row for each.
    #[test]
    fn every_controller_has_a_row_in_the_docs() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/controllers.md");
        let text = fs::read_to_string(page).unwrap();
        let table = text
            .lines()
            .skip_while(|line| !line.starts_with("|---"))
            .take_while(|line| line.starts_with('|'));
        let told: BTreeSet<_> = table
            .filter_map(|row| row.split('|').nth(1))
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .collect();
        assert_eq!(told, names().into_iter().collect());
    }
}
