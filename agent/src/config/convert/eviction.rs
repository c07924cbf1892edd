//! Eviction thresholds: merges five mappings by signal to one list.

use std::{collections::BTreeMap, time::Duration};

use edged::{Eviction, Signal, Threshold, ThresholdValue};
use kubeapi::object::quantity;

use super::values::{KUBELET, Values};
use crate::config::file;

pub(super) fn convert(kubelet: &file::Kubelet, values: &mut Values<'_>) -> Eviction {
    let at = |key: &str| format!("{KUBELET}.{key}");
    let reclaim = amounts(
        &at("evictionMinimumReclaim"),
        &kubelet.eviction_minimum_reclaim,
        values,
    );
    let hard = amounts(&at("evictionHard"), &kubelet.eviction_hard, values);
    let soft = amounts(&at("evictionSoft"), &kubelet.eviction_soft, values);
    let grace_periods = grace_periods(
        &at("evictionSoftGracePeriod"),
        &kubelet.eviction_soft_grace_period,
        values,
    );
    let mut thresholds = Vec::new();
    for (signal, value) in hard {
        let reclaim = reclaim.get(&signal).copied();
        thresholds.push(Threshold {
            signal,
            value,
            grace: Duration::ZERO,
            reclaim,
        });
    }
    for (signal, value) in soft {
        let name = signal.name();
        match grace_periods.get(&signal) {
            Some(grace) if !grace.is_zero() => {
                let reclaim = reclaim.get(&signal).copied();
                thresholds.push(Threshold {
                    signal,
                    value,
                    grace: *grace,
                    reclaim,
                });
            }
            _ => values.error(
                &at(&format!("evictionSoft.{name}")),
                format!("has no grace period; set evictionSoftGracePeriod.{name}, such as 1m30s"),
            ),
        }
    }
    // a threshold of zero disables a signal
    thresholds
        .retain(|threshold| !matches!(threshold.value, ThresholdValue::Percentage(part) if part <= 0.0 || part >= 1.0));
    Eviction {
        thresholds,
        transition_period: values.duration(
            &at("evictionPressureTransitionPeriod"),
            &kubelet.eviction_pressure_transition_period,
        ),
        max_pod_grace: values.seconds(
            &at("evictionMaxPodGracePeriod"),
            kubelet.eviction_max_pod_grace_period,
            0,
        ),
        storage_limits: kubelet.local_storage_capacity_isolation,
    }
}

/// Returns a value of `evictionHard` that disables all thresholds: on a simulated runtime, the disk and the memory of the machine say
/// nothing about its containers.
pub fn disabled_thresholds() -> serde_json::Value {
    Signal::ALL
        .iter()
        .map(|signal| (signal.name().to_owned(), serde_json::Value::from("0%")))
        .collect()
}

fn amounts(
    path: &str,
    written: &BTreeMap<String, String>,
    values: &mut Values<'_>,
) -> BTreeMap<Signal, ThresholdValue> {
    let mut read = BTreeMap::new();
    for (name, text) in written {
        let place = format!("{path}.{name}");
        let Some(signal) = signal(&place, name, values) else {
            continue;
        };
        match amount(text) {
            Some(amount) => drop(read.insert(signal, amount)),
            None => values.error(
                &place,
                format!(
                    "is {text:?}, but must be a quantity such as 100Mi, or a percentage such as 10%"
                ),
            ),
        }
    }
    read
}

fn grace_periods(
    path: &str,
    written: &BTreeMap<String, String>,
    values: &mut Values<'_>,
) -> BTreeMap<Signal, Duration> {
    let mut read = BTreeMap::new();
    for (name, text) in written {
        let place = format!("{path}.{name}");
        if let Some(signal) = signal(&place, name, values) {
            read.insert(signal, values.duration(&place, text));
        }
    }
    read
}

fn signal(place: &str, name: &str, values: &mut Values<'_>) -> Option<Signal> {
    let known = Signal::ALL.into_iter().find(|signal| signal.name() == name);
    if known.is_none() {
        let all = Signal::ALL.map(Signal::name).join(", ");
        let cure = match name {
            // the kubelet derives these as well
            "containerfs.available" | "containerfs.inodesFree" => {
                "is not set by itself: containers' layers are on the disk of images; set imagefs instead"
                    .to_owned()
            }
            _ => format!("is no eviction signal; there are {all}"),
        };
        values.error(place, cure);
    }
    known
}

fn amount(text: &str) -> Option<ThresholdValue> {
    match text.strip_suffix('%') {
        Some(number)
            if number
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.') =>
        {
            let percent: f64 = number.parse().ok()?;
            (0.0..=100.0)
                .contains(&percent)
                .then_some(ThresholdValue::Percentage(percent / 100.0))
        }
        Some(_) => None,
        None => quantity::bytes(text)
            .filter(|amount| *amount >= 0)
            .map(ThresholdValue::Quantity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_quantities_or_percentages() {
        for (text, wanted) in [
            ("100Mi", Some(ThresholdValue::Quantity(100 << 20))),
            ("0", Some(ThresholdValue::Quantity(0))),
            ("10%", Some(ThresholdValue::Percentage(0.1))),
            ("0%", Some(ThresholdValue::Percentage(0.0))),
            ("100%", Some(ThresholdValue::Percentage(1.0))),
            ("-1Mi", None),
            ("101%", None),
            ("-1%", None),
            ("NaN%", None),
            ("%", None),
            ("", None),
            ("much", None),
        ] {
            assert_eq!(amount(text), wanted, "{text}");
        }
        assert_eq!(ThresholdValue::Percentage(0.1).of(1000), 100);
        assert_eq!(ThresholdValue::Quantity(7).of(1000), 7);
    }
}
