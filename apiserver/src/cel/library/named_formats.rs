//! The named string formats of Kubernetes, such as `dns1123Label`.

use super::context::Context;
use crate::{
    cel::{error::Evaluated, value::Val},
    go_url,
    string_formats::fits,
};
use kubeapi::object::names;

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
    let named = |name: &str| {
        NAMES
            .iter()
            .find(|known| **known == name)
            .map(|known| Val::Format(known))
    };
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
    let prefix = || match text.strip_suffix('-') {
        // the character before it may be anything, as in kube-apiserver
        Some(text) if !text.is_empty() => {
            let mut chars = text.chars();
            chars.next_back();
            format!("{}a", chars.as_str())
        }
        _ => text.to_owned(),
    };
    let said = |what: &str| {
        if fits(format, text) {
            Vec::new()
        } else {
            vec![what.to_owned()]
        }
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
        "uri" => go_url::parse_request_uri(text).err().into_iter().collect(),
        "uuid" => said("does not match the UUID format"),
        "byte" => said("invalid base64"),
        "date" => said("invalid date"),
        "datetime" => said("invalid datetime"),
        _ => Vec::new(),
    }
}
