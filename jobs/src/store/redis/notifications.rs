//! Listens for notifications of other processes, on its own connection and thread.
//!
//! Ground rules:
//!
//! - A notification makes the dispatcher act sooner. Nothing depends on it: notifications may be lost, late, or
//!   arrive twice. The dispatcher polls within a second in any case.
//! - The thread sends a ping on a silent connection. If the server does not answer, or the dispatcher has found
//!   the queue on another server, the thread connects again. It does not search: it connects to the server
//!   that the dispatcher found last.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use redis::Msg;

use super::discovery::Server;
use super::protocol;
use crate::store::{Notification, Notify};

/// The thread that listens. It ends when this is dropped, within [`PATIENCE`] or the time that a connection
/// takes.
pub(super) struct Listener {
    /// Sends nothing. The thread sees when it is dropped.
    _owner: Sender<()>,
    /// Keeps the channel to the dispatcher open, also if the thread has ended.
    _hints: Arc<Notify>,
}

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for a message. After it the thread checks whether it has to end.
const PATIENCE: Duration = Duration::from_secs(1);
/// After this many waits without a message, the thread sends a ping.
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
                // Processes wait for different times, so that they do not all connect at once when a server
                // comes back.
                let part = u32::from(owner[0] % 16);
                let waited = ended.recv_timeout(wait + wait * part / 16);
                if waited == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        };
        // If the thread cannot be started, the poll still finds other processes' jobs within a second.
        let named = std::thread::Builder::new().name("tickwheel-jobs-notifications".to_owned());
        drop(named.spawn(listen));
        Listener { _owner: alive, _hints: notifications }
    }
}

/// Listens until the connection fails, the queue is found on another server, or the [`Listener`] is dropped.
/// Returns whether it could subscribe.
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
    // Notifications from before the subscription were lost.
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
    protocol::notification(payload)
}
