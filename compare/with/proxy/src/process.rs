//! The process of the proxy, from both sides.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tickwheel::Wheel;

use crate::origins::{ECHO, MUTE, Origins, ROOM, UNREACHABLE, listen};
use crate::proxy::{self, Closed, Limits};
use crate::timers::{Kind, Tokio};

/// The first argument of the process that is the proxy.
pub(crate) const SERVE: &str = "serve";

/// A proxy that runs.
pub(crate) struct Proxy {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    pub(crate) address: SocketAddr,
}

/// How many connections the proxy has closed: after the timeout of a connect, of a read, of an idle
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) connect: u64,
    pub(crate) read: u64,
    pub(crate) idle: u64,
}

impl Proxy {
    pub(crate) fn start(kind: Kind, origins: &Origins, limits: Limits) -> io::Result<Proxy> {
        // If no address is unreachable, no client asks for one, and any address will do.
        let unreachable = origins.unreachable.unwrap_or(origins.mute);
        let addresses = [origins.echo, origins.mute, unreachable].map(|to| to.to_string());
        let limits = [limits.connect, limits.read, limits.idle];
        let mut child = Command::new(env::current_exe()?)
            .args([SERVE, &kind.to_string()])
            .args(addresses)
            .args(limits.map(|limit| limit.as_millis().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line)?;
        let address = line.trim().parse().map_err(io::Error::other)?;
        Ok(Proxy { child, output, address })
    }

    /// Returns the processor time that it has used, in user and system mode. Zero where the system
    /// does not tell.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        // Behind the name in brackets, the twelfth field and the next, in hundredths of a second.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let times = fields.split_whitespace().skip(11).take(2);
        let hundredths: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
        Duration::from_millis(10 * hundredths)
    }

    /// Ends it, and returns what it has counted.
    pub(crate) fn stop(mut self) -> io::Result<Counts> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        self.child.wait()?;
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse().ok());
        let mut number = || numbers.next().ok_or(io::ErrorKind::UnexpectedEof);
        Ok(Counts { connect: number()?, read: number()?, idle: number()? })
    }
}

/// What the process of the proxy does: prints its address, serves until its input ends, and prints
/// what it has counted.
pub(crate) fn serve(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut next = || arguments.next().expect("what the parent passes");
    let kind = Kind::parse(&next()).expect("a kind of timers");
    let routes = [ECHO, MUTE, UNREACHABLE].map(|byte| (byte, next().parse().expect("an address")));
    let mut limit = || Duration::from_millis(next().parse().expect("milliseconds"));
    let limits = Limits { connect: limit(), read: limit(), idle: limit() };
    let closed = Arc::new(Closed::default());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_io();
    if kind == Kind::Tokio {
        runtime.enable_time();
    }
    let runtime = runtime.build().expect("threads for the proxy");
    let listener = runtime.block_on(async { listen(ROOM) }).expect("a port");
    println!("{}", listener.local_addr().expect("it is bound"));
    io::stdout().flush().expect("the parent reads");
    let (routes, counted) = (routes.to_vec(), Arc::clone(&closed));
    // Each kind has its own timers and none of the other kind.
    let wheel = (kind == Kind::Wheel).then(Wheel::new);
    match &wheel {
        None => runtime.spawn(proxy::serve(listener, routes, limits, counted, Tokio)),
        Some(wheel) => {
            runtime.spawn(proxy::serve(listener, routes, limits, counted, wheel.scheduler()))
        }
    };
    // Until the parent closes it, or is gone.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let count = |closed: &std::sync::atomic::AtomicU64| closed.load(Ordering::SeqCst);
    println!("{} {} {}", count(&closed.connect), count(&closed.read), count(&closed.idle));
    ExitCode::SUCCESS
}
