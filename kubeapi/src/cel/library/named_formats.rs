//! The named string formats of Kubernetes, such as `dns1123Label`.

use super::context::Context;
use crate::{
    cel::{error::Evaluated, value::Val},
    names,
    string_formats::fits,
};

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// `format.<name>()`, `format.named(name)`, and `validate`.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], _: &mut Context<'_>) -> Option<Evaluated<'a>> {
    let named = |name: &str| NAMES.iter().find(|known| **known == name).map(|known| Val::Format(known));
    Some(Ok(match (name.strip_prefix("format."), args) {
        (Some("named"), [Val::String(name)]) => Val::optional(named(name)),
        (Some(name), []) => return named(name).map(Ok),
        (None, [Val::Format(format), Val::String(text)]) if name == "validate" => {
            let faults: Vec<_> = faults(format, text).into_iter().map(Val::text).collect();
            Val::optional((!faults.is_empty()).then(|| Val::list(faults)))
        }
        _ => return None,
    }))
}

fn faults(format: &str, text: &str) -> Vec<String> {
    // a prefix may end where a name goes on
    let prefix = || text.strip_suffix('-').map_or_else(|| text.to_owned(), |text| format!("{text}-a"));
    let said = |fits: bool, what: &str| {
        if fits { Vec::new() } else { vec![format!("does not match {what} format")] }
    };
    match format {
        "dns1123Label" => names::dns_label(text),
        "dns1123Subdomain" => names::dns_subdomain(text),
        "dns1035Label" => names::dns_1035_label(text),
        "qualifiedName" => names::qualified_name(text),
        "dns1123LabelPrefix" => names::dns_label(&prefix()),
        "dns1123SubdomainPrefix" => names::dns_subdomain(&prefix()),
        "dns1035LabelPrefix" => names::dns_1035_label(&prefix()),
        "labelValue" => names::label_value(text),
        "uri" => said(text.starts_with('/') || url::Url::parse(text).is_ok(), "URI"),
        "uuid" => said(fits("uuid", text), "UUID"),
        "byte" => {
            if fits("byte", text) {
                Vec::new()
            } else {
                vec!["invalid base64".to_owned()]
            }
        }
        "date" => {
            if fits("date", text) {
                Vec::new()
            } else {
                vec!["invalid date".to_owned()]
            }
        }
        "datetime" => {
            if fits("date-time", text) {
                Vec::new()
            } else {
                vec!["invalid datetime".to_owned()]
            }
        }
        _ => Vec::new(),
    }
}
