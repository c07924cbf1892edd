//! The parts of the log that are never shown, whatever the filter: libraries log data that passes through them, Secrets and
//! tokens among it, at their finest level, and some an unreadable answer at any level. The agent's own lines name objects and
//! contain no secrets.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// The programs of this workspace; all others are libraries.
const OWN_TARGETS: [&str; 16] = [
    "agent",
    "apiserver",
    "componentbase",
    "edge_agent",
    "edged",
    "cloudsim",
    "hollow",
    "kubeapi",
    "limits",
    "objectstore",
    "wire",
    "mqtt",
    "mapper",
    "crds",
    "unixsocket",
    "record",
];
/// Libraries that log contents above `trace`, each with the finest level at which it does not.
const VERBOSE_LIBRARIES: [(&str, LevelFilter); 3] = [
    // the body of an answer that it cannot read, at `warn`
    ("kube_client", LevelFilter::ERROR),
    // headers
    ("hyper", LevelFilter::INFO),
    ("h2", LevelFilter::INFO),
];

/// Returns a second filter beside the requested one. Libraries log contents (frames, headers, handshakes) at `trace`.
pub fn without_contents() -> Targets {
    let ours = OWN_TARGETS.map(|target| (target, LevelFilter::TRACE));
    Targets::new()
        .with_default(LevelFilter::DEBUG)
        .with_targets(ours)
        .with_targets(VERBOSE_LIBRARIES)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn contents_logged_by_libraries_are_hidden_and_our_lines_are_shown() {
        let cap = without_contents();
        for (target, level, shown) in [
            ("agent::edgehub::session", Level::TRACE, true),
            ("edged::pods", Level::TRACE, true),
            ("componentbase::supervise", Level::TRACE, true),
            ("cloudsim::hub", Level::TRACE, true),
            ("tungstenite::protocol", Level::TRACE, false),
            ("tokio_tungstenite", Level::TRACE, false),
            ("hyper::proto::h1::io", Level::TRACE, false),
            ("h2::codec::framed_read", Level::DEBUG, false),
            ("rustls::client::hs", Level::TRACE, false),
            ("rustls::client::hs", Level::DEBUG, true),
            ("sqlx::query", Level::TRACE, false),
            ("kube_client::client", Level::WARN, false),
            ("kube_client::client", Level::ERROR, true),
            ("a_library_to_come", Level::TRACE, false),
        ] {
            assert_eq!(cap.would_enable(target, &level), shown, "{target} {level}");
        }
    }
}
