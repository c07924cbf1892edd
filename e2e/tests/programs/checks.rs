//! `edge-agent check` on a node with one fault at a time: its check fails, those that need it are skipped, and all others pass.

use std::{fs, net::TcpListener, process::Command};

use anyhow::{Context, ensure};
use e2e::{AGENT, Rig, SmallDisk, binary, run, until};
use serde_json::Value;

/// Checks that do not apply to a simulated node over WebSocket.
const ABSENT: [&str; 3] = ["kernel", "cni", "quic"];
/// The checks of a cloud that is reached by name.
const CLOUD: &str = "streams cloud clock hub";

/// The checks with their results.
type Results = Vec<(String, String)>;

/// Runs the checks; returns the exit code, and the results.
fn check(rig: &Rig) -> anyhow::Result<(Option<i32>, Results)> {
    let mut command = Command::new(binary(AGENT)?);
    command
        .args(["check", "-o", "json", "--config"])
        .arg(&rig.node.config);
    let output = command.output()?;
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = document["checks"].as_array().context("no checks")?;
    let results = checks
        .iter()
        .map(|one| (text(&one["id"]), text(&one["result"])));
    Ok((output.status.code(), results.collect()))
}

/// Waits until exactly these checks fail, and exactly these are skipped.
fn expect(rig: &Rig, fault: &str, errors: &str, skipped: &str) -> anyhow::Result<()> {
    until(fault, || {
        let (code, results) = check(rig)?;
        let of = |result: &str| {
            let all = results.iter().filter(|one| one.1 == result);
            let ids = all.map(|one| one.0.as_str());
            ids.filter(|id| result != "skipped" || !ABSENT.contains(id))
                .collect::<Vec<_>>()
                .join(" ")
        };
        ensure!(
            of("error") == errors && of("skipped") == skipped,
            "{results:?}"
        );
        ensure!(code == Some(i32::from(!errors.is_empty())), "{code:?}");
        Ok(())
    })
}

#[test]
fn a_fault_of_the_configuration_fails_its_check_alone() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    expect(&rig, "a healthy node", "", "")?;
    let good = fs::read_to_string(&rig.node.config)?;
    let place = rig.directory.path().join("disk");
    let disk = SmallDisk::mount(&place, "size=8m")?;
    disk.fill()?;
    let full = place.join("kubelet").display().to_string();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let taken = listener.local_addr()?.port().to_string();
    let all_else = "files agent runtime cgroups pressure disk disk-speed database mqtt streams ports name certificate proxy dns \
                    cloud clock hub contact pods mappers";
    for (key, value, errors, skipped) in [
        ("heartbeat", "often", "config", all_else),
        ("rootDirectory", &full, "disk", "disk-speed"),
        ("readOnlyPort", &taken, "ports", ""),
        ("websocket.server", "127.0.0.1:1", "hub", ""),
        ("websocket.server", "no-such-host.invalid:1", "dns", CLOUD),
        ("edgeStream.server", "127.0.0.1:1", "streams", ""),
        // only the HTTPS server tells the time
        ("httpServer", "https://127.0.0.1:1", "cloud", "clock"),
    ] {
        rig.node.set(&[(key, value)])?;
        expect(&rig, key, errors, skipped)?;
        fs::write(&rig.node.config, &good)?;
    }
    Ok(())
}

#[test]
fn a_fault_of_a_part_fails_its_check_alone() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    expect(&rig, "a healthy node", "", "")?;

    let key = rig.directory.path().join("node/certs/server.key");
    let own = fs::read(&key)?;
    run(Command::new("openssl")
        .args([
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
        ])
        .arg(&key))?
    .success()?;
    expect(&rig, "another key", "certificate", "")?;
    fs::write(&key, own)?;

    rig.runtime.process.kill()?;
    expect(&rig, "no runtime", "runtime", "")?;
    rig.runtime.process.start_again()?;
    rig.runtime.process.wait_for("serves CRI v1")?;

    rig.node.process.terminate()?;
    expect(&rig, "no agent", "agent", "contact pods mappers")?;
    rig.node.process.start_again()?;
    expect(&rig, "a node that is mended", "", "")?;

    rig.cloud.faults(&["certificate", "expired"])?;
    let errors = "streams cloud hub contact";
    expect(&rig, "an expired certificate", errors, "clock")?;
    rig.cloud.faults(&["certificate", "genuine"])?;
    expect(&rig, "a cloud that is mended", "", "")?;
    rig.cloud.process.kill()?;
    expect(&rig, "no cloud", errors, "clock")
}
