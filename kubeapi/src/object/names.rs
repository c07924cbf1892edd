//! Checks the syntax of names, keys and values, with the real server's messages.

const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
    or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";

const LABEL_BYTES: usize = 63;
const SUBDOMAIN_BYTES: usize = 253;

/// Returns the faults of the name of an `IPAddress`, which is an address in canonical form.
pub fn ip_address(text: &str) -> Vec<String> {
    match text
        .parse::<std::net::IpAddr>()
        .map(|address| address.to_string())
    {
        Ok(canonical) if canonical == text => Vec::new(),
        Ok(canonical) => vec![format!("must be in canonical form ({canonical:?})")],
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

/// Returns the faults of the key of a label or annotation, or of a finalizer: `[prefix/]name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            faults.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            faults.extend(
                dns_subdomain(prefix)
                    .into_iter()
                    .map(|fault| format!("prefix part {fault}")),
            );
            name
        }
        None => text,
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_BYTES {
        faults.push(format!("name part {}", too_long(LABEL_BYTES)));
    }
    if !is_word(name) {
        faults.push(format!("name part {QUALIFIED}"));
    }
    faults
}

/// Returns the faults of a label's value.
pub fn label_value(text: &str) -> Vec<String> {
    faults(
        text,
        LABEL_BYTES,
        text.is_empty() || is_word(text),
        LABEL_VALUE,
    )
}

/// Returns the faults of a DNS label.
pub fn dns_label(text: &str) -> Vec<String> {
    faults(text, LABEL_BYTES, is_dns_label(text), DNS_LABEL)
}

/// Returns the faults of the name of a service.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let fits = is_dns_label(text) && text.starts_with(|char: char| char.is_ascii_lowercase());
    faults(text, LABEL_BYTES, fits, DNS_1035_LABEL)
}

/// Returns the faults of a DNS subdomain: labels separated by dots.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    faults(
        text,
        SUBDOMAIN_BYTES,
        text.split('.').all(is_dns_label),
        DNS_SUBDOMAIN,
    )
}

/// Returns the faults of a name that only has to fit into a path.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .iter()
        .filter(|char| text.contains(**char))
        .map(|char| format!("may not contain '{char}'"))
        .collect()
}

/// Returns the faults of a key of a config map or secret.
pub fn config_key(text: &str) -> Vec<String> {
    let is_key = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let mut faults = faults(text, SUBDOMAIN_BYTES, is_key, CONFIG_KEY);
    match text {
        "." => faults.push("must not be '.'".to_owned()),
        ".." => faults.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// Returns the faults of the name of an environment variable.
pub fn env_name(text: &str) -> Vec<String> {
    let is_name = !text.is_empty()
        && text
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    faults(text, usize::MAX, is_name, ENV_NAME)
}

/// Returns the faults of the name of a port.
pub fn port_name(text: &str) -> Vec<String> {
    const PORT_NAME_BYTES: usize = 15;
    let mut faults = Vec::new();
    if text.len() > PORT_NAME_BYTES {
        faults.push(too_long(PORT_NAME_BYTES));
    }
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        || text.is_empty()
    {
        faults.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

fn faults(text: &str, limit: usize, fits: bool, rule: &str) -> Vec<String> {
    let too_long = (text.len() > limit).then(|| too_long(limit));
    too_long
        .into_iter()
        .chain((!fits).then(|| rule.to_owned()))
        .collect()
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// Reports whether the text matches `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`.
fn is_word(text: &str) -> bool {
    let alphanumeric = |char: char| char.is_ascii_alphanumeric();
    text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Reports whether the text matches `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
fn is_dns_label(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
        && text.bytes().next().is_some_and(alphanumeric)
        && text.bytes().next_back().is_some_and(alphanumeric)
}
