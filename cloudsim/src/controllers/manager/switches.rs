//! Which controllers run. Pure.

use std::{collections::BTreeSet, str::FromStr};

/// What can be switched off, by the names of kube-controller-manager; `scheduler` is the binder of pods, `serviceaccountaccess`
/// CloudCore's policy controller.
const NAMES: [&str; 22] = [
    "cronjob",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    "daemonset",
    "deployment",
    "disruption",
    "endpointslice",
    "garbage-collector",
    "job",
    "namespace",
    "node-lifecycle",
    "persistentvolume-binder",
    "pod-garbage-collector",
    "replicaset",
    "replicationcontroller",
    "root-ca-certificate-publisher",
    "scheduler",
    "serviceaccount",
    "serviceaccountaccess",
    "statefulset",
    "taint-eviction",
];

/// Which controllers run: all unless told otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switches(BTreeSet<&'static str>);

/// A name that no controller has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {0:?}; give `*`, a name or a name after a minus, of: {names}", names = NAMES.join(", "))]
pub struct UnknownController(String);

impl Default for Switches {
    /// All.
    fn default() -> Self {
        Self(BTreeSet::from(NAMES))
    }
}

impl Switches {
    /// None at all.
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Whether the controller of this name runs.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl FromStr for Switches {
    type Err = UnknownController;

    /// Reads a list as kube-controller-manager's `--controllers`: `*` is all, `name` that one, `-name` all but that one; the
    /// empty text is none.
    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let known = |name: &str| {
            let name = name.strip_suffix("-controller").unwrap_or(name);
            let found = NAMES.into_iter().find(|known| *known == name);
            found.ok_or_else(|| UnknownController(name.to_owned()))
        };
        let (mut on, mut off) = (BTreeSet::new(), BTreeSet::new());
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match (item, item.strip_prefix('-')) {
                ("*", _) => on.extend(NAMES),
                (_, Some(name)) => drop(off.insert(known(name)?)),
                (name, None) => drop(on.insert(known(name)?)),
            }
        }
        Ok(Self(on.difference(&off).copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_which_controllers_run() {
        let on = |text: &str| text.parse::<Switches>().map(|switches| switches.0.len());
        assert_eq!(on("*").unwrap(), NAMES.len());
        assert_eq!(on("").unwrap(), 0);
        assert_eq!(on("*,-job,-cronjob-controller").unwrap(), NAMES.len() - 2);
        assert_eq!(on("-job,*").unwrap(), NAMES.len() - 1);
        let one: Switches = "deployment".parse().unwrap();
        assert!(one.is_on("deployment") && !one.is_on("job"));
        assert!("*,-jobs".parse::<Switches>().unwrap_err().to_string().contains("\"jobs\""));
    }
}
