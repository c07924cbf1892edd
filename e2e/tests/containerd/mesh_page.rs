//! Every command of docs/mesh.md does what the page says, on a node of its own.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, ensure};
use e2e::{
    containerd::{IMAGE, RealRig},
    run, until,
};

use crate::own_network::in_network_namespace;

/// The words of a line of the page; what stands between single quotes is one.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(number, part)| match number % 2 {
            1 => vec![part.to_owned()],
            _ => part.split_whitespace().map(str::to_owned).collect(),
        })
        .collect()
}

/// What a command of the page prints; `busybox` is this machine's.
fn said(rig: &RealRig, line: &str) -> anyhow::Result<String> {
    let words = words(&line.replace("--image=busybox:1.36", &format!("--image={IMAGE}")));
    let (program, arguments) = words.split_first().context("no command")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match program.as_str() {
        "kubectl" => rig.cloud.kubectl.run(&arguments),
        "ip" => Ok(run(Command::new("ip").args(&arguments))?.success()?.text()),
        other => anyhow::bail!("the page has {other}, which nobody knows here"),
    }
}

#[test]
fn every_command_of_the_page_does_what_it_says() -> anyhow::Result<()> {
    in_network_namespace(|| {
        let mut rig = RealRig::start()?;
        rig.restart_with_lines(&[("modules:", "  edgeMesh: {enable: true}")])?;
        let page = Path::new(env!("CARGO_MANIFEST_DIR"))
            .with_file_name("docs")
            .join("mesh.md");
        let page = fs::read_to_string(page)?;
        ensure!(
            !page.contains("```sh"),
            "commands stand in blocks of the kind `console`"
        );
        let blocks = page
            .split("```console\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next());
        let mut commands = 0;
        for part in blocks.flat_map(|block| block.split("$ ").skip(1)) {
            let (line, expected) = part.split_once('\n').context("no line")?;
            commands += 1;
            let is_read = ["ip ", "kubectl get", "kubectl exec"]
                .iter()
                .any(|read| line.starts_with(read));
            let check = || {
                let said = said(&rig, line)?;
                let missing = expected.lines().find(|line| !said.contains(*line));
                ensure!(
                    missing.is_none(),
                    "{missing:?} is not what `{line}` says: {said}"
                );
                Ok::<_, anyhow::Error>(())
            };
            // what is read may take a moment to come; what changes something is done once
            if is_read {
                until(line, check)?
            } else {
                check()?
            }
        }
        ensure!(commands >= 9, "{commands} commands");
        Ok(())
    })
}
