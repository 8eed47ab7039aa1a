//! The text of metrics: its formats, its labels, and which of the formats a scrape gets.

use super::*;
use tickwheel::Metrics;

/// The text of each format, to the letter.
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
    assert_eq!(Metrics::new().to_string(), "");
    assert_eq!(Metrics::new().openmetrics(), "# EOF\n");
}

/// No text of a label ends the label, the line or the metric, and no control character comes out.
#[test]
fn labels_with_any_text_stay_in_their_quotes() {
    let every: String = (0..0x3000).filter_map(char::from_u32).collect();
    for hostile in ["a\"} 1\nb 2\n#", "\\", "\\\"", "\n", "\u{1b}[2J", "\u{202e}x", "", &every] {
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

/// Two labels that become the same text are one sample: a repeated one would cost the whole scrape.
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

/// Metrics of several sources stand under one heading each.
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
    assert!(text.ends_with("{wheel=\"x\",a=\"b\"} 1\nn_total{wheel=\"y\",a=\"b\"} 2\n"), "{text}");
}

/// A scrape gets the format that it prefers, and the text of Prometheus if it names none.
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
