//! Rows of the kinds that keep pods running.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    cells::{name, pairs, selector, since_creation, text_or},
    printer::{AGE, Column, NAME, Printer, default_column, integer, wide},
};
use crate::object::{items, text, text_or_empty};

const CONTAINERS: Column = wide("Containers");
const IMAGES: Column = wide("Images");
const SELECTOR: Column = wide("Selector");

pub(super) const DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        default_column("Ready"),
        default_column("Up-to-date"),
        default_column("Available"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let ready = format!(
            "{}/{}",
            number(object, "/status/readyReplicas"),
            number(object, "/spec/replicas")
        );
        let [containers, images] = template(object);
        vec![
            name(object),
            ready.into(),
            number(object, "/status/updatedReplicas").into(),
            number(object, "/status/availableReplicas").into(),
            since_creation(object, now),
            containers,
            images,
            selector(object.pointer("/spec/selector")).into(),
        ]
    },
};

pub(super) const REPLICA_SET: Printer = Printer {
    columns: REPLICA_COLUMNS,
    cells: |object, now| replicas(object, selector(object.pointer("/spec/selector")), now),
};

pub(super) const REPLICATION_CONTROLLER: Printer = Printer {
    columns: REPLICA_COLUMNS,
    cells: |object, now| replicas(object, pairs(object.pointer("/spec/selector")), now),
};

const REPLICA_COLUMNS: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn replicas(object: &Value, selector: String, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(object);
    vec![
        name(object),
        number(object, "/spec/replicas").into(),
        number(object, "/status/replicas").into(),
        number(object, "/status/readyReplicas").into(),
        since_creation(object, now),
        containers,
        images,
        selector.into(),
    ]
}

pub(super) const DAEMON_SET: Printer = Printer {
    columns: &[
        NAME,
        integer("Desired"),
        integer("Current"),
        integer("Ready"),
        integer("Up-to-date"),
        integer("Available"),
        default_column("Node Selector"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let [containers, images] = template(object);
        let status = |field: &str| Value::from(number(object, &format!("/status/{field}")));
        vec![
            name(object),
            status("desiredNumberScheduled"),
            status("currentNumberScheduled"),
            status("numberReady"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
            pairs(object.pointer("/spec/template/spec/nodeSelector")).into(),
            since_creation(object, now),
            containers,
            images,
            selector(object.pointer("/spec/selector")).into(),
        ]
    },
};

pub(super) const STATEFUL_SET: Printer = Printer {
    columns: &[NAME, default_column("Ready"), AGE, CONTAINERS, IMAGES],
    cells: |object, now| {
        let ready = format!(
            "{}/{}",
            number(object, "/status/readyReplicas"),
            number(object, "/spec/replicas")
        );
        let [containers, images] = template(object);
        vec![
            name(object),
            ready.into(),
            since_creation(object, now),
            containers,
            images,
        ]
    },
};

pub(super) const CONTROLLER_REVISION: Printer = Printer {
    columns: &[
        NAME,
        default_column("Controller"),
        default_column("Revision"),
        AGE,
    ],
    cells: |object, now| {
        let owners = items(object, "/metadata/ownerReferences");
        let controller = owners
            .iter()
            .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        let controller = controller.map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let version = text_or_empty(owner, "/apiVersion");
                let group = version
                    .split_once('/')
                    .map_or(String::new(), |(group, _)| format!(".{group}"));
                let kind = text_or_empty(owner, "/kind").to_lowercase();
                format!("{kind}{group}/{}", text_or_empty(owner, "/name"))
            },
        );
        vec![
            name(object),
            controller.into(),
            number(object, "/revision").into(),
            since_creation(object, now),
        ]
    },
};

pub(super) const POD_TEMPLATE: Printer = Printer {
    columns: &[
        NAME,
        default_column("Containers"),
        default_column("Images"),
        default_column("Pod Labels"),
    ],
    cells: |object, _| {
        let [containers, images] = names_and_images(items(object, "/template/spec/containers"));
        vec![
            name(object),
            containers,
            images,
            pairs(object.pointer("/template/metadata/labels")).into(),
        ]
    },
};

pub(super) const AUTOSCALER: Printer = Printer {
    columns: &[
        NAME,
        default_column("Reference"),
        default_column("Targets"),
        default_column("MinPods"),
        default_column("MaxPods"),
        default_column("Replicas"),
        AGE,
    ],
    cells: |object, now| {
        let target = |field| text_or_empty(object, field);
        let reference = format!(
            "{}/{}",
            target("/spec/scaleTargetRef/kind"),
            target("/spec/scaleTargetRef/name")
        );
        vec![
            name(object),
            reference.into(),
            targets(object).into(),
            object
                .pointer("/spec/minReplicas")
                .cloned()
                .unwrap_or_else(|| "<unset>".into()),
            number(object, "/spec/maxReplicas").into(),
            number(object, "/status/currentReplicas").into(),
            since_creation(object, now),
        ]
    },
};

/// The printer of `autoscaling/v1`, which has only one metric.
pub(super) const AUTOSCALER_V1: Printer = Printer {
    columns: AUTOSCALER.columns,
    cells: |object, now| {
        let mut cells = (AUTOSCALER.cells)(object, now);
        let target = object.pointer("/spec/targetCPUUtilizationPercentage");
        if let (Some(target), Some(cell)) = (target, cells.get_mut(2)) {
            *cell = format!("cpu: <unknown>/{target}%").into();
        }
        cells
    },
};

/// Returns each metric's current value, which is not measured here, and its target.
fn targets(autoscaler: &Value) -> String {
    let target = |metric: &Value| {
        let resource = text_or_empty(metric, "/resource/name");
        let wanted = match metric.pointer("/resource/target/averageUtilization") {
            Some(percent) => format!("{percent}%"),
            None => text_or(metric, "/resource/target/averageValue", "<auto>").to_owned(),
        };
        if resource.is_empty() {
            "<unknown>/<auto>".to_owned()
        } else {
            format!("{resource}: <unknown>/{wanted}")
        }
    };
    let targets: Vec<_> = items(autoscaler, "/spec/metrics")
        .iter()
        .map(target)
        .collect();
    if targets.is_empty() {
        "<none>".to_owned()
    } else {
        targets.join(", ")
    }
}

/// Returns the names and images of the containers in the object's template.
pub(super) fn template(object: &Value) -> [Value; 2] {
    names_and_images(items(object, "/spec/template/spec/containers"))
}

pub(super) fn names_and_images(containers: &[Value]) -> [Value; 2] {
    ["/name", "/image"].map(|field| {
        let texts: Vec<_> = containers
            .iter()
            .filter_map(|container| text(container, field))
            .collect();
        texts.join(",").into()
    })
}

pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}
