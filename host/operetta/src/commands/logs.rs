//! `operetta logs PLUGIN`: prints the log of a plugin, read from the host that runs it.
//!
//! The Plugin's status names the host's address. For a host in a Pod, use `kubectl port-forward` and `--host`.

use std::io::Write;

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;

use crate::{
    args::{LogsArgs, Output},
    commands::{
        HostAddress,
        host_client::{address, connect, get, plugin},
    },
};
use operetta_manager::logs::store::LogLine;

/// Prints the lines; with `--follow` until the host stops or stdout is closed.
///
/// # Errors
/// Returns an error if the host cannot be found or reached, or has no log of the plugin.
pub async fn logs(args: LogsArgs) -> Result<()> {
    let (namespace, address) = match (&args.plugin.namespace, &args.plugin.host) {
        (Some(namespace), Some(address)) => (namespace.clone(), address.clone()),
        _ => {
            let (client, namespace) = connect(&args.plugin).await?;
            let address = match &args.plugin.host {
                Some(address) => address.clone(),
                None => address(&plugin(client, &namespace, &args.plugin.name).await?)?,
            };
            (namespace, address)
        }
    };
    let tail = args.tail.map(|tail| format!("&tail={tail}")).unwrap_or_default();
    let path = format!("/logs/{namespace}/{}?follow={}{tail}", args.plugin.name, args.follow);
    read(&address, &path, args.output).await
}

async fn read(address: &HostAddress, path: &str, output: Option<Output>) -> Result<()> {
    let response = get(address, path).await?;
    let found = response.status().is_success();
    let mut body = response.into_body();
    let mut pending = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.with_context(|| format!("failed to read from the host at {address}"))?.into_data() else {
            continue;
        };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n').filter(|_| found) {
            let line: Vec<u8> = pending.drain(..=end).collect();
            // `head` and the like close the pipe when they have enough.
            if print(&line, output).is_err() {
                return Ok(());
            }
        }
    }
    if found { Ok(()) } else { bail!("{}", String::from_utf8_lossy(&pending)) }
}

fn print(line: &[u8], output: Option<Output>) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match (output, serde_json::from_slice::<LogLine>(line)) {
        (None, Ok(line)) => writeln!(stdout, "{}", human(&line))?,
        (Some(Output::Yaml), Ok(line)) => {
            write!(stdout, "---\n{}", serde_yaml_ng::to_string(&line).unwrap_or_default())?;
        }
        _ => stdout.write_all(line)?,
    }
    stdout.flush()
}

/// Formats a line for people: `2026-11-21T12:00:00.123Z INFO  default/a message name=value`.
fn human(line: &LogLine) -> String {
    let time = line.time.split_once('.').map_or(line.time.clone(), |(seconds, rest)| {
        format!("{seconds}.{}Z", rest.chars().take(3).filter(char::is_ascii_digit).collect::<String>())
    });
    let key = if line.key.is_empty() { String::new() } else { format!("{} ", line.key) };
    let fields: String = line.fields.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
    format!("{time} {:5} {key}{}{fields}", line.level.to_uppercase(), printable(&line.message))
}

/// Makes a plugin's text safe for a terminal: indents the lines after the first, and escapes control characters.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => printable.push_str("\n    "),
            '\t' => printable.push('\t'),
            letter if letter.is_control() => printable.extend(letter.escape_unicode()),
            letter => printable.push(letter),
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_line_has_time_level_key_and_fields() {
        let line = LogLine {
            time: "2026-11-21T12:00:00.123456789Z".into(),
            level: "info".into(),
            controller: "c".into(),
            key: "default/a".into(),
            reconcile_id: "r".into(),
            trace_id: None,
            message: "hello".into(),
            fields: vec![("n".into(), "1".into())],
        };
        assert_eq!(human(&line), "2026-11-21T12:00:00.123Z INFO  default/a hello n=\"1\"");
        let forged = LogLine { message: "a\n2026 ERROR b\u{1b}[31m\r\u{9b}1m".into(), fields: vec![], ..line };
        let shown = r"2026-11-21T12:00:00.123Z INFO  default/a a
    2026 ERROR b\u{1b}[31m\u{d}\u{9b}1m";
        assert_eq!(human(&forged), shown);
    }
}
