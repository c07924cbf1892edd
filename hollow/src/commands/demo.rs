//! `cloudsim demo`: shows the whole loop.

use std::{path::Path, process::ExitCode, time::Instant};

use anyhow::Context;
use cloudsim::{
    Cloud, Options,
    kubeconfig::{Destination, Entries},
};

use super::{Signals, connect, destination, directories, paste, print_line, stop};
use crate::{
    cli::Access,
    demo::{Seen, Steps, manifests},
    fleet::{self, Fleet},
};

pub(super) async fn run(
    once: bool,
    manifests: Option<&Path>,
    kubeconfig: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    // Fails before a cloud is started in vain.
    let manifests = manifests.map_or_else(manifests::embedded_manifests, manifests::read)?;
    let begun = Instant::now();
    let temporary = tempfile::tempdir().context("there is no temporary directory for the node")?;
    let own = temporary.path().join("cloudsim.kubeconfig");
    let kubeconfig = kubeconfig.unwrap_or(&own);
    let destination = Destination::from(kubeconfig.to_owned());
    destination::check(&destination).await?;
    directories::announce(destination.directory());
    let context = Some(destination.context.clone());
    let options = Options {
        kubeconfig: Some(destination),
        ..Options::default().any_ports()
    };
    let cloud = Cloud::start(options).await?;
    let progress =
        |text: &str| print_line(&format!("{:>7.3} s  {text}", begun.elapsed().as_secs_f64()));
    progress("cloudsim is ready");
    let fleet = Fleet::start(
        cloud.addresses(),
        cloud.token(),
        &fleet::Options::new(1, temporary.path()),
    )
    .await?;
    let node = fleet.nodes().first().context("the demo has no node")?;
    let access = Access {
        kubeconfig: Some(kubeconfig.to_owned()),
        context,
    };
    let connected = connect::connect(&access).await?;
    let steps = Steps {
        client: cloud.client(),
        connected: Some(connected),
        node,
        manifests,
        progress: &progress,
    };
    let outcome = Box::pin(steps.walk()).await;
    let code = match &outcome {
        Ok(seen) => {
            table(seen, begun);
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_line(&format!("demo failed: {error:#}"));
            ExitCode::FAILURE
        }
    };
    let entries = cloud.kubeconfig_entries();
    for line in next_steps(entries.filter(|_| !once), outcome.as_ref().ok()) {
        print_line(&line);
    }
    if !once {
        tokio::select! {
            // cancel-safe: the program ends then.
            () = signals.wait() => {}
            // `stop` reports the panic.
            _ = cloud.wait_panicked() => {}
        }
    }
    stop(Some(fleet), cloud, &mut signals).await?;
    Ok(code)
}

/// Returns what to type next: for the cloud of these entries, which runs on, or for one of the user's own.
fn next_steps(running: Option<&Entries>, seen: Option<&Seen>) -> Vec<String> {
    let program = paste::program();
    let Some(entries) = running else {
        return vec![
            String::new(),
            "Next, start a cloud with a node of your own:".to_owned(),
            format!("  {program} up --nodes 1"),
        ];
    };
    let mut lines = vec![
        String::new(),
        "The demo runs until Ctrl-C. Next, in another terminal:".to_owned(),
    ];
    lines.extend((paste::for_kubectl(entries).iter()).map(|line| format!("  {line}")));
    lines.push("  kubectl get pods -o wide".to_owned());
    if let Some(seen) = seen {
        lines.push(format!("  kubectl logs {}", seen.pod));
        lines.push(format!("  kubectl exec -it {} -- sh", seen.pod));
    }
    lines.push(format!("  {program} devices {}", paste::access(entries)));
    lines.push(format!(
        "Start a cloud of your own with `{program} up --nodes 1`."
    ));
    lines
}

fn table(seen: &Seen, begun: Instant) {
    let after = |at: Instant| format!("{:.3} s", at.duration_since(begun).as_secs_f64());
    print_line("");
    print_line(&format!("{:<28} {:<10} {}", "SEEN", "AFTER", "WHAT"));
    print_line(&format!(
        "{:<28} {:<10} {}",
        "node Ready",
        after(seen.node_ready),
        seen.node
    ));
    print_line(&format!(
        "{:<28} {:<10} {}",
        "pod Running",
        after(seen.pod_running),
        seen.pod
    ));
    for (what, value) in &seen.inside {
        print_line(&format!(
            "{:<28} {:<10} {}",
            what,
            after(seen.looked_inside),
            value
        ));
    }
    for (what, value) in &seen.twin {
        print_line(&format!(
            "{:<28} {:<10} {}",
            what,
            after(seen.twin_followed),
            value
        ));
    }
}
