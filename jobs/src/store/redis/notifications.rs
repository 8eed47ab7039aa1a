//! What other processes say that they have done, on a connection and a thread of its own.
//!
//! Ground rules:
//!
//! - A hint makes the dispatcher look sooner, and nothing depends on it: hints may be lost, late, or
//!   come twice. The dispatcher looks within a second in any case.
//! - A silent connection is asked whether it is there; one that does not answer is made anew. So is
//!   every one when the dispatcher has found the queue on another server. The thread searches for none:
//!   it connects to the one that was found.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use redis::Msg;

use super::discovery::Server;
use super::protocol::Message;
use crate::store::{Notification, Notify};

/// Ends the thread when it is dropped, within [`PATIENCE`] or the time that a connection takes.
pub(super) struct Listener {
    /// Nothing is sent. The thread sees that it is gone.
    _owner: Sender<()>,
    /// The dispatcher's end of it must not find the way closed.
    _hints: Arc<Notify>,
}

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often a thread without messages looks whether it is to end.
const PATIENCE: Duration = Duration::from_secs(1);
/// After so many silent seconds the server is asked whether it is there.
const SILENT: u32 = 10;

impl Listener {
    pub(super) fn start(
        server: Server,
        channel: String,
        owner: [u8; 8],
        notifications: Notify,
    ) -> Listener {
        let (alive, ended) = bounded(0);
        let notifications = Arc::new(notifications);
        let tell = Arc::clone(&notifications);
        let listen = move || {
            let mut wait = FIRST_WAIT;
            loop {
                if listen(&server, &channel, owner, &tell, &ended) {
                    wait = FIRST_WAIT;
                }
                // Not all at once, when a server comes back to many.
                let part = u32::from(owner[0] % 16);
                let waited = ended.recv_timeout(wait + wait * part / 16);
                if waited == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        };
        // Without the thread jobs of other processes are seen within a second.
        let named = std::thread::Builder::new().name("tickwheel-jobs-notifications".to_owned());
        drop(named.spawn(listen));
        Listener { _owner: alive, _hints: notifications }
    }
}

/// Listens until the connection fails, or the queue is elsewhere, or nobody is interested any more.
/// Returns whether it worked for a while.
fn listen(
    server: &Server,
    channel: &str,
    owner: [u8; 8],
    notifications: &Notify,
    ended: &Receiver<()>,
) -> bool {
    let moves = server.moves();
    let Some(mut connection) = server.connect_to_found() else { return false };
    let mut messages = connection.as_pubsub();
    let subscribed = messages.subscribe(channel);
    if subscribed.and_then(|()| messages.set_read_timeout(Some(PATIENCE))).is_err() {
        return false;
    }
    // What happened before the subscription was not heard.
    notifications(Notification::Poll);
    let mut silent = 0;
    while ended.try_recv() == Err(TryRecvError::Empty) && server.moves() == moves {
        match messages.get_message() {
            Ok(message) => {
                silent = 0;
                if let Some(notification) = notification_of(&message, owner) {
                    notifications(notification);
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
    true
}

/// A message is a word, a due time and the owner. Those of this process are ignored.
fn notification_of(message: &Msg, owner: [u8; 8]) -> Option<Notification> {
    let payload = message.get_payload_bytes();
    if payload.ends_with(&owner) {
        return None;
    }
    Message::of(payload).map(|message| match message {
        Message::Due => Notification::Due,
        Message::Poll => Notification::Poll,
    })
}
