//! Rows of services and their endpoints.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    cells::{name, pairs, selector, since_creation, text_or},
    printer::{AGE, NAME, Printer, default_column, wide},
};
use crate::object::{items, text, text_or_empty};

/// How many endpoints a row shows.
const MAX_SHOWN_ENDPOINTS: usize = 3;

pub(super) const SERVICE: Printer = Printer {
    columns: &[
        NAME,
        default_column("Type"),
        default_column("Cluster-IP"),
        default_column("External-IP"),
        default_column("Port(s)"),
        AGE,
        wide("Selector"),
    ],
    cells: service,
};

pub(super) const ENDPOINTS: Printer = Printer {
    columns: &[NAME, default_column("Endpoints"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            endpoints(object).into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const ENDPOINT_SLICE: Printer = Printer {
    columns: &[
        NAME,
        default_column("AddressType"),
        default_column("Ports"),
        default_column("Endpoints"),
        AGE,
    ],
    cells: |object, now| {
        let ports = items(object, "/ports").iter().map(|port| {
            port.get("port")
                .and_then(Value::as_i64)
                .map_or_else(|| "*".to_owned(), |port| port.to_string())
        });
        let addresses = items(object, "/endpoints")
            .iter()
            .flat_map(|endpoint| items(endpoint, "/addresses"));
        let addresses = addresses.map(|address| address.as_str().unwrap_or_default().to_owned());
        vec![
            name(object),
            text_or_empty(object, "/addressType").into(),
            some_of(ports, "<unset>").into(),
            some_of(addresses, "<unset>").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const INGRESS: Printer = Printer {
    columns: &[
        NAME,
        default_column("Class"),
        default_column("Hosts"),
        default_column("Address"),
        default_column("Ports"),
        AGE,
    ],
    cells: |object, now| {
        let hosts = items(object, "/spec/rules")
            .iter()
            .map(|rule| text_or_empty(rule, "/host"));
        let hosts = hosts.filter(|host| !host.is_empty()).map(str::to_owned);
        let points = items(object, "/status/loadBalancer/ingress").iter();
        let addresses: Vec<_> = points
            .filter_map(|point| text(point, "/ip").or_else(|| text(point, "/hostname")))
            .collect();
        let has_tls = !items(object, "/spec/tls").is_empty();
        vec![
            name(object),
            text_or(object, "/spec/ingressClassName", "<none>").into(),
            some_of(hosts, "*").into(),
            addresses.join(",").into(),
            if has_tls { "80, 443" } else { "80" }.into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const SERVICE_CIDR: Printer = Printer {
    columns: &[NAME, default_column("CIDRs"), AGE],
    cells: |object, now| {
        let ranges: Vec<_> = items(object, "/spec/cidrs")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        vec![
            name(object),
            ranges.join(",").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const IP_ADDRESS: Printer = Printer {
    columns: &[NAME, default_column("ParentRef")],
    cells: |object, _| {
        let of = |field: &str| text_or_empty(object, &format!("/spec/parentRef/{field}"));
        let holder = match of("group") {
            "" => of("resource").to_owned(),
            group => format!("{}.{group}", of("resource")),
        };
        let place = [holder.as_str(), of("namespace"), of("name")];
        let place: Vec<_> = place.into_iter().filter(|part| !part.is_empty()).collect();
        vec![
            name(object),
            if place.is_empty() {
                "<none>".into()
            } else {
                place.join("/").into()
            },
        ]
    },
};

pub(super) const INGRESS_CLASS: Printer = Printer {
    columns: &[
        NAME,
        default_column("Controller"),
        default_column("Parameters"),
        AGE,
    ],
    cells: |object, now| {
        let of = |field| text_or_empty(object, field);
        let parameters = match (of("/spec/parameters/kind"), of("/spec/parameters/apiGroup")) {
            ("", _) => "<none>".to_owned(),
            (kind, "") => format!("{kind}/{}", of("/spec/parameters/name")),
            (kind, group) => format!("{kind}.{group}/{}", of("/spec/parameters/name")),
        };
        vec![
            name(object),
            of("/spec/controller").into(),
            parameters.into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const POLICY: Printer = Printer {
    columns: &[NAME, default_column("Pod-Selector"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            selector(object.pointer("/spec/podSelector")).into(),
            since_creation(object, now),
        ]
    },
};

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text_or_empty(object, "/spec/type").into(),
        text_or(object, "/spec/clusterIP", "<none>").into(),
        external_ip(object).into(),
        ports(object).into(),
        since_creation(object, now),
        pairs(object.pointer("/spec/selector")).into(),
    ]
}

fn external_ip(service: &Value) -> String {
    let texts = |pointer| items(service, pointer).iter().filter_map(Value::as_str);
    let ingress = items(service, "/status/loadBalancer/ingress").iter();
    let ingress =
        ingress.filter_map(|point| text(point, "/ip").or_else(|| text(point, "/hostname")));
    let (addresses, none): (Vec<_>, _) = match text_or_empty(service, "/spec/type") {
        "ClusterIP" | "NodePort" => (texts("/spec/externalIPs").collect(), "<none>"),
        "LoadBalancer" => (
            ingress.chain(texts("/spec/externalIPs")).collect(),
            "<pending>",
        ),
        "ExternalName" => (
            text(service, "/spec/externalName").into_iter().collect(),
            "",
        ),
        _ => (Vec::new(), "<unknown>"),
    };
    if addresses.is_empty() {
        none.to_owned()
    } else {
        addresses.join(",")
    }
}

fn ports(service: &Value) -> String {
    let number = |port: &Value, field| port.get(field).and_then(Value::as_i64).unwrap_or_default();
    let port = |port: &Value| {
        let protocol = text_or(port, "/protocol", "TCP").to_owned();
        match number(port, "nodePort") {
            0 => format!("{}/{protocol}", number(port, "port")),
            node_port => format!("{}:{node_port}/{protocol}", number(port, "port")),
        }
    };
    let ports: Vec<_> = items(service, "/spec/ports").iter().map(port).collect();
    if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    }
}

/// Returns each ready address with each port.
fn endpoints(object: &Value) -> String {
    let subset = |subset: &Value| -> Vec<String> {
        let addresses = || {
            items(subset, "/addresses")
                .iter()
                .map(|address| text_or_empty(address, "/ip"))
        };
        let ports = items(subset, "/ports")
            .iter()
            .filter_map(|port| port.get("port").and_then(Value::as_i64));
        let ports: Vec<_> = ports.collect();
        if ports.is_empty() {
            return addresses().map(str::to_owned).collect();
        }
        ports
            .iter()
            .flat_map(|port| addresses().map(move |address| join(address, *port)))
            .collect()
    };
    some_of(items(object, "/subsets").iter().flat_map(subset), "<none>")
}

fn join(address: &str, port: i64) -> String {
    if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}

/// Returns the first few, and how many more there are.
fn some_of(all: impl Iterator<Item = String>, none: &str) -> String {
    let all: Vec<_> = all.collect();
    match (all.is_empty(), all.get(..MAX_SHOWN_ENDPOINTS)) {
        (true, _) => none.to_owned(),
        (_, Some(few)) if all.len() > MAX_SHOWN_ENDPOINTS => {
            format!(
                "{} + {} more...",
                few.join(","),
                all.len() - MAX_SHOWN_ENDPOINTS
            )
        }
        _ => all.join(","),
    }
}
