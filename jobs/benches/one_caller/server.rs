//! The bare round trip of an insert on a server: the words of an `EVALSHA` that the crate has sent, with another id and
//! another number of the batch, by one `write` on a socket.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tickwheel_jobs::Jobs;

use crate::ours;

/// The word of the operation that inserts.
const INSERT: &[u8] = b"insert_many";
/// The answer ends with the result of one insert, and with no names of values that were set aside.
const ANSWER_END: &[u8] = b"$1\r\nn\r\n*0\r\n";

/// A connection, and the arguments of an insert that this crate has sent.
pub(crate) struct Bare {
    stream: TcpStream,
    args: Vec<Vec<u8>>,
    /// The indices of the arguments that change: the number of the batch, and the id.
    number_at: usize,
    id_at: usize,
    inserted: u64,
}

impl Bare {
    /// Lets a client insert a job, and keeps the bytes that it sends.
    pub(crate) fn record(port: u16) -> Result<Bare, Box<dyn Error>> {
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

    pub(crate) fn insert(&mut self) -> Result<(), Box<dyn Error>> {
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
        while !answer[..length].ends_with(ANSWER_END) {
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

/// Forwards the bytes of each of two connections to the other one, and keeps the last insert among them.
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
