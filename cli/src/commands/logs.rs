//! `operetta logs PLUGIN`: prints the log of a plugin, read from the host that runs it.

use std::io::Write;

use anyhow::Result;
use operetta_host::terminal;

use crate::{
    args::{LogsArgs, Output},
    commands::{
        host_client::{address, connect, get, get_from, plugin},
        host_response::HostResponse,
    },
};
use operetta_manager::logs::store::LogLine;

/// Prints the lines; with `--follow` until the host stops or stdout is closed.
///
/// # Errors
/// Returns an error if the host cannot be found or reached, or has no log of the plugin.
pub async fn logs(args: LogsArgs) -> Result<()> {
    let name = &args.plugin.name;
    let tail = args
        .tail
        .map(|tail| format!("&tail={tail}"))
        .unwrap_or_default();

    let path = |namespace: &str| format!("/logs/{namespace}/{name}?follow={}{tail}", args.follow);

    let response = match (&args.plugin.namespace, &args.plugin.host.host) {
        // Needs no API server.
        (Some(namespace), Some(address)) => get_from(address, &path(namespace)).await?,
        _ => {
            let (client, namespace) = connect(&args.plugin).await?;
            let outside = async || address(&plugin(client.clone(), &namespace, name).await?);
            get(
                &client,
                &args.plugin.host,
                &namespace,
                &path(&namespace),
                outside,
            )
            .await?
        }
    };

    let has_ended = print_lines(response.checked().await?, args.output).await?;
    if args.follow && has_ended {
        eprintln!(
            "the log ends here: the plugin was removed or moves to another replica, or the host stops"
        );
    }

    Ok(())
}

/// Prints all lines. Returns false if stdout was closed before the end.
async fn print_lines(mut response: HostResponse, output: Option<Output>) -> Result<bool> {
    let mut pending = Vec::new();
    while let Some(data) = response.next().await? {
        pending.extend_from_slice(&data);

        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            // A blank line only proves that the log is still open. `head` and the like close the
            // pipe when they have enough.
            if line != b"\n" && print(&line, output).is_err() {
                return Ok(false);
            }
        }
    }

    Ok(true)
}

fn print(line: &[u8], output: Option<Output>) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();

    match (output, serde_json::from_slice::<LogLine>(line)) {
        (None, Ok(line)) => writeln!(stdout, "{}", human(&line))?,
        (Some(Output::Yaml), Ok(line)) => {
            write!(
                stdout,
                "---\n{}",
                serde_yaml_ng::to_string(&line).unwrap_or_default()
            )?;
        }
        // Not a line of a host's log.
        (None | Some(Output::Yaml), Err(_)) => {
            write!(
                stdout,
                "{}",
                terminal::lines(&String::from_utf8_lossy(line))
            )?;
        }
        (Some(Output::Json), _) => stdout.write_all(line)?,
    }

    stdout.flush()
}

/// Formats a line for people: `2026-11-21T12:00:00.123Z INFO  default/a message name=value`.
pub(super) fn human(line: &LogLine) -> String {
    let time = line
        .time
        .split_once('.')
        .map_or(line.time.clone(), |(seconds, rest)| {
            format!(
                "{seconds}.{}Z",
                rest.chars()
                    .take(3)
                    .filter(char::is_ascii_digit)
                    .collect::<String>()
            )
        });

    let key = if line.key.is_empty() {
        String::new()
    } else {
        format!("{} ", terminal::line(&line.key))
    };

    let fields: String = line
        .fields
        .iter()
        .map(|(name, value)| format!(" {}={value:?}", terminal::line(name)))
        .collect();

    // A message cannot begin a line that looks like another record.
    let message = terminal::lines(&line.message).replace('\n', "\n    ");

    format!(
        "{} {:5} {key}{message}{fields}",
        terminal::line(&time),
        terminal::line(&line.level.to_uppercase()),
    )
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

        assert_eq!(
            human(&line),
            "2026-11-21T12:00:00.123Z INFO  default/a hello n=\"1\""
        );

        let forged = LogLine {
            key: "default/\u{1b}c".into(),
            message: "a\n2026 ERROR b\u{1b}[31m\r\u{9b}1m".into(),
            fields: vec![("\u{202e}n\n".into(), "\u{202e}".into())],
            ..line
        };

        let shown = r#"2026-11-21T12:00:00.123Z INFO  default/\u{1b}c a
    2026 ERROR b\u{1b}[31m\u{d}\u{9b}1m \u{202e}n\u{a}="\u{202e}""#;
        assert_eq!(human(&forged), shown);
    }
}
