//! Go's rules, case by case.

use super::*;

fn proxy(https: &str, no: &str) -> Proxy {
    let given = |name: &str| match name {
        "HTTPS_PROXY" => Some(https.to_owned()),
        "no_proxy" => Some(no.to_owned()),
        _ => None,
    };
    Proxy::from_environment(given).unwrap()
}

#[test]
fn urls_of_proxies() {
    for (url, address) in [
        ("http://proxy:3128", "proxy:3128"),
        ("http://proxy", "proxy:80"),
        ("proxy:3128", "proxy:3128"),
        ("http://10.0.0.1:8080/", "10.0.0.1:8080"),
        ("http://[2001:db8::1]:3128", "[2001:db8::1]:3128"),
        ("http://[2001:db8::1]", "[2001:db8::1]:80"),
    ] {
        let endpoint = parse_proxy_url(url).unwrap();
        assert_eq!(
            (endpoint.address.as_str(), endpoint.authorization),
            (address, None),
            "{url}"
        );
    }
    for url in [
        "https://proxy:3128",
        "socks5://proxy:1080",
        "ftp://x",
        "http://",
        "http://:80",
        "http://p:x",
        "p:0",
    ] {
        assert!(parse_proxy_url(url).is_err(), "{url}");
    }
}

#[test]
fn name_and_password_are_sent_to_the_proxy_only() {
    let endpoint = parse_proxy_url("http://al%40ice:open%20sesame@proxy:3128").unwrap();
    let shown = endpoint.authorization.as_ref().unwrap().expose();
    assert_eq!(
        shown,
        format!("Basic {}", STANDARD.encode("al@ice:open sesame"))
    );
    assert!(!format!("{endpoint:?}").contains(shown));
}

#[test]
fn servers_that_are_reached_straight() {
    let proxy = proxy(
        "http://proxy:3128",
        "cloud.example.com, .inner.example.com,*.star.org,10.0.0.0/8,192.0.2.7,one.net:10000,2001:db8::/32",
    );
    for (host, port, is_direct) in [
        ("cloud.example.com", 10000, true),
        ("CLOUD.example.com.", 10000, true),
        ("a.cloud.example.com", 10000, true),
        ("xcloud.example.com", 10000, false),
        ("inner.example.com", 1, false),
        ("a.inner.example.com", 1, true),
        ("a.star.org", 1, true),
        ("star.org", 1, false),
        ("10.200.3.4", 1, true),
        ("11.0.0.1", 1, false),
        ("192.0.2.7", 1, true),
        ("192.0.2.8", 1, false),
        ("one.net", 10000, true),
        ("one.net", 10002, false),
        ("2001:db8::5", 1, true),
        ("2001:db9::5", 1, false),
        ("localhost", 1, true),
        ("127.0.0.1", 1, true),
        ("::1", 1, true),
    ] {
        assert_eq!(
            proxy.for_server(host, port).is_none(),
            is_direct,
            "{host}:{port}"
        );
    }
}

#[test]
fn a_star_switches_it_off_and_nothing_means_no_proxy() {
    assert!(
        proxy("http://proxy:3128", "*")
            .for_server("cloud", 1)
            .is_none()
    );
    assert!(
        proxy("http://proxy:3128", "")
            .for_server("cloud", 1)
            .is_some()
    );
    assert!(proxy("", "").for_server("cloud", 1).is_none());
    assert!(
        Proxy::from_environment(|_| None)
            .unwrap()
            .for_server("cloud", 1)
            .is_none()
    );
}

#[test]
fn the_upper_case_name_has_priority_and_faults_are_reported() {
    let given = |name: &str| (name == "https_proxy").then(|| "socks5://p:1".to_owned());
    assert_eq!(
        Proxy::from_environment(given).unwrap_err().variable,
        "https_proxy"
    );
    let both = |name: &str| match name {
        "HTTPS_PROXY" => Some("http://upper:1".to_owned()),
        "https_proxy" => Some("http://lower:1".to_owned()),
        _ => None,
    };
    assert_eq!(
        Proxy::from_environment(both)
            .unwrap()
            .for_server("cloud", 1)
            .unwrap()
            .address,
        "upper:1"
    );
}
