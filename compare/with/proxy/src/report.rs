//! Medians, and the table.

use std::time::Duration;

use crate::Options;
use crate::load::Run;
use crate::timers::Kind;

/// Prints a table of medians, each with the least and the most.
pub(crate) fn print(options: &Options, rows: &[(Kind, Vec<Run>)]) {
    let clients = &options.load.clients;
    println!(
        "{} connections, of which {} must be closed; {:?} between requests; {} repetitions of {:?}\n",
        clients.busy + clients.others(),
        clients.others(),
        options.load.pause,
        options.repetitions,
        options.load.window,
    );
    println!(
        "| timers | requests a second | latency: half (ms) | 99 % (ms) | processor time of the proxy (s) | \
         a request (µs) | timeouts: right | wrong | latest (ms) |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (kind, runs) in rows {
        let cell = |digits, value: &dyn Fn(&Run) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            let (least, most) = (values.first().unwrap_or(&0.0), values.last().unwrap_or(&0.0));
            let median = values.get(values.len() / 2).unwrap_or(&0.0);
            format!("{median:.digits$} [{least:.digits$}, {most:.digits$}]")
        };
        let count = |value: &dyn Fn(&Run) -> usize| runs.iter().map(value).sum::<usize>();
        println!(
            "| {kind} | {} | {} | {} | {} | {} | {} | {} | {} |",
            cell(0, &|run| run.requests as f64 / run.window.as_secs_f64()),
            cell(1, &|run| milliseconds(&run.latencies, 50)),
            cell(1, &|run| milliseconds(&run.latencies, 99)),
            cell(2, &|run| run.processor_time.as_secs_f64()),
            cell(1, &|run| 1e6 * run.processor_time.as_secs_f64() / run.requests.max(1) as f64),
            count(&|run| run.late.len()),
            count(&|run| run.wrong.len()),
            cell(1, &|run| milliseconds(&run.late, 100)),
        );
    }
}

/// The value that `percent` of a hundred do not exceed, in milliseconds.
fn milliseconds(ascending: &[Duration], percent: usize) -> f64 {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending.get(rank - 1).map_or(0.0, |value| 1e3 * value.as_secs_f64())
}
