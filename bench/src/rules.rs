//! Measures rules, with each program as a process: requests from the router through `ServiceBus` to a local HTTP service and back,
//! compared with the same requests sent directly; and MQTT messages that reach a target in the cloud.

use std::{
    convert::Infallible,
    fs,
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use e2e::{AGENT, Cloud, Mounts, Node, Ports, Process, Rig, Runtime};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kubeapi::{Body, gather, serve::Server};
use rumqttc::{AsyncClient, Broker, MqttOptions, PublishOptions, QoS};
use tempfile::TempDir;
use testkit::{LONG_TIMEOUT, eventually};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Figure;

/// The divisor for development builds, which run less: they only show that everything works, and their figures mean little.
const PART: u32 = if cfg!(debug_assertions) { 10 } else { 1 };
/// How many requests are timed one after the other.
const TIMED: usize = 500 / PART as usize;
/// How many requests are in flight when throughput is measured.
const AT_ONCE: usize = 32;
/// How long requests are sent.
const SENDING: Duration = Duration::from_millis(5_000 / PART as u64);
/// The number of MQTT messages.
const MESSAGES: usize = 10_000 / PART as usize;
/// The most messages in flight: the agent keeps 512 until they are on disk, and drops more.
const UNDER_WAY: usize = 400;
/// How often it is checked whether there are fewer.
const PACE: Duration = Duration::from_millis(1);
/// The number of topics that are used in turn, like as many sensors: messages of one topic reach the target one after the other.
const TOPICS: usize = 16;
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// Measures requests and messages.
pub(crate) async fn rules() -> anyhow::Result<Vec<Figure>> {
    let echo = Echo::start().await?;
    let port = echo.address.port();
    let world = tokio::task::spawn_blocking(move || World::start(port)).await??;
    let measured = measure(&world, &echo).await;
    tokio::task::spawn_blocking(move || drop(world)).await?;
    measured
}

async fn measure(world: &World, echo: &Echo) -> anyhow::Result<Vec<Figure>> {
    let client: HttpClient = Client::builder(TokioExecutor::new()).build_http();
    let through = format!(
        "http://127.0.0.1:{}/{}/default/echo",
        world.router,
        e2e::NODE
    );
    ready(&client, &through).await;
    let direct = format!("http://{}/echo", echo.address);
    let mut figures = Vec::new();
    for (url, names) in [
        (
            direct,
            [
                "rules.echo-direct-p50",
                "rules.echo-direct-p99",
                "rules.echo-direct",
            ],
        ),
        (through, ["rules.echo-p50", "rules.echo-p99", "rules.echo"]),
    ] {
        let mut took = Vec::with_capacity(TIMED);
        for _ in 0..TIMED {
            let begun = Instant::now();
            ask(&client, &url).await?;
            took.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        took.sort_by(f64::total_cmp);
        let at = |part: f64| took[((took.len() - 1) as f64 * part).round() as usize];
        figures.push(Figure {
            name: names[0].into(),
            value: at(0.5),
            unit: "ms",
        });
        figures.push(Figure {
            name: names[1].into(),
            value: at(0.99),
            unit: "ms",
        });
        figures.push(Figure {
            name: names[2].into(),
            value: many(&client, &url).await?,
            unit: "1/s",
        });
    }
    figures.push(Figure {
        name: "rules.mqtt".into(),
        value: messages(world, echo).await?,
        unit: "1/s",
    });
    Ok(figures)
}

async fn ask(client: &HttpClient, url: &str) -> anyhow::Result<()> {
    let request = Request::post(url).body(Full::new(Bytes::from_static(b"{\"value\": 21.5}")))?;
    let response = client.request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    ensure!(
        status == StatusCode::OK,
        "{status} {}",
        String::from_utf8_lossy(&body)
    );
    Ok(())
}

/// Waits until the node serves requests.
async fn ready(client: &HttpClient, url: &str) {
    eventually("the service is reached", async || ask(client, url).await).await;
}

/// Returns the requests in a second.
async fn many(client: &HttpClient, url: &str) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (client, url) = (client.clone(), url.to_owned());
        tasks.spawn(async move {
            let mut count = 0_usize;
            while begun.elapsed() < SENDING {
                ask(&client, &url).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut all = 0;
    while let Some(count) = tasks.join_next().await {
        all += count??;
    }
    Ok(all as f64 / begun.elapsed().as_secs_f64())
}

/// Returns the messages in a second, from the first publication to the last call of the target.
async fn messages(world: &World, echo: &Echo) -> anyhow::Result<f64> {
    let options = MqttOptions::new("bench", Broker::tcp("127.0.0.1", world.broker));
    let (client, mut events) = AsyncClient::builder(options).capacity(256).build();
    let polling = tokio::spawn(async move { while events.poll().await.is_ok() {} });
    let publish = async |number: usize| {
        let options = PublishOptions::new(QoS::AtLeastOnce);
        let topic = format!("default/readings/{}", number % TOPICS);
        client.publish(topic, "{\"value\": 21.5}", options).await
    };
    // The node has to listen first.
    let (begun, before) = (Instant::now(), echo.count());
    while echo.count() == before {
        publish(0).await?;
        ensure!(
            begun.elapsed() < LONG_TIMEOUT,
            "no message reaches the target"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let mut rest = echo.count();
    loop {
        tokio::time::sleep(POLL_INTERVAL * 10).await;
        let now = echo.count();
        if now == std::mem::replace(&mut rest, now) {
            break;
        }
    }
    let begun = Instant::now();
    for number in 0..MESSAGES {
        while number >= echo.count() - rest + UNDER_WAY {
            ensure!(
                begun.elapsed() < LONG_TIMEOUT,
                "{} of {MESSAGES} messages have come",
                echo.count() - rest
            );
            tokio::time::sleep(PACE).await;
        }
        publish(number).await?;
    }
    while echo.count() < rest + MESSAGES {
        ensure!(
            begun.elapsed() < LONG_TIMEOUT,
            "{} of {MESSAGES} messages have come",
            echo.count() - rest
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let rate = MESSAGES as f64 / begun.elapsed().as_secs_f64();
    polling.abort();
    Ok(rate)
}

/// An HTTP server that echoes requests.
struct Echo {
    address: SocketAddr,
    heard: Arc<AtomicUsize>,
    _stop: DropGuard,
}

impl Echo {
    async fn start() -> anyhow::Result<Self> {
        let heard = Arc::new(AtomicUsize::new(0));
        let all = Arc::clone(&heard);
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let all = Arc::clone(&all);
            async move {
                let body = gather(request.into_body(), 1 << 20)
                    .await
                    .unwrap_or_default();
                all.fetch_add(1, Ordering::Relaxed);
                let body: Body = Full::new(body)
                    .map_err(|never| match never {})
                    .boxed_unsync();
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let server = Server::bind(([127, 0, 0, 1], 0).into(), None, service).await?;
        let (address, stop) = (server.local_addr(), CancellationToken::new());
        tokio::spawn(server.run(stop.clone()));
        Ok(Self {
            address,
            heard,
            _stop: stop.drop_guard(),
        })
    }

    fn count(&self) -> usize {
        self.heard.load(Ordering::Relaxed)
    }
}

/// A cloud with the router, an agent with a broker and `ServiceBus`, and rules to the echo server.
struct World {
    _rig: Rig,
    router: u16,
    broker: u16,
}

impl World {
    fn start(echo: u16) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let (path, ports) = (directory.path(), Ports::free()?);
        let cloud = Cloud::start_with(path, &["--router-port", &ports.api.to_string()])?;
        let runtime = Runtime::start(path)?;
        let config = Node::configure(path, cloud.ports, &cloud.token()?)?;
        let text = fs::read_to_string(&config)?;
        let text = text.replace("mqttMode: 2", "mqttMode: 0");
        let text = text.replace(
            "tcp://127.0.0.1:1884",
            &format!("tcp://127.0.0.1:{}", ports.node),
        );
        let service_bus = format!(
            "modules:\n  serviceBus:\n    enable: true\n    port: {}\n",
            ports.https
        );
        // The node's message rate is not limited.
        let text = text.replacen("modules:\n", &service_bus, 1).replacen(
            "  edgeHub:\n",
            "  edgeHub:\n    messageQPS: 0\n",
            1,
        );
        fs::write(&config, text)?;
        let mut process = Process::start(AGENT, quiet(&config)?, path)?;
        cloud.wait_node("Ready").context("the node does not join")?;
        cloud.kubectl.apply(&manifests(echo))?;
        let node = Node {
            process: {
                process.runs();
                process
            },
            config,
            pods: path.join("node/kubelet/pods"),
            port: cloud.ports.node,
            mounts: Mounts::below(path),
        };
        let rig = Rig {
            node,
            runtime,
            cloud,
            directory,
        };
        Ok(Self {
            _rig: rig,
            router: ports.api,
            broker: ports.node,
        })
    }
}

/// Returns the agent's command with the log level of normal service, without a line for each message.
fn quiet(config: &std::path::Path) -> anyhow::Result<Command> {
    let mut command = Command::new(e2e::binary(AGENT)?);
    command.arg("--config").arg(config);
    Ok(command)
}

fn manifests(echo: u16) -> String {
    format!(
        "
apiVersion: rules.kubeedge.io/v1
kind: RuleEndpoint
metadata: {{name: rest}}
spec: {{ruleEndpointType: rest}}
---
apiVersion: rules.kubeedge.io/v1
kind: RuleEndpoint
metadata: {{name: mqtt}}
spec: {{ruleEndpointType: eventbus}}
---
apiVersion: rules.kubeedge.io/v1
kind: RuleEndpoint
metadata: {{name: service}}
spec: {{ruleEndpointType: servicebus, properties: {{service_port: '{echo}'}}}}
---
apiVersion: rules.kubeedge.io/v1
kind: Rule
metadata: {{name: echo}}
spec: {{source: rest, sourceResource: {{path: echo}}, target: service, targetResource: {{path: /echo}}}}
---
apiVersion: rules.kubeedge.io/v1
kind: Rule
metadata: {{name: readings}}
spec:
  source: mqtt
  sourceResource: {{topic: readings/+, node_name: {}}}
  target: rest
  targetResource: {{resource: 'http://127.0.0.1:{echo}/readings'}}
",
        e2e::NODE
    )
}
