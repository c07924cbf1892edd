//! What of the log is never shown, whatever is asked for: libraries write down what passes through them, Secrets and tokens among it,
//! at their finest level, and some an answer that they cannot read at any. Our own lines name objects and hold none.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// The programs of this workspace; all others are libraries.
const OURS: [&str; 9] =
    ["agent", "edge_agent", "cloudsim", "kubeapi", "wire", "mqtt", "mapper", "crds", "unixsocket"];
/// Libraries that write contents down above `trace`, each with the finest level at which it does not.
const TALKATIVE: [(&str, LevelFilter); 3] = [
    // the body of an answer that it cannot read, at `warn`
    ("kube_client", LevelFilter::ERROR),
    // headers
    ("hyper", LevelFilter::INFO),
    ("h2", LevelFilter::INFO),
];

/// A second filter beside the one that was asked for. Libraries write contents (frames, headers, handshakes) at `trace`.
pub fn cap() -> Targets {
    let ours = OURS.map(|target| (target, LevelFilter::TRACE));
    Targets::new().with_default(LevelFilter::DEBUG).with_targets(ours).with_targets(TALKATIVE)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn what_libraries_say_of_contents_is_not_shown_and_what_we_say_is() {
        let cap = cap();
        for (target, level, shown) in [
            ("agent::edgehub::session", Level::TRACE, true),
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
