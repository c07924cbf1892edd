//! Every command of docs/mesh.md does what the page says, on a node of its own.

use std::collections::BTreeMap;

use anyhow::ensure;
use e2e::{
    containerd::{IMAGE, RealRig},
    pages::{Block, Page, Terminal, check},
    until,
};

use crate::own_network::in_network_namespace;

/// Commands that only read: what they print may take a moment to come.
const READS: [&str; 3] = ["ip ", "kubectl get", "kubectl exec"];

#[test]
fn every_command_of_the_page_does_what_it_says() -> anyhow::Result<()> {
    in_network_namespace(|| {
        let mut rig = RealRig::start()?;
        rig.restart_with_lines(&[("modules:", "  edgeMesh: {enable: true}")])?;
        let directory = tempfile::tempdir()?;
        let kubeconfig = rig.cloud.kubeconfig.display().to_string();
        let mut terminal = Terminal {
            directory: directory.path().to_owned(),
            variables: BTreeMap::from([
                ("KUBECONFIG".to_owned(), kubeconfig),
                ("HOME".to_owned(), directory.path().display().to_string()),
            ]),
            programs: BTreeMap::from([("kubectl".to_owned(), testkit::kubectl())]),
        };
        let mut commands = 0;
        for block in Page::read("docs/mesh.md")?.blocks {
            let Block::Run { steps, .. } = block else {
                continue;
            };
            for step in steps {
                commands += 1;
                // this machine's busybox
                let image = format!("--image={IMAGE}");
                let command = step.command.replace("--image=busybox:1.36", &image);
                let mut attempt = || check(&terminal.run(&command)?, &step, false);
                if READS.iter().any(|read| command.starts_with(read)) {
                    until(&command, attempt)?;
                } else {
                    attempt()?;
                }
            }
        }
        ensure!(commands >= 9, "{commands} commands");
        Ok(())
    })
}
