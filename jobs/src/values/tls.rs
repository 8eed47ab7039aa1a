//! The certificates of a connection over TLS: the trusted authorities, and the client's own.

use core::fmt;

/// Certificates for a connection over TLS, other than the system's: for
/// [`Jobs::redis_with_tls`](crate::Jobs::redis_with_tls). All are PEM.
///
/// ```no_run
/// use tickwheel_jobs::{Jobs, Tls};
///
/// let tls = Tls::new()
///     .trust(std::fs::read("/etc/shop/ca.pem")?)
///     .identity(std::fs::read("/etc/shop/jobs.pem")?, std::fs::read("/etc/shop/jobs.key")?);
/// let builder = Jobs::redis_with_tls("rediss://redis.internal/", tls)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "certificates do nothing until they are given to `Jobs::redis_with_tls`"]
pub struct Tls {
    pub(crate) trusted: Option<Vec<u8>>,
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Trusts the system's authorities, and shows no certificate.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Trusts these authorities, and no others: one certificate or several.
    pub fn trust(self, authorities: impl Into<Vec<u8>>) -> Tls {
        Tls { trusted: Some(authorities.into()), ..self }
    }

    /// Shows a client certificate: with the certificates between it and the authority, if there are any, and
    /// with its private key. A Redis server requires one unless it has `tls-auth-clients no` or `optional`.
    pub fn identity(self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Tls {
        Tls { identity: Some((certificate.into(), key.into())), ..self }
    }
}

/// Shows no certificate, and above all no key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("trusts_the_system", &self.trusted.is_none())
            .field("has_identity", &self.identity.is_some())
            .finish()
    }
}
