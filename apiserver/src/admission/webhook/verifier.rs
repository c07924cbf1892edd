//! Whether a webhook is who it says it is: by a chain to its `caBundle`, or by being itself what `caBundle` holds.
//!
//! The second is how webhooks are often set up: one self-signed certificate, a CA by its own word, which the webhook shows and which
//! `caBundle` repeats. Go's verifier takes it for a chain of one; webpki refuses it (`CaUsedAsEndEntity`) as nothing that a server
//! may show. It is taken here only where it is, byte for byte, one of the trusted ones, is valid now, is for servers and has the
//! name. That trusts nobody new: whoever has its key could sign a certificate of any name that the first rule would take.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        VerifierBuilderError, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Verifies webhooks of one `caBundle`.
#[derive(Debug)]
pub(super) struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Of the certificates of a `caBundle`, which `roots` has too.
    pub(super) fn new(
        bundle: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let chains =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self { chains, bundle })
    }

    /// Whether the certificate is one of the bundle's, and one that a server may show under this name now.
    fn is_of_the_bundle(
        &self,
        shown: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let unknown = || Error::from(CertificateError::UnknownIssuer);
        if !self
            .bundle
            .iter()
            .any(|held| held.as_ref() == shown.as_ref())
        {
            return Err(unknown());
        }
        // as webpki reads it: nothing critical that it does not know
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        let (_, read) =
            X509Certificate::from_der(shown).map_err(|_| CertificateError::BadEncoding)?;
        let now = i64::try_from(now.as_secs()).map_err(|_| unknown())?;
        if now < read.validity().not_before.timestamp() {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > read.validity().not_after.timestamp() {
            return Err(CertificateError::Expired.into());
        }
        let purposes = read
            .extended_key_usage()
            .map_err(|_| CertificateError::BadEncoding)?;
        if purposes.is_some_and(|purposes| !purposes.value.server_auth && !purposes.value.any) {
            return Err(CertificateError::InvalidPurpose.into());
        }
        Ok(())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let by_chain = self
            .chains
            .verify_server_cert(shown, intermediates, name, ocsp, now);
        match by_chain {
            Err(_) if self.is_of_the_bundle(shown, name, now).is_ok() => {
                Ok(ServerCertVerified::assertion())
            }
            by_chain => by_chain,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
        KeyPair,
    };

    use super::*;

    const NAME: &str = "hook.ns.svc";
    const DAY: u64 = 24 * 60 * 60;
    /// 2025-01-01.
    const NOW: u64 = 1_735_689_600;

    fn params(name: &str, is_ca: bool) -> CertificateParams {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (
            rcgen::date_time_ymd(2024, 12, 31),
            rcgen::date_time_ymd(2025, 1, 2),
        );
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    fn own(params: CertificateParams) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    fn verifier(bundle: &[CertificateDer<'static>]) -> Verifier {
        let mut roots = RootCertStore::empty();
        bundle
            .iter()
            .for_each(|held| roots.add(held.clone()).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Verifier::new(bundle.to_vec(), roots, provider).unwrap()
    }

    fn verify(
        verifier: &Verifier,
        shown: &CertificateDer<'_>,
        name: &str,
        now: u64,
    ) -> Result<(), Error> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        verifier
            .verify_server_cert(shown, &[], &name, &[], now)
            .map(|_| ())
    }

    #[test]
    fn a_ca_that_shows_itself_is_taken_where_the_bundle_holds_it() {
        let shown = own(params(NAME, true));
        let held = verifier(&[own(params("another", true)), shown.clone()]);
        let (name, now) = (
            ServerName::try_from(NAME).unwrap(),
            UnixTime::since_unix_epoch(Duration::from_secs(NOW)),
        );
        let by_webpki = held.chains.verify_server_cert(&shown, &[], &name, &[], now);
        assert!(
            by_webpki
                .unwrap_err()
                .to_string()
                .contains("CaUsedAsEndEntity")
        );
        assert_eq!(verify(&held, &shown, NAME, NOW), Ok(()));
        for (name, now) in [
            ("other.ns.svc", NOW),
            (NAME, NOW + 2 * DAY),
            (NAME, NOW - 2 * DAY),
        ] {
            assert!(verify(&held, &shown, name, now).is_err(), "{name} {now}");
        }
    }

    #[test]
    fn no_other_ca_is() {
        let shown = own(params(NAME, true));
        assert!(
            verify(&verifier(&[own(params(NAME, true))]), &shown, NAME, NOW).is_err(),
            "alike, and not the same"
        );
        let mut clients = params(NAME, true);
        clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let clients = own(clients);
        assert!(
            verify(
                &verifier(std::slice::from_ref(&clients)),
                &clients,
                NAME,
                NOW
            )
            .is_err(),
            "for clients"
        );
        // a CA that a held one has signed is still nothing that a server may show
        let root = CertifiedIssuer::self_signed(params("root", true), KeyPair::generate().unwrap())
            .unwrap();
        let between = params(NAME, true)
            .signed_by(&KeyPair::generate().unwrap(), &root)
            .unwrap();
        assert!(verify(&verifier(&[root.der().clone()]), between.der(), NAME, NOW).is_err());
    }

    #[test]
    fn what_was_taken_before_still_is() {
        let root = CertifiedIssuer::self_signed(params("root", true), KeyPair::generate().unwrap())
            .unwrap();
        let leaf = params(NAME, false)
            .signed_by(&KeyPair::generate().unwrap(), &root)
            .unwrap();
        let alone = own(params(NAME, false));
        let held = verifier(&[root.der().clone(), alone.clone()]);
        for shown in [leaf.der(), &alone] {
            assert_eq!(verify(&held, shown, NAME, NOW), Ok(()));
            assert!(verify(&held, shown, "other.ns.svc", NOW).is_err());
            assert!(verify(&held, shown, NAME, NOW + 2 * DAY).is_err());
        }
    }
}
