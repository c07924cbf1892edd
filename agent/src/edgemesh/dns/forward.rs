//! The node's resolvers: asked for all that is not the cluster's, with a [cache](super::cache).

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

use super::{Config, cache::Cache, message::Looked};
use crate::{config::DNS_PORT, edged::parse_resolv_conf};

/// One resolver is given so long for one try …
const TRY_TIMEOUT: Duration = Duration::from_millis(1500);
/// … so often …
const TRIES: usize = 2;
/// … and all of them together so long: clients in pods wait for five seconds.
const TIMEOUT: Duration = Duration::from_secs(4);
/// An answer of more records is refused: a packet of 64 KiB has 4,096 of them, which take 1 MiB once they are read.
const MAX_RECORDS: usize = 512;
/// Questions that are with one resolver over TCP at a time, each of which may be answered by so much; others wait.
const MAX_OVER_TCP: usize = 16;
/// Records count for no longer, whatever they say.
const MAX_TTL: Duration = Duration::from_secs(3600);
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
    client: Option<Client>,
    looked: Option<Instant>,
}

/// A client of resolvers, with what they have said; cheap to clone.
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
        let Some(Client { resolver, .. }) = self.client().await else { return };
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
        let Some(client) = self.client().await else { return Looked::failed() };
        if self.is_circle.load(Ordering::Relaxed) {
            return Looked::failed();
        }
        if let Some(looked) = client.cache.get(&name, kind, Instant::now().into_std()) {
            return looked;
        }
        let (looked, negative_ttl) = match timeout(TIMEOUT, client.resolver.lookup(name.clone(), kind)).await
        {
            Ok(Ok(lookup)) => (positive(&name, lookup.answers()), None),
            Ok(Err(NetError::Dns(DnsError::NoRecordsFound(none)))) => {
                let ttl = none.negative_ttl;
                (negative(none), ttl)
            }
            Ok(Err(_)) | Err(_) => (Looked::failed(), None),
        };
        client.cache.insert((name, kind), &looked, negative_ttl, Instant::now().into_std());
        looked
    }

    /// A client of the resolvers of now.
    async fn client(&self) -> Option<Client> {
        let is_due = |state: &State| state.looked.is_none_or(|looked| looked.elapsed() >= REREAD_INTERVAL);
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
            let addresses = written.iter().filter_map(|server| server.parse::<IpAddr>().ok());
            servers = addresses.map(|address| (address, DNS_PORT).into()).collect();
        }
        servers.retain(|server| !self.own.contains(server));
        servers.truncate(MAX_SERVERS);
        servers
    }
}

/// These records, unless they are too many.
fn positive(name: &Name, answers: &[Record]) -> Looked {
    if answers.len() > MAX_RECORDS {
        debug!(%name, records = answers.len(), "an answer of more than {MAX_RECORDS} records is refused");
        return Looked::failed();
    }
    Looked { answers: answers.to_vec(), authorities: Vec::new(), code: ResponseCode::NoError }
}

/// A name without such records.
fn negative(none: NoRecords) -> Looked {
    let authorities = none.soa.map(|soa| soa.into_record_of_rdata()).into_iter().collect();
    Looked { answers: Vec::new(), authorities, code: none.response_code }
}

/// A client of these servers; none where there are none.
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
        NameServerConfig::new(server.ip(), true, both.map(|one| at(one, server.port())).into())
    };
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect());
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.timeout = TRY_TIMEOUT;
    options.attempts = TRIES;
    // it counts answers, however long they are
    options.cache_size = 0;
    options.max_active_requests = MAX_OVER_TCP;
    options.use_hosts_file = ResolveHosts::Never;
    options.positive_max_ttl = Some(MAX_TTL);
    match builder.build() {
        Ok(resolver) => Some(Client { resolver, cache: Cache::default() }),
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
