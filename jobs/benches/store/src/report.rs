//! Makes the tables of `jobs/docs/store.md`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::Fallible;
use crate::candidate::{self, Candidate, Engine, Sync};
use crate::plan::Results;

const BEGIN: &str = "<!-- store-bench: begin -->";
const END: &str = "<!-- store-bench: end -->";
const GROUPS: [&str; 4] = ["1", "32", "256", "1024"];

/// Puts the tables between the two marks of the page.
pub(crate) fn write(tables: &str) -> Fallible<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/store.md");
    let page = fs::read_to_string(&path)?;
    let (before, rest) = page.split_once(BEGIN).ok_or("the page lacks the first mark")?;
    let (_, after) = rest.split_once(END).ok_or("the page lacks the second mark")?;
    Ok(fs::write(path, format!("{before}{BEGIN}\n{tables}{END}{after}"))?)
}

pub(crate) fn tables(results: &Results) -> String {
    let mut text = format!("\nMeasured on {}.\n", machine());
    for (letter, delays) in [("a", "every delay 72 h"), ("b", "delays uniform over 72 h")] {
        let compared = candidate::compared();
        heading(&mut text, &format!("({letter}) {delays}: jobs per second, whole life"));
        groups(&mut text, results, "speed", &compared, letter, "jobs_per_s");
        heading(&mut text, &format!("({letter}) {delays}: bytes written per job"));
        groups(&mut text, results, "speed", &compared, letter, "written");
        heading(&mut text, &format!("({letter}) {delays}: other costs, groups of 256"));
        costs(&mut text, results, "speed", &compared, letter);
    }
    for (letter, delays) in [("a", "every delay 72 h"), ("b", "delays uniform over 72 h")] {
        let schemas = candidate::schemas();
        heading(&mut text, &format!("({letter}) {delays}: one tree or two, jobs per second"));
        groups(&mut text, results, "schemas", &schemas, letter, "jobs_per_s");
        heading(&mut text, &format!("({letter}) {delays}: one tree or two, bytes written per job"));
        groups(&mut text, results, "schemas", &schemas, letter, "written");
    }
    let one = ("S1", "settings", candidate::settings());
    let two = ("S4", "settings-s4", candidate::settings_of_two_trees());
    for (schema, part, settings) in [one, two] {
        heading(&mut text, &format!("Settings of {schema} in (b), `FULL`: jobs per second"));
        groups(&mut text, results, part, &settings, "b", "jobs_per_s");
        heading(&mut text, &format!("Settings of {schema} in (b), `FULL`: costs, groups of 256"));
        costs(&mut text, results, part, &settings, "b");
    }
    churn(&mut text, results);
    reopen(&mut text, results);
    text.push('\n');
    text
}

fn heading(text: &mut String, heading: &str) {
    let _ = write!(text, "\n### {heading}\n\n");
}

fn groups(
    text: &mut String,
    results: &Results,
    part: &str,
    candidates: &[Candidate],
    letter: &str,
    metric: &str,
) {
    text.push_str("| store | 1 | 32 | 256 | 1024 |\n| --- | ---: | ---: | ---: | ---: |\n");
    for candidate in candidates {
        let case = format!("{candidate} {letter}");
        let _ = write!(text, "| {} |", name(candidate, part.starts_with("settings")));
        for group in GROUPS {
            match results.spread(part, &case, &format!("{group}:{metric}")) {
                Some([low, middle, high]) if metric == "jobs_per_s" => {
                    let (low, high) = (thousands(low), thousands(high));
                    let _ = write!(text, " **{}** ({low} - {high}) |", thousands(middle));
                }
                Some([_, middle, _]) => {
                    let _ = write!(text, " {middle:.0} |");
                }
                None => text.push_str(" - |"),
            }
        }
        text.push('\n');
    }
}

fn costs(text: &mut String, results: &Results, part: &str, candidates: &[Candidate], letter: &str) {
    text.push_str(
        "| store | CPU us | dirtied B | fsyncs, groups of 1 | fsyncs | insert p50 us | p99 \
         | worst ms | RSS MiB | file | log |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for candidate in candidates {
        let case = format!("{candidate} {letter}");
        let cell = |part, metric, scale: f64, digits| match results.spread(part, &case, metric) {
            Some([_, middle, _]) => format!("{:.digits$}", middle / scale),
            None => String::from("-"),
        };
        let mib = 1024.0 * 1024.0;
        let cells = [
            name(candidate, part.starts_with("settings")),
            cell(part, "256:cpu_us", 1.0, 1),
            cell(part, "256:dirtied", 1.0, 0),
            cell("syncs", "1:syncs", 1.0, 2),
            cell("syncs", "256:syncs", 1.0, 4),
            cell(part, "256:p50_us", 1.0, 0),
            cell(part, "256:p99_us", 1.0, 0),
            cell(part, "256:max_us", 1000.0, 1),
            cell(part, "rss_kib", 1024.0, 0),
            cell(part, "file_bytes", mib, 0),
            cell(part, "log_bytes", mib, 0),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

fn churn(text: &mut String, results: &Results) {
    heading(text, "File + log in MiB while jobs go through 100,000 pending, (b)");
    text.push_str(
        "| store | at the start | after 1 M | at the end | jobs in all | jobs/s, groups of 1024 |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for candidate in candidate::files() {
        let case = candidate.to_string();
        let value = |metric: &str| {
            results.spread("churn", &case, metric).map_or(f64::NAN, |[_, middle, _]| middle)
        };
        let _ = write!(text, "| {} |", name(&candidate, false));
        let last = (value("jobs") / 1e6).round();
        for place in [0.0, 1.0, last] {
            let mib = |metric: &str| value(&format!("{place}:{metric}")) / 1024.0 / 1024.0;
            let _ = write!(text, " {:.0} + {:.0} |", mib("file_bytes"), mib("log_bytes"));
        }
        let _ = writeln!(text, " {last} M | {} |", thousands(value("jobs_per_s")));
    }
}

fn reopen(text: &mut String, results: &Results) {
    heading(text, "Reopening after `kill -9`: ms from the open to the earliest job");
    text.push_str(
        "| store | pending | ms | RSS MiB | file MiB | log MiB |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for live in [1_000_000, 10_000_000] {
        for candidate in candidate::files() {
            let case = format!("{candidate} {live}");
            let Some([low, middle, high]) = results.spread("reopen", &case, "first_ms") else {
                continue;
            };
            let mib = |metric, scale: f64| {
                let spread = results.spread("reopen", &case, metric);
                spread.map_or(f64::NAN, |[_, middle, _]| middle / scale / 1024.0)
            };
            let _ = writeln!(
                text,
                "| {} | {} | **{middle:.1}** ({low:.1} - {high:.1}) | {:.0} | {:.0} | {:.0} |",
                name(&candidate, false),
                thousands(f64::from(live)),
                mib("rss_kib", 1.0),
                mib("file_bytes", 1024.0),
                mib("log_bytes", 1024.0),
            );
        }
    }
}

fn name(candidate: &Candidate, settings: bool) -> String {
    let Candidate { page_bytes, cache_mib, checkpoint_pages, vacuum, .. } = candidate;
    let full = candidate.sync == Sync::Full;
    if settings {
        let vacuum = if *vacuum { ", incremental vacuum" } else { "" };
        return format!(
            "page {page_bytes}, cache {cache_mib} MiB, checkpoint {checkpoint_pages}{vacuum}"
        );
    }
    match candidate.engine {
        Engine::Redb => format!("redb `Immediate`, cache {cache_mib} MiB"),
        Engine::Fjall => format!("fjall `{}`", if full { "SyncData" } else { "Buffer" }),
        schema => {
            let level = if full { "FULL" } else { "NORMAL" };
            format!("{schema:?} `{level}`, page {page_bytes}")
        }
    }
}

/// A whole number, with a comma before each three digits.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("?");
    let model = model.trim_start_matches(['\t', ' ', ':']);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.split('-').next().unwrap_or_default().trim();
    let sqlite = rusqlite::version();
    format!("{cores} cores of a virtual machine ({model}), Linux {kernel}, SQLite {sqlite}")
}
