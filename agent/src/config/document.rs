//! The built-in documents: EdgeCore's defaults, the short one for people, and the types of settings without a default.

use componentbase::yaml;
use serde_json::Value;

use super::Host;

const DEFAULT: &str = include_str!("default.yaml");
const OPTIONAL: &str = include_str!("optional.yaml");
const MINIMAL: &str = include_str!("minimal.yaml");

/// Returns the complete configuration with EdgeCore's values for this machine, as `--defaultconfig` prints it.
pub fn default_config(host: &Host) -> String {
    fill_template(DEFAULT, host)
}

/// Returns the settings that most people change, as `--minconfig` prints them.
pub fn minimal_config(host: &Host) -> String {
    fill_template(MINIMAL, host)
}

/// Returns the default values and, in the same form, a value of the right type for every key.
pub(super) fn known_documents(host: &Host) -> Result<(Value, Value), yaml::NotYaml> {
    let defaults = yaml::parse(&default_config(host))?;
    let mut shape = defaults.clone();
    extend(&mut shape, yaml::parse(OPTIONAL)?);
    Ok((defaults, shape))
}

/// Merges `more` into `base`, and replaces what is not a mapping in both.
fn extend(base: &mut Value, more: Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                extend(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more,
    }
}

/// Fills in this machine's name and address. An IPv6 address is written as in URLs.
fn fill_template(template: &str, host: &Host) -> String {
    let address = if host.address.is_ipv6() {
        format!("[{}]", host.address)
    } else {
        host.address.to_string()
    };
    template
        .replace("${HOSTNAME}", &host.name)
        .replace("${ADDRESS}", &address)
}
