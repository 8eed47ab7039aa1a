//! Whom a connection by TLS trusts, and how it says who it is.

use core::fmt;

/// Certificates for a connection by TLS, other than the system's: for
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
    /// Trusts whom the system trusts, and shows no certificate.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Trusts these authorities, and no others: one certificate or several.
    pub fn trust(self, authorities: impl Into<Vec<u8>>) -> Tls {
        Tls { trusted: Some(authorities.into()), ..self }
    }

    /// Shows a certificate of the client's: with those between it and the authority, if there are any,
    /// and its private key. A Redis server wants one unless it has `tls-auth-clients no` or `optional`.
    pub fn identity(self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Tls {
        Tls { identity: Some((certificate.into(), key.into())), ..self }
    }
}

/// Without the certificates, and above all without the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("trusts_the_system", &self.trusted.is_none())
            .field("has_identity", &self.identity.is_some())
            .finish()
    }
}
