//! The node's resolvers: asked for all that is not the cluster's, with a cache that keeps what they say for as long as they say.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig},
    net::{DnsError, NetError, NoRecords, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{Name, RecordType},
    },
};
use parking_lot::Mutex;
use tokio::{
    fs::File,
    io::AsyncReadExt,
    sync::Notify,
    time::{Instant, timeout},
};
use tracing::warn;

use super::{Config, message::Looked};
use crate::{config::DNS_PORT, edged::parse_resolv_conf};

/// One resolver is given so long for one try …
const TRY_TIMEOUT: Duration = Duration::from_millis(1500);
/// … so often …
const TRIES: usize = 2;
/// … and all of them together so long: clients in pods wait for five seconds.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Answers that are kept.
const CACHED: u64 = 1024;
/// An answer is kept for no longer, whatever it says; a negative one for less.
const MAX_TTL: Duration = Duration::from_secs(3600);
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(300);
/// A change of `resolv.conf` is noticed within this time.
const REREAD_INTERVAL: Duration = Duration::from_secs(5);
/// The longest `resolv.conf`.
const MAX_FILE: u64 = 64 * 1024;
/// How often it is looked whether the resolvers ask this server.
const PROBE_INTERVAL: Duration = Duration::from_secs(300);
/// Resolvers that are asked, as libc does.
const MAX_SERVERS: usize = 3;

/// The node's resolvers.
pub(super) struct Upstreams {
    config: Config,
    /// The addresses of this server, which must not ask itself.
    own: Vec<SocketAddr>,
    state: Mutex<State>,
    /// A name that nobody has: who asks for it here is one of the resolvers.
    probe: Mutex<Option<Name>>,
    /// It was asked for.
    is_seen: AtomicBool,
    /// The resolvers ask this server.
    is_circle: AtomicBool,
    /// There are other resolvers.
    changed: Notify,
}

#[derive(Default)]
struct State {
    servers: Vec<SocketAddr>,
    resolver: Option<TokioResolver>,
    looked: Option<Instant>,
}

impl Upstreams {
    pub(super) fn new(config: Config, own: Vec<SocketAddr>) -> Self {
        Self {
            config,
            own,
            state: Mutex::default(),
            probe: Mutex::default(),
            is_seen: AtomicBool::new(false),
            is_circle: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Finds out again and again whether the resolvers ask this server, as they would without end.
    pub(super) async fn look_for_circles(&self) {
        loop {
            self.look_for_circle().await;
            // either: the resolvers are others, or may have been given others
            let _ = timeout(PROBE_INTERVAL, self.changed.notified()).await;
        }
    }

    async fn look_for_circle(&self) {
        let Some(resolver) = self.resolver().await else { return };
        let Ok(name) = Name::from_ascii(format!("probe-{:016x}.edgemesh-probe.", rand::random::<u64>()))
        else {
            return;
        };
        *self.probe.lock() = Some(name.clone());
        // only that it was sent counts
        let _ = timeout(TIMEOUT, resolver.lookup(name, RecordType::A)).await;
        let is_circle = self.is_seen.swap(false, Ordering::Relaxed);
        if is_circle && !self.is_circle.load(Ordering::Relaxed) {
            warn!(
                resolv_conf = %self.config.resolv_conf.display(),
                "the node's resolvers ask EdgeMesh's DNS, which would ask them: names outside the cluster are not resolved; give \
                 modules.edgeMesh.dns.upstreamServers resolvers that do not"
            );
        }
        self.is_circle.store(is_circle, Ordering::Relaxed);
    }

    /// Whether one of the resolvers asks for this name, only to find out whether it does.
    pub(super) fn is_probe(&self, name: &Name) -> bool {
        let is_probe = self.probe.lock().as_ref() == Some(name);
        if is_probe {
            self.is_seen.store(true, Ordering::Relaxed);
        }
        is_probe
    }

    /// What they say; that they failed where none answers in time, or there is none.
    pub(super) async fn lookup(&self, name: Name, kind: RecordType) -> Looked {
        let Some(resolver) = self.resolver().await else { return Looked::failed() };
        if self.is_circle.load(Ordering::Relaxed) {
            return Looked::failed();
        }
        match timeout(TIMEOUT, resolver.lookup(name, kind)).await {
            Ok(Ok(lookup)) => Looked {
                answers: lookup.answers().to_vec(),
                authorities: Vec::new(),
                code: ResponseCode::NoError,
            },
            Ok(Err(NetError::Dns(DnsError::NoRecordsFound(none)))) => negative(none),
            Ok(Err(_)) | Err(_) => Looked::failed(),
        }
    }

    /// A client of the resolvers of now.
    async fn resolver(&self) -> Option<TokioResolver> {
        let is_due = |state: &State| state.looked.is_none_or(|looked| looked.elapsed() >= REREAD_INTERVAL);
        {
            let mut state = self.state.lock();
            if !is_due(&state) {
                return state.resolver.clone();
            }
            state.looked = Some(Instant::now());
        }
        let servers = self.servers().await;
        let mut state = self.state.lock();
        if servers != state.servers || state.resolver.is_none() {
            state.resolver = client(&servers);
            state.servers = servers;
            self.changed.notify_one();
        }
        state.resolver.clone()
    }

    async fn servers(&self) -> Vec<SocketAddr> {
        let mut servers = self.config.upstreams.clone();
        if servers.is_empty() {
            let text = read(&self.config.resolv_conf).await.unwrap_or_default();
            let written = parse_resolv_conf(&text).servers;
            let addresses = written.iter().filter_map(|server| server.parse::<IpAddr>().ok());
            servers = addresses.map(|address| (address, DNS_PORT).into()).collect();
        }
        servers.retain(|server| !self.own.contains(server));
        servers.truncate(MAX_SERVERS);
        servers
    }
}

/// A name without such records.
fn negative(none: NoRecords) -> Looked {
    let authorities = none.soa.map(|soa| soa.into_record_of_rdata()).into_iter().collect();
    Looked { answers: Vec::new(), authorities, code: none.response_code }
}

/// A client of these servers; none where there are none.
fn client(servers: &[SocketAddr]) -> Option<TokioResolver> {
    if servers.is_empty() {
        return None;
    }
    let at = |mut connection: ConnectionConfig, port: u16| {
        connection.port = port;
        connection
    };
    let server = |server: &SocketAddr| {
        let both = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
        NameServerConfig::new(server.ip(), true, both.map(|one| at(one, server.port())).into())
    };
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect());
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.timeout = TRY_TIMEOUT;
    options.attempts = TRIES;
    options.cache_size = CACHED;
    options.use_hosts_file = ResolveHosts::Never;
    options.positive_max_ttl = Some(MAX_TTL);
    options.negative_max_ttl = Some(MAX_NEGATIVE_TTL);
    match builder.build() {
        Ok(resolver) => Some(resolver),
        Err(error) => {
            warn!(%error, "the node's resolvers cannot be asked");
            None
        }
    }
}

async fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path).await?.take(MAX_FILE).read_to_string(&mut text).await?;
    Ok(text)
}
