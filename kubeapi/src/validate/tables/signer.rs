//! The names of signers of certificates.

use crate::{cause::Cause, object::names, validate::place::Place};

/// Checks a name such as `example.com/signer`.
pub fn signer_name(place: &Place<'_>, causes: &mut Vec<Cause>) {
    let name = place.value.as_str().unwrap_or_default();
    if name.is_empty() {
        return causes.push(Cause::required(place.path(), ""));
    }
    let parts: Vec<_> = name.split('/').collect();
    let &[domain, path] = parts.as_slice() else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return causes.push(place.refusal(why));
    };
    let labels = domain
        .split('.')
        .map(|label| (label, names::dns_label(label)));
    first_fault(place, domain, labels, causes);
    if domain.split('.').count() < 2 {
        causes.push(Cause::invalid(
            place.path(),
            &domain.into(),
            "should be a domain with at least two segments",
        ));
    }
    let labels = path
        .split('.')
        .map(|label| (label, names::dns_subdomain(label)));
    first_fault(place, path, labels, causes);
}

/// Adds the faults of the first label that has some.
fn first_fault<'a>(
    place: &Place<'_>,
    value: &str,
    mut labels: impl Iterator<Item = (&'a str, Vec<String>)>,
    causes: &mut Vec<Cause>,
) {
    if let Some((label, faults)) = labels.find(|(_, faults)| !faults.is_empty()) {
        let why = faults
            .iter()
            .map(|why| format!("validating label {label:?}: {why}"));
        causes.extend(why.map(|why| Cause::invalid(place.path(), &value.into(), &why)));
    }
}
