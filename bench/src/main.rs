//! Benchmarks. Prints one JSON object per line: `{"name":…,"value":…,"unit":…,"load":…}`, with the load average of the machine. Arguments
//! name the benchmarks to run; `fleet` runs all whose names begin with it.

mod api;
mod containerd;
mod devices;
mod dns;
mod fanout;
mod fleet;
mod fleet_size;
mod memory;
mod mesh;
mod processes;
mod protocol;
mod quiet;
mod reconnect_storm;
mod rules;
mod twins;
mod wait;

use std::{borrow::Cow, process::ExitCode};

use anyhow::bail;
use futures::future::LocalBoxFuture;
use mimalloc::MiMalloc;
use serde_json::json;

/// The allocator of the two programs, so that what runs in process is measured as it is there.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// One figure.
struct Figure {
    name: Cow<'static, str>,
    value: f64,
    unit: &'static str,
}

impl Figure {
    /// Prints the figure now, with the load of the machine.
    fn print(&self) {
        let Self { name, value, unit } = self;
        print(&json!({"name": name, "value": value, "unit": unit, "load": load()}).to_string());
    }
}

/// A benchmark: its name and the function that measures it. One run may return several figures.
type Bench = (
    &'static str,
    fn() -> LocalBoxFuture<'static, anyhow::Result<Vec<Figure>>>,
);

const BENCHES: [Bench; 22] = [
    // This comes first, while no memory that others have freed can be reused.
    ("api.memory", || Box::pin(memory::objects())),
    ("api.watches", || Box::pin(memory::watches())),
    ("api.creates", || Box::pin(api::creates())),
    ("api.fanout", || Box::pin(fanout::steady())),
    ("fleet.1000-pods-10-nodes", || Box::pin(fleet::converge())),
    ("fleet.memory", || Box::pin(fleet_size::memory())),
    ("fleet.tls", || Box::pin(fleet_size::over_tls())),
    ("fleet.nodes", || Box::pin(fleet_size::sizes())),
    ("reconnect-storm", || {
        Box::pin(reconnect_storm::reconnect_storm())
    }),
    ("twins", || Box::pin(twins::updates())),
    ("devices.report", || Box::pin(devices::reports())),
    ("devices.10000", || Box::pin(devices::many())),
    ("dns", || Box::pin(dns::questions())),
    ("mesh", || Box::pin(mesh::services())),
    ("rules", || Box::pin(rules::rules())),
    ("protocol", || Box::pin(protocol::codec())),
    ("processes", || Box::pin(processes::start())),
    ("containerd", || Box::pin(containerd::pods())),
    ("containerd.idle", || Box::pin(containerd::idle())),
    ("containerd.all-modules", || Box::pin(containerd::modules())),
    ("containerd.ordinary", || Box::pin(containerd::ordinary())),
    ("streams", || Box::pin(containerd::streams())),
];

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::new)
        .and_then(|runtime| runtime.block_on(run(&wanted)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(wanted: &[String]) -> anyhow::Result<()> {
    let chosen = |name: &str| {
        wanted.is_empty()
            || wanted.iter().any(|want| {
                name.strip_prefix(want.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
    };
    let benches: Vec<_> = BENCHES.iter().filter(|(name, _)| chosen(name)).collect();
    if benches.is_empty() {
        let names: Vec<_> = BENCHES.iter().map(|(name, _)| *name).collect();
        bail!("there is no such benchmark; there are {}", names.join(", "));
    }
    for (_, measure) in benches {
        measure().await?.iter().for_each(Figure::print);
    }
    Ok(())
}

/// Returns the average number of running tasks of the last minute, see proc_loadavg(5); null if it is unknown.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[allow(clippy::print_stdout)]
fn print(line: &str) {
    println!("{line}");
}

#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
