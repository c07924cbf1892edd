//! Which node a connection is of, by its certificate.

use wire::enroll::{Identity, identity_of};

/// Returns the name of the node that this certificate (DER) was issued for, which TLS has verified; or why it is no node's.
pub(crate) fn node_name(certificate: Option<&[u8]>) -> Result<String, String> {
    let certificate = certificate.ok_or("no certificate was shown")?;
    match identity_of(certificate) {
        Ok(Identity::Node(node)) => Ok(node),
        Ok(other) => Err(format!(
            "the certificate is that of {other} and not a node's"
        )),
        Err(error) => Err(format!("the certificate names no node: {error}")),
    }
}
