//! The history of a queue on a server with more kinds than have rows of their own.

use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Client, Step};

use crate::server::Server;
use crate::support::{Order, open, wall_now};

const HOUR: Duration = Duration::from_secs(3600);
fn inserted(client: &Client, kind: &str) -> u64 {
    let ever = SystemTime::UNIX_EPOCH..wall_now() + 1000 * 24 * HOUR;
    let history = client.kind_named(kind).history(Step::Hour, ever).unwrap();
    history.iter().map(|entry| entry.inserted).sum()
}

/// P34: While 200 other kinds have rows, the events of a further kind count as `other`. A kind to which nothing has
/// happened for 90 days makes room.
#[test]
fn kinds_behind_the_first_200_share_one_history_on_a_server() {
    let server = Server::start();
    let set = |field: &[u8], value: &[u8]| {
        let _: i64 = server.by_hand("HSET", "history", &[field, value]);
    };
    let hours = wall_now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 3600;
    let mut kinds = Vec::new();
    for n in 0..200 {
        let kind = format!("kind {n}");
        kinds.push(u8::try_from(kind.len()).unwrap());
        kinds.extend(kind.as_bytes());
        let hour = u32::try_from(hours).unwrap().to_be_bytes();
        set(format!("i{kind}").as_bytes(), &[b"m", &hour[..]].concat());
    }
    set(b"k", &kinds);
    let client = open(&server).client().unwrap();
    client.insert(HOUR, Order(1)).unwrap();
    client.insert(HOUR, Order(2)).unwrap();
    assert_eq!((inserted(&client, "order"), inserted(&client, "other")), (0, 2));
    // One of them had its last hour long ago, and the store looks for such a kind again.
    let long_ago = u32::try_from(hours - 24 * 100).unwrap().to_be_bytes();
    set(b"ikind 7", &[b"m", &long_ago[..]].concat());
    set(b"w", b"");
    client.insert(HOUR, Order(3)).unwrap();
    assert_eq!((inserted(&client, "order"), inserted(&client, "other")), (1, 2));
    assert!(!server.by_hand::<bool>("HEXISTS", "history", &[b"ikind 7"]));
}
