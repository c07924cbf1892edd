//! The node's capacity and allocatable resources. Pure.
//!
//! Source: Kubernetes, "Reserve Compute Resources for System Daemons".

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kubeapi::object::quantity;

use super::machine::Machine;
use crate::{NodeConfig, downward::Allocatable};

/// Quantities by resource.
type Quantities = BTreeMap<String, Quantity>;

/// Returns the node's capacity.
pub(crate) fn capacity(machine: &Machine, config: &NodeConfig) -> Quantities {
    let pods = match i64::from(config.pods_per_core).saturating_mul(machine.cpus) {
        0 => i64::from(config.max_pods),
        most => most.min(i64::from(config.max_pods)),
    };
    let native = [
        ("cpu", machine.cpus.to_string()),
        ("memory", bytes(machine.memory)),
        ("ephemeral-storage", bytes(machine.storage)),
        ("pods", pods.to_string()),
    ];
    let pages = machine.huge_pages.iter().map(|pages| {
        let size = binary(pages.size);
        (
            format!("hugepages-{size}"),
            Quantity(binary(pages.size.saturating_mul(pages.count))),
        )
    });
    native
        .map(|(name, text)| (name.to_owned(), Quantity(text)))
        .into_iter()
        .chain(pages)
        .collect()
}

/// Returns the capacity without reserved resources, hard eviction thresholds and, for memory, huge pages.
pub(crate) fn allocatable(machine: &Machine, config: &NodeConfig) -> Quantities {
    let mut all = capacity(machine, config);
    let huge = machine
        .huge_pages
        .iter()
        .map(|pages| pages.size.saturating_mul(pages.count))
        .sum::<i64>();
    for (name, has) in &mut all {
        let reserved =
            |from: &BTreeMap<String, String>| from.get(name).map(|text| Quantity(text.clone()));
        let (kube, system) = (
            reserved(&config.kube_reserved),
            reserved(&config.system_reserved),
        );
        let reserved = [kube, system].into_iter().flatten();
        let threshold_of = |signal: &str, total| {
            config
                .eviction_hard
                .get(signal)
                .and_then(|text| threshold(text, total))
                .unwrap_or(0)
        };
        *has = match name.as_str() {
            "cpu" => {
                let reserved = reserved
                    .filter_map(|quantity| quantity::milli(&quantity))
                    .sum::<i64>();
                cores((machine.cpus * 1000).saturating_sub(reserved).max(0))
            }
            "memory" => {
                let reserved = reserved
                    .filter_map(|quantity| quantity::whole(&quantity))
                    .sum::<i64>();
                let kept = threshold_of("memory.available", machine.memory).saturating_add(huge);
                Quantity(bytes(
                    machine
                        .memory
                        .saturating_sub(reserved)
                        .saturating_sub(kept)
                        .max(0),
                ))
            }
            "ephemeral-storage" => {
                let reserved = reserved
                    .filter_map(|quantity| quantity::whole(&quantity))
                    .sum::<i64>();
                let kept = threshold_of("nodefs.available", machine.storage);
                Quantity(
                    machine
                        .storage
                        .saturating_sub(reserved)
                        .saturating_sub(kept)
                        .max(0)
                        .to_string(),
                )
            }
            _ => continue,
        };
    }
    all
}

/// Converts allocatable resources to numbers, which stand in for limits that are not set.
pub(crate) fn as_limits(allocatable: &Quantities) -> Allocatable {
    let of = |name: &str, read: fn(&Quantity) -> Option<i64>| {
        allocatable.get(name).and_then(read).unwrap_or(0)
    };
    Allocatable {
        cpu_millis: of("cpu", quantity::milli),
        memory: of("memory", quantity::whole),
        storage: of("ephemeral-storage", quantity::whole),
    }
}

/// Parses an eviction threshold, a quantity or a percentage of `total`.
pub(crate) fn threshold(text: &str, total: i64) -> Option<i64> {
    let Some(percent) = text.strip_suffix('%') else {
        return quantity::whole(&Quantity(text.to_owned()));
    };
    // a precision of a thousandth of a percent is enough
    let share = quantity::milli(&Quantity(percent.to_owned()))?;
    i64::try_from(i128::from(total) * i128::from(share) / 100_000).ok()
}

fn cores(millis: i64) -> Quantity {
    Quantity(if millis % 1000 == 0 {
        (millis / 1000).to_string()
    } else {
        format!("{millis}m")
    })
}

/// Formats bytes as the kubelet does.
fn bytes(count: i64) -> String {
    if count % 1024 == 0 {
        format!("{}Ki", count / 1024)
    } else {
        count.to_string()
    }
}

/// Formats a number with the largest unit that leaves a whole number.
fn binary(count: i64) -> String {
    let units = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let unit = units
        .into_iter()
        .find(|(_, size)| count != 0 && count % size == 0);
    unit.map_or_else(
        || count.to_string(),
        |(name, size)| format!("{}{name}", count / size),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::machine::HugePages;

    fn texts(quantities: &Quantities) -> Vec<String> {
        quantities
            .iter()
            .map(|(name, quantity)| format!("{name}={}", quantity.0))
            .collect()
    }

    #[test]
    fn allocatable_is_capacity_minus_reservations() {
        let huge_pages = vec![
            HugePages {
                size: 2 << 20,
                count: 16,
            },
            HugePages {
                size: 1 << 30,
                count: 0,
            },
        ];
        let machine = Machine {
            cpus: 4,
            memory: 4 << 30,
            storage: 10 << 30,
            huge_pages,
            ..Machine::default()
        };
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let config = NodeConfig {
            pods_per_core: 10,
            kube_reserved: map(&[
                ("cpu", "100m"),
                ("memory", "128Mi"),
                ("ephemeral-storage", "1Gi"),
                ("pid", "100"),
            ]),
            system_reserved: map(&[("cpu", "1"), ("memory", "64Mi")]),
            eviction_hard: map(&[
                ("memory.available", "100Mi"),
                ("nodefs.available", "10%"),
                ("pid.available", "5%"),
            ]),
            ..NodeConfig::default()
        };
        let has = [
            "cpu=4",
            "ephemeral-storage=10485760Ki",
            "hugepages-1Gi=0",
            "hugepages-2Mi=32Mi",
            "memory=4194304Ki",
            "pods=40",
        ];
        assert_eq!(texts(&capacity(&machine, &config)), has);
        let gives = [
            "cpu=2900m",
            "ephemeral-storage=8589934592",
            "hugepages-1Gi=0",
            "hugepages-2Mi=32Mi",
            "memory=3862528Ki",
            "pods=40",
        ];
        assert_eq!(texts(&allocatable(&machine, &config)), gives);
        assert_eq!(as_limits(&allocatable(&machine, &config)).cpu_millis, 2900);
        let greedy = NodeConfig {
            kube_reserved: map(&[("cpu", "9"), ("memory", "9Gi")]),
            ..NodeConfig::default()
        };
        assert_eq!(&texts(&allocatable(&machine, &greedy))[..1], ["cpu=0"]);
        assert_eq!(capacity(&machine, &greedy)["pods"].0, "110");
    }

    #[test]
    fn thresholds_are_quantities_or_shares() {
        let table = [
            ("100Mi", Some(100 << 20)),
            ("10%", Some(100)),
            ("0.5%", Some(5)),
            ("x", None),
            ("%", None),
        ];
        for (text, expected) in table {
            assert_eq!(threshold(text, 1000), expected, "{text}");
        }
    }
}
