//! `cloudsim demo`: shows the whole loop.

use std::{path::Path, process::ExitCode, time::Instant};

use anyhow::Context;
use cloudsim::{Cloud, Options, kubeconfig::Destination};

use super::{Signals, connect, destination, directories, paste, print_line, stop};
use crate::{
    cli::Access,
    demo::{Seen, Steps, manifests},
    fleet::{self, Fleet},
};

pub(super) async fn run(
    once: bool,
    manifests: &Path,
    kubeconfig: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    // Fails before a cloud is started in vain.
    let manifests = manifests::read(manifests)?;
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
            print_line(&format!("not everything was seen: {error:#}"));
            ExitCode::FAILURE
        }
    };
    if let Some(entries) = cloud.kubeconfig_entries().filter(|_| !once) {
        print_line("");
        print_line("Go on by hand in another terminal, end here with Ctrl-C:");
        for line in paste::for_kubectl(entries) {
            print_line(&line);
        }
        print_line("  kubectl get pods -o wide");
        if let Ok(seen) = &outcome {
            print_line(&format!("  kubectl logs {}", seen.pod));
            print_line(&format!("  kubectl exec -it {} -- sh", seen.pod));
        }
        print_line(&format!(
            "  {} devices {}",
            paste::program(),
            paste::access(entries)
        ));
        tokio::select! {
            // Both are cancel-safe: the program ends then.
            () = signals.wait() => {}
            // `stop` reports the panic.
            _ = cloud.panicked() => {}
        }
    }
    stop(Some(fleet), cloud, &mut signals).await?;
    Ok(code)
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
