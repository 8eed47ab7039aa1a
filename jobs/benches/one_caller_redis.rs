//! How many inserts a second one caller makes on a server that waits for each, beside the bare round trip of the same
//! `EVALSHA`.
//!
//! ```sh
//! cargo bench -p tickwheel-jobs --features redis --bench one_caller_redis
//! cargo bench -p tickwheel-jobs --features redis --bench one_caller_redis -- --rounds 9 --seconds 1
//! ```
//!
//! *bare* sends what an insert of this crate has sent, with another id and another number of the batch, by one `write`
//! on a socket, and reads the answer. The rows are measured by turns on one server. A rate is the median of the rounds,
//! with the least and the most of them. The part of the bare round trip is that of the same round, so a machine that is
//! slow for a while slows both. *process* inserts in the process that runs the jobs, and *client* by a client that runs
//! none. The switches are those of the thread that inserts, for each insert: one is the wait for the server.

#[path = "steps/open.rs"]
#[allow(dead_code, reason = "made for the other benchmark")]
mod open;

use std::env;
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tickwheel_jobs::{Client, Jobs};

use open::{Filled, Level, Place, Task, task};

const ROWS: [&str; 3] = ["bare", "client", "process"];

/// The word of the operation that inserts.
const INSERT: &[u8] = b"insert_many";

/// The figures of one round of a row.
struct Measured {
    a_second: f64,
    switches: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (rounds, length) = options()?;
    let filled = Filled::default();
    let place = Place::new(&env::temp_dir(), Level::Server, &filled)?;
    let port = place.port().ok_or("there is no server")?;
    let mut bare = Bare::record(port)?;
    let mut found: [Vec<Measured>; ROWS.len()] = Default::default();
    for _ in 0..rounds {
        found[0].push(measure(length, |_| bare.insert())?);
        found[1].push(ours(&place.client()?, length)?);
        let jobs = place.open()?.handle(|_: Task, _| Ok(())).start()?;
        found[2].push(ours(&jobs, length)?);
    }
    println!("| | inserts a second | of the bare round trip | switches an insert |");
    println!("| --- | ---: | ---: | ---: |");
    for (row, name) in found.iter().zip(ROWS) {
        let rates = row.iter().map(|round| round.a_second);
        let parts = row.iter().zip(&found[0]).map(|(round, bare)| round.a_second / bare.a_second);
        let switches = row.iter().map(|round| round.switches);
        let rates = median(rates.collect(), 0);
        let (parts, switches) = (median(parts.collect(), 2), median(switches.collect(), 2));
        println!("| {name} | {rates} | {parts} | {switches} |");
    }
    Ok(())
}

/// Returns the median, and the least and the most.
fn median(mut found: Vec<f64>, digits: usize) -> String {
    found.sort_by(f64::total_cmp);
    let (least, most, median) = (found[0], found[found.len() - 1], found[found.len() / 2]);
    format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
}

/// Inserts jobs that are due in an hour.
fn ours(client: &Client, length: Duration) -> Result<Measured, Box<dyn Error>> {
    measure(length, |number| {
        client
            .insert(Duration::from_secs(3600), task(number))
            .map_err(|error| error.to_string())?;
        Ok(())
    })
}

/// A connection, and the arguments of an insert that this crate has sent.
struct Bare {
    stream: TcpStream,
    args: Vec<Vec<u8>>,
    /// The indices of the arguments that change: the number of the batch, and the id.
    number_at: usize,
    id_at: usize,
    inserted: u64,
}

impl Bare {
    /// Lets a client insert a job, and keeps what it sends.
    fn record(port: u16) -> Result<Bare, Box<dyn Error>> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = listener.local_addr()?.port();
        let sink = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return };
                relay(stream, server, Arc::clone(&sink));
            }
        });
        let client = Jobs::redis(format!("redis://127.0.0.1:{near}/"))?.client()?;
        ours(&client, Duration::ZERO)?;
        drop(client);
        let sent = heard.lock().map_err(|_| "the relay has failed")?.clone();
        let args = words(&sent).ok_or("the insert was not heard")?;
        let word_at =
            args.iter().position(|arg| arg == INSERT).ok_or("the insert has another form")?;
        // The place and the number of the batch, two more, then the operation; the id, the time and the record end it.
        let (number_at, id_at) = (word_at - 3, args.len() - 3);
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        Ok(Bare { stream, args, number_at, id_at, inserted: 0 })
    }

    fn insert(&mut self) -> Result<(), Box<dyn Error>> {
        self.inserted += 1;
        // Far above the numbers of the client.
        self.args[self.number_at] = (1_000_000 + self.inserted).to_string().into_bytes();
        self.args[self.id_at][8..].copy_from_slice(&self.inserted.to_be_bytes());
        let mut packed = format!("*{}\r\n", self.args.len()).into_bytes();
        for arg in &self.args {
            packed.extend(format!("${}\r\n", arg.len()).as_bytes());
            packed.extend(arg);
            packed.extend(b"\r\n");
        }
        self.stream.write_all(&packed)?;
        let mut answer = [0; 256];
        let mut length = 0;
        while !answer[..length].ends_with(b"$1\r\nn\r\n") {
            match self.stream.read(&mut answer[length..])? {
                0 => return Err(String::from_utf8_lossy(&answer[..length]).into()),
                read => length += read,
            }
            if answer[0] == b'-' {
                return Err(String::from_utf8_lossy(&answer[..length]).into());
            }
        }
        Ok(())
    }
}

/// Sends what comes on each of two connections to the other, and keeps the last insert that it finds.
fn relay(client: TcpStream, server: TcpStream, heard: Arc<Mutex<Vec<u8>>>) {
    let (Ok(mut to_client), Ok(mut to_server)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    let (mut client, mut server) = (client, server);
    thread::spawn(move || std::io::copy(&mut server, &mut to_client));
    thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(read @ 1..) = client.read(&mut bytes) {
            let bytes = &bytes[..read];
            if bytes.windows(INSERT.len()).any(|word| word == INSERT)
                && let Ok(mut heard) = heard.lock()
            {
                heard.clear();
                heard.extend(bytes);
            }
            if to_server.write_all(bytes).is_err() {
                return;
            }
        }
    });
}

/// Returns the words of the first command of a text.
fn words(mut sent: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = |mark: u8, sent: &mut &[u8]| {
        let end = sent.windows(2).position(|two| two == b"\r\n")?;
        let length = std::str::from_utf8(sent.get(1..end)?).ok()?.parse().ok()?;
        let is_marked = sent.first() == Some(&mark);
        *sent = &sent[end + 2..];
        is_marked.then_some::<usize>(length)
    };
    let many = line(b'*', &mut sent)?;
    let mut words = Vec::new();
    for _ in 0..many {
        let length = line(b'$', &mut sent)?;
        words.push(sent.get(..length)?.to_vec());
        sent = sent.get(length + 2..)?;
    }
    Some(words)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn measure(
    length: Duration,
    mut insert: impl FnMut(u64) -> Result<(), Box<dyn Error>>,
) -> Result<Measured, Box<dyn Error>> {
    for number in 0..100 {
        insert(number)?;
    }
    let (before, began, mut inserted) = (switches(), Instant::now(), 0);
    while began.elapsed() < length {
        insert(100 + inserted)?;
        inserted += 1;
    }
    let a_second = inserted as f64 / began.elapsed().as_secs_f64();
    Ok(Measured { a_second, switches: (switches() - before) / inserted as f64 })
}

/// Returns the number of waits of this thread, or NaN if the system does not count them.
fn switches() -> f64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let waited = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    waited.and_then(|waited| waited.trim().parse().ok()).unwrap_or(f64::NAN)
}

fn options() -> Result<(usize, Duration), Box<dyn Error>> {
    let (mut rounds, mut seconds) = (5, 1.0);
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--rounds" => rounds = value.parse()?,
            "--seconds" => seconds = value.parse()?,
            _ => return Err(format!("{name} is no option").into()),
        }
    }
    Ok((rounds, Duration::from_secs_f64(seconds)))
}
