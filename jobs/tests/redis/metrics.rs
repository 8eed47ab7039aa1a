//! The metrics of a queue on a server: what they cost, and which nodes they see.

use std::time::Duration;

use tickwheel_jobs::Client;

use crate::scenarios::metrics::Samples;
use crate::server::{Server, wait_until};
use crate::support::{Order, open};

const HOUR: Duration = Duration::from_secs(3600);

/// P86: The gauges cost a server as many commands with twenty thousand jobs, overdue and dead ones among them, as with
/// three.
#[test]
fn gauges_of_many_jobs_cost_a_server_what_those_of_few_do() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    let insert = |client: &Client, many: u64| {
        for (n, delay) in [(0, Duration::ZERO), (1, HOUR), (2, 48 * HOUR)] {
            let jobs = (0..many).map(|job| (delay, Order(job * 3 + n)));
            client.insert_batch(jobs).unwrap();
        }
    };
    let cost = |client: &Client| {
        client.metrics().unwrap();
        server.cost(|| drop(client.metrics().unwrap()))
    };
    insert(&client, 1);
    let few = cost(&client);
    insert(&client, 7_000);
    let text = client.metrics().unwrap().to_string();
    let found = Samples::of("default", &text);
    assert_eq!(found.all("pending"), [21_003.0]);
    assert_eq!(cost(&client), few);
}

/// P86: A server knows which nodes are there. Kinds that none of them handles are told.
#[test]
fn metrics_of_a_server_tell_its_nodes_and_unhandled_kinds() {
    let server = Server::start();
    let client = open(&server).client().unwrap();
    client.insert(HOUR, Order(1)).unwrap();
    let found = || Samples::of("default", &client.metrics().unwrap().to_string());
    let gauge = |name: &str| found().all(name);
    assert_eq!((gauge("nodes"), gauge("unhandled")), (vec![0.0], vec![1.0]));
    let start = || open(&server).handle(|_: Order, _| Ok(())).start().unwrap();
    let nodes = [start(), start()];
    wait_until("both are there", || gauge("nodes") == [2.0]);
    assert_eq!((gauge("unhandled"), gauge("pending")), (vec![0.0], vec![1.0]));
    for node in nodes {
        node.shutdown().unwrap();
    }
    wait_until("both are gone", || gauge("nodes") == [0.0]);
}
