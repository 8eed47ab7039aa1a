//! The options of the command line.

use std::num::NonZeroU32;
use std::time::Duration;

pub(crate) const HELP: &str = "\
A TCP server with an idle timer for each connection, and clients that fall silent.

Usage: heartbeats [options]

  --connections N  how many clients [10000], fewer where the limit on open files says so
  --seconds N      how long the run takes [20]
  --interval-ms N  how often a client sends a heartbeat [1000]
  --idle-ms N      how long a connection may be silent before it is evicted [3000]
  --short          500 connections, 4 s, 200 ms, 800 ms, where nothing else is said
  --help           this text";

pub(crate) enum Asked {
    Help,
    Run(Options),
}

pub(crate) struct Options {
    pub(crate) connections: usize,
    pub(crate) run: Duration,
    pub(crate) interval: Duration,
    pub(crate) idle: Duration,
}

impl Options {
    const FULL: Options = Options {
        connections: 10_000,
        run: Duration::from_secs(20),
        interval: Duration::from_secs(1),
        idle: Duration::from_secs(3),
    };

    const SHORT: Options = Options {
        connections: 500,
        run: Duration::from_secs(4),
        interval: Duration::from_millis(200),
        idle: Duration::from_millis(800),
    };

    /// The latest time in the run at which a client may fall silent and still be evicted within it.
    pub(crate) fn last_silence(&self) -> Duration {
        self.run.saturating_sub(self.idle + self.interval)
    }

    fn check(self) -> Result<Options, String> {
        if self.idle < self.interval * 2 {
            return Err("--idle-ms must be at least twice --interval-ms".to_owned());
        }
        if self.last_silence().is_zero() {
            let least = (self.idle + self.interval).as_secs() + 1;
            return Err(format!(
                "nobody can be evicted in time: --seconds must be {least} or more"
            ));
        }
        Ok(self)
    }
}

pub(crate) fn parse(arguments: &[String]) -> Result<Asked, String> {
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    if given("--help") {
        return Ok(Asked::Help);
    }
    let mut options = if given("--short") { Options::SHORT } else { Options::FULL };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let mut number = || number(name, rest.next());
        match name.as_str() {
            "--short" => {}
            "--connections" => options.connections = number()? as usize,
            "--seconds" => options.run = Duration::from_secs(number()?),
            "--interval-ms" => options.interval = Duration::from_millis(number()?),
            "--idle-ms" => options.idle = Duration::from_millis(number()?),
            _ => return Err(format!("unknown option {name}, see --help")),
        }
    }
    options.check().map(Asked::Run)
}

fn number(name: &str, value: Option<&String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{name} needs a number"))?;
    let number: NonZeroU32 = value
        .parse()
        .map_err(|_| format!("{name} {value}: must be a whole number from 1 to {}", u32::MAX))?;
    Ok(u64::from(number.get()))
}
