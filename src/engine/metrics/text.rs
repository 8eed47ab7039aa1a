//! The text of a scrape: counters, gauges and histograms, as Prometheus and OpenMetrics read them.
//!
//! Ground rules:
//!
//! - A metric stands in the text once, with all of its samples, and a set of labels stands in it once. A scrape
//!   that breaks this is refused as a whole.
//! - A label may have any text. `plain` replaces control characters, and `escaped` escapes the rest.

use core::fmt::{self, Write};
use core::time::Duration;
use std::collections::BTreeMap;

/// Metrics, to be scraped by Prometheus or another monitoring system. [`Stats::metrics`](crate::Stats::metrics)
/// returns those of a wheel, and `Client::metrics` of `tickwheel-jobs` those of a queue.
///
/// `Display` writes the text format of Prometheus, version 0.0.4 ([`Metrics::TEXT`] is its content type).
/// [`Metrics::openmetrics`] returns the text of OpenMetrics 1.0, and [`Metrics::for_accept`] chooses between the
/// two as a scrape asks.
///
/// ```
/// use tickwheel::{Metrics, Wheel};
///
/// let (requests, replies) = (Wheel::new(), Wheel::new());
/// let mut metrics = requests.stats().metrics().with_label("wheel", "requests");
/// metrics.add(replies.stats().metrics().with_label("wheel", "replies"));
/// metrics.counter("shop_orders_total", "Orders that were placed.", &[("country", "pt")], 7);
/// let text = metrics.to_string();
/// assert!(text.contains("\ntickwheel_pending{wheel=\"requests\"} 0\n"));
/// assert!(text.ends_with("\nshop_orders_total{country=\"pt\"} 7\n"));
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Metrics {
    families: Vec<Family>,
}

/// All samples of a name.
#[derive(Clone, PartialEq, Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    /// By their labels, as the text has them.
    samples: BTreeMap<String, Sample>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, PartialEq, Debug)]
enum Sample {
    Counter(u64),
    Gauge(f64),
    Histogram {
        /// Each bound in seconds, and how many values are at most that high.
        buckets: Vec<(f64, u64)>,
        sum: f64,
        count: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Prometheus,
    OpenMetrics,
}

impl Metrics {
    /// The content type of the text that `Display` writes.
    pub const TEXT: &'static str = "text/plain; version=0.0.4; charset=utf-8";
    /// The content type of [`Metrics::openmetrics`].
    pub const OPENMETRICS: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Returns no metrics.
    #[must_use]
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Adds a counter. Its name ends with `_total`. A counter that is there already, with the same labels, grows by
    /// the value.
    ///
    /// The value of a label may have any text: quotes, backslashes and line ends are escaped, and other control
    /// characters become visible symbols.
    ///
    /// # Panics
    ///
    /// If the name or the name of a label is none that Prometheus takes, or if the name belongs to another type of
    /// metric here.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: u64,
    ) {
        assert!(name.ends_with("_total"), "the name of a counter ends with `_total`: {name}");
        self.family(name, help, Kind::Counter).put(rendered(labels), Sample::Counter(value));
    }

    /// Adds a gauge. If it is there already, with the same labels, the greater value stays.
    ///
    /// # Panics
    ///
    /// As [`Metrics::counter`].
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        self.family(name, help, Kind::Gauge).put(rendered(labels), Sample::Gauge(value));
    }

    /// Adds a histogram of durations: each bound with the number of durations of at most that length, the sum of
    /// all durations, and their number. A histogram that is there already, with the same labels and bounds, grows by
    /// these.
    ///
    /// # Panics
    ///
    /// As [`Metrics::counter`].
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        buckets: impl IntoIterator<Item = (Duration, u64)>,
        (sum, count): (Duration, u64),
    ) {
        let in_seconds = |(bound, count): (Duration, u64)| (bound.as_secs_f64(), count);
        let buckets = buckets.into_iter().map(in_seconds).collect();
        let sample = Sample::Histogram { buckets, sum: sum.as_secs_f64(), count };
        self.family(name, help, Kind::Histogram).put(rendered(labels), sample);
    }

    /// Adds other metrics: of another wheel or queue, or of the program.
    ///
    /// # Panics
    ///
    /// If a name belongs to another type of metric there.
    pub fn add(&mut self, others: Metrics) {
        for Family { name, help, kind, samples } in others.families {
            let family = self.family(name, help, kind);
            for (labels, sample) in samples {
                family.put(labels, sample);
            }
        }
    }

    /// Returns the metrics with one more label on each sample, which must not have one of this name.
    ///
    /// # Panics
    ///
    /// If the name is none that Prometheus takes.
    #[must_use]
    pub fn with_label(mut self, name: &'static str, value: &str) -> Metrics {
        let label = rendered(&[(name, value)]);
        for family in &mut self.families {
            let samples = core::mem::take(&mut family.samples).into_iter();
            family.samples = samples.map(|(labels, it)| (joined(&label, &labels), it)).collect();
        }
        self
    }

    /// Returns the text of OpenMetrics 1.0.
    #[must_use]
    pub fn openmetrics(&self) -> String {
        let mut text = String::new();
        // A string takes all that is written.
        let _ = self.write(&mut text, Format::OpenMetrics);
        text
    }

    /// Returns the text that a request asks for, and its content type. `accept` is the value of the request's header
    /// `Accept`. The text is that of OpenMetrics if the header prefers it, or ranks it with `text/plain`.
    #[must_use]
    pub fn for_accept(&self, accept: Option<&str>) -> (&'static str, String) {
        let accept = accept.unwrap_or_default();
        let open = preference(accept, "application/openmetrics-text", &["1.0.0", "0.0.1"]);
        let plain = preference(accept, "text/plain", &["0.0.4", "1.0.0"]);
        match open > 0.0 && open >= plain {
            true => (Metrics::OPENMETRICS, self.openmetrics()),
            false => (Metrics::TEXT, self.to_string()),
        }
    }

    fn family(&mut self, name: &'static str, help: &'static str, kind: Kind) -> &mut Family {
        let at = self.families.iter().position(|family| family.name == name);
        let at = at.unwrap_or_else(|| {
            assert!(is_name(name), "this is no name of a metric: {name:?}");
            self.families.push(Family { name, help, kind, samples: BTreeMap::new() });
            self.families.len() - 1
        });
        let family = &mut self.families[at];
        assert!(family.kind == kind, "{name} is a metric of two types");
        family
    }

    fn write(&self, out: &mut dyn Write, format: Format) -> fmt::Result {
        for family in self.families.iter().filter(|family| !family.samples.is_empty()) {
            family.write(out, format)?;
        }
        match format {
            Format::Prometheus => Ok(()),
            Format::OpenMetrics => out.write_str("# EOF\n"),
        }
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Format::Prometheus)
    }
}

impl Family {
    /// Adds a sample. Two labels may become the same text, because control characters are replaced: so a sample of
    /// these labels may be there.
    fn put(&mut self, labels: String, sample: Sample) {
        match (self.samples.get_mut(&labels), sample) {
            (None, sample) => drop(self.samples.insert(labels, sample)),
            (Some(Sample::Counter(sum)), Sample::Counter(by)) => *sum = sum.saturating_add(by),
            (Some(Sample::Gauge(most)), Sample::Gauge(other)) => *most = most.max(other),
            (
                Some(Sample::Histogram { buckets, sum, count }),
                Sample::Histogram { buckets: other, sum: more, count: many },
            ) if buckets.iter().map(|it| it.0).eq(other.iter().map(|it| it.0)) => {
                for ((_, below), (_, by)) in buckets.iter_mut().zip(other) {
                    *below = below.saturating_add(by);
                }
                (*sum, *count) = (*sum + more, count.saturating_add(many));
            }
            _ => {}
        }
    }

    fn write(&self, out: &mut dyn Write, format: Format) -> fmt::Result {
        let (name, help) = (self.name, escaped(self.help));
        // OpenMetrics names a counter without the end that its samples have.
        let title = match format {
            Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
            Format::Prometheus => name,
        };
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        writeln!(out, "# HELP {title} {help}\n# TYPE {title} {kind}")?;
        for (labels, sample) in &self.samples {
            match sample {
                Sample::Counter(value) => line(out, name, "", labels, value)?,
                Sample::Gauge(value) => line(out, name, "", labels, &Number(*value))?,
                Sample::Histogram { buckets, sum, count } => {
                    for (bound, below) in buckets {
                        // `1.0` and not `1`: so OpenMetrics wants it, and the two texts must name one series.
                        let with_bound = joined(labels, &format!("le=\"{bound:?}\""));
                        line(out, name, "_bucket", &with_bound, below)?;
                    }
                    line(out, name, "_bucket", &joined(labels, "le=\"+Inf\""), count)?;
                    line(out, name, "_sum", labels, &Number(*sum))?;
                    line(out, name, "_count", labels, count)?;
                }
            }
        }
        Ok(())
    }
}

fn line(
    out: &mut dyn Write,
    name: &str,
    end: &str,
    labels: &str,
    value: &dyn fmt::Display,
) -> fmt::Result {
    match labels {
        "" => writeln!(out, "{name}{end} {value}"),
        _ => writeln!(out, "{name}{end}{{{labels}}} {value}"),
    }
}

/// A value as both formats write it.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            value => value.fmt(f),
        }
    }
}

fn joined(first: &str, second: &str) -> String {
    match (first, second) {
        ("", labels) | (labels, "") => labels.to_owned(),
        _ => format!("{first},{second}"),
    }
}

/// Returns the labels as the text has them, without the braces.
fn rendered(labels: &[(&'static str, &str)]) -> String {
    let label = |(name, value): &(&str, &str)| {
        assert!(is_name(name) && !name.contains(':'), "this is no name of a label: {name:?}");
        format!("{name}=\"{}\"", escaped(&plain(value)))
    };
    labels.iter().map(label).collect::<Vec<String>>().join(",")
}

fn is_name(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    name.bytes().all(is_known) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Replaces control characters other than a line end, and those that change the direction of text: what shows a
/// label may be a terminal or a page.
fn plain(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\n' => text.push('\n'),
            '\u{7f}' => text.push('\u{2421}'),
            '\0'..' ' => text.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{80}'..'\u{a0}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
    text
}

/// Escapes the three characters that the formats escape.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Returns how much a header `Accept` wants a media type, from 0 to 1. A version that is not known is not wanted.
fn preference(accept: &str, wanted: &str, versions: &[&str]) -> f64 {
    let weight = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        if !parts.next().is_some_and(|media| media.eq_ignore_ascii_case(wanted)) {
            return None;
        }
        let mut weight = 1.0;
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => weight = value.trim().parse().unwrap_or(0.0),
                "version" if !versions.contains(&value.trim().trim_matches('"')) => return None,
                _ => {}
            }
        }
        Some(weight)
    };
    accept.split(',').filter_map(weight).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that Prometheus does not take is refused.
    #[test]
    fn names_are_those_that_prometheus_takes() {
        for name in ["", "1a", "a b", "é", "a\"", "a-b"] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_name("tickwheel:jobs_9"));
    }
}
