//! The service `kubernetes`, through which pods reach the API: the first address of the services' range, with an endpoint at which other
//! machines reach this process, if there is one.
//!
//! Source: Kubernetes' control plane (`pkg/controlplane/controller/kubernetesservice`).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use k8s_openapi::{
    api::{
        core::v1::{
            EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service, ServicePort,
            ServiceSpec,
        },
        discovery::v1::{self as discovery, EndpointConditions, EndpointSlice},
        networking::v1::{ServiceCIDR, ServiceCIDRSpec},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;

/// The name of the service.
const NAME: &str = "kubernetes";
/// Its address, the first of the range.
const ADDRESS: &str = "10.96.0.1";
/// The range of services' addresses.
const RANGE: &str = "10.96.0.0/16";
/// The name of its port.
const HTTPS: &str = "https";
/// The field manager.
const MANAGER: &str = "kube-apiserver";

/// Returns the names and the address by which pods call the API, for its certificate.
pub fn names() -> Vec<String> {
    let of_service = ["", ".default", ".default.svc", ".default.svc.cluster.local"];
    let names = of_service.map(|rest| format!("{NAME}{rest}"));
    names.into_iter().chain([ADDRESS.to_owned()]).collect()
}

/// Creates or updates the service, and publishes the range of services' addresses. `names` are those by which other machines reach the
/// API at this port.
pub async fn ensure(client: &Client, port: u16, names: &[String]) -> Result<(), kube::Error> {
    range(client).await?;
    apply(client, &service(port)).await?;
    let Some(advertised) = advertised_address(names, port).or_else(|| of_this_machine(port)) else {
        return Ok(());
    };
    apply(client, &endpoints(advertised)).await?;
    apply(client, &slice(advertised)).await
}

/// Publishes the range of services' addresses as an object.
async fn range(client: &Client) -> Result<(), kube::Error> {
    let metadata = ObjectMeta {
        name: Some(NAME.into()),
        ..ObjectMeta::default()
    };
    let spec = ServiceCIDRSpec {
        cidrs: Some(vec![RANGE.into()]),
    };
    let range = ServiceCIDR {
        metadata,
        spec: Some(spec),
        status: None,
    };
    let api = Api::<ServiceCIDR>::all(client.clone());
    match api.create(&PostParams::default(), &range).await {
        Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
        made => drop(made?),
    }
    let ready = json!({"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready",
        "lastTransitionTime": clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()});
    let status = Patch::Merge(json!({"status": {"conditions": [ready]}}));
    api.patch_status(NAME, &PatchParams::default(), &status)
        .await
        .map(drop)
}

async fn apply<K>(client: &Client, object: &K) -> Result<(), kube::Error>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let ours = PatchParams::apply(MANAGER).force();
    Api::<K>::namespaced(client.clone(), "default")
        .patch(NAME, &ours, &Patch::Apply(object))
        .await
        .map(drop)
}

fn metadata(labels: &[(&str, &str)]) -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.into()),
        namespace: Some("default".into()),
        labels: Some(
            labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        ),
        ..ObjectMeta::default()
    }
}

fn service(port: u16) -> Service {
    let port = ServicePort {
        name: Some(HTTPS.into()),
        port: 443,
        protocol: Some("TCP".into()),
        target_port: Some(IntOrString::Int(port.into())),
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        cluster_ip: Some(ADDRESS.into()),
        ports: Some(vec![port]),
        type_: Some("ClusterIP".into()),
        ..ServiceSpec::default()
    };
    Service {
        metadata: metadata(&[("component", "apiserver"), ("provider", "kubernetes")]),
        spec: Some(spec),
        status: None,
    }
}

fn endpoints(advertised: SocketAddr) -> Endpoints {
    let address = EndpointAddress {
        ip: advertised.ip().to_string(),
        ..EndpointAddress::default()
    };
    let port = EndpointPort {
        name: Some(HTTPS.into()),
        port: advertised.port().into(),
        protocol: Some("TCP".into()),
        ..EndpointPort::default()
    };
    let subset = EndpointSubset {
        addresses: Some(vec![address]),
        ports: Some(vec![port]),
        not_ready_addresses: None,
    };
    let metadata = metadata(&[("endpointslice.kubernetes.io/skip-mirror", "true")]);
    Endpoints {
        metadata,
        subsets: Some(vec![subset]),
    }
}

fn slice(advertised: SocketAddr) -> EndpointSlice {
    let endpoint = discovery::Endpoint {
        addresses: vec![advertised.ip().to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            ..EndpointConditions::default()
        }),
        ..discovery::Endpoint::default()
    };
    let port = discovery::EndpointPort {
        name: Some(HTTPS.into()),
        port: Some(advertised.port().into()),
        protocol: Some("TCP".into()),
        ..discovery::EndpointPort::default()
    };
    EndpointSlice {
        metadata: metadata(&[("kubernetes.io/service-name", NAME)]),
        address_type: if advertised.is_ipv4() { "IPv4" } else { "IPv6" }.into(),
        endpoints: vec![endpoint],
        ports: Some(vec![port]),
    }
}

/// Returns the address at which other machines reach this one, chosen from the names of its certificate.
pub fn advertised_address(names: &[String], port: u16) -> Option<SocketAddr> {
    let addresses = names
        .iter()
        .filter_map(|name| name.parse::<std::net::IpAddr>().ok());
    let mut reachable = addresses.filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
    reachable.next().map(|ip| SocketAddr::new(ip, port))
}

/// Returns the address from which this machine would reach others, for a cloud whose certificate has no address. Nothing is sent.
fn of_this_machine(port: u16) -> Option<SocketAddr> {
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 9));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(elsewhere).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then(|| SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;

    use super::*;
    use crate::controllers::namespace_defaults;

    #[test]
    fn a_loopback_address_is_of_no_use_to_others() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            advertised_address(&names(&["127.0.0.1", "localhost"]), 1),
            None
        );
        assert_eq!(
            advertised_address(&names(&["cloud", "::1", "192.0.2.7"]), 6443),
            Some(([192, 0, 2, 7], 6443).into())
        );
    }

    #[tokio::test]
    async fn the_service_is_there_at_every_start() {
        let client = apiserver::builder(MemoryStore::new())
            .build()
            .client("default");
        namespace_defaults::ensure_initial(&client).await.unwrap();
        let names = ["192.0.2.7".to_owned()];
        for port in [6443, 6444] {
            ensure(&client, port, &names).await.unwrap();
            let spec = Api::<Service>::default_namespaced(client.clone())
                .get(NAME)
                .await
                .unwrap()
                .spec
                .unwrap();
            assert_eq!(spec.cluster_ip.as_deref(), Some(ADDRESS));
            assert_eq!(
                spec.ports.unwrap()[0].target_port,
                Some(IntOrString::Int(port.into()))
            );
        }
        let slice = Api::<EndpointSlice>::default_namespaced(client.clone())
            .get(NAME)
            .await
            .unwrap();
        assert_eq!(slice.endpoints[0].addresses, ["192.0.2.7"]);
        let range = Api::<ServiceCIDR>::all(client.clone())
            .get(NAME)
            .await
            .unwrap();
        assert_eq!(range.spec.unwrap().cidrs.unwrap(), [RANGE]);
        assert_eq!(range.status.unwrap().conditions.unwrap()[0].type_, "Ready");
    }
}
