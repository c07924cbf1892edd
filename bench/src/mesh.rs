//! Measures EdgeMesh on a separate node: a connection through a Service's address compared with one to its endpoint, in turns in one
//! run, and the memory of 500 Services of four endpoints. Needs root for a network namespace.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, ensure};
use e2e::{Rig, until};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use crate::{
    Figure,
    processes::{median, memory},
};

/// The address of the endpoints, and that of the Service.
const ENDPOINT: [u8; 4] = [192, 0, 2, 5];
const SERVICE: [u8; 4] = [10, 96, 7, 7];
const PORT: u16 = 80;
/// How many requests each path gets in turn, and what each request sends and gets.
const REQUESTS: usize = 2000;
const REQUEST: usize = 1024;
/// How many rounds each path gets in turn, and how long a stream lasts.
const ROUNDS: usize = 5;
const STREAM: Duration = Duration::from_secs(1);
/// How many bytes a stream writes at a time.
const PIECE: usize = 128 * 1024;
/// The number of Services whose memory is measured, and of endpoints of each.
const SERVICES: usize = 500;
const ENDPOINTS: usize = 4;
/// How long to wait until what was allocated while the Services arrived is freed.
const SETTLING: Duration = Duration::from_secs(10);

pub(crate) async fn services() -> anyhow::Result<Vec<Figure>> {
    let measuring = || {
        thread::spawn(measure)
            .join()
            .map_err(|_| anyhow!("the benchmark panicked"))?
    };
    tokio::task::spawn_blocking(measuring).await?
}

fn measure() -> anyhow::Result<Vec<Figure>> {
    unshare(CloneFlags::CLONE_NEWNET).context("root may make a network namespace")?;
    for line in ["link set lo up", "address add 192.0.2.5/32 dev lo"] {
        let done = Command::new("ip").args(line.split(' ')).status()?;
        ensure!(done.success(), "ip {line}: {done}");
    }
    let endpoint = answer()?;
    let mut rig = Rig::start()?;
    let without = memory_after_start(&mut rig)?;
    create(
        &rig,
        vec![
            service("measured", SERVICE),
            slice("measured", endpoint.port(), 1),
        ],
    )?;
    rig.node
        .add_after("modules:", "  edgeMesh: {enable: true}")?;
    restart(&mut rig)?;
    let service = SocketAddr::from((SERVICE, PORT));
    until("the Service", || exchange(service))?;
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..REQUESTS {
        direct.push(measure_connection(endpoint)?);
        through.push(measure_connection(service)?);
    }
    let (direct, through) = (median(direct), median(through));
    let (mut direct_stream, mut through_stream) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        direct_stream.push(stream(endpoint)?);
        through_stream.push(stream(service)?);
    }
    let (direct_stream, through_stream) = (median(direct_stream), median(through_stream));
    let taken = many(&mut rig)? - without;
    Ok(vec![
        Figure {
            name: "mesh.request.direct".into(),
            value: direct,
            unit: "µs",
        },
        Figure {
            name: "mesh.request.service".into(),
            value: through,
            unit: "µs",
        },
        Figure {
            name: "mesh.request.times".into(),
            value: through / direct,
            unit: "times",
        },
        Figure {
            name: "mesh.stream.direct".into(),
            value: direct_stream,
            unit: "MB/s",
        },
        Figure {
            name: "mesh.stream.service".into(),
            value: through_stream,
            unit: "MB/s",
        },
        Figure {
            name: "mesh.stream.part".into(),
            value: through_stream / direct_stream * 100.0,
            unit: "%",
        },
        Figure {
            name: "mesh.500-services".into(),
            value: taken,
            unit: "MB",
        },
    ])
}

fn service(name: &str, address: [u8; 4]) -> Value {
    let address = std::net::Ipv4Addr::from(address).to_string();
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {
        "clusterIP": address, "ports": [{"port": PORT, "protocol": "TCP"}]}})
}

fn slice(name: &str, port: u16, endpoints: usize) -> Value {
    let [a, b, c, d] = ENDPOINT;
    let endpoints: Vec<Value> = (0..endpoints)
        .map(|number| json!({"addresses": [format!("{a}.{b}.{c}.{}", usize::from(d) + number)], "conditions": {"ready": true}}))
        .collect();
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "endpoints": endpoints, "ports": [{"name": "", "port": port, "protocol": "TCP"}]})
}

fn create(rig: &Rig, items: Vec<Value>) -> anyhow::Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = rig.directory.path().join("services.json");
    std::fs::write(&file, list.to_string())?;
    rig.cloud
        .kubectl
        .run(&["create", "-f", &file.display().to_string()])
        .map(drop)
}

fn restart(rig: &mut Rig) -> anyhow::Result<()> {
    rig.node.process.terminate()?;
    rig.node.process.start_again()?;
    rig.node.process.wait_for("edge-agent started")
}

/// Returns the agent's memory when it is idle after a start, in megabytes.
fn memory_after_start(rig: &mut Rig) -> anyhow::Result<f64> {
    restart(rig)?;
    thread::sleep(SETTLING);
    Ok(memory(rig.node.process.id().context("the agent does not run")?)?.anonymous)
}

/// Returns the same with the Services that are to be measured.
fn many(rig: &mut Rig) -> anyhow::Result<f64> {
    let numbers =
        || (0..SERVICES).map(|number| (format!("service-{number}"), number.to_be_bytes()));
    let services =
        numbers().map(|(name, bytes)| service(&name, [10, 96, 100 + bytes[6], bytes[7]]));
    let slices = numbers().map(|(name, _)| slice(&name, 9, ENDPOINTS));
    create(rig, services.chain(slices).collect())?;
    let last = SocketAddr::from(([10, 96, 101, 243], PORT));
    let is_there = || TcpStream::connect_timeout(&last, Duration::from_secs(1)).map(drop);
    until("the last Service", is_there)?;
    memory_after_start(rig)
}

/// Starts an endpoint that echoes the first kilobyte of each connection and discards the rest.
fn answer() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::from(ENDPOINT), 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        // It serves one connection at a time, as the clients use it.
        while let Ok((mut stream, _)) = listener.accept() {
            let answered = stream
                .read_exact(&mut piece[..REQUEST])
                .and_then(|()| stream.write_all(&piece[..REQUEST]));
            while answered.is_ok() && matches!(stream.read(&mut piece), Ok(1..)) {}
        }
    });
    Ok(address)
}

fn begin(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut bytes = [7; REQUEST];
    stream.write_all(&bytes)?;
    stream.read_exact(&mut bytes)?;
    Ok(stream)
}

fn exchange(address: SocketAddr) -> anyhow::Result<()> {
    begin(address).map(drop)
}

/// Returns how long a connection with one request takes, in microseconds.
fn measure_connection(address: SocketAddr) -> anyhow::Result<f64> {
    let begun = Instant::now();
    exchange(address)?;
    Ok(begun.elapsed().as_secs_f64() * 1e6)
}

/// Returns the throughput of one stream in megabytes a second, until the other end has read all of it.
fn stream(address: SocketAddr) -> anyhow::Result<f64> {
    let mut stream = begin(address)?;
    let (piece, begun, mut sent) = (vec![7; PIECE], Instant::now(), 0.0);
    while begun.elapsed() < STREAM {
        stream.write_all(&piece)?;
        sent += piece.len() as f64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // The other end closes when it has read everything.
    ensure!(stream.read(&mut [0])? == 0, "what was not to come");
    Ok(sent / begun.elapsed().as_secs_f64() / 1e6)
}
