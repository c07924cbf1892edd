//! `cloudsim demo`: shows the whole loop.

use std::{path::Path, process::ExitCode};

use agent::terminal::wrap;
use anyhow::{Context, bail};
use clock::Instant;
use cloudsim::{
    Cloud, Options,
    kubeconfig::{Destination, Entries},
};
use wire::text::with_causes;

use super::{
    Nodes, Signals, connect, destination, paste,
    screen::{Line, Screen},
    stop,
    table::Table,
};
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
    let temporary =
        tempfile::tempdir().context("cannot create a temporary directory for the node")?;
    let own = temporary.path().join("cloudsim.kubeconfig");
    let kubeconfig = kubeconfig.unwrap_or(&own);
    let destination = Destination::from(kubeconfig.to_owned());
    destination::check(&destination).await?;
    let context = Some(destination.context.clone());
    let options = Options {
        kubeconfig: Some(destination),
        ..Options::default().any_ports()
    };
    let cloud = Cloud::start(options).await?;
    let screen = Screen::of_stdout();
    let progress = |text: &str| {
        let time = format!("{:>7.3} s", begun.elapsed().as_secs_f64());
        screen.write(&[Line::Step(time, text.to_owned())]);
    };
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
    let outcome = clock::select! {
        // cancel-safe: the program ends then.
        outcome = Box::pin(steps.walk()) => outcome,
        () = signals.wait() => {
            stop(Nodes::Temporary(fleet), cloud, &mut signals).await?;
            bail!("demo stopped by a signal before all steps were done");
        }
    };
    let code = match &outcome {
        Ok(seen) => {
            screen.write(&summary(seen, begun));
            ExitCode::SUCCESS
        }
        Err(error) => {
            screen.write(&[Line::Failure(format!(
                "demo failed: {}",
                with_causes(error.as_ref())
            ))]);
            ExitCode::FAILURE
        }
    };
    let entries = cloud.kubeconfig_entries();
    screen.write(&next_steps(
        entries.filter(|_| !once),
        outcome.as_ref().ok(),
    ));
    if !once {
        clock::select! {
            // cancel-safe: the program ends then.
            () = signals.wait() => {}
            // `stop` reports the panic.
            _ = cloud.wait_panicked() => {}
        }
    }
    stop(Nodes::Temporary(fleet), cloud, &mut signals).await?;
    Ok(code)
}

/// Returns what to type next: for the cloud of these entries, which runs on, or for one of the user's own.
fn next_steps(running: Option<&Entries>, seen: Option<&Seen>) -> Vec<Line> {
    let program = paste::program();
    let own = Line::Command(format!("{program} up --nodes 1"));
    let Some(entries) = running else {
        let title = "Next, start a cloud with a node of your own:".to_owned();
        return vec![Line::Blank, Line::Row(title), own];
    };
    let title = "The demo runs until Ctrl-C. Next, in another terminal:".to_owned();
    let mut lines = vec![Line::Blank, Line::Row(title)];
    lines.extend(paste::for_kubectl(entries).into_iter().map(Line::Command));
    lines.push(Line::Command("kubectl get pods -o wide".to_owned()));
    if let Some(seen) = seen {
        lines.push(Line::Command(format!("kubectl logs {}", seen.pod)));
        lines.push(Line::Command(format!(
            "kubectl exec -it {} -- sh",
            seen.pod
        )));
    }
    let access = paste::access(entries);
    lines.push(Line::Command(format!("{program} devices {access}")));
    lines.push(Line::Row("Start a cloud of your own with:".to_owned()));
    lines.push(own);
    lines
}

/// The width of the summary.
const WIDTH: usize = 80;

/// Returns a table of the steps, for a terminal of 80 columns.
fn summary(seen: &Seen, begun: Instant) -> Vec<Line> {
    let mut rows = vec![
        ("node Ready", seen.node_ready, seen.node.as_str()),
        ("pod Running", seen.pod_running, seen.pod.as_str()),
    ];
    for (at, found) in [
        (seen.looked_inside, &seen.inside),
        (seen.twin_followed, &seen.twin),
    ] {
        rows.extend(
            found
                .iter()
                .map(|(what, value)| (what.as_str(), at, value.as_str())),
        );
    }
    let mut table = Table::new(&["STEP", "AFTER", "RESULT"]);
    let widest = rows.iter().map(|(what, ..)| what.len()).max().unwrap_or(0);
    for (what, at, value) in rows {
        let after = format!("{:.3} s", at.duration_since(begun).as_secs_f64());
        // two gaps of three
        let room = WIDTH.saturating_sub(widest + after.len() + 6);
        let mut cells = vec![what.to_owned(), after];
        for part in wrap(value, room) {
            cells.push(part);
            table.row(std::mem::replace(
                &mut cells,
                vec![String::new(), String::new()],
            ));
        }
    }
    let text = table.to_string();
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default().to_owned();
    let mut all = vec![Line::Blank, Line::Heading(head)];
    all.extend(lines.map(|line| Line::Row(line.to_owned())));
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn summary_fits_into_80_columns() {
        let begun = Instant::now();
        let at = begun + Duration::from_millis(1234);
        let paths: Vec<String> = (0..6).map(|n| format!("/etc/hello/config/{n}")).collect();
        let seen = Seen {
            node: "edge-1".to_owned(),
            node_ready: at,
            pod: "hello".to_owned(),
            pod_running: at,
            looked_inside: at,
            inside: vec![("config as environment".to_owned(), paths.join(", "))],
            twin_followed: at,
            twin: vec![("twin follows".to_owned(), "target is 25".to_owned())],
        };
        let lines = summary(&seen, begun);
        assert!(
            matches!(&lines[1], Line::Heading(head) if head.starts_with("STEP ")),
            "{lines:?}"
        );
        let mut rows = Vec::new();
        for line in &lines[2..] {
            let Line::Row(row) = line else {
                panic!("{line:?}")
            };
            assert!(row.chars().count() <= WIDTH, "{row}");
            rows.push(row.as_str());
        }
        let column = rows[0].find("edge-1").unwrap();
        for row in &rows {
            assert_eq!(row.chars().nth(column - 1), Some(' '), "{row}");
            assert_ne!(row.chars().nth(column), Some(' '), "{row}");
        }
        assert!(
            rows.len() > 5 && rows.join(" ").contains("/etc/hello/config/5"),
            "{rows:?}"
        );
    }
}
