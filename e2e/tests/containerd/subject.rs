//! A node on either runtime: tests that look into no container say the same of both.

use std::{fs, path::Path};

use anyhow::ensure;
use e2e::{Cloud, Cri, Node, Rig, containerd::RealRig, until};

use crate::case;

/// A cloud, a node and a runtime.
pub(crate) enum Subject {
    /// containerd.
    Real(Box<RealRig>),
    /// The simulated one, which runs no programs: `sim.outrigger.dev` annotations say what they would do.
    Simulated(Box<Rig>),
}

impl Subject {
    pub(crate) fn containerd() -> anyhow::Result<Self> {
        Ok(Self::Real(Box::new(RealRig::start()?)))
    }

    pub(crate) fn simulated() -> anyhow::Result<Self> {
        Ok(Self::Simulated(Box::new(Rig::start()?)))
    }

    pub(crate) fn cri(&self) -> &Cri {
        match self {
            Self::Real(rig) => &rig.containerd.cri,
            Self::Simulated(rig) => &rig.runtime.cri,
        }
    }

    pub(crate) fn node(&mut self) -> &mut Node {
        match self {
            Self::Real(rig) => &mut rig.node,
            Self::Simulated(rig) => &mut rig.node,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        match self {
            Self::Real(rig) => rig.directory.path(),
            Self::Simulated(rig) => rig.directory.path(),
        }
    }

    /// Nothing of any pod is left when all are deleted; on the machine, where there was something.
    pub(crate) fn leaves_nothing(&self) -> anyhow::Result<()> {
        let rig = match self {
            Self::Real(rig) => return case::leaves_nothing(rig),
            Self::Simulated(rig) => rig,
        };
        rig.cloud
            .kubectl
            .run(&["delete", "pods", "--all", "--wait=false"])?;
        until("a node without a trace of pods", || {
            let (sandboxes, containers) =
                (rig.runtime.cri.sandboxes()?, rig.runtime.cri.containers()?);
            ensure!(
                sandboxes.0.is_empty() && sandboxes.1.is_empty(),
                "sandboxes: {sandboxes:?}"
            );
            ensure!(containers.is_empty(), "containers: {containers:?}");
            let logs = rig.directory.path().join("node/logs");
            let left: Vec<_> = fs::read_dir(&rig.node.pods)?
                .chain(fs::read_dir(logs)?)
                .collect();
            ensure!(left.is_empty(), "files of pods are left: {left:?}");
            Ok(())
        })
    }
}

impl AsRef<Cloud> for Subject {
    fn as_ref(&self) -> &Cloud {
        match self {
            Self::Real(rig) => &rig.cloud,
            Self::Simulated(rig) => &rig.cloud,
        }
    }
}

/// Each test on both runtimes.
macro_rules! for_both {
    ($($name:ident),+ $(,)?) => {
        mod simulated {
            $(#[test] fn $name() -> anyhow::Result<()> { super::$name(crate::subject::Subject::simulated()?) })+
        }
        mod containerd {
            $(#[test] fn $name() -> anyhow::Result<()> { super::$name(crate::subject::Subject::containerd()?) })+
        }
    };
}

pub(crate) use for_both;
