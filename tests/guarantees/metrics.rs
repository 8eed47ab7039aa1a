//! The text of metrics: its formats, its labels, and which of the formats a scrape gets.

use super::*;
use tickwheel::Metrics;

/// C111: The text of each format, to the letter.
#[test]
fn text_of_each_format_is_exact() {
    let mut metrics = Metrics::new();
    metrics.counter("runs_total", "Runs.", &[("kind", "mail")], 3);
    metrics.gauge("age_seconds", "Age.", &[], 1.5);
    let buckets = [(Duration::from_millis(1), 1), (Duration::from_secs(5), 2)];
    let (sum, labels) = (Duration::from_secs(9), [("kind", "mail")]);
    metrics.histogram("took_seconds", "Times.", &labels, buckets, (sum, 3));
    let text = "\
        # HELP runs_total Runs.\n# TYPE runs_total counter\nruns_total{kind=\"mail\"} 3\n\
        # HELP age_seconds Age.\n# TYPE age_seconds gauge\nage_seconds 1.5\n\
        # HELP took_seconds Times.\n# TYPE took_seconds histogram\n\
        took_seconds_bucket{kind=\"mail\",le=\"0.001\"} 1\n\
        took_seconds_bucket{kind=\"mail\",le=\"5.0\"} 2\n\
        took_seconds_bucket{kind=\"mail\",le=\"+Inf\"} 3\n\
        took_seconds_sum{kind=\"mail\"} 9\ntook_seconds_count{kind=\"mail\"} 3\n";
    assert_eq!(metrics.to_string(), text);
    let open = text.replace("HELP runs_total", "HELP runs").replace("TYPE runs_total", "TYPE runs");
    assert_eq!(metrics.openmetrics(), open + "# EOF\n");
    let mut quoted = Metrics::new();
    quoted.gauge("g", "A \\ and a \"G\".\n\r", &[("kind", "")], 1.0);
    assert!(quoted.to_string().starts_with("# HELP g A \\\\ and a \"G\".\\n\u{240d}\n"));
    assert!(quoted.openmetrics().starts_with("# HELP g A \\\\ and a \\\"G\\\".\\n\u{240d}\n"));
    assert!(quoted.to_string().ends_with("\ng 1\n"), "a label without a text is none");
    assert_eq!(Metrics::new().to_string(), "");
    assert_eq!(Metrics::new().openmetrics(), "# EOF\n");
}

/// C111: No text of a label ends the label, the line or the metric, and no control character comes out.
#[test]
fn labels_with_any_text_stay_in_their_quotes() {
    let every: String = (0..0x3000).filter_map(char::from_u32).collect();
    for hostile in ["a\"} 1\nb 2\n#", "\\", "\\\"", "\n", "\u{1b}[2J", "\u{202e}x", &every] {
        let mut metrics = Metrics::new();
        metrics.gauge("g", "G.", &[("kind", hostile)], 1.0);
        let text = metrics.to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        let line = text.lines().nth(2).and_then(|line| line.strip_prefix("g{kind=\""));
        let value = line.and_then(|line| line.strip_suffix("\"} 1")).expect("one sample");
        let mut rest = value.chars();
        while let Some(c) = rest.next() {
            assert_ne!(c, '"', "{value}");
            if c == '\\' {
                assert!(matches!(rest.next(), Some('\\' | '"' | 'n')), "{value}");
            }
        }
    }
}

/// C112: Two labels that become the same text are one sample: a repeated one would cost the whole scrape.
#[test]
fn samples_of_the_same_labels_are_one() {
    let mut metrics = Metrics::new();
    for kind in ["a\u{85}", "a\u{90}"] {
        metrics.counter("n_total", "N.", &[("kind", kind)], 2);
        metrics.gauge("g", "G.", &[("kind", kind)], kind.len() as f64);
        let buckets = [(Duration::from_secs(1), 1)];
        let sum = (Duration::from_secs(2), 2);
        metrics.histogram("h", "H.", &[("kind", kind)], buckets, sum);
    }
    let text = metrics.to_string();
    for line in ["n_total{kind=\"a\u{fffd}\"} 4", "g{kind=\"a\u{fffd}\"} 3"] {
        assert!(text.lines().any(|it| it == line), "{text}");
    }
    assert!(text.contains("le=\"1.0\"} 2\n") && text.contains("h_sum{kind=\"a\u{fffd}\"} 4\n"));
}

/// C112: Labels are one set in any order, and a label without a text is none: Prometheus would keep the first of two
/// samples and drop the other without a word. So is a label that `with_label` adds.
#[test]
fn labels_are_one_set_in_any_order() {
    let mut metrics = Metrics::new();
    for labels in [[("b", "2"), ("a", "1")], [("a", "1"), ("b", "2")]] {
        metrics.counter("n_total", "N.", &labels, 2);
        metrics.gauge("g", "G.", &labels, 1.0);
    }
    let sorted = [("a", "1"), ("b", "2")];
    for bounds in [[1, 2, 4], [1, 3, 4]] {
        let buckets = bounds.map(|bound| (Duration::from_secs(bound), bound));
        metrics.histogram("h", "H.", &sorted, buckets, (Duration::from_secs(9), 5));
    }
    metrics.counter("n_total", "N.", &[("a", ""), ("b", "2")], u64::MAX);
    metrics.counter("n_total", "N.", &[("b", "2")], 1);
    metrics.gauge("z", "Z.", &[("a", "")], f64::NAN);
    metrics.gauge("z", "Z.", &[], 7.0);
    let mut added = Metrics::new();
    added.counter("n_total", "N.", &[("b", "2")], 5);
    metrics.add(added.with_label("a", "1"));
    let text = metrics.to_string();
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "n_total{a=\"1\",b=\"2\"} 9",
        "n_total{b=\"2\"} 18446744073709551615",
        "g{a=\"1\",b=\"2\"} 1",
        "h_bucket{a=\"1\",b=\"2\",le=\"1.0\"} 2",
        "h_bucket{a=\"1\",b=\"2\",le=\"4.0\"} 8",
        "h_bucket{a=\"1\",b=\"2\",le=\"+Inf\"} 10",
        "h_sum{a=\"1\",b=\"2\"} 18",
        "h_count{a=\"1\",b=\"2\"} 10",
        "z 7",
    ];
    assert_eq!(samples, expected);
}

/// C113: A metric that a scrape would lose, or for which it would be refused, panics where it is added.
#[test]
fn metrics_that_a_scrape_would_lose_are_refused() {
    let with = |change: &dyn Fn(&mut Metrics)| {
        let mut metrics = Metrics::new();
        metrics.counter("runs_total", "Runs.", &[("kind", "a")], 1);
        metrics.gauge("age", "Age.", &[("kind", "a")], 1.0);
        let buckets = [(Duration::from_secs(1), 1)];
        metrics.histogram("took", "Took.", &[("kind", "a")], buckets, (Duration::ZERO, 1));
        catch_unwind(AssertUnwindSafe(|| change(&mut metrics))).is_ok()
    };
    let gauge = |name| with(&|metrics: &mut Metrics| metrics.gauge(name, "G.", &[], 1.0));
    for name in ["runs", "runs_total", "runs_created", "took", "took_bucket", "took_sum"]
        .into_iter()
        .chain(["took_count", "took_created", "1a", "", "a b", "é", "a\"", "a-b"])
    {
        assert!(!gauge(name), "{name}");
    }
    assert!(gauge("age") && gauge("run") && gauge("runs_sum") && gauge("took_total"));
    assert!(gauge("a:b_9") && gauge("le") && gauge("__a"));
    let counter = |name| with(&|metrics: &mut Metrics| metrics.counter(name, "C.", &[], 1));
    for name in ["age_total", "took_total", "took_count_total", "runs_total_total", "_total", "x"] {
        assert!(!counter(name), "{name}");
    }
    assert!(counter("runs_total") && counter("ages_total"));
    let label = |name| {
        let labels = [("kind", "a"), (name, "b")];
        let given = with(&|metrics: &mut Metrics| metrics.gauge("g", "G.", &labels, 1.0));
        let added = with(&|metrics: &mut Metrics| drop(metrics.clone().with_label(name, "b")));
        assert_eq!(given, added, "{name}");
        given
    };
    assert!(
        !["kind", "le", "__name__", "a:b", "", "1a", "a b", "é", "a\"", "a-b"]
            .into_iter()
            .any(label)
    );
    assert!(label("queue_9") && label("quantile") && label("_kind"));
    let bounds = |bounds: [u64; 2]| {
        let buckets = bounds.map(|bound| (Duration::from_secs(bound), 1));
        with(&|metrics: &mut Metrics| {
            metrics.histogram("h", "H.", &[], buckets, (Duration::ZERO, 1));
        })
    };
    assert!(bounds([1, 2]) && !bounds([2, 1]) && !bounds([1, 1]));
    assert!(!with(&|metrics: &mut Metrics| {
        let mut others = Metrics::new();
        others.gauge("runs", "Runs.", &[], 1.0);
        metrics.add(others);
    }));
}

/// C112: Metrics of several sources stand under one heading each.
#[test]
fn metrics_of_two_sources_have_one_heading() {
    let of = |n: u64, wheel: &str| {
        let mut metrics = Metrics::new();
        metrics.counter("n_total", "N.", &[("a", "b")], n);
        metrics.with_label("wheel", wheel)
    };
    let mut both = of(1, "x");
    both.add(of(2, "y"));
    let text = both.to_string();
    assert_eq!(text.matches("# TYPE").count(), 1);
    assert!(text.ends_with("{a=\"b\",wheel=\"x\"} 1\nn_total{a=\"b\",wheel=\"y\"} 2\n"), "{text}");
}

/// C111: A scrape gets the format that it prefers, and the text of Prometheus if it names none.
#[test]
fn format_follows_the_header_accept() {
    let open = [
        // Prometheus 2.42, and 3.
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
         text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
         application/openmetrics-text;version=0.0.1;q=0.4,\
         text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        "application/openmetrics-text",
        "Application/OpenMetrics-Text ; Q=0.3, text/plain;q=0.3",
    ];
    let plain = [
        "",
        "*/*",
        "text/plain;version=0.0.4",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;q=0.2,text/plain;q=0.9",
        "application/openmetrics-text;q=many",
    ];
    let metrics = Metrics::new();
    for accept in open {
        assert_eq!(metrics.for_accept(Some(accept)).0, Metrics::OPENMETRICS, "{accept}");
    }
    for accept in plain {
        assert_eq!(metrics.for_accept(Some(accept)).0, Metrics::TEXT, "{accept}");
    }
    assert_eq!(metrics.for_accept(None).0, Metrics::TEXT);
}
