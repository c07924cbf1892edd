//! Connections that are no node's: checks of a port, and of a server without a certificate, as `edge-agent join` and load balancers
//! make them.

use std::io::{self, ErrorKind};

/// Reports whether a TLS handshake failed because the client only looked whether somebody listens: it sent nothing, or has no certificate.
pub(crate) fn is_probe(error: &io::Error) -> bool {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    ) || matches!(cause, Some(rustls::Error::NoCertificatesPresented))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_only_look_are_told_from_those_that_fail() {
        let tls = |error| io::Error::new(ErrorKind::InvalidData, error);
        assert!(is_probe(&tls(rustls::Error::NoCertificatesPresented)));
        assert!(is_probe(&io::Error::new(
            ErrorKind::UnexpectedEof,
            "tls handshake eof"
        )));
        assert!(!is_probe(&tls(rustls::Error::DecryptError)));
        assert!(!is_probe(&io::Error::other("x")));
    }
}
