//! The text of a scrape: counters, gauges and histograms with their labels, as Prometheus and OpenMetrics read them.
//!
//! Ground rules:
//!
//! - A metric stands in the text once, with all of its samples, and a set of labels stands in it once, in any order in
//!   which the labels were given. A scrape that breaks this loses samples, or is refused as a whole.
//! - No sample of a metric has the name of another metric or of its samples ([`Kind::ends`]).
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
/// A series is a name with a set of labels, in any order. A label without a text is the same as no label. What is
/// added twice to one series is one sample: counters and histograms add up, and of gauges the greater stays.
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
    samples: BTreeMap<Labels, Sample>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The ends of the names of its samples, and of its own name in OpenMetrics, after the stem. (We write no sample
    /// that ends with `_created`. A reader of OpenMetrics takes it for one of these.)
    fn ends(self) -> &'static [&'static str] {
        match self {
            Kind::Counter => &["", "_total", "_created"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["", "_bucket", "_sum", "_count", "_created"],
        }
    }
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
    /// the value, up to `u64::MAX`.
    ///
    /// The value of a label may have any text: quotes, backslashes and line ends are escaped, and other control
    /// characters become visible symbols.
    ///
    /// # Panics
    ///
    /// If the name is none that Prometheus takes, or the counter's samples would have the name of another metric here,
    /// or of its samples: a counter `runs_total` and a gauge `runs` are one metric in OpenMetrics, and a gauge
    /// `took_count` is part of a histogram `took`.
    ///
    /// If a label is there twice, or has a name that Prometheus does not take: `le` is the bound of a bucket, and names
    /// that begin with `__` belong to Prometheus.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: u64,
    ) {
        self.family(name, help, Kind::Counter).put(Labels::new(labels), Sample::Counter(value));
    }

    /// Adds a gauge. If it is there already, with the same labels, the greater value stays, and a number rather than
    /// NaN.
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
        self.family(name, help, Kind::Gauge).put(Labels::new(labels), Sample::Gauge(value));
    }

    /// Adds a histogram of durations: each bound with the number of durations of at most that length, the sum of
    /// all durations, and their number. A histogram that is there already, with the same labels, grows by these. If
    /// the bounds differ, those stay that both have.
    ///
    /// # Panics
    ///
    /// As [`Metrics::counter`], and if the bounds do not ascend.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        buckets: impl IntoIterator<Item = (Duration, u64)>,
        (sum, count): (Duration, u64),
    ) {
        let in_seconds = |(bound, count): (Duration, u64)| (bound.as_secs_f64(), count);
        let buckets: Vec<(f64, u64)> = buckets.into_iter().map(in_seconds).collect();
        assert!(buckets.is_sorted_by(|one, next| one.0 < next.0), "the bounds of {name} ascend");
        let sample = Sample::Histogram { buckets, sum: sum.as_secs_f64(), count };
        self.family(name, help, Kind::Histogram).put(Labels::new(labels), sample);
    }

    /// Adds other metrics: of another wheel or queue, or of the program.
    ///
    /// # Panics
    ///
    /// If metrics of the two have one name and different types, or one has the name of the other's samples: see
    /// [`Metrics::counter`].
    pub fn add(&mut self, others: Metrics) {
        for Family { name, help, kind, samples } in others.families {
            let family = self.family(name, help, kind);
            for (labels, sample) in samples {
                family.put(labels, sample);
            }
        }
    }

    /// Returns the metrics with one more label on each sample.
    ///
    /// # Panics
    ///
    /// If a sample has a label of this name, or the name is none that Prometheus takes: see [`Metrics::counter`].
    #[must_use]
    pub fn with_label(mut self, name: &'static str, value: &str) -> Metrics {
        for family in &mut self.families {
            for (mut labels, sample) in core::mem::take(&mut family.samples) {
                labels.add(name, value);
                family.put(labels, sample);
            }
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
            let family = Family { name, help, kind, samples: BTreeMap::new() };
            family.assert_name(&self.families);
            self.families.push(family);
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
    /// The name without the end of its samples: the name in OpenMetrics.
    fn stem(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or_default(),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }

    /// Returns whether the metric, or a sample of it, has this name.
    fn has(&self, name: &str) -> bool {
        name.strip_prefix(self.stem()).is_some_and(|end| self.kind.ends().contains(&end))
    }

    /// Panics if Prometheus does not take the name, or if another metric has one of its names.
    fn assert_name(&self, others: &[Family]) {
        let (name, stem) = (self.name, self.stem());
        let is_counter = self.kind == Kind::Counter;
        assert!(!is_counter || name.ends_with("_total"), "a counter ends with `_total`: {name}");
        assert!(is_name(stem), "this is no name of a metric: {name:?}");
        for end in self.kind.ends() {
            let full = format!("{stem}{end}");
            if let Some(other) = others.iter().find(|other| other.has(&full)) {
                panic!("{full} would belong to two metrics: {name} and {}", other.name);
            }
        }
    }

    /// Adds a sample. One of these labels may be there: also because control characters are replaced, so that two
    /// labels become the same text.
    fn put(&mut self, labels: Labels, sample: Sample) {
        match (self.samples.get_mut(&labels), sample) {
            (None, sample) => drop(self.samples.insert(labels, sample)),
            (Some(Sample::Counter(sum)), Sample::Counter(by)) => *sum = sum.saturating_add(by),
            (Some(Sample::Gauge(most)), Sample::Gauge(other)) => *most = most.max(other),
            (
                Some(Sample::Histogram { buckets, sum, count }),
                Sample::Histogram { buckets: other, sum: more, count: many },
            ) => {
                buckets.retain_mut(|(bound, below)| {
                    let same = other.iter().find(|(other, _)| other == bound);
                    same.inspect(|(_, by)| *below = below.saturating_add(*by)).is_some()
                });
                (*sum, *count) = (*sum + more, count.saturating_add(many));
            }
            _ => unreachable!("the samples of a family are of its type"),
        }
    }

    fn write(&self, out: &mut dyn Write, format: Format) -> fmt::Result {
        let (name, help) = (self.name, escaped(&plain(self.help)));
        let (title, help) = match format {
            Format::OpenMetrics => (self.stem(), help.replace('"', "\\\"")),
            Format::Prometheus => (name, help),
        };
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        writeln!(out, "# HELP {title} {help}\n# TYPE {title} {kind}")?;
        for (labels, sample) in &self.samples {
            let labels = &labels.to_string();
            match sample {
                Sample::Counter(value) => line(out, name, "", labels, value)?,
                Sample::Gauge(value) => line(out, name, "", labels, &Number(*value))?,
                Sample::Histogram { buckets, sum, count } => {
                    let comma = if labels.is_empty() { "" } else { "," };
                    for (bound, below) in buckets {
                        // `1.0` and not `1`: so OpenMetrics wants it, and the two texts must name one series.
                        let with_bound = format!("{labels}{comma}le=\"{bound:?}\"");
                        line(out, name, "_bucket", &with_bound, below)?;
                    }
                    let with_bound = format!("{labels}{comma}le=\"+Inf\"");
                    line(out, name, "_bucket", &with_bound, count)?;
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

/// The labels of a sample, sorted by name. Two samples with equal labels are of one series.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Labels(Vec<(&'static str, String)>);

impl Labels {
    pub(super) fn new(labels: &[(&'static str, &str)]) -> Labels {
        let mut all = Labels::default();
        labels.iter().for_each(|(name, value)| all.add(name, value));
        all
    }

    /// Adds a label. One without a text is left out: for Prometheus it is the same as no label.
    pub(super) fn add(&mut self, name: &'static str, value: &str) {
        assert!(is_label(name), "this is no name of a label: {name:?}");
        match self.0.binary_search_by_key(&name, |(name, _)| name) {
            Ok(_) => panic!("a sample has the label {name} twice"),
            Err(_) if value.is_empty() => {}
            Err(at) => self.0.insert(at, (name, plain(value))),
        }
    }
}

/// As the text has them, without the braces.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}=\"{}\"", escaped(value).replace('"', "\\\""))?;
        }
        Ok(())
    }
}

/// Returns whether a metric may have this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    name.bytes().all(is_known) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Returns whether a label may have this name. Prometheus keeps names that begin with `__` for itself, and `le` is the
/// bound of a bucket.
fn is_label(name: &str) -> bool {
    is_name(name) && !name.contains(':') && !name.starts_with("__") && name != "le"
}

/// Replaces control characters other than a line end, and those that change the direction of text: what shows a
/// label may be a terminal or a page.
pub(super) fn plain(value: &str) -> String {
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

/// Escapes backslashes and line ends.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('\n', r"\n")
}
