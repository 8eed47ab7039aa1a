//! The command on a server with TLS.

use std::process::Command;
use std::time::Duration;

use tickwheel_jobs::{Jobs, Tls};

use crate::secured::{Authority, Secured};
use crate::shared::Close;

/// The command trusts the authority that `SSL_CERT_FILE` names, and no other. A program that takes only a URL has
/// no other way to name one.
#[test]
fn command_trusts_the_authority_of_its_environment() {
    let authority = Authority::new("an authority");
    let server = Secured::start(&authority, "127.0.0.1", "no");
    let tls = Tls::new().trust(authority.pem());
    let client = Jobs::redis_with_tls(server.url(), tls).unwrap().client().unwrap();
    client.insert(Duration::from_secs(3600), Close(1)).unwrap();
    let call = |authority: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel-jobs"));
        command
            .args([&server.url(), "list"])
            .env("SSL_CERT_FILE", server.folder.path().join(authority));
        command.output().unwrap()
    };
    let listed = call("authority");
    assert!(listed.status.success(), "{listed:?}");
    // The server's own certificate is no authority.
    let refused = call("cert");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("UnknownIssuer"), "{refused:?}");
}
