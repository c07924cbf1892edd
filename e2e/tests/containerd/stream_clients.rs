//! Containers by other clients than kubectl's commands: kubectl on a terminal, and kube-rs.

use std::path::Path;

use anyhow::{Context, ensure};
use e2e::{
    Ports,
    containerd::{IMAGE, RealRig},
    run, until,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::AttachParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use testkit::WAIT_TIMEOUT;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::case::{apply, leaves_nothing, pod};

/// What is sent to a port and comes back.
const SENT: usize = 300_000;

#[test]
fn terminals_and_kube_rs() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let address = format!("127.0.0.1:{}", Ports::free()?.api);
    let server = format!("  metaManager: {{metaServer: {{enable: true, server: '{address}'}}}}");
    rig.restart_with_lines(&[("modules:", &server)])?;
    let kubeconfig = rig.node.kubeconfig();
    until("MetaServer's kubeconfig", || {
        ensure!(kubeconfig.exists(), "{}", kubeconfig.display());
        anyhow::Ok(())
    })?;
    let echo = json!({"containers": [{"command": ["sh", "-c", "trap 'exit 0' TERM; nc -ll -p 7000 -e cat & wait"]}]});
    let asks = json!({"containers": [{"command": ["sh", "-c", "while read line; do echo got $line; done"], "stdin": true}]});
    // what was attached to once may end with that
    let names = ["asks-cloud", "asks-node"];
    apply(
        &rig,
        &[
            pod("echo", &echo),
            pod(names[0], &asks),
            pod(names[1], &asks),
        ],
    )?;
    for name in ["echo", names[0], names[1]] {
        rig.wait_ready(name)?;
    }
    terminals(&rig)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    for (kubeconfig, asks) in [
        (rig.cloud.kubeconfig.clone(), names[0]),
        (rig.node.kubeconfig(), names[1]),
    ] {
        let done = runtime.block_on(kube_rs(&kubeconfig, asks));
        done.with_context(|| format!("with {}", kubeconfig.display()))?;
    }
    leaves_nothing(&rig)
}

fn terminals(rig: &RealRig) -> anyhow::Result<()> {
    let mut command = e2e::python("terminals.py")?;
    command.args(["echo", IMAGE]);
    command
        .env("KUBECONFIG", &rig.cloud.kubeconfig)
        .env("HOME", rig.directory.path());
    let said = run(&mut command)?;
    let told = said.clone().success()?.text();
    let told: Value = serde_json::from_str(&told).with_context(|| told.clone())?;
    ensure!(
        told == json!({"run": [true, true, true, 3], "debug": [true, true, true, 0]}),
        "{told}: {}",
        said.stderr
    );
    Ok(())
}

/// Exec, attach and a port by the client of Rust: through the cloud's API, and through MetaServer of the node itself.
async fn kube_rs(kubeconfig: &Path, asks: &str) -> anyhow::Result<()> {
    // fails where another one of this process was first
    let _ = rustls::crypto::ring::default_provider().install_default();
    let read = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    let pods = Api::<Pod>::namespaced(Client::try_from(config)?, "default");
    let params = AttachParams::default().stdin(true).stderr(false);
    let mut process = pods
        .exec(
            "echo",
            ["sh", "-c", "read word; echo read $word; exit 3"],
            &params,
        )
        .await?;
    let mut stdin = process.stdin().context("stdin")?;
    stdin.write_all(b"this\n").await?;
    let mut said = String::new();
    let mut stdout = process.stdout().context("stdout")?;
    timeout(WAIT_TIMEOUT, stdout.read_to_string(&mut said))
        .await
        .context("no end of the command")??;
    ensure!(said == "read this\n", "{said:?}");
    let status = process
        .take_status()
        .context("a status")?
        .await
        .context("it has no status")?;
    ensure!(
        status.reason.as_deref() == Some("NonZeroExitCode"),
        "{status:?}"
    );

    let mut attached = pods.attach(asks, &params).await?;
    let mut stdin = attached.stdin().context("stdin")?;
    stdin.write_all(b"that\n").await?;
    let mut answer = [0; 9];
    let mut stdout = attached.stdout().context("stdout")?;
    timeout(WAIT_TIMEOUT, stdout.read_exact(&mut answer))
        .await
        .context("no answer of what is attached to")??;
    ensure!(&answer == b"got that\n", "{answer:?}");
    attached.abort();

    let mut forwarded = pods.portforward("echo", &[7000]).await?;
    let stream = forwarded
        .take_stream(7000)
        .context("a stream of the port")?;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sent: Vec<u8> = (0..=250).cycle().take(SENT).collect();
    let mut came = vec![0; SENT];
    let write = async { anyhow::Ok(writer.write_all(&sent).await?) };
    let read = async {
        anyhow::Ok(
            timeout(WAIT_TIMEOUT, reader.read_exact(&mut came))
                .await
                .map(drop)?,
        )
    };
    tokio::try_join!(write, read)?;
    ensure!(came == sent, "other bytes come back");
    Ok(())
}
