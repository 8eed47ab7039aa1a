//! `serve`: the dashboard on an address of its own.
//!
//! Ground rules:
//!
//! - Without a password it listens on the loopback only, and answers only to the names of the loopback. So a page of
//!   another site gets nothing by letting the site's name lead to 127.0.0.1 (DNS rebinding).
//! - On any other address there is a password: from a file, from the environment, or one that is made and printed
//!   once. It is never on the command line, where other users can read it.
//! - Every client has limits: of time, of headers, of connections. A slow one costs a place, not the server.

mod auth;
mod server;

use std::error::Error;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;

use tickwheel_jobs::Durability;
use tickwheel_jobs::web::{Access as Right, Dashboard};

use crate::args::Serve;
use crate::open::{self, Access, Target};
use crate::{Outcome, text};
use auth::Gate;

/// The environment variable with the password.
const PASSWORD: &str = "TICKWHEEL_PASSWORD";

/// A longer password does not fit into the header of a request that is read.
const MOST_PASSWORD_BYTES: usize = 1024;

/// Serves the dashboard of one queue, or of all queues of the store, until a signal ends it.
pub(crate) fn serve(
    store: &Target,
    store_password_file: Option<&Path>,
    queue: Option<&str>,
    args: &Serve,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let access = match args.read_only {
        true => Access::Look,
        false => Access::Change(Durability::Synced),
    };
    let names = match queue {
        Some(queue) => vec![Some(queue.to_owned())],
        None => {
            let queues = open::queues(store, store_password_file)?;
            queues.into_iter().map(|(name, _)| name).collect()
        }
    };
    let mut dashboard: Option<Dashboard> = None;
    let mut title = String::new();
    for name in names {
        let (client, place) = open::client(store, store_password_file, name.as_deref(), access)?;
        title = place.name;
        dashboard = Some(match dashboard {
            None => Dashboard::new(client),
            Some(dashboard) => dashboard.queue(client),
        });
    }
    let Some(dashboard) = dashboard else { return Err("the store has no queue".into()) };
    let right = if args.read_only { Right::ReadOnly } else { Right::Full };
    let dashboard = dashboard.title(title).access(move |_| right);
    let addresses: Vec<SocketAddr> = match args.listen.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(format!("--listen {:?}: {error}", args.listen).into()),
    };
    let listener = TcpListener::bind(&*addresses)
        .map_err(|error| format!("--listen {:?}: {error}", args.listen))?;
    let address = listener.local_addr()?;
    let is_local = address.ip().is_loopback();
    let given = password(args.password_file.as_deref())?;
    let gate = match given {
        Some(password) => Gate::with_password(password),
        None if is_local => Gate::of_loopback(),
        None => {
            let password = auth::made_up()?;
            eprintln!("tickwheel-jobs: the password, which is printed only now: {password}");
            eprintln!("tickwheel-jobs: the user may have any name");
            Gate::with_password(password)
        }
    };
    if !is_local {
        eprintln!(
            "tickwheel-jobs: warning: this is HTTP Basic without TLS: every machine on the way reads the password \
             and the jobs; put a proxy with TLS in front"
        );
    }
    writeln!(out, "http://{address}/")?;
    out.flush()?;
    server::run(listener, dashboard, gate)?;
    Ok(Outcome::Done)
}

/// Returns the password of the file, or of the environment.
fn password(file: Option<&Path>) -> Result<Option<String>, Box<dyn Error>> {
    let (password, of) = match file {
        Some(file) => {
            let content = std::fs::read_to_string(file)
                .map_err(|error| format!("--password-file {}: {error}", file.display()))?;
            (content, format!("--password-file {}", text::plain(&file.display().to_string())))
        }
        None => match std::env::var(PASSWORD) {
            Ok(password) => (password, PASSWORD.to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(format!("{PASSWORD}: {error}").into()),
        },
    };
    let password = password.trim_end_matches(['\r', '\n']);
    if password.is_empty() || password.contains(['\r', '\n']) {
        return Err(format!("{of}: a password is one line, and not empty").into());
    }
    if password.len() > MOST_PASSWORD_BYTES {
        return Err(format!("{of}: a password has at most {MOST_PASSWORD_BYTES} bytes").into());
    }
    Ok(Some(password.to_owned()))
}
