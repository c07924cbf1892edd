//! Forwards queries for other names than the cluster's to the node's resolvers, with a [cache](super::cache).

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use edged::parse_resolv_conf;
use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig},
    net::{DnsError, NetError, NoRecords, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{Name, Record, RecordType},
    },
};
use parking_lot::Mutex;
use tokio::{
    fs::File,
    io::AsyncReadExt,
    sync::Notify,
    time::{Instant, timeout},
};
use tracing::{debug, warn};

use super::{Config, cache::Cache, message::LookupResult};
use crate::config::DNS_PORT;

/// How long one resolver may take for one try …
const TRY_TIMEOUT: Duration = Duration::from_millis(1500);
/// … how often it is tried …
const TRIES: usize = 2;
/// … and how long all resolvers may take together: clients in pods wait for five seconds.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The most records of an answer: a packet of 64 KiB can have 4,096, which take 1 MiB once they are decoded.
const MAX_RECORDS: usize = 512;
/// How many queries one resolver gets over TCP at a time, since their answers can be that large; others wait.
const MAX_OVER_TCP: usize = 16;
/// The longest time for which a record is used, whatever its TTL.
const MAX_TTL: Duration = Duration::from_secs(3600);
/// How often `resolv.conf` is read again.
const REREAD_INTERVAL: Duration = Duration::from_secs(5);
/// The largest `resolv.conf`, bytes.
const MAX_FILE: u64 = 64 * 1024;
/// How often it is checked whether the resolvers forward to this server.
const PROBE_INTERVAL: Duration = Duration::from_secs(300);
/// The most resolvers that are used, as in libc.
const MAX_SERVERS: usize = 3;

/// The node's resolvers.
pub(super) struct Upstreams {
    config: Config,
    /// The addresses of this server, which must not forward to itself.
    own: Vec<SocketAddr>,
    state: Mutex<State>,
    /// A random name: a query for it here comes from one of the resolvers.
    probe: Mutex<Option<Name>>,
    /// Whether the probe was queried here.
    is_probe_seen: AtomicBool,
    /// Whether the resolvers forward to this server.
    is_loop: AtomicBool,
    /// Notified when the resolvers have changed.
    changed: Notify,
}

#[derive(Default)]
struct State {
    servers: Vec<SocketAddr>,
    client: Option<Client>,
    looked: Option<Instant>,
}

/// A client of the resolvers, with its cache; cheap to clone.
#[derive(Clone)]
struct Client {
    resolver: TokioResolver,
    cache: Cache,
}

impl Upstreams {
    pub(super) fn new(config: Config, own: Vec<SocketAddr>) -> Self {
        Self {
            config,
            own,
            state: Mutex::default(),
            probe: Mutex::default(),
            is_probe_seen: AtomicBool::new(false),
            is_loop: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Checks regularly whether the resolvers forward to this server, which would forward to them without end; never returns.
    pub(super) async fn detect_loops(&self) {
        loop {
            self.detect_loop().await;
            // the resolvers were changed, or may have been configured differently
            let _ = timeout(PROBE_INTERVAL, self.changed.notified()).await;
        }
    }

    async fn detect_loop(&self) {
        let Some(Client { resolver, .. }) = self.client().await else {
            return;
        };
        let Ok(name) = Name::from_ascii(format!(
            "probe-{:016x}.edgemesh-probe.",
            clock::rng().random::<u64>()
        )) else {
            return;
        };
        *self.probe.lock() = Some(name.clone());
        // the answer does not matter
        let _ = timeout(TIMEOUT, resolver.lookup(name, RecordType::A)).await;
        let is_loop = self.is_probe_seen.swap(false, Ordering::Relaxed);
        if is_loop && !self.is_loop.load(Ordering::Relaxed) {
            warn!(
                resolv_conf = %self.config.resolv_conf.display(),
                "DNS loop detected: the node's resolvers forward to EdgeMesh, names outside the cluster \
                 fail; set modules.edgeMesh.dns.upstreamServers to other resolvers"
            );
        }
        self.is_loop.store(is_loop, Ordering::Relaxed);
    }

    /// Reports whether this name is the probe's, which proves a loop.
    pub(super) fn is_probe(&self, name: &Name) -> bool {
        let is_probe = self.probe.lock().as_ref() == Some(name);
        if is_probe {
            self.is_probe_seen.store(true, Ordering::Relaxed);
        }
        is_probe
    }

    /// Looks a name up; the result is SERVFAIL if no resolver answers in time, or none is configured.
    pub(super) async fn lookup(&self, name: Name, kind: RecordType) -> LookupResult {
        let Some(client) = self.client().await else {
            return LookupResult::failed();
        };
        if self.is_loop.load(Ordering::Relaxed) {
            return LookupResult::failed();
        }
        if let Some(looked) = client.cache.get(&name, kind, Instant::now()) {
            return looked;
        }
        let (looked, negative_ttl) =
            match timeout(TIMEOUT, client.resolver.lookup(name.clone(), kind)).await {
                Ok(Ok(lookup)) => (positive(&name, lookup.answers()), None),
                Ok(Err(NetError::Dns(DnsError::NoRecordsFound(none)))) => {
                    let ttl = none.negative_ttl;
                    (negative(none), ttl)
                }
                Ok(Err(_)) | Err(_) => (LookupResult::failed(), None),
            };
        client
            .cache
            .insert((name, kind), &looked, negative_ttl, Instant::now());
        looked
    }

    /// Returns a client of the current resolvers.
    async fn client(&self) -> Option<Client> {
        let is_due = |state: &State| {
            state
                .looked
                .is_none_or(|looked| looked.elapsed() >= REREAD_INTERVAL)
        };
        {
            let mut state = self.state.lock();
            if !is_due(&state) {
                return state.client.clone();
            }
            state.looked = Some(Instant::now());
        }
        let servers = self.servers().await;
        let mut state = self.state.lock();
        if servers != state.servers || state.client.is_none() {
            state.client = client(&servers);
            state.servers = servers;
            self.changed.notify_one();
        }
        state.client.clone()
    }

    async fn servers(&self) -> Vec<SocketAddr> {
        let mut servers = self.config.upstreams.clone();
        if servers.is_empty() {
            let text = read(&self.config.resolv_conf).await.unwrap_or_default();
            let written = parse_resolv_conf(&text).servers;
            let addresses = written
                .iter()
                .filter_map(|server| server.parse::<IpAddr>().ok());
            servers = addresses
                .map(|address| (address, DNS_PORT).into())
                .collect();
        }
        servers.retain(|server| !self.own.contains(server));
        servers.truncate(MAX_SERVERS);
        servers
    }
}

/// These records, unless they are too many.
fn positive(name: &Name, answers: &[Record]) -> LookupResult {
    if answers.len() > MAX_RECORDS {
        debug!(%name, records = answers.len(), "DNS answer of more than {MAX_RECORDS} records rejected");
        return LookupResult::failed();
    }
    LookupResult {
        answers: answers.to_vec(),
        authorities: Vec::new(),
        code: ResponseCode::NoError,
    }
}

/// A name without such records.
fn negative(none: NoRecords) -> LookupResult {
    let authorities = none
        .soa
        .map(|soa| soa.into_record_of_rdata())
        .into_iter()
        .collect();
    LookupResult {
        answers: Vec::new(),
        authorities,
        code: none.response_code,
    }
}

/// Builds a client of these servers; `None` if there are none.
fn client(servers: &[SocketAddr]) -> Option<Client> {
    if servers.is_empty() {
        return None;
    }
    let at = |mut connection: ConnectionConfig, port: u16| {
        connection.port = port;
        connection
    };
    let server = |server: &SocketAddr| {
        let both = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
        NameServerConfig::new(
            server.ip(),
            true,
            both.map(|one| at(one, server.port())).into(),
        )
    };
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect());
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.timeout = TRY_TIMEOUT;
    options.attempts = TRIES;
    // hickory's cache limits the number of answers and not their size
    options.cache_size = 0;
    options.max_active_requests = MAX_OVER_TCP;
    options.use_hosts_file = ResolveHosts::Never;
    options.positive_max_ttl = Some(MAX_TTL);
    match builder.build() {
        Ok(resolver) => Some(Client {
            resolver,
            cache: Cache::default(),
        }),
        Err(error) => {
            warn!(%error, "cannot use the node's DNS resolvers");
            None
        }
    }
}

async fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)
        .await?
        .take(MAX_FILE)
        .read_to_string(&mut text)
        .await?;
    Ok(text)
}
