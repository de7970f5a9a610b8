//! Reads Prometheus' text format line by line, and writes OpenMetrics'.

use std::fmt::Write as _;

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{
    LabelPair, Metric, MetricFamily, MetricType,
};

use super::{MAX_HELP, MAX_LABELS, MAX_NAME, MAX_VALUE, PageError};

/// A line that says something.
pub(super) enum Item<'a> {
    Help(&'a str, String),
    Type(&'a str, MetricType),
    Sample(Sample<'a>),
}

/// A sample.
pub(super) struct Sample<'a> {
    pub name: &'a str,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

/// Calls a function with what each line says.
///
/// # Errors
/// The first line that is none of the format, or that the function refuses.
pub(super) fn samples<'a>(
    page: &'a str,
    mut add: impl FnMut(Item<'a>) -> Result<(), &'static str>,
) -> Result<(), PageError> {
    for (at, line) in page.lines().enumerate() {
        let line = line.trim_matches([' ', '\t']);
        let read = match line.strip_prefix('#') {
            _ if line.is_empty() => Ok(()),
            Some(comment) => match self::comment(comment) {
                Ok(Some(item)) => add(item),
                Ok(None) => Ok(()),
                Err(why) => Err(why),
            },
            None => sample(line).and_then(|sample| add(Item::Sample(sample))),
        };
        read.map_err(|why| PageError { line: at + 1, why })?;
    }
    Ok(())
}

/// Reads a comment behind its `#`; None for one that says nothing.
pub(super) fn comment(text: &str) -> Result<Option<Item<'_>>, &'static str> {
    let blank = [' ', '\t'];
    let (keyword, rest) = match text.trim_start_matches(blank).split_once(blank) {
        Some((keyword @ ("HELP" | "TYPE"), rest)) => (keyword, rest.trim_start_matches(blank)),
        _ => return Ok(None),
    };
    let (name, rest) = rest.split_once(blank).unwrap_or((rest, ""));
    check_name(name, true)?;

    if keyword == "HELP" {
        let (mut help, rest) = unescaped(rest.trim_start_matches(blank), None)?;
        debug_assert!(rest.is_empty(), "it ends with the line");
        help.truncate(help.floor_char_boundary(MAX_HELP));
        return Ok(Some(Item::Help(name, help)));
    }

    let kind = match rest.trim_matches(blank) {
        "counter" => MetricType::Counter,
        "gauge" => MetricType::Gauge,
        "histogram" => MetricType::Histogram,
        "summary" => MetricType::Summary,
        "untyped" | "unknown" => MetricType::Untyped,
        _ => return Err("a TYPE is counter, gauge, histogram, summary or untyped"),
    };
    Ok(Some(Item::Type(name, kind)))
}

pub(super) fn sample(line: &str) -> Result<Sample<'_>, &'static str> {
    let blank = [' ', '\t'];
    let end = line.find(['{', ' ', '\t']).ok_or("a sample has no value")?;
    let (name, rest) = line.split_at(end);
    check_name(name, true)?;

    let mut labels = Vec::new();
    let rest = rest.trim_start_matches(blank);
    let rest = match rest.strip_prefix('{') {
        Some(rest) => read_labels(rest, &mut labels)?,
        None => rest,
    };

    let mut words = rest.split(blank).filter(|word| !word.is_empty());
    let value = words.next().ok_or("a sample has no value")?;
    let value = value.parse().map_err(|_| "a value is no number")?;
    if let Some(timestamp) = words.next() {
        let _milliseconds: i64 = timestamp
            .parse()
            .map_err(|_| "a timestamp is no whole number")?;
    }
    match words.next() {
        None => Ok(Sample {
            name,
            labels,
            value,
        }),
        Some(_) => Err("something follows a sample"),
    }
}

/// Reads labels behind their brace, and returns what follows them.
fn read_labels<'a>(
    mut rest: &'a str,
    labels: &mut Vec<(String, String)>,
) -> Result<&'a str, &'static str> {
    let blank = [' ', '\t'];
    loop {
        rest = rest.trim_start_matches(blank);
        if let Some(after) = rest.strip_prefix('}') {
            return Ok(after);
        }
        if labels.len() == MAX_LABELS {
            return Err("a sample has more than 32 labels");
        }

        let (name, after) = rest.split_once('=').ok_or("a label has no value")?;
        let name = name.trim_end_matches(blank);
        check_name(name, false)?;
        let after = after.trim_start_matches(blank).strip_prefix('"');
        let (value, after) = unescaped(after.ok_or("a label's value is in quotes")?, Some('"'))?;
        if value.len() > MAX_VALUE {
            return Err("a label's value has more than 2048 bytes");
        }
        labels.push((name.to_owned(), value));

        let after = after.trim_start_matches(blank);
        rest = match after.strip_prefix(',') {
            Some(after) => after,
            None if after.starts_with('}') => after,
            None => return Err("labels are separated by commas"),
        };
    }
}

/// Reads an escaped text up to its end, which is a character or the end of the line.
fn unescaped(text: &str, end: Option<char>) -> Result<(String, &str), &'static str> {
    let mut read = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        if Some(char) == end {
            return Ok((read, &text[at + char.len_utf8()..]));
        }
        if char != '\\' {
            read.push(char);
            continue;
        }
        match chars.next() {
            Some((_, 'n')) => read.push('\n'),
            Some((_, '\\')) => read.push('\\'),
            Some((_, '"')) if end.is_some() => read.push('"'),
            // As Prometheus does in a HELP.
            Some((_, other)) if end.is_none() => read.extend(['\\', other]),
            None if end.is_none() => read.push('\\'),
            _ => return Err("an escape in a label is \\n, \\\\ or \\\""),
        }
    }

    match end {
        None => Ok((read, "")),
        Some(_) => Err("a label's value has no end"),
    }
}

fn check_name(name: &str, is_metric: bool) -> Result<(), &'static str> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let may_be = |byte: u8| is_word(byte) || is_metric && byte == b':';
    if name.len() > MAX_NAME {
        return Err("a name has more than 200 bytes");
    }
    if !is_metric && name.starts_with("__") {
        return Err("labels that begin with __ are Prometheus' own");
    }
    match name.as_bytes() {
        [first, ..] if first.is_ascii_digit() => Err("a name begins with a digit"),
        [] => Err("a name is empty"),
        bytes if bytes.iter().copied().all(may_be) => Ok(()),
        _ => Err("a name has letters, digits and underscores"),
    }
}

/// What the samples of a counter have behind its name in OpenMetrics.
pub(super) const TOTAL: &str = "_total";

/// The name of a family in OpenMetrics, and whether it keeps its type there: a counter is named
/// without `_total`, which only its samples have. A counter without it could not be one.
pub(super) fn open_metrics_name(name: &str, kind: MetricType) -> (&str, MetricType) {
    match kind {
        MetricType::Counter => match name.strip_suffix(TOTAL) {
            Some(name) => (name, MetricType::Counter),
            None => (name, MetricType::Untyped),
        },
        kind => (name, kind),
    }
}

/// Writes what stands before a family's samples in OpenMetrics.
pub(super) fn write_head(out: &mut String, family: &MetricFamily) {
    let (name, kind) = open_metrics_name(&family.name, family.r#type());
    let kind = match kind {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
        MetricType::Summary => "summary",
        _ => "unknown",
    };
    if !family.help.is_empty() {
        let _written = write!(out, "# HELP {name} ");
        escape(out, &family.help);
        out.push('\n');
    }
    let _written = writeln!(out, "# TYPE {name} {kind}");
}

/// Writes a family's samples.
pub(super) fn write_samples(out: &mut String, family: &MetricFamily) {
    for metric in &family.metric {
        write_metric(out, &family.name, metric);
    }
}

fn write_metric(out: &mut String, name: &str, metric: &Metric) {
    let labels = &metric.label;
    let values = [
        metric.counter.as_ref().map(|counter| counter.value),
        metric.gauge.as_ref().map(|gauge| gauge.value),
        metric.untyped.as_ref().map(|untyped| untyped.value),
    ];
    for value in values.into_iter().flatten() {
        write_sample(out, name, "", labels, None, value);
    }

    if let Some(histogram) = &metric.histogram {
        for bucket in &histogram.bucket {
            let bound = Some(("le", bucket.upper_bound));
            write_count(out, name, "_bucket", labels, bound, bucket.cumulative_count);
        }
        write_sample(out, name, "_sum", labels, None, histogram.sample_sum);
        write_count(out, name, "_count", labels, None, histogram.sample_count);
    }

    if let Some(summary) = &metric.summary {
        for quantile in &summary.quantile {
            let bound = Some(("quantile", quantile.quantile));
            write_sample(out, name, "", labels, bound, quantile.value);
        }
        write_sample(out, name, "_sum", labels, None, summary.sample_sum);
        write_count(out, name, "_count", labels, None, summary.sample_count);
    }
}

fn write_sample(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: &[LabelPair],
    bound: Option<(&str, f64)>,
    value: f64,
) {
    write_name(out, name, suffix, labels, bound);
    out.push_str(&number(value));
    out.push('\n');
}

fn write_count(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: &[LabelPair],
    bound: Option<(&str, f64)>,
    count: u64,
) {
    write_name(out, name, suffix, labels, bound);
    let _written = writeln!(out, "{count}");
}

fn write_name(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: &[LabelPair],
    bound: Option<(&str, f64)>,
) {
    let _written = write!(out, "{name}{suffix}");
    let mut separator = '{';
    if let Some((label, bound)) = bound {
        let _written = write!(out, "{separator}{label}=\"{}\"", number(bound));
        separator = ',';
    }

    for LabelPair { name, value } in labels {
        let _written = write!(out, "{separator}{name}=\"");
        escape(out, value);
        out.push('"');
        separator = ',';
    }
    // A process's samples have at least the labels of its Plugin.
    out.push_str("} ");
}

fn escape(out: &mut String, text: &str) {
    for char in text.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            char => out.push(char),
        }
    }
}

/// A number as Go and OpenMetrics write it.
pub(super) fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-Inf".to_owned()
    } else {
        format!("{value:?}")
    }
}
