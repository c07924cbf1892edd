//! What `cloudsim up` shows when it is ready: the address of the API, and how to use, join and stop the cloud.

use std::{net::SocketAddr, time::Duration};

use cloudsim::{Addresses, Cloud, kubeconfig::Entries};
use wire::text::count;

use super::{join_line, paste, screen::Line};
use crate::{cli::Up, reach::Reach};

/// Returns the screen of a cloud with this API, this description of its data and this number of simulated nodes.
pub(super) fn lines(
    up: &Up,
    reach: &Reach,
    (api, data, number): (&str, String, usize),
    cloud: &Cloud,
    took: Duration,
) -> Vec<Line> {
    let mut lines = vec![
        Line::Title(format!(
            "cloudsim is ready after {:.1} s",
            took.as_secs_f64()
        )),
        Line::Blank,
    ];
    let addresses = cloud.addresses();
    let label = if addresses.api.is_some() {
        "API"
    } else {
        "Cluster"
    };
    lines.push(Line::Value(label, api.to_owned()));
    if let Some(path) = cloud.login_path() {
        // the journal has more readers than a terminal
        let page = match is_service() {
            true => "`cloudsim ui` prints a login link".to_owned(),
            false => format!("{api}{path}"),
        };
        lines.push(Line::Value("Page", page));
    } else if let Some(page) = addresses.page {
        let url = format!("https://{}/ui/", reach.display_address(page));
        lines.push(Line::Value("Page", url));
    }
    if addresses.api.is_some() {
        lines.push(Line::Value("Nodes", nodes(number)));
        lines.push(Line::Value("Data", data));
    }
    lines.push(Line::Value("Ports", ports(addresses)));
    let others = [
        ("Kubelets", "https", addresses.kubelets),
        ("Health", "http", addresses.health),
    ];
    for (label, scheme, at) in others {
        if let Some(at) = at {
            lines.push(Line::Value(
                label,
                format!("{scheme}://{}", reach.display_address(at)),
            ));
        }
    }
    if let Some(router) = addresses.router {
        let scheme = if router.ip().is_loopback() {
            "http"
        } else {
            "https"
        };
        let url = format!("{scheme}://{}", reach.display_address(router));
        lines.push(Line::Value("Router", url));
    }
    lines.push(Line::Blank);
    match cloud.kubeconfig_entries() {
        Some(entries) => lines.extend(next(entries, reach, addresses)),
        // The token itself is not printed: this may be a pod's log, which more people read than Secrets.
        None => lines.extend([
            Line::Text(
                "Print the join token for nodes, with a kubeconfig of the cluster:".to_owned(),
            ),
            Line::Command(format!("{} token --kubeconfig FILE", paste::program())),
        ]),
    }
    lines.push(Line::Blank);
    lines.push(Line::Note(match &up.detached {
        Some(log) => format!(
            "Runs in the background. Stop it with `{} down{}`; its log is {}",
            paste::program(),
            cloud
                .kubeconfig_entries()
                .map_or_else(String::new, |entries| {
                    format!(" {}", paste::access(entries))
                }),
            log.display()
        ),
        None if is_service() => "Stop it with `systemctl stop cloudsim`".to_owned(),
        None => "Stop it with Ctrl-C".to_owned(),
    }));
    lines
}

/// Reports whether systemd runs this program as a service.
fn is_service() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

fn nodes(nodes: usize) -> String {
    match nodes {
        0 => {
            "none; join a machine as below, or start cloudsim with `--nodes 1` for a simulated one"
                .to_owned()
        }
        nodes => format!("{} Ready (simulated)", count(nodes, "node")),
    }
}

/// Describes where the data is. A misspelled path is noticed because its directory is new.
pub(super) fn data(up: &Up, is_new: bool) -> String {
    match &up.data_dir {
        Some(directory) if is_new => format!("{} (new directory)", paste::path(directory)),
        Some(directory) => paste::path(directory),
        None => "in memory until cloudsim stops; `--data-dir DIR` stores it".to_owned(),
    }
}

/// Returns the ports at which nodes find the servers.
fn ports(at: Addresses) -> String {
    let named = [
        ("CloudHub", Some(at.websocket)),
        ("certificates", Some(at.https)),
        ("logs and exec", at.tunnel),
        ("QUIC", at.quic),
        ("relay", at.relay),
    ];
    let port = |(name, at): (&str, Option<SocketAddr>)| Some(format!("{} {name}", at?.port()));
    named
        .into_iter()
        .filter_map(port)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns how to use the cloud.
fn next(entries: &Entries, reach: &Reach, at: Addresses) -> Vec<Line> {
    let mut lines = vec![Line::Text("Use it:".to_owned())];
    lines.extend(paste::for_kubectl(entries).into_iter().map(Line::Command));
    lines.push(Line::Command("kubectl get nodes".to_owned()));
    lines.push(Line::Blank);
    let token = format!("{} token {}", paste::program(), paste::access(entries));
    lines.extend(join_line::lines(reach, at, &token));
    lines
}
