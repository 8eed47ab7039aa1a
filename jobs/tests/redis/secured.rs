//! Servers with TLS, and certificates of the tests' own. The server has to be built with it, as Debian's is.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

use crate::server::{Server, free_port};

/// Signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for a host, and its key.
    pub(crate) fn sign(&self, host: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// A server or sentinel with a port for TLS besides the other one.
pub(crate) struct Secured {
    pub(crate) server: Server,
    pub(crate) port: u16,
    /// Has the files `cert`, `key` and `authority`.
    #[allow(dead_code, reason = "the tests of the command read it")]
    pub(crate) folder: TempDir,
}

impl Secured {
    /// Starts a server for a host. `clients` says whether they must show a certificate.
    pub(crate) fn start(authority: &Authority, host: &str, clients: &str) -> Secured {
        Secured::with(authority, host, |settings| {
            let options = [("save", ""), ("tls-auth-clients", clients)];
            let settings = settings.iter().map(|(name, value)| (*name, &**value));
            let options = options.into_iter().chain(settings);
            let options: Vec<String> =
                options.flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]).collect();
            Server::with(&options.iter().map(String::as_str).collect::<Vec<_>>())
        })
    }

    /// Writes a certificate, its key and the authority into files, which the settings name.
    pub(crate) fn with(
        authority: &Authority,
        host: &str,
        start: impl FnOnce(&[(&str, String)]) -> Server,
    ) -> Secured {
        let (port, (certificate, key)) = (free_port(), authority.sign(host));
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, pem: String| {
            let path = folder.path().join(name);
            fs::write(&path, pem).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let server = start(&[
            ("tls-port", port.to_string()),
            ("tls-cert-file", file("cert", certificate)),
            ("tls-key-file", file("key", key)),
            ("tls-ca-cert-file", file("authority", authority.pem())),
        ]);
        Secured { server, port, folder }
    }

    pub(crate) fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}/", self.port)
    }
}
