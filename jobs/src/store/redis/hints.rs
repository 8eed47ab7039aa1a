//! What other processes say that they have done, on a connection and a thread of its own.
//!
//! Ground rules:
//!
//! - A hint makes the dispatcher look sooner, and nothing depends on it: hints may be lost, late, or
//!   come twice. The dispatcher looks within a second in any case.
//! - A silent connection is asked whether it is there; one that does not answer is made anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Msg;

use super::connection::Server;
use crate::store::words::{Hint, Hints};

/// Ends the thread when it is dropped, within a second or so.
pub(super) struct Listener {
    ended: Arc<AtomicBool>,
    /// The dispatcher's end of it must not find the way closed.
    _hints: Arc<Hints>,
}

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often a thread without messages looks whether it is to end.
const PATIENCE: Duration = Duration::from_secs(1);
/// After so many silent seconds the server is asked whether it is there.
const SILENT: u32 = 10;

impl Listener {
    pub(super) fn start(server: Server, channel: String, owner: [u8; 8], hints: Hints) -> Listener {
        let (ended, hints) = (Arc::new(AtomicBool::new(false)), Arc::new(hints));
        let (is_over, tell) = (Arc::clone(&ended), Arc::clone(&hints));
        let listen = move || {
            let mut wait = FIRST_WAIT;
            while !is_over.load(Ordering::Acquire) {
                if listen(&server, &channel, owner, &tell, &is_over).is_ok() {
                    wait = FIRST_WAIT;
                }
                // Not all at once, when a server comes back to many.
                let part = u32::from(owner[0] % 16);
                let _ = crossbeam_channel::after(wait + wait * part / 16).recv();
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        };
        // Without the thread jobs of other processes are seen within a second.
        let named = std::thread::Builder::new().name("tickwheel-jobs-hints".to_owned());
        drop(named.spawn(listen));
        Listener { ended, _hints: hints }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// Listens until the connection fails or nobody is interested any more. `Ok` if it worked for a
/// while.
fn listen(
    server: &Server,
    channel: &str,
    owner: [u8; 8],
    hints: &Hints,
    is_over: &AtomicBool,
) -> redis::RedisResult<()> {
    let mut connection = server.connect()?;
    let mut messages = connection.as_pubsub();
    messages.subscribe(channel)?;
    messages.set_read_timeout(Some(PATIENCE))?;
    // What happened before the subscription was not heard.
    hints(Hint::Look);
    let mut silent = 0;
    while !is_over.load(Ordering::Acquire) {
        match messages.get_message() {
            Ok(message) => {
                silent = 0;
                if let Some(hint) = hint_of(&message, owner) {
                    hints(hint);
                }
            }
            Err(error) if error.is_timeout() => {
                silent += 1;
                if silent == SILENT {
                    silent = 0;
                    if messages.ping::<redis::Value>().is_err() {
                        break;
                    }
                }
            }
            Err(_) => break,
        }
    }
    Ok(())
}

/// A message is a word, a deadline and whose it is. One's own are no news.
fn hint_of(message: &Msg, owner: [u8; 8]) -> Option<Hint> {
    let payload = message.get_payload_bytes();
    let is_own = payload.ends_with(&owner);
    match payload.first() {
        Some(b'd') if !is_own => Some(Hint::Earlier),
        Some(b'a') if !is_own => Some(Hint::Look),
        _ => None,
    }
}
